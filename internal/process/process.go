// Package process starts child processes that do not outlive this one, finds the programs they run, and keeps the end
// of what they write.
package process

import (
	"fmt"
	"os/exec"
)

// Start starts cmd, which has no SysProcAttr, like cmd.Start, in a process group of its own. What ends it when this process dies, even by SIGKILL:
//
//   - Linux: the kernel kills it (PR_SET_PDEATHSIG). Its own children are not covered.
//   - Windows: it is in a job that the kernel closes with this process, as are its children.
//   - elsewhere: nothing but the end of its standard input, which it must heed.
//
// It is safe for concurrent use.
func Start(cmd *exec.Cmd) error {
	if err := start(cmd); err != nil {
		return fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return nil
}
