package files

import (
	"context"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"
)

// Usage is what a directory holds.
type Usage struct {
	Bytes int64
	Files int64 // files and directories
}

// counted is the part of something in the quota of bytes.
func counted(info fs.FileInfo) int64 {
	if info.Mode().IsRegular() {
		return info.Size()
	}
	return 0
}

const (
	// tempAge is how old a temporary file must be to be a leftover of a dead process: a write takes
	// milliseconds, and a file of a live process must not be taken away from it.
	tempAge = time.Minute
	// recountEvery bounds how often a program that keeps failing at a quota makes the host walk the directory.
	recountEvery = time.Second
)

// count walks the directory anew and clears leftovers of interrupted writes away; files that are being written do not
// count. The caller holds mu for writing.
func (s *state) count(ctx context.Context) error {
	var used Usage
	err := walk(ctx, s.root, func(at found) error {
		name := at.entry.Name()
		if !at.entry.Type().IsRegular() {
			used.Files++
			return nil
		}
		info, err := at.dir.Lstat(name)
		switch {
		case err != nil:
			return err
		case !isTemp(name):
			used.Bytes += counted(info)
			used.Files++
		case s.base.now().Sub(info.ModTime()) > tempAge:
			return at.dir.Remove(name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.used, s.known, s.counted = used, true, s.base.now()
	return nil
}

// room reports whether bytes and files more fit the quotas, as an Error with code ENOSPC if not. What frees space is
// always allowed, even above the quota.
func (s *state) room(ctx context.Context, bytes, files int64) error {
	if !s.known {
		if err := s.count(ctx); err != nil {
			return err
		}
	}
	full := s.full(bytes, files)
	if full == "" || s.base.now().Sub(s.counted) < recountEvery {
		return noSpace(full)
	}
	// Another process may have deleted files since.
	if err := s.count(ctx); err != nil {
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
