package bench_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/bench"
	"mcp-code-exec-harness/internal/cli"
	"mcp-code-exec-harness/internal/testing/child"
)

// TestMain makes the test binary the harness, as far as the bench starts it.
func TestMain(m *testing.M) {
	if code, ok := cli.Hidden(os.Args[1:], os.Stdin, os.Stdout, os.Stderr); ok {
		os.Exit(code)
	}
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "version":
			os.Exit(0) // the start of this binary stands for the harness's
		case "bench", "mcp", "serve", "token":
			os.Exit(harness())
		}
	}
	os.Exit(m.Run())
}

func harness() int {
	dir, _ := os.Getwd()
	self, _ := os.Executable()
	return cli.Main(context.Background(), cli.World{
		Args: os.Args[1:], Environ: os.Environ(), Dir: dir, Executable: self, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Now: time.Now,
	})
}

// TestRun measures everything once, quickly: what is measured works, whatever the figures are on a busy machine. Figures with the
// race detector would say nothing, so another process measures.
func TestRun(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), child.Executable(t), "bench", "--quick", "--json")
	cmd.Dir = t.TempDir()
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var figures []bench.Figure
	if err := json.Unmarshal(out, &figures); err != nil {
		t.Fatal(err)
	}
	if len(figures) != 16 {
		t.Errorf("got %d figures", len(figures))
	}
	for _, f := range figures {
		t.Run(f.Name, func(t *testing.T) {
			if f.Skipped && runtime.GOOS != "linux" {
				t.Skip(f.Note)
			}
			// Some figures are differences, and may be below 0 on a busy machine.
			if f.Skipped || f.P50 == 0 || f.Unit == "" {
				t.Errorf("it was not measured: %+v", f)
			}
			t.Logf("%10.3f %s (budget %g)", f.P50, f.Unit, f.Budget)
		})
	}
}
