package files

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFullDisk checks that a write to a full disk fails with ENOSPC, and that stored files stay whole.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		missing(t, "mounting a small tmpfs failed ("+err.Error()+"): run this test as root with CAP_SYS_ADMIN, for example with sudo")
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	b, err := OpenBase(dir, Options{Section: "skills", Durable: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() }) // runs before the unmount
	d, err := b.Open("alice")
	if err != nil {
		t.Fatal(err)
	}
	old := strings.Repeat("old", 10_000)
	write(t, d, "skill.js", old)
	write(t, d, "log", "first\n")

	for what, err := range map[string]error{
		"replace": d.WriteFile("skill.js", make([]byte, 300_000)),
		"create":  d.WriteFile("new/dir/file", make([]byte, 300_000)),
		"append":  d.AppendFile(t.Context(), "log", make([]byte, 300_000)),
	} {
		wantCode(t, err, NoSpace)
		if err == nil || !strings.Contains(err.Error(), "the disk of the host is full") {
			t.Errorf("%s: %v", what, err)
		}
	}
	wantFile(t, d, "skill.js", old)
	wantFile(t, d, "log", "first\n")
	if left, err := filepath.Glob(filepath.Join(dir, "alice", tempPrefix+"*")); err != nil || len(left) != 0 {
		t.Errorf("temporary files are left: %v, %v", left, err)
	}
	write(t, d, "small", "there is room again")
	wantUsage(t, d, Usage{Bytes: 30_000 + 6 + 19, Files: 5}) // the directories new and new/dir exist
}
