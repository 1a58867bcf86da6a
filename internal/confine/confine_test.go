package confine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A directory with the socket of a service that obeys every client is refused. The socket itself is allowed.
func TestPowerfulSockets(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "run", "engine.sock")
	before := powerful
	powerful = []string{socket}
	defer func() { powerful = before }()
	if err := os.Mkdir(filepath.Join(dir, "run"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(socket, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, filepath.Join(dir, "run")} {
		if err := check(path); err == nil || !strings.Contains(err.Error(), socket) {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, path := range []string{socket, t.TempDir()} {
		if err := check(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}
