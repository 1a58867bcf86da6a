package sqlstore

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-code-exec-harness/internal/testing/journaltest"
)

// unprivileged makes the calling goroutine subject to file permissions, even if root executes the test. It sets the user id
// that Linux uses for file access by the goroutine's thread. The thread ends with the goroutine.
func unprivileged() error {
	if os.Getuid() != 0 {
		return nil
	}
	runtime.LockOSThread()
	const nobody = 65534
	if err := unix.Setfsuid(nobody); err != nil {
		return err
	}
	if now, err := unix.SetfsuidRetUid(-1); err != nil || now != nobody {
		return fmt.Errorf("file access is still that of user %d: %w", now, err)
	}
	return nil
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "ro")
	s := reopenAt(t, filepath.Join(dir, "old.db"), Options{})
	put(t, s, "run_a", journaltest.Start("run_a"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// Another user can enter the parents and read the file, but can write neither the file nor the directory.
	for path, mode := range map[string]os.FileMode{
		filepath.Dir(filepath.Dir(dir)): 0o755, filepath.Dir(dir): 0o755, filepath.Join(dir, "old.db"): 0o444, dir: 0o555,
	} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { // this thread has kept its rights
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Error(err)
		}
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := unprivileged(); err != nil {
			t.Error(err)
			return
		}
		openFails(t, "new file in a read-only directory", filepath.Join(dir, "new.db"),
			"permission denied", "check the permissions", "store.url")
		openFails(t, "new directory in a read-only one", filepath.Join(dir, "sub", "new.db"), "permission denied", "store.url")
		openFails(t, "read-only file", filepath.Join(dir, "old.db"), "cannot be written: check the permissions", "store.url")
	}()
	<-done
	if _, err := os.Stat(filepath.Join(dir, "old.db-wal")); !os.IsNotExist(err) {
		t.Errorf("the refused opening left a file: %v", err)
	}
}
