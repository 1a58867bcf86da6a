//go:build unix

package process

import (
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// lower is the niceness of processes that execute or compile code that others wrote.
const lower = 5

// Lower lowers the priority of a child's threads. Threads that it starts later inherit the priority.
func Lower(p *os.Process) {
	unix.Setpriority(unix.PRIO_PROCESS, p.Pid, lower)
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.Pid)) // only Linux has a priority for each thread
	for _, thread := range threads {
		if id, err := strconv.Atoi(thread.Name()); err == nil {
			unix.Setpriority(unix.PRIO_PROCESS, id, lower)
		}
	}
}

// Freeze stops a process, or continues it if stop is false. It reports whether that succeeded.
func Freeze(p *os.Process, stop bool) bool {
	if stop {
		return p.Signal(syscall.SIGSTOP) == nil
	}
	return p.Signal(syscall.SIGCONT) == nil
}
