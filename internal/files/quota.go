package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"time"
)

// Usage is what a directory holds.
type Usage struct {
	Bytes int64
	Files int64 // files and directories
}

// count returns a function for walk that adds what it is given to u, without files that are being written.
func (u *Usage) count(root *os.Root) func(p string, e fs.DirEntry) error {
	return func(p string, e fs.DirEntry) error {
		if e.Type().IsRegular() {
			if isTemp(e.Name()) {
				return nil
			}
			info, err := root.Lstat(p)
			if err != nil {
				return err
			}
			u.Bytes += info.Size()
		}
		u.Files++
		return nil
	}
}

const (
	// tempAge is how old a temporary file must be to be a leftover of a dead process: a write takes
	// milliseconds, and a file of a live process must not be taken away from it.
	tempAge = time.Minute
	// recountEvery bounds how often a program that keeps failing at a quota makes the host walk the directory.
	recountEvery = time.Second
)

// count walks the directory anew and clears leftovers of interrupted writes away. The caller holds mu for writing.
func (s *state) count() error {
	var used Usage
	add := used.count(s.root)
	err := walk(s.root, ".", func(p string, e fs.DirEntry) error {
		if !isTemp(e.Name()) || !e.Type().IsRegular() {
			return add(p, e)
		}
		info, err := s.root.Lstat(p)
		if err == nil && s.base.now().Sub(info.ModTime()) > tempAge {
			err = s.root.Remove(p)
		}
		return err
	})
	if err != nil {
		return err
	}
	s.used, s.known, s.counted = used, true, s.base.now()
	return nil
}

// room reports whether bytes and files more fit the quotas, as an Error with code ENOSPC if not. What frees space is
// always allowed, even above the quota.
func (s *state) room(bytes, files int64) error {
	if !s.known {
		if err := s.count(); err != nil {
			return err
		}
	}
	full := s.full(bytes, files)
	if full == "" || s.base.now().Sub(s.counted) < recountEvery {
		return noSpace(full)
	}
	// Another process may have deleted files since.
	if err := s.count(); err != nil {
		return err
	}
	return noSpace(s.full(bytes, files))
}

func noSpace(detail string) error {
	if detail == "" {
		return nil
	}
	return &Error{Code: NoSpace, Detail: detail}
}

func (s *state) full(bytes, files int64) string {
	limits, section := s.base.opts.Limits, s.base.opts.Section
	if most := limits.MaxBytes; most > 0 && bytes > 0 && s.used.Bytes+bytes > most {
		return fmt.Sprintf("the quota of %s (%s.maxBytes) has %s left and %s more are needed; "+
			"delete files or raise %[2]s.maxBytes", size(most), section, size(max(0, most-s.used.Bytes)), size(bytes))
	}
	if most := limits.MaxFiles; most > 0 && files > 0 && s.used.Files+files > most {
		return fmt.Sprintf("the quota of %d files and directories (%s.maxFiles) is used up; delete files or raise %[2]s.maxFiles",
			most, section)
	}
	return ""
}

func (s *state) fileFits(n int64) error {
	if most := s.base.opts.Limits.MaxFileBytes; most > 0 && n > most {
		return &Error{Code: NoSpace, Detail: fmt.Sprintf("a file of %s is larger than the %s one file may have; split it",
			size(n), size(most))}
	}
	return nil
}

func (s *state) add(bytes, files int64) {
	s.used.Bytes += bytes
	s.used.Files += files
}

// walk calls fn for everything below dir, a directory after what is in it. What vanishes meanwhile is left out.
func walk(root *os.Root, dir string, fn func(p string, e fs.DirEntry) error) error {
	entries, err := readDir(root, dir)
	if err != nil {
		return ignoreVanished(err)
	}
	for _, e := range entries {
		p := path.Join(dir, e.Name())
		if e.IsDir() {
			if err := walk(root, p, fn); err != nil {
				return err
			}
		}
		if err := fn(p, e); ignoreVanished(err) != nil {
			return err
		}
	}
	return nil
}

func ignoreVanished(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func readDir(root *os.Root, dir string) ([]fs.DirEntry, error) {
	f, err := root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.ReadDir(-1)
}

func isTemp(name string) bool { return strings.HasPrefix(name, tempPrefix) }

// size writes a number of bytes for people: 512B, 1.5KiB, 64MiB.
func size(n int64) string {
	unit, f := "B", float64(n)
	for _, next := range [...]string{"KiB", "MiB", "GiB", "TiB"} {
		if f < 1024 {
			break
		}
		unit, f = next, f/1024
	}
	text := strconv.FormatFloat(f, 'f', 1, 64)
	return strings.TrimSuffix(text, ".0") + unit
}
