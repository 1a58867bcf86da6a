//go:build !linux

package jail

import (
	"fmt"
	"io"
	"os/exec"

	"mcp-code-exec-harness/internal/process"
)

// Launcher starts processes.
type Launcher struct{}

// NewLauncher returns a launcher. Close it.
func NewLauncher(string, ...string) *Launcher { return &Launcher{} }

// Start is process.Start: there are no namespaces.
func (*Launcher) Start(cmd *exec.Cmd) error { return process.Start(cmd) }

// Close does nothing.
func (*Launcher) Close() {}

// LauncherMain is not called.
func LauncherMain() int { return 2 }

// Enter returns all walls as missing.
func Enter() Missing {
	missing := Missing{}
	for _, w := range Walls {
		missing[w] = "only Linux has it"
	}
	return missing
}

// ExecMain fails: only Linux has the walls.
func ExecMain(_ []string, stderr io.Writer) int {
	fmt.Fprintln(stderr, ErrWalls)
	return 1
}
