package task

import "github.com/KimMachineGun/automemlimit/memlimit"

// DefaultWorkers returns the number of tasks that may be in work on this machine. A task holds its conversation in memory, seldom more than 4 MiB
// with everything derived from it.
func DefaultWorkers() int {
	const each, share, least, most = 4 << 20, 4, 256, 4096
	memory, _ := memlimit.FromSystem() // 0 if it is unknown
	return int(min(max(memory/share/each, least), most))
}
