package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// typescript is the directory with the compiler, installed once into the user's cache.
var typescript = sync.OnceValues(func() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	lock, err := os.ReadFile(filepath.Join("testdata", "typescript", "package-lock.json"))
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(lock)
	dir := filepath.Join(cache, "mcp-code-exec-harness", "typescript-"+hex.EncodeToString(sum[:6]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	made, err := os.MkdirTemp(filepath.Dir(dir), "typescript-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(made)
	for _, file := range []string{"package.json", "package-lock.json"} {
		data, err := os.ReadFile(filepath.Join("testdata", "typescript", file))
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(made, file), data, 0o644); err != nil {
			return "", err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	npm := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	npm.Dir = made
	if out, err := npm.CombinedOutput(); err != nil {
		return "", errors.Join(err, errors.New(string(out)))
	}
	// Another process may have been first; its installation is the same.
	if err := os.Rename(made, dir); err != nil {
		if _, statErr := os.Stat(dir); statErr != nil {
			return "", err
		}
	}
	return dir, nil
})

// compile runs tsc --strict over files, given by name, and returns what it says; empty if it is content.
func compile(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, err := typescript()
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("install TypeScript: %v", err)
		}
		t.Skipf("needs Node.js and npm (https://nodejs.org) and, at the first run, the npm registry: %v", err)
	}
	work := t.TempDir()
	args := []string{
		filepath.Join(dir, "node_modules", "typescript", "bin", "tsc"),
		"--strict", "--noEmit", "--noUnusedParameters", "--target", "es2022", "--module", "esnext",
		"--moduleResolution", "bundler", "--typeRoots", work, "--pretty", "false",
	}
	for name, text := range files {
		path := filepath.Join(work, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		args = append(args, path)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "node", args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("run tsc: %v", err)
	}
	if exit != nil && len(out) == 0 {
		t.Fatalf("tsc ended with %v and said nothing", exit)
	}
	return string(out)
}

// A compiler that takes everything would let every other test of declarations pass.
func TestCompilerRefuses(t *testing.T) {
	t.Parallel()
	if out := compile(t, map[string]string{"wrong.ts": "export const a: string = 1;\n"}); !strings.Contains(out, "TS2322") {
		t.Errorf("tsc says %q", out)
	}
}
