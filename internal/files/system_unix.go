//go:build !windows

package files

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// isDiskFull reports whether the disk is full, a disk quota is used up, or the process's file size limit is reached.
func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

func isNotEmpty(err error) bool {
	return errors.Is(err, syscall.ENOTEMPTY)
}

// hardLinked reports whether a file has more than one name.
func hardLinked(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode().IsRegular() && stat.Nlink > 1
}

// syncDir makes files that were created in dir or renamed into it survive a power failure.
func syncDir(dir *os.Root) error {
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
