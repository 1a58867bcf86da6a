package web_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestSettle checks that a write in doubt can be settled once, in the list or on the page of the call, by an approver of its user.
func TestSettle(t *testing.T) {
	t.Parallel()
	w := setup(t, true)
	ann, plain, bob := w.key("ann", "approver", "ann"), w.key("plain", "user", "ann"), w.key("bob", "approver", "bob")
	hers, his, agent := w.login(ann), w.login(bob), w.login(plain)
	if got := hers.get("/doubts"); !strings.Contains(got.text, "Nothing is in doubt.") {
		t.Errorf("before: %s", got.text)
	}
	const form = "It was not done"
	var calls []string
	for range 2 {
		id, _ := w.run(plain, `return await tools.notes.lose({title: "mine"})`)
		calls = append(calls, "/runs/"+id+"/calls/1")
	}
	for _, path := range append([]string{"/doubts", "/"}, calls...) {
		if got := hers.get(path); got.status != http.StatusOK || !strings.Contains(got.text, "notes__lose") || path != "/" && !strings.Contains(got.text, form) {
			t.Errorf("%s for its user: %d %s", path, got.status, got.text)
		}
		if got := his.get(path); strings.Contains(got.text, "notes__lose") || strings.Contains(got.text, calls[0]) {
			t.Errorf("%s for another: %d %s", path, got.status, got.text)
		}
	}
	for name, c := range map[string]struct {
		by     *reader
		fields []string
		want   int
	}{
		"another user":       {his, []string{"verdict", "done"}, http.StatusNotFound},
		"a key for programs": {agent, []string{"verdict", "done"}, http.StatusForbidden},
		"no verdict":         {hers, nil, http.StatusBadRequest},
		"a long note":        {hers, []string{"verdict", "done", "note", strings.Repeat("x", 1001)}, http.StatusBadRequest},
	} {
		if got := c.by.post(calls[0]+"/settle", c.fields...); got.status != c.want {
			t.Errorf("%s: %d, want %d", name, got.status, c.want)
		}
	}
	if got := hers.post(calls[0]+"/settle", "verdict", "not_done", "note", " it is not in the list "); got.status != http.StatusSeeOther || got.header.Get("Location") != "/doubts?done=settled" {
		t.Fatalf("settle on the list: %d %s", got.status, got.header)
	}
	if got := hers.post(calls[1]+"/settle", "verdict", "done", "to", "same"); got.status != http.StatusSeeOther || got.header.Get("Location") != calls[1]+"?done=settled" {
		t.Fatalf("settle on the page of the call: %d %s", got.status, got.header)
	}
	if got := hers.post(calls[0]+"/settle", "verdict", "done"); got.status != http.StatusConflict || !strings.Contains(got.text, "another verdict") {
		t.Errorf("another verdict: %d %s", got.status, got.text)
	}
	if got := hers.get(calls[0]); strings.Contains(got.text, form) || !strings.Contains(got.text, "not done</span>") || !strings.Contains(got.text, ": it is not in the list</p>") {
		t.Errorf("the call after it: %s", got.text)
	}
	if got := hers.get("/doubts"); strings.Contains(got.text, "notes__lose") {
		t.Errorf("after: %s", got.text)
	}
}
