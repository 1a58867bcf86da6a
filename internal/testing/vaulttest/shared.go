package vaulttest

import (
	"fmt"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/pii/detect"
	"mcp-code-exec-harness/internal/pii/seal"
)

// since tests that a process learns what another process has added to a session that both have loaded, and gets a conflict if it gives a value
// or a token another meaning.
func since(t *testing.T, s *suite) {
	first, second := s.open(t), s.open(t)
	mark := load(t, first, session).Mark
	n := load(t, second, session).First
	if !first.Shared() { // a vault that is used by one process only
		if all, _, err := first.Since(t.Context(), session, mark); len(all) > 0 || err != nil || second.Shared() {
			t.Errorf("of other processes there are %v, %v", all, err)
		}
		return
	}
	learn := func(v pii.Vault, want ...pii.Entry) {
		t.Helper()
		flush(t, first)
		flush(t, second)
		entries, next, err := v.Since(t.Context(), session, mark)
		if err != nil {
			t.Fatal(err)
		}
		wantEntries(t, entries, want)
		if again, _, err := v.Since(t.Context(), session, next); err != nil || len(again) > 0 {
			t.Errorf("after that there are %v, %v", again, err)
		}
		mark = next
	}
	learn(first)
	added := []pii.Entry{token("EMAIL", n, "a", "crm__search"), origin("EMAIL", n, "file")}
	add(t, second, session, added...)
	learn(first, added...)
	for what, e := range map[string]pii.Entry{"value": token("EMAIL", n+1, "a", "task"), "token": token("EMAIL", n, "b", "task")} {
		if err := first.Add(t.Context(), session, []pii.Entry{e}); err == nil {
			flush(t, first)
			t.Errorf("a %s that another process has given a meaning was added", what)
		}
	}
	run := pii.Scope{User: session.User, Session: "run_1"} // No other process has loaded this session.
	e := token("EMAIL", load(t, first, run).First, "a", "task")
	add(t, first, run, e)
	flush(t, first)
	if got := load(t, second, run); len(got.Entries) != 1 {
		t.Errorf("of a run beside another process %d tokens are stored", len(got.Entries))
	}
}

// processes tests filters of two processes with the same session. Each restores what the other has hidden, and a value has one token, whichever
// process loaded the session first.
func processes(t *testing.T, s *suite) {
	keys, err := seal.New("the test", []byte("0123456789abcdefghijklmnopqrstuvwxyz"))
	if err != nil {
		t.Fatal(err)
	}
	detector, err := detect.New(detect.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var vaults [2]pii.Vault
	var filters [2]pii.Session
	for i := range vaults {
		vaults[i] = s.open(t)
		filters[i] = pii.New(pii.Options{
			Detector: detector, Types: detector.Types(), Now: time.Now,
			Vault: func() (pii.Vault, error) { return vaults[i], nil }, Keys: func() (*seal.Keys, error) { return keys, nil },
		}).In("alice", "sess_1")
		if _, err := filters[i].Hide(t.Context(), "crm__search", fmt.Sprintf("first%d@example.com", i)); err != nil { // after this loop, both have loaded the session
			t.Fatal(err)
		}
		flush(t, vaults[i])
	}
	if !vaults[0].Shared() {
		return
	}
	hide := func(i int, from pii.Origin, text string) string {
		t.Helper()
		hidden, err := filters[i].Hide(t.Context(), from, text)
		if err != nil {
			t.Fatal(err)
		}
		flush(t, vaults[i])
		return hidden
	}
	seen := map[string]bool{}
	for round := range 6 {
		a, b := round%2, 1-round%2
		value := fmt.Sprintf("ann%d@example.com", round)
		token := hide(a, "crm__search", value)
		if seen[token] {
			t.Errorf("%s stands for two values", token)
		}
		seen[token] = true
		if got, err := filters[b].Restore(t.Context(), "to "+token); err != nil || got != "to "+value {
			t.Errorf("round %d: %s is restored as %s, %v", round, token, got, err)
		}
		if again := hide(b, "hr__list", value); again != token {
			t.Errorf("round %d: %s has the tokens %s and %s", round, value, token, again)
		}
		_, tokens, err := filters[a].RestoreArguments(t.Context(), []byte(`["`+token+`"]`), nil)
		if err != nil || len(tokens) != 1 || fmt.Sprint(tokens[0].Origins) != "[crm__search hr__list]" {
			t.Errorf("round %d: policy judges %+v, %v", round, tokens, err)
		}
		// The same for a value that is not restored in between.
		other := fmt.Sprintf("bob%d@example.com", round)
		if one, two := hide(b, "crm__search", other), hide(a, "crm__search", other); one != two {
			t.Errorf("round %d: %s has the tokens %s and %s", round, other, one, two)
		}
	}
}
