// Package process starts child processes that do not outlive this one.
package process

import (
	"fmt"
	"os/exec"
	"runtime"
	"sync"
)

// starter is the one thread that starts children. On Linux a child's death signal is tied to the thread that started
// it, not to the process: were it sent by a goroutine's passing thread, the end of that thread would end the child.
var starter = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread() // for ever: this goroutine has no end, as the thread must have none
		for f := range work {
			f()
		}
	}()
	return work
})

// Start starts cmd like cmd.Start, in a process group of its own. What ends it when this process dies, even by SIGKILL:
//
//   - Linux: the kernel kills it (PR_SET_PDEATHSIG). Its own children are not covered.
//   - Windows: it is in a job that the kernel closes with this process, as are its children.
//   - elsewhere: nothing but the end of its standard input, which it must heed.
//
// It is safe for concurrent use.
func Start(cmd *exec.Cmd) error {
	prepare(cmd)
	done := make(chan error, 1)
	starter() <- func() { done <- cmd.Start() }
	if err := <-done; err != nil {
		return fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return adopt(cmd)
}
