// Package disk creates and replaces files as a whole, and removes files that have not been used for a long time.
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

// Replace replaces the content of a file in one step: a reader sees the old or the new content, even after a crash. The temporary file
// has the name of the file with a dot before it and a random suffix.
func Replace(path string, data []byte, mode fs.FileMode) error {
	return ReplaceFrom(path, bytes.NewReader(data), mode)
}

// ReplaceFrom does the same as Replace with the content of a reader. An error of the reader leaves the file unchanged.
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

// Create creates a file with its content in one step: a reader sees no file or all of it, even after a crash. The error wraps
// fs.ErrExist if a file with that name exists; that file stays unchanged.
func Create(path string, data []byte, mode fs.FileMode) error {
	return CreateFrom(path, bytes.NewReader(data), mode)
}

// CreateFrom does the same as Create with the content of a reader. An error of the reader leaves no file.
func CreateFrom(path string, from io.Reader, mode fs.FileMode) error {
	err := withTemp(path, from, mode, func(temp string) error {
		err := os.Link(temp, path)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			err = createUnlinked(path, temp, mode) // file systems such as FAT have no hard links
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

// withTemp writes a temporary file beside path and passes its name to use, which moves or removes the file. If an error occurs before
// that, withTemp removes the file.
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

// createUnlinked creates a file with the content of temp. Unlike Create, it may leave a partial file after a crash.
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

// syncDir makes a new name in a directory durable. Windows does so by itself, and cannot open directories for syncing.
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

// Use records that a file or directory is in use, so that Sweep keeps it.
func Use(path string) {
	now := time.Now()
	_ = os.Chtimes(path, now, now) // after an error, Sweep may remove the file too early; the file is then created again
}

// Sweep removes files and directories in dir whose names have one of the prefixes and that were not used for 30 days. Entries
// that cannot be removed stay until a later Sweep.
func Sweep(dir string, prefixes ...string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		ours := slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(e.Name(), prefix) })
		if info, err := e.Info(); ours && err == nil && time.Since(info.ModTime()) > 30*24*time.Hour {
			_ = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
}
