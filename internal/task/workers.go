package task

import "github.com/pbnjay/memory"

// DefaultWorkers is how many tasks may be in work on this machine. One holds its conversation in memory, seldom more than 4 MiB with all that is
// made of it.
func DefaultWorkers() int {
	const each, share, least, most = 4 << 20, 4, 256, 4096
	return int(min(max(memory.TotalMemory()/share/each, least), most))
}
