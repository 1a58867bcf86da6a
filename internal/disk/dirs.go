package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// MakeDirs creates a directory and its missing parents, accessible to their owner only. made lists the directories that MakeDirs created, the outermost
// first, also if there is an error.
func MakeDirs(dir string) (made []string, err error) {
	var missing []string
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(at); !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			break
		}
		missing = append(missing, at)
	}
	for _, at := range slices.Backward(missing) {
		if err := os.Mkdir(at, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return made, err
		}
		made = append(made, at)
	}
	return made, os.MkdirAll(dir, 0o700)
}

// RemoveDirs removes those directories that MakeDirs has created and that are empty.
func RemoveDirs(made []string) {
	for _, dir := range slices.Backward(made) {
		_ = os.Remove(dir) // a directory in use is not empty
	}
}
