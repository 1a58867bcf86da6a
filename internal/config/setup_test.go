package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/trust"
)

// world writes files into a directory, trusts them, and returns the Env of a process in its folder work.
func world(t *testing.T, texts map[string]string) Env {
	t.Helper()
	dir := t.TempDir()
	trusted := &trust.Store{File: filepath.Join(dir, "trust.json")}
	contents := map[string][]byte{}
	for name, text := range texts {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		contents[file] = []byte(text)
	}
	if err := trusted.Trust(contents); err != nil {
		t.Fatal(err)
	}
	return Env{Cwd: filepath.Join(dir, "work"), HomeDir: filepath.Join(dir, "home"), GOOS: "linux", Trust: trusted}
}

// load loads a configuration that must be valid, and returns its warnings as texts.
func load(t *testing.T, e Env) (*Config, []string) {
	t.Helper()
	c, warnings, err := Load(e)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, w := range warnings {
		texts = append(texts, w.Error())
	}
	return c, texts
}

// problems loads a configuration that must be invalid, and returns the texts of all errors.
func problems(t *testing.T, e Env) string {
	t.Helper()
	_, _, err := Load(e)
	if err == nil {
		return "no error"
	}
	var one *Error
	var untrusted *UntrustedError
	if !errors.As(err, &one) && !errors.As(err, &untrusted) {
		t.Errorf("error is %T, want one with an *Error", err)
	}
	return strings.ReplaceAll(err.Error(), filepath.Dir(e.Cwd), "$DIR")
}

func entryOf(t *testing.T, c *Config, key string) Entry {
	t.Helper()
	for _, e := range c.Effective() {
		if e.Key == key {
			return e
		}
	}
	t.Fatalf("no entry %q", key)
	return Entry{}
}

// MCPServer returns the server with the given name.
func (c *Config) MCPServer(name string) (*MCPServer, bool) {
	i := slices.IndexFunc(c.MCPServers, func(s *MCPServer) bool { return s.Name == name })
	if i < 0 {
		return nil, false
	}
	return c.MCPServers[i], true
}
