package sqlstore

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"mcp-code-exec-harness/internal/approval"
)

func definition(tool, description string) []approval.Definition {
	return []approval.Definition{{Tool: tool, Description: description, InputSchema: []byte(`{"b":1, "a":2}`)}}
}

// The stored pins of a server are bounded, even if the server lists different definitions each time.
func TestPinsAreBounded(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{})
	for i := range 50 {
		for _, list := range [][]approval.Definition{definition(fmt.Sprint("t", i), "x"), definition("same", fmt.Sprint(i))} {
			if _, err := s.Review(t.Context(), "up", approval.HoldNew, nil, list); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := count(t, s, "SELECT count(*) FROM pins"); n != 1 {
		t.Errorf("%d pins", n)
	}
	for i := range 50 {
		if _, err := s.Review(t.Context(), "up", approval.HoldChanged, nil, definition("same", strings.Repeat("x", 1000)+fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	if n := count(t, s, "SELECT sum(length(approved_as) + length(seen_as)) FROM pins"); n > 3000 {
		t.Errorf("%d bytes", n)
	}
}

// An approval in one process applies in other processes. It applies only to the definition that was shown.
func TestPinsOfProcesses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "harness.db")
	a, b := reopenAt(t, path, Options{}), reopenAt(t, path, Options{})
	review := func(s *Store, d []approval.Definition) approval.Reviewed {
		t.Helper()
		r, err := s.Review(t.Context(), "up", approval.HoldChanged, nil, d)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := review(a, definition("t", "1")); len(r.Trusted) != 1 {
		t.Errorf("first use: %+v", r)
	}
	if r := review(b, definition("t", "1")); len(r.Trusted)+len(r.Held) != 0 {
		t.Errorf("in another process: %+v", r)
	}
	if r := review(b, definition("t", "2")); len(r.Held) != 1 || len(r.New) != 1 {
		t.Errorf("changed: %+v", r)
	}
	held, err := a.Held(t.Context(), "")
	if err != nil || len(held) != 1 || held[0].Server != "up" || held[0].Hash != definition("t", "2")[0].Hash() || held[0].Approved.Description != "1" ||
		strings.Join(held[0].Changed, " ") != "description" || held[0].Since.IsZero() {
		t.Fatalf("held %+v, %v", held, err)
	}
	before, err := b.LastReview(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	review(b, definition("t", "3"))
	wantIs(t, "approve what is not there any more", a.ApproveDefinitions(t.Context(), "up", "ann", map[string]string{"t": held[0].Hash}), approval.ErrNotHeld)
	wantIs(t, "approve another tool", a.ApproveDefinitions(t.Context(), "up", "ann", map[string]string{"x": held[0].Hash}), approval.ErrNotHeld)
	if err := a.ApproveDefinitions(t.Context(), "up", "ann", map[string]string{"t": definition("t", "3")[0].Hash()}); err != nil {
		t.Fatal(err)
	}
	wantIs(t, "approve it again", a.ApproveDefinitions(t.Context(), "up", "ann", map[string]string{"t": definition("t", "3")[0].Hash()}), approval.ErrNotHeld)
	after, err := b.LastReview(t.Context())
	if err != nil || !after.After(before) {
		t.Errorf("noticed %s after %s, %v", after, before, err)
	}
	if r := review(b, definition("t", "3")); len(r.Held)+len(r.Changed) != 0 {
		t.Errorf("once approved: %+v", r)
	}
	if r := review(b, definition("t", "1")); len(r.Held) != 1 {
		t.Errorf("what was approved before: %+v", r)
	}
	if err := a.ForgetDefinitions(t.Context(), "up"); err != nil {
		t.Fatal(err)
	}
	if known, err := b.Reviewed(t.Context(), "up"); known || err != nil {
		t.Errorf("forgotten: %v, %v", known, err)
	}
}

// If several processes review lists at the same time, only the list that is stored first is trusted.
func TestPinsAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "harness.db")
	a, b := reopenAt(t, path, Options{}), reopenAt(t, path, Options{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	trusted := 0
	for i, s := range []*Store{a, b, a, b} {
		wg.Go(func() {
			r, err := s.Review(t.Context(), "up", approval.HoldChanged, nil, definition("t", fmt.Sprint(i)))
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			trusted += len(r.Trusted)
			if len(r.Held)+len(r.Trusted) != 1 {
				t.Errorf("list %d: %+v", i, r)
			}
		})
	}
	wg.Wait()
	if trusted != 1 {
		t.Errorf("%d lists are trusted", trusted)
	}
}
