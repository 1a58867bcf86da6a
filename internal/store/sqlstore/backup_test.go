package sqlstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/task"
)

// The error for a store of a newer harness names a remedy and, if there is one, the copy made before the migration.
func TestNewerStore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "harness.db")
	s := reopenAt(t, path, Options{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := connect(t.Context(), dsn(path, writeParams(SyncNormal)))
	if err != nil {
		t.Fatal(err)
	}
	c.script("UPDATE schema_version SET version = 999")
	if err := errors.Join(c.err, c.close()); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), path, Options{})
	if err == nil || !strings.Contains(err.Error(), "use a newer harness") || strings.Contains(err.Error(), "go back") {
		t.Errorf("without a copy: %v", err)
	}
	for _, name := range []string{path + fmt.Sprintf(".v%d-20260101-000000.bak", Schema()), path + ".v998-20260101-000000.bak"} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err = Open(t.Context(), path, Options{})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("copy %s.v%d-20260101-000000.bak over it", path, Schema())) {
		t.Errorf("with a copy: %v", err)
	}
}

// A store is not migrated while another process works with it.
func TestNoUpgradeOfAStoreInUse(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "harness.db")
	c, err := connect(t.Context(), dsn(path, writeParams(SyncNormal)))
	if err != nil {
		t.Fatal(err)
	}
	text, err := migrations.ReadFile("migrations/0001_journal.sql")
	if err != nil {
		t.Fatal(err)
	}
	c.script("CREATE TABLE schema_version (version INTEGER NOT NULL); INSERT INTO schema_version VALUES (1);" + string(text))
	if err := errors.Join(c.err, c.close()); err != nil {
		t.Fatal(err)
	}
	user := newFileLease(path)
	if err := user.Claim(); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), path, Options{})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d, of an older harness", os.Getpid())) {
		t.Errorf("while it is in use: %v", err)
	}
	if err := user.Release(); err != nil {
		t.Fatal(err)
	}
	reopenAt(t, path, Options{})
}

// Copies from before an upgrade contain purged data, so they are purged too.
func TestCopiesArePurged(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "harness.db")
	now := time.Now()
	for name, age := range map[string]time.Duration{"old": 48 * time.Hour, "new": time.Hour} {
		file := path + ".v3-" + name + ".bak"
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	s := reopenAt(t, path, Options{})
	if _, err := s.purgeOnce(t.Context(), 24*time.Hour); err != nil {
		t.Fatal(err)
	}
	if left := copiesBefore(path); len(left) != 1 || left[path+".v3-new.bak"] != 3 {
		t.Errorf("left %v", left)
	}
}

// A store can be reserved only if no process has it open. A damaged store can be reserved too.
func TestReserve(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "below", "harness.db")
	_, release, err := Reserve(t.Context(), path)
	if err != nil {
		t.Fatal("no store yet: ", err)
	}
	if _, _, err := Reserve(t.Context(), path); err == nil {
		t.Error("it was reserved twice")
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	s := reopenAt(t, path, Options{})
	if _, _, err := Reserve(t.Context(), path); err == nil || !strings.Contains(err.Error(), "another process has it open") {
		t.Errorf("while it is open: %v", err)
	}
	unlock, err := s.LockQueue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Reserve(t.Context(), path); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) {
		t.Errorf("while it is served: %v", err)
	}
	if err := errors.Join(unlock(), s.Close()); err != nil {
		t.Fatal(err)
	}
	_, release, err = Reserve(t.Context(), path)
	if err != nil {
		t.Fatal("once it is closed: ", err)
	}
	if info, err := os.Stat(path + "-wal"); err == nil && info.Size() > 0 {
		t.Errorf("its write-ahead log has %d bytes", info.Size())
	}
	other, err := connect(t.Context(), dsn(path, nil))
	if err != nil {
		t.Fatal(err)
	}
	if other.row("SELECT 1 FROM sqlite_master", nil); runtime.GOOS != "windows" && !isBusy(other.err) {
		t.Errorf("another connection while it is reserved: %v", other.err)
	}
	if err := other.close(); err != nil {
		t.Fatal(err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, release, err = Reserve(t.Context(), path); err != nil {
		t.Fatal("a damaged one: ", err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
}

// A copy contains what was committed, and nothing else, even if another connection is writing.
func TestCopy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "harness.db")
	if _, err := Copy(t.Context(), path, filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no store: %v", err)
	}
	s := reopenAt(t, path, Options{})
	if err := s.CreateSession(t.Context(), task.Session{ID: "a", UserID: "ann"}); err != nil {
		t.Fatal(err)
	}
	c, err := connect(t.Context(), dsn(path, readParams()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	c.script("BEGIN IMMEDIATE; INSERT INTO owners (user) VALUES ('uncommitted')")
	if c.err != nil {
		t.Fatal(c.err)
	}
	to := filepath.Join(dir, "copy.db")
	schema, err := Copy(t.Context(), path, to)
	if err != nil || schema != Schema() {
		t.Fatal(schema, err)
	}
	c.script("ROLLBACK")
	copied := reopenAt(t, to, Options{})
	if n := count(t, copied, "SELECT count(*) FROM sessions"); n != 1 {
		t.Errorf("%d sessions", n)
	}
	if n := count(t, copied, "SELECT count(*) FROM owners WHERE user = 'uncommitted'"); n != 0 {
		t.Error("it has what was not committed")
	}
	if _, err := Copy(t.Context(), path, to); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a file: %v", err)
	}
}
