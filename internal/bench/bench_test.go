package bench_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/bench"
	"mcp-code-exec-harness/internal/cli"
	"mcp-code-exec-harness/internal/testing/child"
	"mcp-code-exec-harness/internal/testing/dockertest"
)

// TestMain makes the test binary a harness for the processes that the bench starts.
func TestMain(m *testing.M) {
	if code, ok := cli.Hidden(os.Args[1:], os.Stdin, os.Stdout, os.Stderr); ok {
		os.Exit(code)
	}
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "version":
			os.Exit(0) // the start of this binary stands for the start of the harness
		case "bench", "mcp", "sandbox", "serve", "token":
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

// TestRun takes every measurement once and checks that it works. The figures may have any value, because the machine may be busy.
func TestRun(t *testing.T) {
	figures, err := bench.Run(t.Context(), bench.Options{Executable: child.Executable(t), CacheDir: filepath.Join(t.TempDir(), "cache"), Effort: bench.Once})
	if err != nil {
		t.Fatal(err)
	}
	budgets, kernels := figures, 0
	if i := slices.IndexFunc(figures, func(f bench.Figure) bool { return strings.HasPrefix(f.Name, "compute, ") }); i >= 0 {
		budgets, kernels = figures[:i], len(figures)-i
	}
	// Each kernel has a figure in the wasm tier and, if Node.js works, one in the process tier.
	if len(budgets) != 16 || kernels != 10 && kernels != 20 {
		t.Errorf("got %d figures and %d of kernels", len(budgets), kernels)
	}
	_, noNode := exec.LookPath("node")
	for _, f := range figures {
		t.Run(f.Name, func(t *testing.T) {
			if f.Skipped && runtime.GOOS != "linux" {
				t.Skip(f.Note)
			}
			if noNode != nil && os.Getenv("CI") != "true" && strings.HasPrefix(f.Name, "compute, ") {
				t.Skip(f.Note)
			}
			// Some figures are differences, and may be negative on a busy machine.
			if f.Skipped || f.P50 == 0 || f.Unit == "" {
				t.Errorf("it was not measured: %+v", f)
			}
			t.Logf("%10.3f %s (budget %g)", f.P50, f.Unit, f.Budget)
		})
	}
}

// TestQuick checks that the command prints the selected figures.
func TestQuick(t *testing.T) {
	var figures []bench.Figure
	if err := json.Unmarshal(output(t, "bench", "--only", "start of", "--quick", "--json"), &figures); err != nil {
		t.Fatal(err)
	}
	if len(figures) != 2 || figures[0].Name != "start of a worker" || figures[1].Name != "start of the binary" || figures[0].P50 <= 0 || figures[0].Budget == 0 {
		t.Errorf("figures are %+v", figures)
	}
}

// TestJail measures what the walls add to the start of a wasm runner and to a run.
func TestJail(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has the walls")
	}
	var figures []bench.Figure
	if err := json.Unmarshal(output(t, "bench", "--tier", "wasm", "--only", "jail", "--quick", "--json"), &figures); err != nil {
		t.Fatal(err)
	}
	if len(figures) != 2 || figures[0].Unit != "ms" || figures[0].Budget != 5 || figures[1].Unit != "%" || figures[1].Budget != 3 {
		t.Errorf("figures are %+v", figures)
	}
	for _, f := range figures {
		if f.Skipped || f.P50 == 0 || !strings.Contains(f.Note, "by turns") {
			t.Errorf("it was not measured: %+v", f)
		}
	}
}

// TestDocker measures the docker tier and, for comparison, a new container for each program. It builds the image if there is none.
func TestDocker(t *testing.T) {
	t.Setenv("DOCKER_HOST", dockertest.Host(t))
	var figures []bench.Figure
	if err := json.Unmarshal(output(t, "bench", "--tier", "docker", "--only", "return 1", "--quick", "--json"), &figures); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range figures {
		names = append(names, f.Name)
		if f.Skipped || f.P50 <= 0 || f.Unit != "ms" {
			t.Errorf("it was not measured: %+v", f)
		}
	}
	if want := []string{"docker, return 1", "docker, return 1, cold", "docker run, return 1"}; !slices.Equal(names, want) {
		t.Errorf("figures are %q, not %q", names, want)
	}
}

// output returns the standard output of a harness command.
func output(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), child.Executable(t), args...)
	cmd.Dir = t.TempDir()
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}
