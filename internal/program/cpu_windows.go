package program

import (
	"syscall"
	"time"
)

// cpuTime returns the computing time of this process on all processors, or 0 if the system call fails.
func cpuTime() time.Duration {
	self, err := syscall.GetCurrentProcess()
	if err != nil {
		return 0
	}
	var created, exited, kernel, user syscall.Filetime
	if syscall.GetProcessTimes(self, &created, &exited, &kernel, &user) != nil {
		return 0
	}
	ticks := func(t syscall.Filetime) int64 { return int64(t.HighDateTime)<<32 | int64(t.LowDateTime) } // units of 100 ns
	return time.Duration(100 * (ticks(kernel) + ticks(user)))
}
