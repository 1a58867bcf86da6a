//go:build !linux

package worker

// volunteer does nothing: only Linux chooses by such a score.
func volunteer() {}

// limitMemory does nothing: other systems have no such limit, or do not keep it.
func limitMemory(int64) {}
