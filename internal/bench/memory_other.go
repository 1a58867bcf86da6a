//go:build !linux

package bench

import "context"

// waiting is skipped: this system does not tell a process's own memory from what it shares with others.
func (b *bench) waiting(context.Context) (Figure, error) {
	return Figure{Unit: "MiB", Skipped: true, Note: "skipped: only Linux tells private memory from shared"}, nil
}

// manyWaiting is skipped: this system does not tell the memory of a process with its children.
func (b *bench) manyWaiting(context.Context) (Figure, error) {
	return Figure{Unit: "MiB", Skipped: true, Note: "skipped: only Linux tells the memory of processes"}, nil
}
