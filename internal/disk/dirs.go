package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// MakeDirs makes a directory and those above it, for their owner alone. made are the ones that were not there, the outermost first, also with
// an error.
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

// RemoveDirs removes directories that MakeDirs has made, as far as they are empty.
func RemoveDirs(made []string) {
	for _, dir := range slices.Backward(made) {
		_ = os.Remove(dir) // a directory in use is not empty
	}
}
