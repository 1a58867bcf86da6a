package sqlite

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/testing/journaltest"
)

// A process that only reads leaves no trace of itself.
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
