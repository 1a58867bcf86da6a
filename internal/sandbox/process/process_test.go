package process_test

import (
	"io"
	"os"
	"testing"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/jail"
	"mcp-code-exec-harness/internal/sandbox/process"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case jail.LauncherCommand:
			os.Exit(jail.LauncherMain())
		case jail.ExecCommand:
			os.Exit(jail.ExecMain(os.Args[2:], os.Stderr))
		}
	}
	os.Exit(m.Run())
}

var _ io.Writer

func TestRun(t *testing.T) {
	s, err := process.Open(t.Context(), process.Options{Program: os.Args[0], Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r, err := s.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.Send(&frame.Frame{T: frame.Start, Run: "r", Program: &frame.Program{Code: "(async () => { console.log('hi', typeof process, globalThis); return [1,2,'ü'] })"}})
	for f := range r.Frames() {
		t.Logf("%+v %s", f, f.Value)
		if f.T == frame.Done {
			break
		}
	}
	r.Kill()
}
