//go:build !windows

package files

import (
	"errors"
	"syscall"
)

// isDiskFull also covers a disk quota and the process's own file size limit.
func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

func isNotEmpty(err error) bool {
	return errors.Is(err, syscall.ENOTEMPTY)
}
