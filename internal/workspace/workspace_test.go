package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/files"
	"mcp-code-exec-harness/internal/id"
)

func TestWorkspace(t *testing.T) {
	t.Parallel()
	host := t.TempDir()
	s, err := Open(filepath.Join(host, "workspace"), files.Limits{MaxBytes: 10})
	if err != nil {
		t.Fatal(err)
	}
	// Sessions of a user, and sessions of the same name of two users, are apart and have quotas of their own.
	var dirs []*files.Dir
	for _, owner := range [][2]string{{"alice", "s1"}, {"alice", "s2"}, {"bob", "s1"}, {"Bob", "s1"}, {"../alice", "s1"}} {
		d, err := s.Dir(owner[0], owner[1])
		if err != nil {
			t.Fatal(err)
		}
		if list, err := d.ReadDir(t.Context(), ".", true); err != nil || len(list) != 0 {
			t.Errorf("workspace of %v begins with %v, %v", owner, list, err)
		}
		if err := d.WriteFile("file", []byte("0123456789")); err != nil {
			t.Error(err)
		}
		if err := d.WriteFile("more", []byte("x")); err == nil {
			t.Errorf("workspace of %v exceeds its quota", owner)
		}
		dirs = append(dirs, d)
	}
	if err := s.Remove("alice", "s1"); err != nil {
		t.Fatal(err)
	}
	if _, err := dirs[0].Stat("file"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Remove: %v", err)
	}
	for _, d := range dirs[1:] {
		if _, err := d.Stat("file"); err != nil {
			t.Error(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if list, err := os.ReadDir(filepath.Join(host, "workspace")); err != nil || len(list) != 4 {
		t.Errorf("the base holds %v, %v", list, err)
	}
}

func TestOpenFails(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(filepath.Join(file, "workspace"), files.Limits{}); err == nil {
		t.Error("a file is taken for a directory")
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	host := t.TempDir()
	s, err := Open(host, files.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	ended, running := id.New("run"), id.New("run")
	for _, session := range []string{ended, running, "a-session", "run_mine"} {
		d, err := s.Dir("ann", session)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.WriteFile("file", []byte("x")); err != nil {
			t.Fatal(err)
		}
		d.Close()
	}
	sweep := func(before time.Time, want int) {
		t.Helper()
		if err := s.Sweep(t.Context(), before, func(run string) bool { return run == ended }); err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(filepath.Join(host, "ann")); len(left) != want || err != nil {
			t.Errorf("left are %v, %v", left, err)
		}
	}
	sweep(time.Now().Add(-time.Hour), 4) // it changed since
	sweep(time.Now().Add(time.Hour), 3)
}
