//go:build unix

package cli_test

import (
	"os"
	"syscall"
	"testing"
)

// fifo replaces a file by a named pipe, whose reader blocks.
func fifo(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
}
