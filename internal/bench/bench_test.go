package bench

import (
	"os"
	"runtime"
	"testing"

	"mcp-code-exec-harness/internal/sandbox/wasm"
	"mcp-code-exec-harness/internal/testing/child"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == wasm.WorkerCommand {
		os.Exit(wasm.WorkerMain(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	if len(os.Args) > 1 && os.Args[1] == "version" {
		os.Exit(0) // the start of this binary stands for the harness's
	}
	os.Exit(m.Run())
}

// TestRun measures everything once, quickly: what is measured works, whatever the figures are on a busy machine.
func TestRun(t *testing.T) {
	self := child.Executable(t)
	figures, err := Run(t.Context(), Options{Executable: self, Quick: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(figures) != 14 {
		t.Errorf("got %d figures", len(figures))
	}
	for _, f := range figures {
		t.Run(f.Name, func(t *testing.T) {
			if f.Skipped && runtime.GOOS != "linux" {
				t.Skip(f.Note)
			}
			// What privacy adds is a difference, and may be below 0 on a busy machine.
			if f.Skipped || f.P50 == 0 || f.Unit == "" {
				t.Errorf("it was not measured: %+v", f)
			}
			t.Logf("%10.3f %s (budget %g)", f.P50, f.Unit, f.Budget)
		})
	}
}
