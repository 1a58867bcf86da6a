//go:build !unix

package process

// TryWrite writes nothing, because writes to a pipe block on this system.
func (*Child) TryWrite([]byte) int { return 0 }
