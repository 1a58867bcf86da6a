package sqlstore

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/testing/journaltest"
)

// begins creates a run. Its start record is appended, but not stored.
func begins(t *testing.T, s *Store, run, user, session string) journal.Writer {
	t.Helper()
	w, err := s.Create(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	w.Append(startOf(run, user, session))
	return w
}

func ends(t *testing.T, w journal.Writer) {
	t.Helper()
	w.Append(journaltest.End())
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A session with a run that has stored nothing yet cannot be deleted. A run of another user in a session of the same name does not count.
func TestDeleteSessionOfUnstoredRun(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{})
	for _, id := range []string{"s", "other"} {
		if err := s.CreateSession(t.Context(), task.Session{ID: id, UserID: "ann"}); err != nil {
			t.Fatal(err)
		}
	}
	w, bobs := begins(t, s, "run_a", "ann", "s"), begins(t, s, "run_b", "bob", "other")
	for what, do := range map[string]error{"delete": s.DeleteSession(t.Context(), "ann", "s"), "close": s.CloseSession(t.Context(), task.Session{UserID: "ann", ID: "s"}, time.Time{})} {
		wantIs(t, what, do, task.ErrBusy)
		wantText(t, what, do, "run_a")
	}
	if err := s.DeleteSession(t.Context(), "ann", "other"); err != nil {
		t.Errorf("delete a session of which a run of another user has the name: %v", err)
	}
	ends(t, w)
	ends(t, bobs)
	if err := s.DeleteSession(t.Context(), "ann", "s"); err != nil {
		t.Fatal(err)
	}
	_, err := s.Read(t.Context(), "run_a")
	wantIs(t, "read", err, journal.ErrNotFound)
}

// If a session is closed before the first commit of its run, the run stores nothing. A run of another user is not affected.
func TestRunOfClosedSession(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{})
	if err := s.CreateSession(t.Context(), task.Session{ID: "s", UserID: "ann"}); err != nil {
		t.Fatal(err)
	}
	w, err := s.Create(t.Context(), "run_a")
	if err != nil {
		t.Fatal(err)
	}
	other, err := s.Create(t.Context(), "run_b")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.CloseSession(t.Context(), task.Session{UserID: "ann", ID: "s"}, time.Time{}); err != nil {
		t.Fatal(err)
	}
	w.Append(startOf("run_a", "ann", "s"))
	other.Append(startOf("run_b", "bob", "s"))
	wantIs(t, "commit", w.Commit(t.Context()), task.ErrNotFound)
	wantIs(t, "close", w.Close(t.Context()), task.ErrNotFound)
	ends(t, other)
	if runs, _, err := s.Runs(t.Context(), journal.Filter{}); err != nil || len(runs) != 1 || runs[0].ID != "run_b" {
		t.Errorf("stored: %+v, %v, want bob's alone", runs, err)
	}
}

// A session does not expire while a live process writes the journal of one of its runs, even if nothing of the journal is stored yet.
func TestExpiryOfSessionsWithRuns(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "harness.db")
	s, other := reopenAt(t, path, Options{}), reopenAt(t, path, Options{})
	expires := time.Unix(1000, 0)
	for _, id := range []string{"here", "unstored", "there", "parked", "namesake", "unused"} {
		expires = expires.Add(time.Second)
		if err := s.CreateSession(t.Context(), task.Session{ID: id, UserID: "ann", ExpiresAt: expires}); err != nil {
			t.Fatal(err)
		}
	}
	here, unstored := begins(t, s, "run_here", "ann", "here"), begins(t, s, "run_unstored", "ann", "unstored")
	if err := here.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	put(t, other, "run_there", startOf("run_there", "ann", "there"))
	put(t, s, "run_parked", startOf("run_parked", "ann", "parked"))
	bobs := begins(t, s, "run_bob", "bob", "namesake")
	expired := func(want string) {
		t.Helper()
		list, err := s.ExpiredSessions(t.Context(), expires, nil, 10)
		var got []string
		for _, session := range list {
			got = append(got, session.ID)
		}
		if strings.Join(got, " ") != want || err != nil {
			t.Errorf("expired: %q, %v, want %s", got, err, want)
		}
	}
	expired("parked namesake unused")
	ends(t, here)
	ends(t, unstored)
	ends(t, bobs)
	expired("here unstored parked namesake unused")
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	expired("here unstored there parked namesake unused")
}
