package process

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// starter is the only thread that starts children. The kernel sends a child's death signal when the thread that started the child ends, not the
// process. If any thread of the Go runtime started the child, the end of that thread would end the child.
var starter = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread() // never unlocked: neither the goroutine nor its thread ends
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
