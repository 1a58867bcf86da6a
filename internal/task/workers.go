package task

import "github.com/KimMachineGun/automemlimit/memlimit"

// DefaultWorkers is how many tasks may be in work on this machine. One holds its conversation in memory, seldom more than 4 MiB with all that is
// made of it.
func DefaultWorkers() int {
	const each, share, least, most = 4 << 20, 4, 256, 4096
	memory, _ := memlimit.FromSystem() // 0 where it is unknown
	return int(min(max(memory/share/each, least), most))
}
