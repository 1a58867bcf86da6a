package sqlstore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/testing/postgrestest"
	"mcp-code-exec-harness/internal/testing/storetest"
)

// leftOut are the tables that Transfer does not copy, with the reasons.
var leftOut = map[string]string{
	"schema_version": "of its database", "session_uses": "of processes of the source", "processes": "of processes", "commits": "of processes",
	"owners": "triggers count", "totals": "triggers count", "vault_owners": "triggers count",
	"owner_parts": "triggers count", "total_parts": "triggers count", "vault_owner_parts": "triggers count",
	"task_words": "follows from the tasks", "task_words_config": "of task_words", "task_words_data": "of task_words",
	"task_words_docsize": "of task_words", "task_words_idx": "of task_words", "blobs": "copied with blob_refs",
	"answers": "asked for again", "answer_states": "of answers",
}

// TestTransferTables: each table of both databases is copied or listed in leftOut. The columns of a copied table are the same in both.
func TestTransferTables(t *testing.T) {
	t.Parallel()
	lite := setup(t, Options{})
	post := openServer(t, postgrestest.Start(t, postgrestest.Fast...).Schema(t), Options{})
	names := map[string]bool{}
	for s, query := range map[*Store]string{
		lite: "SELECT name FROM sqlite_master WHERE type = 'table'", post: "SELECT relname::text FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p', 'v') AND NOT relispartition",
	} {
		all, err := list(t.Context(), s, value[string], query)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range all {
			names[name] = true
		}
	}
	for _, copied := range transferred {
		if !names[copied.name] || leftOut[copied.name] != "" {
			t.Errorf("%s is copied", copied.name)
		}
		delete(names, copied.name)
		if _, err := copied.columns(t.Context(), lite, post); err != nil {
			t.Errorf("%s: %v", copied.name, err)
		}
	}
	for name := range names {
		if leftOut[name] == "" && !strings.HasPrefix(name, "sqlite_") {
			t.Errorf("%s is not copied", name)
		}
	}
}

// fill inserts rows into each table of a file that Transfer copies. In every second row, the columns that may be NULL are NULL.
func fill(t *testing.T, s *Store, rows int64) {
	t.Helper()
	for _, into := range append([]table{{name: "blobs"}}, transferred...) {
		columns, err := s.columns(t.Context(), into.name)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, c := range columns {
			names = append(names, c.name)
		}
		insert := "INSERT INTO " + into.name + " (" + strings.Join(names, ", ") + ") VALUES (?" + strings.Repeat(", ?", len(names)-1) + ")"
		for i := range rows {
			var values []any
			for j, c := range columns {
				required, err := one(t.Context(), s, nil, value[bool], `SELECT "notnull" OR pk > 0 FROM pragma_table_info(?) WHERE name = ?`, into.name, c.name)
				if err != nil {
					t.Fatal(err)
				}
				var v any
				switch {
				case !required && i%2 == 1:
					v = nil
				case c.name == "purged", c.name == "cancel", c.name == "cached":
					v = int64(0)
				case into.name == "blobs" && c.name == "hash":
					sum := sha256.Sum256(values[0].([]byte)) // the column data is the first one
					v = sum[:]
				case c.name == "request":
					v = fmt.Appendf(nil, `{"task":"Bill Müller number%d"}`, i)
				case c.name == "outcome":
					v = []byte("{}")
				case c.kind == integerKind:
					v = i + 1
				case c.kind == textKind:
					v = fmt.Sprintf("%s ü%03d", c.name, i)
				default:
					v = []byte{0, 255, byte(j), byte(i)}
				}
				values = append(values, v)
			}
			if err := s.write(t.Context(), 0, func(c *conn) {
				c.exec(insert, slices.Clone(values)...)
				if into.name == "tasks" {
					s.addWords(c, i+1, fmt.Sprintf("user ü%03d", i), fmt.Sprintf("Bill Müller number%d", i))
				}
			}); err != nil {
				t.Fatalf("%s: %v", into.name, err)
			}
			if into.name == reviews {
				break
			}
		}
	}
}

// TestTransfer copies a store from a file to a server and back. It is interrupted again and again, also in the middle of tables, and continues.
func TestTransfer(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, postgrestest.Fast...)
	dir := t.TempDir()
	first, second, third := filepath.Join(dir, "first.db"), server.Schema(t), filepath.Join(dir, "third.db")
	s := reopenAt(t, first, Options{})
	if err := s.write(t.Context(), 0, func(c *conn) { c.exec("DELETE FROM " + reviews) }); err != nil {
		t.Fatal(err)
	}
	const rows = 12
	fill(t, s, rows)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var sums [][]Transferred
	for _, way := range [][2]string{{first, second}, {second, third}} {
		copied, stops := transferInSteps(t, way[0], way[1])
		if stops < 10 {
			t.Errorf("it was interrupted %d times", stops)
		}
		sums = append(sums, copied)
		if _, err := Transfer(t.Context(), way[0], way[1], TransferOptions{}); err == nil || !strings.Contains(err.Error(), "not empty") {
			t.Errorf("once more: %v", err)
		}
		s := openServer(t, way[1], Options{transfer: true}) // without a purge
		found, _, err := s.Tasks(t.Context(), task.Filter{Search: "muller number7"})
		if err != nil || len(found) != 1 || found[0].Task != "Bill Müller number7" {
			t.Errorf("the words of a task find %+v, %v", found, err)
		}
		if _, _, err := s.CreateTask(t.Context(), storetest.New("task_new"+fmt.Sprint(len(sums)), "ann", "new"+fmt.Sprint(len(sums)))); err != nil {
			t.Errorf("a new task: %v", err)
		}
		if err := s.DeleteSession(t.Context(), "ann", "new"+fmt.Sprint(len(sums))); !errors.Is(err, task.ErrBusy) {
			t.Errorf("delete its session: %v", err)
		}
		if err := s.write(t.Context(), 0, func(c *conn) { // undo the changes of this test
			c.exec("DELETE FROM tasks WHERE id LIKE 'task_new%'")
			c.exec("DELETE FROM sessions WHERE id LIKE 'new%'")
			c.exec("DELETE FROM events WHERE task > ?", rows)
		}); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(sums[0], sums[1]); diff != "" {
		t.Errorf("there and back: %s", diff)
	}
	for _, table := range sums[0] {
		if table.Table != reviews && table.Rows != rows {
			t.Errorf("%d rows of %s", table.Rows, table.Table)
		}
	}
}

// transferInSteps copies a store. It interrupts each Transfer after one to seven transactions, and calls it again until it succeeds.
func transferInSteps(t *testing.T, from, to string) (copied []Transferred, stops int) {
	t.Helper()
	for {
		ctx, cancel := context.WithCancel(t.Context())
		left := stops%7 + 1
		copied, err := Transfer(ctx, from, to, TransferOptions{rows: 5, Step: func(string, int64) {
			if left--; left == 0 {
				cancel()
			}
		}})
		cancel()
		if err == nil {
			return copied, stops
		}
		if stops++; !errors.Is(err, context.Canceled) || stops > 10*len(transferred) {
			t.Fatalf("after %d interruptions: %v", stops, err)
		}
		if stops > 2 {
			continue
		}
		if _, err := Open(t.Context(), to, Options{}); err == nil || !strings.Contains(err.Error(), "has not finished") {
			t.Fatalf("half a copy is opened: %v", err)
		}
		if _, err := Transfer(t.Context(), to, filepath.Join(t.TempDir(), "x.db"), TransferOptions{}); err == nil || !strings.Contains(err.Error(), "has not finished") {
			t.Fatalf("half a copy is copied: %v", err)
		}
	}
}

// TestTransferRefuses: a store that cannot be copied is refused, and texts that are changed are counted.
func TestTransferRefuses(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, postgrestest.Fast...)
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from.db"), server.Schema(t)
	for _, missing := range []string{filepath.Join(dir, "missing.db"), server.Schema(t)} {
		if _, err := Transfer(t.Context(), missing, filepath.Join(dir, "x.db"), TransferOptions{}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a store that is not there: %v", err)
		}
	}
	s := reopenAt(t, from, Options{})
	n := storetest.New("task_a", "ann\x00", "s")
	n.Task.Task = "a text with \x00 and \xff"
	if _, _, err := s.CreateTask(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if _, err := s.LockQueue(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := Transfer(t.Context(), from, to, TransferOptions{})
	wantText(t, "a store that is served", err, "uses the store", "end it first")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = Transfer(t.Context(), from, from, TransferOptions{})
	if err == nil {
		t.Error("a store is copied into itself")
	}
	// Another program changes the source while it is copied.
	changed := false
	_, err = Transfer(t.Context(), from, to, TransferOptions{Step: func(string, int64) {
		if changed {
			return
		}
		changed = true
		c, err := connect(t.Context(), dsn(from, writeParams(SyncNormal)))
		if err != nil {
			t.Error(err)
			return
		}
		c.exec("UPDATE sessions SET used = used + 1")
		if err := errors.Join(c.err, c.close()); err != nil {
			t.Error(err)
		}
	}})
	wantText(t, "a source that changes", err, "differs in sessions")
	to = server.Schema(t)
	tables, err := Transfer(t.Context(), from, to, TransferOptions{})
	if err != nil {
		t.Fatal(err)
	}
	replaced := int64(0)
	for _, table := range tables {
		replaced += table.Replaced
	}
	if replaced == 0 {
		t.Error("that texts were changed is not told")
	}
}
