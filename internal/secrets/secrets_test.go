package secrets_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"mcp-code-exec-harness/internal/secrets"
)

// memory is a keyring in memory. If broken is set, every request fails, as with a locked keyring.
type memory struct {
	all    map[string]string
	broken error
}

func (m memory) Get(name string) (string, error) {
	if value, ok := m.all[name]; ok {
		return value, m.broken
	}
	return "", errors.Join(m.broken, fs.ErrNotExist)
}

func (m memory) Set(name, value string) error {
	if m.broken == nil {
		m.all[name] = value
	}
	return m.broken
}

func (m memory) Delete(name string) error {
	delete(m.all, name)
	return m.broken
}

func TestStore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keyring secrets.Keyring
		file    bool // whether the file contains the secret
	}{
		"keyring": {memory{all: map[string]string{}}, false},
		"file":    {nil, true},
		"locked":  {memory{all: map[string]string{}, broken: errors.New("it is locked")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := secrets.Store{Keyring: c.keyring, File: filepath.Join(t.TempDir(), "a", "secrets.json")}
			if _, err := s.Get("TOKEN-1", "/p/harness.yaml"); err == nil {
				t.Error("a secret that is not there")
			}
			where, err := s.Put("TOKEN-1", "s3cr3t", "/p/harness.yaml")
			if err != nil || (where == s.File) != c.file {
				t.Fatalf("put: %s, %v", where, err)
			}
			if value, err := s.Get("TOKEN-1", "/p/harness.yaml"); err != nil || value != "s3cr3t" {
				t.Errorf("get: %q, %v", value, err)
			}
			if text, err := os.ReadFile(s.File); err != nil || strings.Contains(string(text), "s3cr3t") != c.file {
				t.Errorf("the file: %q, %v", text, err)
			}
			if info, err := os.Stat(s.File); c.file && runtime.GOOS != "windows" && (err != nil || info.Mode().Perm() != 0o600) {
				t.Errorf("the file: %v, %v", info.Mode(), err)
			}
			if err := s.Delete("TOKEN-1"); err != nil {
				t.Error(err)
			}
			if _, err := s.Get("TOKEN-1", "/p/harness.yaml"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("deleted: %v", err)
			}
		})
	}
	if _, err := (&secrets.Store{}).Put("a", "b", ""); err == nil || !strings.Contains(err.Error(), "${NAME}") {
		t.Error(err)
	}
}

// TestReadableFile checks that a file that other users can read is not used, and that the error says what to do.
func TestReadableFile(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such modes: run this test on Linux or macOS")
	}
	s := secrets.Store{File: filepath.Join(t.TempDir(), "secrets.json")}
	if err := os.WriteFile(s.File, []byte(`{"a":"b"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(s.File, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get("a", ""); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Error(err)
	}
	if _, err := s.Put("c", "d", ""); err == nil {
		t.Error("it was written")
	}
}

// TestConcurrentPuts checks that no secret is lost when several are stored at the same time.
func TestConcurrentPuts(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secrets.json")
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			s := secrets.Store{File: file}
			if _, err := s.Put(fmt.Sprint(i), "v", "f"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s := secrets.Store{File: file}
	for i := range 16 {
		if value, err := s.Get(fmt.Sprint(i), "f"); value != "v" {
			t.Errorf("%d: %q, %v", i, value, err)
		}
	}
}
