//go:build unix

package program

import (
	"syscall"
	"time"
)

// cpuTime is what this process has computed so far, on all processors; 0 if nobody knows.
func cpuTime() time.Duration {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
