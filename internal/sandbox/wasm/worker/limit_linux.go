package worker

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// volunteer makes the kernel kill workers before the host or a server when memory is short.
func volunteer() {
	os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0) // best effort: /proc may be absent
}

// limitMemory limits the address space of this process to its present size plus the given bytes. The address space of the guest's
// memory, which has its own limits, must already be reserved.
func limitMemory(more int64) {
	statm, _ := os.ReadFile("/proc/self/statm")
	var pages int64
	if _, err := fmt.Sscan(string(statm), &pages); err != nil {
		return // the process gets no limit if /proc is absent
	}
	size := uint64(pages*int64(os.Getpagesize()) + more)
	unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: size, Max: size})
}
