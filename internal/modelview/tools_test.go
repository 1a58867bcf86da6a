package modelview

import (
	"errors"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/catalog"
)

func TestHits(t *testing.T) {
	t.Parallel()
	servers := []catalog.Server{{Name: "crm", Tools: make([]catalog.Tool, 2)}, {Name: "mail", Tools: make([]catalog.Tool, 1)}}
	for _, c := range []struct {
		hits    []catalog.Hit
		servers []catalog.Server
		want    string
	}{
		{
			[]catalog.Hit{{Name: "crm__search", Signature: "search({q: string}): Promise<any>", Description: "Finds."}, {Name: "crm__add", Signature: "add(): Promise<any>"}},
			servers, "crm__search — search({q: string}): Promise<any>\n  Finds.\ncrm__add — add(): Promise<any>\n",
		},
		{nil, servers, "No tool fits \"x\". Use other words. There are 3 tools of the servers crm, mail.\n"},
		{nil, servers[:0], "No server offers any tool at the moment.\n"},
	} {
		if got := Hits("x", c.hits, c.servers); got != c.want {
			t.Errorf("got %s", got)
		}
	}
}

func TestDetails(t *testing.T) {
	t.Parallel()
	got := Details([]*catalog.Details{
		{Name: "a__b", Call: "tools.a.b(input)", TypeScript: "declare b\n", Instructions: "Mind the gap."},
		{Name: "a__c", Call: "tools.a.c(input)", TypeScript: "declare c\n", Instructions: "Mind the gap.", SchemaProblem: "it is no JSON"},
	}, []error{errors.New("no a__d")})
	want := "no a__d\n\na__b — await tools.a.b(input)\ndeclare b\nThe server's advice: Mind the gap.\n\n" +
		"a__c — await tools.a.c(input)\nIts schema cannot be used to check the input: it is no JSON\ndeclare c\n"
	if got != want {
		t.Errorf("got %s", got)
	}
}

// TestFit: Fit cuts a text in the same way as View cuts a run's text.
func TestFit(t *testing.T) {
	t.Parallel()
	if got := Fit("short\xff", 0, "x", nil); got != "short\ufffd" {
		t.Errorf("got %q", got)
	}
	files := saved{}
	long := "first\n" + strings.Repeat("word ", 5000) + "\nlast"
	got := Fit(long, 200, "search.txt", files.save)
	if count(t, got) > 200 || count(t, got) < 150 || !strings.HasPrefix(got, "first\n") || !strings.HasSuffix(got, "\nlast") ||
		!strings.Contains(got, "the whole is in /workspace/results/run_1/search.txt") || files["search.txt"] != long {
		t.Errorf("got %s", got)
	}
	if got := Fit(long, 3, "x", nil); got != "fir" {
		t.Errorf("got %q", got)
	}
}
