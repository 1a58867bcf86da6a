package n8n_test

import (
	"fmt"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"mcp-code-exec-harness/internal/n8n"
	"mcp-code-exec-harness/internal/testing/n8nfake"
)

// drawn is a workflow in the form of the files in testdata.
type drawn struct {
	Active bool
	Nodes  yaml.MapSlice
	Flow   []string
}

type fault struct {
	Of, Code, Node, Remedy, Also string

	Type    map[string]string
	Version map[string]float64
	Set     map[string]object
	Unset   map[string][]string
	Creds   map[string]map[string]string
	Nodes   yaml.MapSlice
	Flow    []string
	Drop    []string
	Cut     []string
	Disable []string
}

func load(t *testing.T, file string, into any) {
	t.Helper()
	data, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

var arrow = regexp.MustCompile(`\s+(?:-(\w+))?>\s+`)

var end = regexp.MustCompile(`^(.*?)(?:\[(\d+)\])?$`)

// edge is a connection in the form of the files in testdata.
type edge struct {
	from, to, kind string
	output, input  int
}

func edges(flow []string) (all []edge) {
	for _, line := range flow {
		names := arrow.Split(line, -1)
		for i, m := range arrow.FindAllStringSubmatch(line, -1) {
			e := edge{kind: m[1]}
			if e.kind == "" {
				e.kind = "main"
			}
			from, to := end.FindStringSubmatch(names[i]), end.FindStringSubmatch(names[i+1])
			e.from, e.to = from[1], to[1]
			_, _ = fmt.Sscan(from[2], &e.output)
			_, _ = fmt.Sscan(to[2], &e.input)
			all = append(all, e)
		}
	}
	return all
}

// draw builds a workflow and applies the changes of a fault.
func draw(name string, d drawn, f fault) object {
	nodes, position := []any{}, 0
	for _, item := range append(slices.Clone(d.Nodes), f.Nodes...) {
		title := item.Key.(string)
		if slices.Contains(f.Drop, title) {
			continue
		}
		given := plain(item.Value).(object)
		kind := given["type"].(string)
		if !strings.Contains(kind, ".") {
			kind = "n8n-nodes-base." + kind
		}
		params, _ := given["parameters"].(object)
		if params == nil {
			params = object{}
		}
		for key, value := range f.Set[title] {
			params[key] = plain(value)
		}
		for _, key := range f.Unset[title] {
			delete(params, key)
		}
		n := object{"id": title, "name": title, "type": kind, "position": []int{position, 0}, "parameters": params}
		position += 200
		for _, key := range []string{"typeVersion", "disabled", "onError", "webhookId"} {
			if v := given[key]; v != nil {
				n[key] = v
			}
		}
		creds := object{}
		if list, is := given["creds"].([]any); is {
			for _, kind := range list {
				creds[kind.(string)] = object{"id": "of-" + kind.(string), "name": kind}
			}
		}
		if other, is := f.Creds[title]; is {
			creds = object{}
			for kind, name := range other {
				creds[kind] = object{"id": name, "name": name}
			}
		}
		if len(creds) > 0 {
			n["credentials"] = creds
		}
		if other := f.Type[title]; other != "" {
			n["type"] = other
		}
		if other := f.Version[title]; other != 0 {
			n["typeVersion"] = other
		}
		if slices.Contains(f.Disable, title) {
			n["disabled"] = true
		}
		nodes = append(nodes, n)
	}
	cut := edges(f.Cut)
	connections := object{}
	for _, e := range append(edges(d.Flow), edges(f.Flow)...) {
		if slices.ContainsFunc(cut, func(c edge) bool {
			return c.from == e.from && c.to == e.to && c.kind == e.kind && !slices.Contains(edges(f.Flow), e)
		}) {
			continue
		}
		byType, _ := connections[e.from].(object)
		if byType == nil {
			byType = object{}
			connections[e.from] = byType
		}
		outputs, _ := byType[e.kind].([]any)
		for len(outputs) <= e.output {
			outputs = append(outputs, []any{})
		}
		outputs[e.output] = append(outputs[e.output].([]any), object{"node": e.to, "type": e.kind, "index": e.input})
		byType[e.kind] = outputs
	}
	return object{"name": name, "active": d.Active, "nodes": nodes, "connections": connections}
}

// plain converts a YAML value to a JSON value.
func plain(v any) any {
	switch v := v.(type) {
	case yaml.MapSlice:
		out := object{}
		for _, item := range v {
			out[fmt.Sprint(item.Key)] = plain(item.Value)
		}
		return out
	case object:
		out := object{}
		for key, value := range v {
			out[key] = plain(value)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, value := range v {
			out[i] = plain(value)
		}
		return out
	}
	return v
}

// described returns a fake instance that describes its nodes and has credentials of each type that the files use. If there is a real installation, the
// descriptions come from it.
func described(t *testing.T) *n8n.Instance {
	t.Helper()
	api := n8nfake.NewAPI()
	for _, kind := range []string{"slackApi", "slackOAuth2Api", "smtp", "httpHeaderAuth", "postgres", "telegramApi", "openAiApi"} {
		api.Credentials("of-"+kind, kind, kind)
	}
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	return open(t, n8n.Options{
		URL: server.URL, APIKey: n8nfake.Key, Email: n8nfake.Email, Password: n8nfake.Password, Nodes: os.Getenv("HARNESS_TEST_N8N_NODES"),
	})
}

// TestSound: workflows without faults are valid.
func TestSound(t *testing.T) {
	i := described(t)
	var sound map[string]drawn
	load(t, "sound.yaml", &sound)
	if len(sound) < 50 {
		t.Errorf("%d workflows", len(sound))
	}
	for name, d := range sound {
		v := value[verdict](t, i, flows, "validate_workflow", object{"workflow": draw(name, d, fault{})})
		if !v.Valid || len(v.Unchecked) > 0 {
			t.Errorf("%s: %+v", name, v)
		}
		for _, f := range v.Findings {
			if !slices.Contains([]string{"disabled-node", "disabled-aside"}, name) {
				t.Errorf("%s: %+v", name, f)
			}
		}
	}
}

// TestFaults: every fault is found, and the finding names the node and a remedy.
func TestFaults(t *testing.T) {
	i := described(t)
	var sound map[string]drawn
	load(t, "sound.yaml", &sound)
	var faults []fault
	load(t, "faults.yaml", &faults)
	if len(faults) < 50 {
		t.Errorf("%d workflows", len(faults))
	}
	for n, f := range faults {
		d, is := sound[f.Of]
		if !is {
			t.Fatalf("fault %d: there is no workflow %q", n+1, f.Of)
		}
		v := value[verdict](t, i, flows, "validate_workflow", object{"workflow": draw(f.Of, d, f)})
		found := false
		for _, got := range v.Findings {
			switch {
			case got.Severity == "warning":
			case got.Code == f.Code && got.Node == f.Node && got.Path != "" && got.Remedy != "" && strings.Contains(got.Remedy, f.Remedy):
				found = true
			case got.Code != f.Code || got.Node != f.Also:
				t.Errorf("fault %d (%s in %s of %s): also %+v", n+1, f.Code, f.Node, f.Of, got)
			}
		}
		if !found || v.Valid {
			t.Errorf("fault %d (%s in %s of %s) is not found: %+v", n+1, f.Code, f.Node, f.Of, v)
		}
	}
}
