package catalog

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/testing/npmtest"
)

// compile runs tsc --strict over files, given by name, and returns its output, which is empty if there are no errors.
func compile(t *testing.T, files map[string]string) string {
	t.Helper()
	work := t.TempDir()
	args := []string{
		filepath.Join(npmtest.TypeScript(t), "node_modules", "typescript", "bin", "tsc"),
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

// TestCompilerRefuses: the compiler reports an error. Without this check, a compiler that accepts everything would let all other tests of declarations
// pass.
func TestCompilerRefuses(t *testing.T) {
	t.Parallel()
	if out := compile(t, map[string]string{"wrong.ts": "export const a: string = 1;\n"}); !strings.Contains(out, "TS2322") {
		t.Errorf("tsc says %q", out)
	}
}
