//go:build unix

package process

import "syscall"

// TryWrite writes as much to the standard input as its pipe has room for, and returns the number of bytes. It does not wait.
func (c *Child) TryWrite(text []byte) (n int) {
	pipe, err := c.Stdin.SyscallConn()
	if err != nil {
		return 0
	}
	err = pipe.Write(func(fd uintptr) bool {
		n, err = syscall.Write(int(fd), text)
		return true // do not wait, even if nothing could be written
	})
	return max(n, 0)
}
