package audit

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// Snapshot calls add with each file of a log, the oldest first. All files are from the same moment. suffix is the part of the file's name that
// follows the name of the log. file is the path of the file, or of a copy in the directory scratch. Other processes can continue to append. If
// there is no log, Snapshot does nothing.
func Snapshot(path, scratch string, add func(suffix, file string) error) error {
	if _, err := os.Stat(path + headName); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	l := &Log{opt: Options{Path: path}}
	var all []full
	var current, noted, left string
	defer func() {
		for _, copied := range []string{current, noted, left} {
			if copied != "" {
				_ = os.Remove(copied)
			}
		}
	}()
	err := l.locked(func(head *os.File) (err error) {
		if all, err = fullFiles(path); err != nil {
			return err
		}
		if current, err = copyFile(path, scratch); err != nil {
			return err
		}
		if left, err = copyFile(path+keptName, scratch); err != nil {
			return err
		}
		if _, err = head.Seek(0, io.SeekStart); err == nil {
			noted, err = copyOf(head, scratch)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, f := range all {
		if err := add(f.path[len(path):], f.path); err != nil {
			return err
		}
	}
	if current != "" {
		if err := add("", current); err != nil {
			return err
		}
	}
	if left != "" {
		if err := add(keptName, left); err != nil {
			return err
		}
	}
	return add(headName, noted)
}

// copyFile copies a file into a directory and returns the path of the copy, or "" if there is no file.
func copyFile(path, dir string) (string, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	return copyOf(f, dir)
}

func copyOf(r io.Reader, dir string) (string, error) {
	to, err := os.CreateTemp(dir, ".harness-audit-*")
	if err != nil {
		return "", err
	}
	_, err = io.Copy(to, r)
	return to.Name(), errors.Join(err, to.Close())
}
