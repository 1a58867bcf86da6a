package process

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// starter is the one thread that starts children. A child's death signal is tied to the thread that started it, not to
// the process: were it sent by a goroutine's passing thread, the end of that thread would end the child.
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

func start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	done := make(chan error, 1)
	starter() <- func() { done <- cmd.Start() }
	return <-done
}
