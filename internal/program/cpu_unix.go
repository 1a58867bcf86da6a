//go:build unix

package program

import (
	"syscall"
	"time"
)

// cpuTime returns the computing time of this process on all processors, or 0 if the system call fails.
func cpuTime() time.Duration {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
