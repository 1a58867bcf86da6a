package files

import (
	"context"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
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
	// tempAge is how old a temporary file of a dead process is at least: writes of live processes take milliseconds.
	tempAge = time.Minute
	// recountEvery bounds how often a program that fails at a quota makes the host walk the directory.
	recountEvery = time.Second
)

// count walks the directory again and removes leftovers of interrupted writes; files that are being written do not
// count. The caller holds mu for writing.
func (s *state) count(ctx context.Context) error {
	used, err := s.base.count(ctx, s.root)
	if err != nil {
		return err
	}
	s.used, s.known, s.counted = used, true, s.base.now()
	s.add(0, 0)
	return nil
}

// count adds up what a directory holds.
func (b *Base) count(ctx context.Context, root *os.Root) (used Usage, err error) {
	err = walk(ctx, root, func(at found) error {
		name := at.entry.Name()
		if !at.entry.Type().IsRegular() {
			used.Files++
			return nil
		}
		info, err := at.dir.Lstat(name)
		switch {
		case err != nil:
			return err
		case isPart(name) && b.now().Sub(info.ModTime()) > partAge:
			return at.dir.Remove(name)
		case name == handFile:
		case !isTemp(name):
			used.Bytes += counted(info)
			used.Files++
		case b.now().Sub(info.ModTime()) > tempAge:
			return at.dir.Remove(name)
		}
		return nil
	})
	return used, err
}

// maxUses is how many users' sums a Base remembers.
const maxUses = 10_000

// use is what the directories of one user hold together.
type use struct {
	mu      sync.Mutex
	bytes   map[string]int64 // bytes of each directory, by path inside the base
	sum     int64
	counted bool // the directories that were there before are in it
}

// use returns that of the user of a directory.
func (b *Base) use(names []string) *use {
	b.usesMu.Lock()
	defer b.usesMu.Unlock()
	u := b.uses[names[0]]
	if u == nil {
		if len(b.uses) >= maxUses {
			clear(b.uses) // the walk counts them again
		}
		u = &use{bytes: map[string]int64{}}
		b.uses[names[0]] = u
	}
	return u
}

func (u *use) set(dir string, bytes int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sum += bytes - u.bytes[dir]
	if u.bytes[dir] = bytes; bytes == 0 {
		delete(u.bytes, dir)
	}
}

// total is the sum of a user's directories.
func (b *Base) total(ctx context.Context, user string, u *use) (int64, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.counted {
		return u.sum, nil
	}
	for _, dir := range b.list(user) {
		key := path.Join(user, dir.Name())
		if _, known := u.bytes[key]; known {
			continue
		}
		root, ok, err := descend(b.root, []string{user, dir.Name()}, false)
		if err != nil || !ok {
			continue // the entry is being removed
		}
		used, err := b.count(ctx, root)
		_ = root.Close()
		if err != nil {
			return 0, err
		}
		u.sum += used.Bytes
		u.bytes[key] = used.Bytes
	}
	u.counted = true
	return u.sum, nil
}

// room reports whether bytes and files more fit the quotas, as an Error with code ENOSPC if not. What frees space is
// always allowed, even above the quota.
func (s *state) room(ctx context.Context, bytes, files int64) error {
	if !s.known {
		if err := s.count(ctx); err != nil {
			return err
		}
	}
	if most := s.base.opts.Limits.MaxUserBytes; most > 0 && bytes > 0 {
		sum, err := s.base.total(ctx, s.names[0], s.base.use(s.names))
		if err != nil {
			return err
		}
		if sum+bytes > most {
			return noSpace("the quota of %s for all of a user's files (quotas.%s) has %s left and %s more are needed; delete files or sessions",
				size(most), s.base.opts.Section, size(max(0, most-sum)), size(bytes))
		}
	}
	err := s.full(bytes, files)
	if err == nil || s.base.now().Sub(s.counted) < recountEvery {
		return err
	}
	// Another process may have deleted files since.
	if err := s.count(ctx); err != nil {
		return err
	}
	return s.full(bytes, files)
}

// full is the error for bytes and files more than the quotas allow; nil if they fit.
func (s *state) full(bytes, files int64) error {
	limits, section := s.base.opts.Limits, s.base.opts.Section
	if most := limits.MaxBytes; most > 0 && bytes > 0 && s.used.Bytes+bytes > most {
		return noSpace("the quota of %s (%s.maxBytes) has %s left and %s more are needed; delete files or raise %[2]s.maxBytes",
			size(most), section, size(max(0, most-s.used.Bytes)), size(bytes))
	}
	if most := limits.MaxFiles; most > 0 && files > 0 && s.used.Files+files > most {
		return noSpace("the quota of %d files and directories (%s.maxFiles) is used up; delete files or raise %[2]s.maxFiles", most, section)
	}
	return nil
}

// add changes what is counted of the directory. One that has to be counted again anyway stays as it is.
func (s *state) add(bytes, files int64) {
	if !s.known {
		return
	}
	s.used.Bytes += bytes
	s.used.Files += files
	if s.base.opts.Limits.MaxUserBytes > 0 {
		s.base.use(s.names).set(path.Join(s.names...), s.used.Bytes)
	}
}

func isTemp(name string) bool { return strings.HasPrefix(name, tempPrefix) }

// size writes a number of bytes for people: 512B, 1.5KiB, 64MiB.
func size(n int64) string { return strings.ReplaceAll(humanize.IBytes(uint64(n)), " ", "") }
