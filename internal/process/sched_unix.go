//go:build unix

package process

import (
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// lower is the niceness of processes that execute or compile what others wrote.
const lower = 5

// Lower lets other processes have the processors before this child. Threads that it starts later are like those that start them.
func Lower(p *os.Process) {
	unix.Setpriority(unix.PRIO_PROCESS, p.Pid, lower)
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.Pid)) // only Linux has a priority for each thread
	for _, thread := range threads {
		if id, err := strconv.Atoi(thread.Name()); err == nil {
			unix.Setpriority(unix.PRIO_PROCESS, id, lower)
		}
	}
}

// Freeze stops a process for a while, or lets it go on. It reports whether that was done.
func Freeze(p *os.Process, stop bool) bool {
	if stop {
		return p.Signal(syscall.SIGSTOP) == nil
	}
	return p.Signal(syscall.SIGCONT) == nil
}
