//go:build !windows

package files

import "os"

// syncDir makes what was created in dir, or renamed into it, survive a power failure.
func syncDir(dir *os.Root) error {
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
