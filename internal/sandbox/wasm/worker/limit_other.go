//go:build !linux

package worker

// volunteer does nothing: only Linux has a score by which it chooses processes to kill.
func volunteer() {}

// limitMemory does nothing: other systems have no such limit or do not enforce it.
func limitMemory(int64) {}
