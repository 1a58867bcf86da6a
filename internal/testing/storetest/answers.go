package storetest

import (
	"fmt"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/answers"
)

// keptAnswers: an answer is found by the user and the key that it was kept for, by every process, until it is too old, has expired or is read in another
// state of the server.
func keptAnswers(t *testing.T, open Place) {
	a, b := open(t), open(t)
	now := time.Now().Truncate(time.Microsecond)
	find := func(s Store, user, key string, oldest time.Time) answers.Kept {
		t.Helper()
		k, err := s.Answer(t.Context(), user, "crm", []byte(key), oldest)
		must(t, "find", err)
		return k
	}
	keep := func(s Store, key string, state int64, text string, expires time.Time) {
		t.Helper()
		must(t, "keep", s.KeepAnswer(t.Context(), "ann", "crm", []byte(key), answers.Kept{State: state, At: now, Sealed: []byte(text)}, expires))
	}
	want := func(k answers.Kept, text string) {
		t.Helper()
		if string(k.Sealed) != text || text != "" && !k.At.Equal(now) {
			t.Errorf("found %q of %s, want %q of %s", k.Sealed, k.At, text, now)
		}
	}
	ago, later := now.Add(-time.Minute), now.Add(time.Hour)
	want(find(a, "ann", "k", ago), "")
	keep(a, "k", 0, "one", later)
	want(find(b, "ann", "k", ago), "one")
	want(find(b, "bob", "k", ago), "")
	want(find(b, "ann", "other", ago), "")
	want(find(b, "ann", "k", now.Add(time.Microsecond)), "")
	keep(b, "k", 0, "two", later)
	want(find(a, "ann", "k", ago), "two")
	keep(b, "gone", 0, "late", now.Add(-time.Second))
	want(find(a, "ann", "gone", ago), "")

	read := find(a, "ann", "k", ago).State
	must(t, "change another server", b.ChangeAnswers(t.Context(), "erp"))
	want(find(a, "ann", "k", ago), "two")
	must(t, "change", b.ChangeAnswers(t.Context(), "crm"))
	want(find(a, "ann", "k", ago), "")
	keep(a, "k", read, "read before the change", later)
	want(find(b, "ann", "k", ago), "")
	keep(a, "k", find(b, "ann", "k", ago).State, "three", later)
	want(find(b, "ann", "k", ago), "three")
}

// keptAnswersOfUsers: a user with very many answers keeps the latest, and takes none from others.
func keptAnswersOfUsers(t *testing.T, open Place) {
	s := open(t)
	now := time.Now()
	keep := func(user string, n int) {
		t.Helper()
		must(t, "keep", s.KeepAnswer(t.Context(), user, "crm", fmt.Append(nil, n), answers.Kept{At: now, Sealed: []byte("x")}, now.Add(time.Hour)))
	}
	has := func(user string, n int) bool {
		k, err := s.Answer(t.Context(), user, "crm", fmt.Append(nil, n), now.Add(-time.Minute))
		must(t, "find", err)
		return k.Sealed != nil
	}
	keep("ann", 0)
	for n := range 230 {
		keep("bob", n)
	}
	kept := 0
	for n := range 230 {
		if has("bob", n) {
			kept++
		}
	}
	if !has("ann", 0) || !has("bob", 229) || has("bob", 0) || kept != 200 {
		t.Errorf("%d answers of bob are kept; ann's: %t", kept, has("ann", 0))
	}
}
