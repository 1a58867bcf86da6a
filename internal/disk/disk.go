// Package disk replaces files as a whole and removes files that nothing has used for long.
package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Replace gives a file its content in one step: a reader finds the old content or the new one, also after a crash. The file
// that is being written has the name of the other with a dot before it.
func Replace(path string, data []byte, mode fs.FileMode) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", path, errors.Join(err, os.Remove(f.Name())))
		}
	}()
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// Use notes that something is in use, for Sweep.
func Use(path string) {
	now := time.Now()
	_ = os.Chtimes(path, now, now) // it may be swept too early, and is made again
}

// Sweep removes files and directories in dir whose names have one of the prefixes, and which were not used for 30 days. What
// it cannot remove stays until another time.
func Sweep(dir string, prefixes ...string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		ours := slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(e.Name(), prefix) })
		if info, err := e.Info(); ours && err == nil && time.Since(info.ModTime()) > 30*24*time.Hour {
			_ = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
}
