package auth

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// Processes that start at the same time get the same token, from a file that only its owner can read.
func TestLocalToken(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	var got [8]string
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() {
			token, _, err := LocalToken(dir)
			if err != nil {
				t.Error(err)
			}
			got[i] = token
		})
	}
	wg.Wait()
	for _, token := range got {
		if token != got[0] || len(token) < 20 {
			t.Errorf("the tokens are %q", got)
		}
	}
	info, err := os.Stat(filepath.Join(dir, "local.token"))
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

// A file that other users can read, or that contains no token, is refused. The error says what to do.
func TestLocalTokenRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "local.token")
	if err := os.WriteFile(path, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := LocalToken(dir); err == nil || !strings.Contains(err.Error(), "delete it") {
		t.Error(err)
	}
	if runtime.GOOS == "windows" {
		return
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := LocalToken(dir); err == nil || !strings.Contains(err.Error(), "other users") {
		t.Error(err)
	}
}
