//go:build !windows

package disk

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// TryLock tries to take the lock of an open file without waiting, and reports whether it succeeded. The lock is released when the file is closed or
// the process ends.
func TryLock(f *os.File, exclusive bool) (bool, error) {
	how := unix.LOCK_SH
	if exclusive {
		how = unix.LOCK_EX
	}
	for {
		switch err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, unix.EINTR):
			return false, os.NewSyscallError("flock", err)
		}
	}
}
