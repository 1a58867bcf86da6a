//go:build !unix

package process

// TryWrite writes nothing: a write to a pipe of this system waits.
func (*Child) TryWrite([]byte) int { return 0 }
