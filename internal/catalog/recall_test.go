package catalog

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// testServer is a server in the file testdata/recall/tools.json.
type testServer struct {
	Name, Description string
	Tools             []struct {
		Name, Description string
		InputSchema       json.RawMessage
	}
}

func readJSON(t testing.TB, path string, into any) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// recallCatalog returns a catalog with the servers of testdata/recall. It repeats the servers until there are at least n tools.
func recallCatalog(t testing.TB, n int) *Catalog {
	t.Helper()
	var servers []testServer
	readJSON(t, filepath.Join("testdata", "recall", "tools.json"), &servers)
	c := New()
	for copies := 0; len(c.List()) < n; copies++ {
		for _, s := range servers {
			server := Server{Name: s.Name, Description: s.Description}
			if copies > 0 {
				server.Name = fmt.Sprintf("%s-%d", s.Name, copies)
			}
			for _, tool := range s.Tools {
				server.Tools = append(server.Tools, Tool{
					Name: tool.Name, Description: tool.Description, InputSchema: tool.InputSchema,
				})
			}
			c.SetServer(server)
		}
	}
	return c
}

type recallRequest struct {
	Request string
	Tools   []string
}

// recall returns the mean share of the needed tools among the first ten hits, and the mean reciprocal rank of the first needed tool.
func recall(t *testing.T, c *Catalog, requests []recallRequest) (share, reciprocal float64) {
	t.Helper()
	for _, r := range requests {
		var names []string
		for _, h := range c.Search(t.Context(), "", r.Request, 10) {
			names = append(names, h.Name)
		}
		found, first := 0, 0
		for _, want := range r.Tools {
			if tool, err := c.Resolve(want); err != nil || tool.FullName() != want {
				t.Fatalf("the request %q needs %q, which is no tool: %v", r.Request, want, err)
			}
			if at := slices.Index(names, want); at >= 0 {
				found++
				if first == 0 || at+1 < first {
					first = at + 1
				}
			}
		}
		share += float64(found) / float64(len(r.Tools))
		if first > 0 {
			reciprocal += 1 / float64(first)
		}
	}
	return share / float64(len(requests)), reciprocal / float64(len(requests))
}

// TestSearchRecall: the requests of the first set were written before the engine, by a person who thought of the task and not of the tools' names. The
// numbers of the engine were then chosen with them. The second set was written afterwards and not used for choosing, so it shows that the numbers hold for
// other requests. The third set has steps in words that the tools do not contain.
func TestSearchRecall(t *testing.T) {
	t.Parallel()
	c := recallCatalog(t, 300)
	for _, set := range []struct {
		file     string
		requests int
		want     float64
	}{
		{"requests.json", 60, 0.75},
		{"heldout.json", 20, 0.75},
		{"oblique.txt", 40, 0.7},
	} {
		var requests []recallRequest
		if strings.HasSuffix(set.file, ".txt") {
			tuning, heldOut := splitRequests(t, "recall", set.file)
			requests = append(tuning, heldOut...)
		} else {
			readJSON(t, filepath.Join("testdata", "recall", set.file), &requests)
		}
		if len(requests) < set.requests || len(c.List()) < 300 {
			t.Fatalf("%s: %d requests over %d tools", set.file, len(requests), len(c.List()))
		}
		share, reciprocal := recall(t, c, requests)
		t.Logf("%s: recall@10 %.3f, mean reciprocal rank %.3f, over %d requests and %d tools",
			set.file, share, reciprocal, len(requests), len(c.List()))
		if share < set.want {
			t.Errorf("%s: recall@10 is %.3f, want at least %.2f", set.file, share, set.want)
		}
	}
}

// longRequest has several clauses, names and filler words, like the requests of models.
const longRequest = "Please look through our GitHub for bug reports about login timeouts, collect the logs of the failing pods " +
	"and the most common exceptions, then open a Jira ticket with a summary; also let the backend channel on Slack know, " +
	"send an email to the customer who reported it, and schedule a meeting with the team for next week."

// BenchmarkSearch5000 searches 5,000 tools. The target is a median of 1 ms.
func BenchmarkSearch5000(b *testing.B) {
	c := recallCatalog(b, 5000)
	for _, query := range []struct{ name, text string }{
		{"short", "send email"},
		{"common", "list get create customer"},
		{"long", longRequest},
	} {
		b.Run(query.name, func(b *testing.B) {
			c.Search(b.Context(), "", query.text, 10)
			for b.Loop() {
				if len(c.Search(b.Context(), "", query.text, 10)) != 10 {
					b.Fatal("fewer than ten hits")
				}
			}
		})
	}
}

// BenchmarkReindex5000 changes one server: only its segment is made again, and all segments are joined.
func BenchmarkReindex5000(b *testing.B) {
	c := recallCatalog(b, 5000)
	server := c.Servers()[0]
	for b.Loop() {
		c.SetServer(server)
		c.Search(b.Context(), "", "send email", 10)
	}
}
