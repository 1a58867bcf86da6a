package worker

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// volunteer makes the kernel end workers first when memory is short, before the host or a server.
func volunteer() {
	os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0) // best effort: /proc may be absent
}

// limitMemory bounds the address space of this process to what it has now and the given bytes. The memory of an instance,
// which has limits of its own, must be part of it already.
func limitMemory(more int64) {
	statm, _ := os.ReadFile("/proc/self/statm")
	var pages int64
	if _, err := fmt.Sscan(string(statm), &pages); err != nil {
		return // a system without /proc has no such limit
	}
	size := uint64(pages*int64(os.Getpagesize()) + more)
	unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: size, Max: size})
}
