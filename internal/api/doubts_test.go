package api_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
)

// doubtful returns a program whose write is answered with an invalid message, so that it is unknown whether the write was done.
func doubtful(mark string) string {
	return `return await callMCPTool('bad__broken', {zeta: '` + mark + `'}).catch((e) => e.kind)`
}

// A write in doubt is listed until an approver who may act for its user settles it. It can be settled only once.
func TestDoubts(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{keys: true, servers: []*config.MCPServer{badServer(t, "bad", "normal")}, flags: map[string]string{"pii.enabled": "true"}})
	alice, bob := w.key("alice", auth.Approver), w.key("bob", auth.Approver)
	plain, admin := w.key("alice"), w.key("root", auth.Admin)
	inDoubt := func(key, query string) (all []string) {
		t.Helper()
		for cursor := ""; ; {
			var page api.DoubtList
			w.as(key, "GET", "/v1/doubts?limit=1&cursor="+cursor+query, nil).want(http.StatusOK).json(&page)
			for _, d := range page.Doubts {
				all = append(all, d.User+" "+d.Name+" "+string(d.Arguments))
			}
			if cursor = page.Next; cursor == "" {
				return all
			}
		}
	}
	var first run.Outcome
	for _, c := range []struct{ key, mark string }{{plain, "one"}, {plain, "two"}, {bob, "his"}} {
		var out run.Outcome
		w.as(c.key, "POST", "/v1/runs", map[string]string{"code": doubtful(c.mark)}).want(http.StatusOK).json(&out)
		if string(out.Output) != `"in_doubt"` {
			t.Fatalf("%s: %s, %+v", c.mark, out.Output, out.Error)
		}
		if first.RunID == "" {
			first = out
		}
	}
	two, one, his := `alice bad__broken {"zeta":"two"}`, `alice bad__broken {"zeta":"one"}`, `bob bad__broken {"zeta":"his"}`
	for name, c := range map[string]struct {
		key, query string
		want       []string
	}{
		"alice": {alice, "", []string{two, one}}, "bob": {bob, "", []string{his}}, "admin": {admin, "", []string{his, two, one}},
		"admin for bob": {admin, "&userId=bob", []string{his}}, "a key for all": {w.key(""), "", []string{his, two, one}},
	} {
		if got := inDoubt(c.key, c.query); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	call := "/v1/runs/" + first.RunID + "/calls/1"
	var shown runs.Call
	if w.as(alice, "GET", call, nil).want(http.StatusOK).json(&shown); !shown.Doubt || shown.Settlement == nil || shown.Settlement.Verdict != journal.Open {
		t.Errorf("the call: %+v", shown)
	}
	done := map[string]string{"verdict": "done", "note": "ann@example.com has it"}
	w.as(plain, "POST", call+"/settle", done).want(http.StatusForbidden)
	w.as(bob, "POST", call+"/settle", done).want(http.StatusNotFound)
	for _, body := range []map[string]string{{"verdict": "open"}, {}, {"verdict": "done", "note": strings.Repeat("é", 600)}, {"verdict": "done", "note": strings.Repeat("x", 1001)}} {
		w.as(alice, "POST", call+"/settle", body).want(http.StatusBadRequest)
	}
	for _, path := range []string{"/calls/2/settle", "/calls/999999/settle"} {
		w.as(alice, "POST", "/v1/runs/"+first.RunID+path, done).want(http.StatusConflict)
	}
	var settled journal.Settlement
	w.as(alice, "POST", call+"/settle", done).want(http.StatusOK).json(&settled)
	if settled.Verdict != journal.Done || !strings.HasPrefix(settled.By, "key_") || settled.At == nil || settled.Note != "pii_1e@d1.pii.invalid has it" {
		t.Errorf("settled: %+v", settled)
	}
	again := w.as(admin, "POST", call+"/settle", map[string]string{"verdict": "done", "note": "another note"}).want(http.StatusOK)
	if first := w.as(alice, "POST", call+"/settle", done).want(http.StatusOK); again.body != first.body || strings.Contains(again.body, "another") {
		t.Errorf("settled again: %s and %s", again.body, first.body)
	}
	if r := w.as(admin, "POST", call+"/settle", map[string]string{"verdict": "not_done"}).want(http.StatusConflict); !strings.Contains(r.body, "another verdict") {
		t.Errorf("another verdict: %s", r.body)
	}
	if got := inDoubt(alice, ""); !slices.Equal(got, []string{two}) {
		t.Errorf("after the settlement: %q", got)
	}
	var calls api.CallList
	if w.as(alice, "GET", "/v1/runs/"+first.RunID+"/calls", nil).want(http.StatusOK).json(&calls); calls.Calls[0].Settlement.Note != "pii_1e@d1.pii.invalid has it" {
		t.Errorf("the calls: %+v", calls)
	}
	if w.as(alice, "GET", call+"?values=true", nil).want(http.StatusOK).json(&shown); shown.Settlement.Note != "ann@example.com has it" {
		t.Errorf("with values: %+v", shown.Settlement)
	}
	if n := strings.Count(w.log.String(), `"doubt_settled"`); n != 1 {
		t.Errorf("audited %d times", n)
	}
	// The journal is unchanged, so the run can be replayed.
	w.as(alice, "POST", "/v1/runs/"+first.RunID+"/replay", nil).want(http.StatusOK)
}
