//go:build unix

package process

import "syscall"

// TryWrite writes to the standard input what its pipe has room for, and returns how much that was. It does not wait.
func (c *Child) TryWrite(text []byte) (n int) {
	pipe, err := c.Stdin.SyscallConn()
	if err != nil {
		return 0
	}
	err = pipe.Write(func(fd uintptr) bool {
		n, err = syscall.Write(int(fd), text)
		return true // whether or not it could
	})
	return max(n, 0)
}
