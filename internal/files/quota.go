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

// Usage is the size of the content of a directory, as quotas count it.
type Usage struct {
	Bytes int64
	Files int64 // number of files and directories
}

// counted returns the number of bytes by which a file or directory uses the quota.
func counted(info fs.FileInfo) int64 {
	if info.Mode().IsRegular() {
		return info.Size()
	}
	return 0
}

const (
	// tempAge is the age at which a temporary file counts as the leftover of a dead process. Writes of live processes take milliseconds.
	tempAge = time.Minute
	// recountEvery limits how often the host walks a directory for a program that keeps failing at a quota.
	recountEvery = time.Second
)

// count walks the directory again, adds up its usage and removes leftovers of interrupted writes. Files that are being written do not
// count. The caller holds mu for writing.
func (s *hostDir) count(ctx context.Context) error {
	used, err := s.base.count(ctx, s.root)
	if err != nil {
		return err
	}
	s.used, s.known, s.counted = used, true, s.base.now()
	s.add(0, 0)
	return nil
}

// count adds up the usage of a directory.
func (b *hostBase) count(ctx context.Context, root *os.Root) (used Usage, err error) {
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

// maxUses is the maximum number of users whose sums a Base remembers.
const maxUses = 10_000

// use is the usage of all directories of one user.
type use struct {
	mu      sync.Mutex
	bytes   map[string]int64 // bytes of each directory, by path inside the base
	sum     int64
	counted bool // whether sum includes directories that existed before this process
}

// use returns the usage of the user who owns a directory.
func (b *hostBase) use(names []string) *use {
	b.usesMu.Lock()
	defer b.usesMu.Unlock()
	u := b.uses[names[0]]
	if u == nil {
		if len(b.uses) >= maxUses {
			clear(b.uses) // total walks the directories again
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

// total returns the number of bytes in a user's directories.
func (b *hostBase) total(ctx context.Context, user string, u *use) (int64, error) {
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
			continue // the directory is being removed, or is unreadable
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

// room returns an Error with code ENOSPC if the given number of further bytes and files exceeds the quotas. Changes that free space are
// always allowed, even above the quota.
func (s *hostDir) room(ctx context.Context, bytes, files int64) error {
	if !s.known {
		if err := s.count(ctx); err != nil {
			return err
		}
	}
	if s.base.opts.Limits.MaxUserBytes > 0 && bytes > 0 {
		sum, err := s.base.total(ctx, s.names[0], s.base.use(s.names))
		if err != nil {
			return err
		}
		if err := s.base.opts.userFull(sum, bytes); err != nil {
			return err
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

func (s *hostDir) full(bytes, files int64) error {
	return full(&s.base.opts, s.used, bytes, files)
}

// full returns an error if the given number of further bytes and files exceeds the quotas of a directory; nil if they fit.
func full(opts *Options, used Usage, bytes, files int64) error {
	limits, section := opts.Limits, opts.Section
	if most := limits.MaxBytes; most > 0 && bytes > 0 && used.Bytes+bytes > most {
		return noSpace("the quota of %s (%s.maxBytes) has %s left and %s more are needed; delete files or raise %[2]s.maxBytes",
			size(most), section, size(max(0, most-used.Bytes)), size(bytes))
	}
	if most := limits.MaxFiles; most > 0 && files > 0 && used.Files+files > most {
		return noSpace("the quota of %d files and directories (%s.maxFiles) is used up; delete files or raise %[2]s.maxFiles", most, section)
	}
	return nil
}

// userFull returns the error for a user whose directories have sum bytes, if the given number of further bytes does not fit.
func (o *Options) userFull(sum, bytes int64) error {
	most := o.Limits.MaxUserBytes
	if most == 0 || bytes <= 0 || sum+bytes <= most {
		return nil
	}
	return noSpace("the quota of %s for all of a user's files (quotas.%s) has %s left and %s more are needed; delete files or sessions",
		size(most), o.Section, size(max(0, most-sum)), size(bytes))
}

// add updates the usage of the directory, unless it has to be counted again anyway.
func (s *hostDir) add(bytes, files int64) {
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

// size formats a number of bytes for people: 512B, 1.5KiB, 64MiB.
func size(n int64) string { return strings.ReplaceAll(humanize.IBytes(uint64(n)), " ", "") }
