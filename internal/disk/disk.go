// Package disk creates and replaces files as a whole and removes files that nothing has used for long.
package disk

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Replace gives a file its content in one step: a reader finds the old content or the new one, also after a crash. The file
// that is being written has the name of the other with a dot before it.
func Replace(path string, data []byte, mode fs.FileMode) error {
	return ReplaceFrom(path, bytes.NewReader(data), mode)
}

// ReplaceFrom is Replace with the content that a reader has. An error of the reader leaves the file as it is.
func ReplaceFrom(path string, from io.Reader, mode fs.FileMode) error {
	err := withTemp(path, from, mode, func(temp string) error {
		err := os.Rename(temp, path)
		if err != nil {
			err = errors.Join(err, os.Remove(temp))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// Create gives a new file its content in one step: a reader finds no file or all of it, also after a crash. The error is
// fs.ErrExist if there is a file of that name, which stays as it is.
func Create(path string, data []byte, mode fs.FileMode) error {
	return CreateFrom(path, bytes.NewReader(data), mode)
}

// CreateFrom is Create with the content that a reader has. An error of the reader leaves no file.
func CreateFrom(path string, from io.Reader, mode fs.FileMode) error {
	err := withTemp(path, from, mode, func(temp string) error {
		err := os.Link(temp, path)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			err = createUnlinked(path, temp, mode) // file systems such as FAT have no links
		}
		return errors.Join(err, os.Remove(temp))
	})
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	return nil
}

// withTemp writes a file beside path and gives it to use, which moves or removes it. If use is not reached, it is removed.
func withTemp(path string, from io.Reader, mode fs.FileMode, use func(temp string) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return use(f.Name())
}

// createUnlinked is Create, with the content of another file, where a crash may leave a part of the file.
func createUnlinked(path, temp string, mode fs.FileMode) error {
	from, err := os.Open(temp)
	if err != nil {
		return err
	}
	defer from.Close()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Sync(), f.Close())
}

// syncDir makes a new name in a directory durable. Windows does so by itself, and cannot open directories for it.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Use notes that something is in use, for Sweep.
func Use(path string) {
	now := time.Now()
	_ = os.Chtimes(path, now, now) // without the new time it may be swept too early, and is made again
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
