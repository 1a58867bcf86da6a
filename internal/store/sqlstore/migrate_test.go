package sqlstore

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/testing/journaltest"
	"mcp-code-exec-harness/internal/testing/storetest"
)

// Open migrates a file of any earlier version, and keeps its contents.
func TestMigration(t *testing.T) {
	t.Parallel()
	entries, err := migrations.ReadDir("migrations")
	if err != nil {
		t.Fatal(err)
	}
	for version := 1; version <= len(entries); version++ {
		t.Run(fmt.Sprint("from ", version), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "harness.db")
			c, err := connect(t.Context(), dsn(path, writeParams(SyncNormal)))
			if err != nil {
				t.Fatal(err)
			}
			script := "CREATE TABLE schema_version (version INTEGER NOT NULL);"
			for i, e := range entries[:version] {
				if !strings.HasPrefix(e.Name(), fmt.Sprintf("%04d_", i+1)) {
					t.Errorf("migration %s is not number %d", e.Name(), i+1)
				}
				text, err := migrations.ReadFile("migrations/" + e.Name())
				if err != nil {
					t.Fatal(err)
				}
				script += string(text)
			}
			script += fmt.Sprintf("INSERT INTO schema_version VALUES (%d);", version) + `
				INSERT INTO runs (id, user, session, file, tier, source_hash, started, ended, status, calls, duration_us, owner)
					VALUES ('run_old', 'ann', 's', 'f.ts', 'wasm', x'00', 10, 20, 'succeeded', 1, 10, 'gone'),
					('run_cut', 'ann', 's', '', 'wasm', x'00', 11, NULL, 'running', 0, 0, 'gone');
				INSERT INTO journal (run, seq, type, n, data) VALUES
					(1, 1, 'start', 0, '{"run":"run_old","user":"ann"}'), (1, 2, 'answer', 1, '{"n":1}'), (1, 3, 'end', 0, '{"status":"succeeded"}'),
					(2, 1, 'start', 0, '{"run":"run_cut","user":"ann"}');
				INSERT INTO blobs (id, hash, data) VALUES (7, x'01', '"large"');
				INSERT INTO blob_refs (run, seq, field, blob) VALUES (1, 2, 'value', 7);`
			if version >= 7 {
				script = strings.NewReplacer("tier, source_hash, started", "tier, started", "'wasm', x'00', ", "'wasm', ").Replace(script)
			}
			c.script(script)
			if err := errors.Join(c.err, c.close()); err != nil {
				t.Fatal(err)
			}

			var upgrade Upgrade
			s := reopenAt(t, path, Options{Upgraded: func(u Upgrade) { upgrade = u }})
			checkCopy(t, upgrade, version, len(entries))
			if v := count(t, s, "SELECT version FROM schema_version"); v != len(entries) {
				t.Errorf("version %d, want %d", v, len(entries))
			}
			records, err := s.Read(t.Context(), "run_old")
			if err != nil || len(records) != 3 || string(records[1].Answer.Value) != `"large"` {
				t.Errorf("the old run: %v, %v", records, err)
			}
			w, _, err := s.Resume(t.Context(), "run_cut")
			if err != nil {
				t.Fatal(err)
			}
			w.Append(journaltest.End())
			if err := w.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, _, err := s.CreateTask(t.Context(), storetest.New("task_a", "ann", "s")); err != nil {
				t.Error(err)
			}
			if err := s.CreateKey(t.Context(), auth.Key{ID: "key_1", Hash: []byte{1}}); err != nil {
				t.Error(err)
			}
			_, err = s.Claim(t.Context(), "task_a", s.now())
			if err != nil {
				t.Error(err)
			}
			if _, err := s.RequestCancel(t.Context(), "task_a", task.Change{Task: &task.Task{Status: task.Cancelled}}); err != nil {
				t.Error(err)
			}
			checkTasks(t, s)
			_, _, err = s.Resume(t.Context(), "run_cut")
			wantIs(t, "resume of a run that has ended", err, journal.ErrEnded)
		})
	}
}

// The migration that adds the table doubts finds the doubts in the journals.
func TestMigrationOfDoubts(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{})
	sure := journaltest.Answer(5)
	large := journaltest.Answer(3)
	large.Answer.Error = json.RawMessage(`{"kind":"in_doubt","message":"` + strings.Repeat("x", maxInline) + `"}`)
	small := journaltest.Answer(1)
	small.Answer.Error = json.RawMessage(`{"kind":"in_doubt"}`)
	var calls []journal.Record
	for n := range 5 {
		calls = append(calls, journaltest.Call(n+1), journaltest.Intent(n+1))
	}
	put(t, s, "ended", append(append([]journal.Record{startAt("ended", 10)}, calls...), small, journaltest.Answer(2), large, sure, endAt(100))...)
	put(t, s, "cut", append([]journal.Record{startAt("cut", 10)}, calls[:4]...)...)
	doubts, _, err := s.Doubts(t.Context(), journal.DoubtFilter{})
	if err != nil || len(doubts) != 3 {
		t.Fatalf("%d doubts, %v", len(doubts), err)
	}
	text, err := migrations.ReadFile("migrations/0017_doubts.sql")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.write(t.Context(), 0, func(c *conn) { c.script("DROP TABLE doubts;" + string(text)) }); err != nil {
		t.Fatal(err)
	}
	again, _, err := s.Doubts(t.Context(), journal.DoubtFilter{})
	byCall := func(a, b journal.Doubt) int { return a.Call.N - b.Call.N }
	slices.SortFunc(doubts, byCall)
	slices.SortFunc(again, byCall)
	if diff := cmp.Diff(doubts, again); err != nil || diff != "" {
		t.Errorf("after the migration: %v %s", err, diff)
	}
}

// checkCopy checks that the copy made before an upgrade contains the store as it was.
func checkCopy(t *testing.T, u Upgrade, from, to int) {
	t.Helper()
	if from == to {
		if u != (Upgrade{}) {
			t.Errorf("upgraded: %+v", u)
		}
		return
	}
	if u.From != from || u.To != to {
		t.Fatalf("upgraded: %+v, want %d to %d", u, from, to)
	}
	c, err := connect(t.Context(), dsn(u.Copy, readParams()))
	if err != nil {
		t.Fatal(err)
	}
	var version, runs, records int64
	c.row("SELECT version FROM schema_version", nil, &version)
	c.row("SELECT count(*) FROM runs", nil, &runs)
	c.row("SELECT count(*) FROM journal", nil, &records)
	if err := errors.Join(c.err, c.close()); err != nil || version != int64(from) || runs != 2 || records != 4 {
		t.Errorf("the copy has version %d, %d runs, %d records: %v", version, runs, records, err)
	}
	if info, err := os.Stat(u.Copy); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("the copy: %v, %v", info, err)
	}
}

// A store that harness exec and harness serve wrote with schema version 3 is migrated: its runs, session, waiting task and
// schedule remain, quotas count them, and the file can shrink.
func TestMigrationOfAServedStore(t *testing.T) {
	t.Parallel()
	packed, err := os.Open(filepath.Join("testdata", "version3.db.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	r, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "harness.db")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s := reopenAt(t, path, Options{})
	runs, _, err := s.Runs(t.Context(), journal.Filter{})
	if err != nil || len(runs) != 2 {
		t.Fatalf("runs: %v, %v", runs, err)
	}
	for _, run := range runs {
		records, err := s.Read(t.Context(), run.ID)
		if err != nil || journal.Check(records) != nil || records[len(records)-1].End == nil {
			t.Errorf("run %s: %d records, %v", run.ID, len(records), err)
		}
	}
	later := time.Date(2031, 1, 2, 0, 0, 0, 0, time.UTC)
	got, next, err := s.ClaimNext(t.Context(), "", nil, later.Add(-48*time.Hour))
	if err != nil || got.ID != "" || !next.Equal(later.Add(-24*time.Hour)) {
		t.Errorf("before it is due: %q, %v, %v", got.ID, next, err)
	}
	if got, _, err = s.ClaimNext(t.Context(), "", nil, later); err != nil || got.Task != "later" || string(got.Context) != `{"a":1}` || got.SessionID != "default" {
		t.Errorf("the waiting task: %+v, %v", got, err)
	}
	if found, _, err := s.Tasks(t.Context(), task.Filter{UserID: "ann", Search: "late*"}); err != nil || len(found) != 1 || found[0].Task != "later" {
		t.Errorf("a search after the upgrade: %v, %v", found, err)
	}
	if err := s.CreateSession(t.Context(), task.Session{ID: "default", UserID: "bob"}); err != nil {
		t.Errorf("another user's session of the same id: %v", err)
	}
	if due, _, err := s.DueSchedules(t.Context(), later, 10); err != nil || len(due) != 1 {
		t.Errorf("schedules: %v, %v", due, err)
	}
	if n := count(t, s, "SELECT tasks * 100 + sessions * 10 + schedules FROM owners WHERE user = 'ann'"); n != 111 {
		t.Errorf("what ann has: %d", n)
	}
	if n := count(t, s, "SELECT auto_vacuum FROM pragma_auto_vacuum"); n != 2 {
		t.Errorf("auto_vacuum is %d", n)
	}
	checkTasks(t, s)
}
