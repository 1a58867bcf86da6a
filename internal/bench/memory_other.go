//go:build !linux

package bench

import "context"

// waiting is skipped, because this system does not distinguish the private memory of a process from shared memory.
func (b *bench) waiting(context.Context) (Figure, error) {
	return Figure{Unit: "MiB", Skipped: true, Note: "skipped: only Linux tells private memory from shared"}, nil
}

// manyWaiting is skipped, because this system does not report the memory of a process with its children.
func (b *bench) manyWaiting(context.Context) (Figure, error) {
	return Figure{Unit: "MiB", Skipped: true, Note: "skipped: only Linux tells the memory of processes"}, nil
}
