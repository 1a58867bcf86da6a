package files

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

func isDiskFull(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL) ||
		errors.Is(err, windows.ERROR_DISK_QUOTA_EXCEEDED)
}

func isNotEmpty(err error) bool {
	return errors.Is(err, windows.ERROR_DIR_NOT_EMPTY)
}

// hardLinked always returns false: Windows does not tell how many names a file has unless the file is opened.
func hardLinked(fs.FileInfo) bool { return false }

// syncDir does nothing: Windows cannot sync a directory, and NTFS journals the rename.
func syncDir(*os.Root) error { return nil }
