package sqlstore

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcp-code-exec-harness/internal/disk"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/testing/journaltest"
)

// A process that only reads creates no owner file.
func TestReadersAreNoOwners(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{})
	if _, _, err := s.Runs(t.Context(), journal.Filter{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Strays(t.Context()); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(s.path + ".owner-*")
	if err != nil || len(names) != 0 {
		t.Errorf("owner files: %v, %v", names, err)
	}
	stale := s.path + ".owner-dead"
	if err := os.WriteFile(stale, []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	put(t, s, "run_a", journaltest.Start("run_a"))
	if _, err := os.Stat(stale); !os.IsNotExist(err) {
		t.Errorf("the file of a dead owner is still there: %v", err)
	}
	if own := s.lease.(*fileLease).file.Name(); !strings.HasPrefix(own, s.path+".owner-") {
		t.Errorf("owner file %s", own)
	}
}

// Claim waits while another process holds the lock of the owner file, for instance to find out whether the owner is dead.
func TestClaimWaitsForTheLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		own := newFileLease(filepath.Join(t.TempDir(), "harness.db"))
		f, err := os.Create(own.prefix + own.id)
		if err != nil {
			t.Fatal(err)
		}
		if locked, err := disk.TryLock(f, true); err != nil || !locked {
			t.Fatalf("locked: %t, %v", locked, err)
		}
		time.AfterFunc(busyTimeout/2, func() { f.Close() })
		if err := own.Claim(); err != nil {
			t.Error(err)
		}
		if err := own.Release(); err != nil {
			t.Error(err)
		}
	})
}
