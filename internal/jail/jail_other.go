//go:build !linux

package jail

import (
	"fmt"
	"io"
	"os/exec"

	"mcp-code-exec-harness/internal/process"
)

// Launcher starts processes without namespaces.
type Launcher struct{}

// NewLauncher returns a launcher. The caller must close it.
func NewLauncher(process.Self) *Launcher { return &Launcher{} }

// Start calls process.Start, since there are no namespaces.
func (*Launcher) Start(cmd *exec.Cmd) error { return process.Start(cmd) }

// Close does nothing.
func (*Launcher) Close() {}

// LauncherMain is never called on this system.
func LauncherMain() int { return 2 }

// Enter reports that all walls are missing.
func Enter() Missing {
	missing := Missing{}
	for _, w := range Walls {
		missing[w] = "only Linux has it"
	}
	return missing
}

// ExecMain fails, because only Linux has the walls.
func ExecMain(_ []string, stderr io.Writer) int {
	fmt.Fprintln(stderr, ErrWalls)
	return 1
}
