package catalog

import (
	"cmp"
	"encoding/json"
	"flag"
	"hash/fnv"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// readLines returns the lines of a file of testdata that are neither empty nor comments.
func readLines(t testing.TB, path string) (lines []string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}

// stepsServers returns the servers of testdata/steps/tools.txt.
func stepsServers(t testing.TB) []Server {
	t.Helper()
	return readServers(t, filepath.Join("testdata", "steps", "tools.txt"))
}

// readServers returns the servers of a file of testdata.
func readServers(t testing.TB, path string) (servers []Server) {
	t.Helper()
	for _, line := range readLines(t, path) {
		if rest, ok := strings.CutPrefix(line, "== "); ok {
			name, description, _ := strings.Cut(rest, "|")
			servers = append(servers, Server{Name: strings.TrimSpace(name), Description: strings.TrimSpace(description)})
			continue
		}
		parts := strings.Split(line, "|")
		if len(parts) != 3 {
			t.Fatalf("not name | description | parameters: %s", line)
		}
		s := &servers[len(servers)-1]
		s.Tools = append(s.Tools, Tool{
			Name: strings.TrimSpace(parts[0]), Description: strings.TrimSpace(parts[1]), InputSchema: paramSchema(t, parts[2]),
		})
	}
	return servers
}

// paramSchema is the input schema for "name, name=value/value".
func paramSchema(t testing.TB, text string) json.RawMessage {
	t.Helper()
	properties := map[string]any{}
	for param := range strings.SplitSeq(text, ",") {
		name, values, ok := strings.Cut(strings.TrimSpace(param), "=")
		switch {
		case ok:
			properties[name] = map[string]any{"type": "string", "enum": strings.Split(values, "/")}
		case name != "":
			properties[name] = map[string]any{"type": "string"}
		}
	}
	raw, err := json.Marshal(map[string]any{"type": "object", "properties": properties})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// splitRequests splits the requests of a file of testdata into those for tuning and those that are held out.
func splitRequests(t testing.TB, path ...string) (tuning, heldOut []recallRequest) {
	t.Helper()
	for _, line := range readLines(t, filepath.Join(append([]string{"testdata"}, path...)...)) {
		tools, text, _ := strings.Cut(line, ": ")
		r := recallRequest{Request: text, Tools: strings.Fields(tools)}
		hash := fnv.New32a()
		hash.Write([]byte(text))
		if hash.Sum32()%2 == 0 {
			tuning = append(tuning, r)
		} else {
			heldOut = append(heldOut, r)
		}
	}
	return tuning, heldOut
}

// plainBM25 ranks as other systems do: BM25 over the words of name and description, with the request as one bag of words.
func plainBM25(servers []Server) func(query string) []string {
	words := func(text string) []string {
		return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	}
	var names []string
	var docs []map[string]float64
	var lengths []float64
	total, with := 0.0, map[string]float64{}
	for _, s := range servers {
		for _, tool := range s.Tools {
			counts := map[string]float64{}
			all := words(tool.Name + " " + tool.Description)
			for _, w := range all {
				if counts[w] == 0 {
					with[w]++
				}
				counts[w]++
			}
			names, docs, lengths = append(names, s.Name+"__"+tool.Name), append(docs, counts), append(lengths, float64(len(all)))
			total += float64(len(all))
		}
	}
	return func(query string) []string {
		type scored struct {
			name  string
			worth float64
		}
		var all []scored
		for i, counts := range docs {
			worth := 0.0
			for _, w := range words(query) {
				idf := math.Log(1 + (float64(len(docs))-with[w]+0.5)/(with[w]+0.5))
				worth += idf * counts[w] * 2.2 / (counts[w] + 1.2*(0.25+0.75*lengths[i]*float64(len(docs))/total))
			}
			all = append(all, scored{names[i], worth})
		}
		slices.SortStableFunc(all, func(a, b scored) int { return cmp.Compare(b.worth, a.worth) })
		var top []string
		for _, s := range all[:10] {
			top = append(top, s.name)
		}
		return top
	}
}

var showMissed = flag.Bool("missed", false, "log the tools that searches for tuning requests miss")

// TestSearchSteps has requests of several steps over about 500 tools of 17 servers. Some servers describe their tools poorly or not at all. Only one half
// of the requests may be used to choose the numbers and synonyms of the engine.
func TestSearchSteps(t *testing.T) {
	t.Parallel()
	servers := stepsServers(t)
	c := New()
	for _, s := range servers {
		c.SetServer(s)
	}
	tuning, heldOut := splitRequests(t, "steps", "requests.txt")
	tuningOblique, heldOutOblique := splitRequests(t, "steps", "oblique.txt")
	some, others := splitRequests(t, "steps", "later.txt")
	if len(c.List()) < 500 || min(len(tuning), len(heldOut), len(tuningOblique), len(heldOutOblique)) < 40 {
		t.Fatalf("%d tools, %d and %d requests for tuning, %d and %d held out", len(c.List()), len(tuning), len(tuningOblique), len(heldOut), len(heldOutOblique))
	}
	plain := plainBM25(servers)
	for _, set := range []struct {
		name     string
		requests []recallRequest
		want     float64
	}{
		{"tuning", tuning, 0.85},
		{"oblique, tuning", tuningOblique, 0.75},
		{"held out", heldOut, 0.85},
		{"oblique, held out", heldOutOblique, 0.60},
		{"later, held out", append(some, others...), 0.45},
	} {
		if *showMissed && strings.HasSuffix(set.name, "held out") {
			continue
		}
		share, reciprocal := recall(t, c, set.requests)
		base := 0.0
		for _, r := range set.requests {
			top, found := plain(r.Request), 0
			for _, want := range r.Tools {
				if slices.Contains(top, want) {
					found++
				}
			}
			base += float64(found) / float64(len(r.Tools)) / float64(len(set.requests))
			if *showMissed {
				logMissed(t, c, r)
			}
		}
		t.Logf("%s: recall@10 %.3f (plain BM25 %.3f), mean reciprocal rank %.3f, over %d requests and %d tools",
			set.name, share, base, reciprocal, len(set.requests), len(c.List()))
		if share < set.want {
			t.Errorf("%s: recall@10 is %.3f, want at least %.2f", set.name, share, set.want)
		}
	}
}

// TestSearchOblique has oblique requests for servers other than those of testdata/steps, alone and together with them.
func TestSearchOblique(t *testing.T) {
	t.Parallel()
	alone, among := New(), New()
	for _, s := range stepsServers(t) {
		among.SetServer(s)
	}
	for _, s := range readServers(t, filepath.Join("testdata", "oblique", "tools.txt")) {
		alone.SetServer(s)
		among.SetServer(s)
	}
	tuning, heldOut := splitRequests(t, "oblique", "requests.txt")
	if len(alone.List()) < 350 || min(len(tuning), len(heldOut)) < 50 {
		t.Fatalf("%d tools, %d requests for tuning, %d held out", len(alone.List()), len(tuning), len(heldOut))
	}
	for _, set := range []struct {
		name     string
		catalog  *Catalog
		requests []recallRequest
		want     float64
	}{
		{"tuning", alone, tuning, 0.80},
		{"held out", alone, heldOut, 0.80},
		{"tuning, among others", among, tuning, 0.70},
		{"held out, among others", among, heldOut, 0.70},
	} {
		if *showMissed {
			if set.name == "tuning" {
				for _, r := range set.requests {
					logMissed(t, set.catalog, r)
				}
			}
			continue
		}
		share, reciprocal := recall(t, set.catalog, set.requests)
		t.Logf("%s: recall@10 %.3f, mean reciprocal rank %.3f, over %d requests and %d tools", set.name, share, reciprocal, len(set.requests), len(set.catalog.List()))
		if share < set.want {
			t.Errorf("%s: recall@10 is %.3f, want at least %.2f", set.name, share, set.want)
		}
	}
}

// TestSearchPoorDescriptions: tools are found if the server gives schemas without descriptions, or if only the server's name shows what its tools are
// about.
func TestSearchPoorDescriptions(t *testing.T) {
	t.Parallel()
	c := New()
	for _, s := range stepsServers(t) {
		c.SetServer(s)
	}
	c.SetServer(Server{Name: "acme", Tools: []Tool{
		{Name: "op1", InputSchema: paramSchema(t, "parcelNumber, recipient_address")},
		{Name: "op2", InputSchema: paramSchema(t, "weightInGrams, carrier=dhl/ups")},
	}})
	c.SetServer(Server{Name: "opsgenie", Tools: []Tool{
		{Name: "list", Description: "List.", InputSchema: paramSchema(t, "limit")},
		{Name: "ack", Description: "Ack", InputSchema: paramSchema(t, "id")},
	}})
	for query, want := range map[string]string{
		"Where is the parcel for this recipient?":     "acme__op1",
		"Which carrier takes this weight?":            "acme__op2",
		"List the incidents, and who has oncall duty": "opsgenie__list",
		"Send the parcel by dhl":                      "acme__op2",
	} {
		var names []string
		for _, h := range c.Search(t.Context(), "", query, 10) {
			names = append(names, h.Name)
		}
		if !slices.Contains(names, want) {
			t.Errorf("%q finds %v, want %s among them", query, names, want)
		}
	}
}

func logMissed(t *testing.T, c *Catalog, r recallRequest) {
	t.Helper()
	hits := c.Search(t.Context(), "", r.Request, 10)
	var missed, names []string
	for _, h := range hits {
		names = append(names, h.Name)
	}
	for _, want := range r.Tools {
		if !slices.Contains(names, want) {
			missed = append(missed, want)
		}
	}
	if len(missed) > 0 {
		t.Logf("%s\n  missed %v\n  found %v", r.Request, missed, names)
	}
}

// TestSearchFurtherServers has requests for servers that no other set contains.
func TestSearchFurtherServers(t *testing.T) {
	t.Parallel()
	if *showMissed {
		t.Skip("what these requests miss is not shown: they judge, and nothing is tuned on them")
	}
	alone, among := New(), New()
	for _, s := range stepsServers(t) {
		among.SetServer(s)
	}
	for _, s := range readServers(t, filepath.Join("testdata", "further", "tools.txt")) {
		alone.SetServer(s)
		among.SetServer(s)
	}
	for file, want := range map[string][2]float64{"steps.txt": {0.9, 0.9}, "oblique.txt": {0.35, 0.25}} { // minimum shares: alone, and among other servers
		some, others := splitRequests(t, "further", file)
		requests := append(some, others...)
		share, reciprocal := recall(t, alone, requests)
		still, _ := recall(t, among, requests)
		t.Logf("%s: recall@10 %.3f, mean reciprocal rank %.3f, over %d requests and %d tools; %.3f over %d", file, share, reciprocal, len(requests),
			len(alone.List()), still, len(among.List()))
		if share < want[0] || still < want[1] {
			t.Errorf("%s: recall@10 is %.3f and %.3f, want at least %.2f and %.2f", file, share, still, want[0], want[1])
		}
	}
}
