// Package process starts child processes that do not outlive this one, finds the programs that they run, and keeps the end
// of their standard error.
package process

import (
	"fmt"
	"os/exec"
)

// Start starts cmd as cmd.Start does, but in a process group of its own. cmd.SysProcAttr must be nil. If this process dies, even by SIGKILL, the child
// ends as follows:
//
//   - Linux: the kernel kills the child (PR_SET_PDEATHSIG), but not the child's own children.
//   - Windows: the child and its children are in a job, which the kernel closes with this process.
//   - elsewhere: only the child's standard input ends, and the child must react to that.
//
// It is safe for concurrent use.
func Start(cmd *exec.Cmd) error {
	if err := start(cmd); err != nil {
		return fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return nil
}
