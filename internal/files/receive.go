package files

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"strings"
	"time"
)

// partPrefix is the prefix of files that are being received. They count in quotas, but programs do not see them.
const partPrefix = reserved + "part-"

// partAge is how long a part is kept after the last bytes were added.
const partAge = 24 * time.Hour

func isPart(name string) bool { return strings.HasPrefix(name, partPrefix) }

// Part is a file that is being received. Its bytes are stored beside the file at its path, which Complete replaces. Parts with the same path and key
// are the same part, even after a restart. A Part is safe for concurrent use, but only one of several concurrent senders makes progress.
type Part struct {
	dir  *Dir
	path string
	key  string
}

// Part returns the part with a key for a file. It creates nothing before the first byte.
func (d *Dir) Part(p, key string) *Part { return &Part{d, p, key} }

// partsOf returns the prefix of the names of a file's parts.
func partsOf(name string) string { return partPrefix + hash(name) + "-" }

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// name returns the name of the part of a file with a name.
func (p *Part) name(file string) string { return partsOf(file) + hash(p.key) }

// of returns the spot of the part beside the spot of the file.
func (p *Part) of(at *spot) *spot {
	part := *at
	part.name, part.info = p.name(at.name), nil
	if part.dir == nil || len(part.missing) > 0 {
		return &part
	}
	if info, err := part.dir.Lstat(part.name); err == nil && info.Mode().IsRegular() && !hardLinked(info) {
		part.info = info
	}
	return &part
}

// received returns the size of a part, and the number of files that it takes more to write to it: 1 if it does not exist yet.
func (at *spot) received() (bytes, files int64) {
	if at.info == nil {
		return 0, 1
	}
	return at.info.Size(), 0
}

// Size returns the number of bytes received so far.
func (p *Part) Size() (int64, error) { return p.dir.partSize(p) }

// Fits returns an Error if a file of size bytes cannot be received.
func (p *Part) Fits(ctx context.Context, size int64) error { return p.dir.partFits(ctx, p, size) }

func (s *hostDir) partSize(p *Part) (int64, error) {
	var size int64
	err := s.view("stat", p.path, func(at *spot) error {
		if part := p.of(at); part.info != nil {
			size = part.info.Size()
		}
		return nil
	})
	return size, err
}

func (s *hostDir) partFits(ctx context.Context, p *Part, size int64) error {
	return s.change("open", p.path, func(at *spot) error {
		if at.isDir() || at.path == "." {
			return &Error{Code: IsDirectory}
		}
		part := p.of(at)
		have, more := part.received()
		return s.room(ctx, size-have, more+int64(len(part.missing)))
	})
}

// Receive adds the content of r at offset. offset is the result of Size, or 0 to start again. Bytes read before an error of r are kept, so that the
// sender can continue there. The file itself changes only with Complete. Receive returns the number of bytes received so far.
func (p *Part) Receive(ctx context.Context, offset int64, r io.Reader) (int64, error) {
	buffer := make([]byte, p.dir.receiveBytes())
	for first := true; ; first = false {
		n, failed := fill(r, buffer)
		if first || n > 0 {
			if err := p.dir.receive(ctx, p, offset, buffer[:n]); err != nil {
				return offset, err
			}
			offset += int64(n)
		}
		switch {
		case failed == io.EOF: //nolint:errorlint // the end itself, not an error that wraps one
			return offset, nil
		case failed != nil:
			return offset, failed
		case ctx.Err() != nil:
			return offset, ctx.Err()
		}
	}
}

// fill reads until the buffer is full. The error is that of r: io.EOF at the end of r, even if bytes were read before.
func fill(r io.Reader, buffer []byte) (n int, err error) {
	for n < len(buffer) && err == nil {
		var more int
		more, err = r.Read(buffer[n:])
		n += more
	}
	return n, err
}

func (s *hostDir) receive(ctx context.Context, p *Part, offset int64, data []byte) error {
	return s.change("open", p.path, func(at *spot) (err error) {
		if at.isDir() || at.path == "." {
			return &Error{Code: IsDirectory}
		}
		part := p.of(at)
		have, more := part.received()
		if offset != have && offset != 0 {
			return invalid("%d bytes of the file have come, and this part begins at %d", have, offset)
		}
		bytes := offset + int64(len(data)) - have
		if err := s.room(ctx, bytes, more+int64(len(part.missing))); err != nil {
			return err
		}
		if err := s.mkdirs(at); err != nil {
			return err
		}
		flag := os.O_CREATE | os.O_WRONLY
		if offset == 0 {
			flag |= os.O_TRUNC
		}
		f, err := at.dir.OpenFile(part.name, flag, 0o600)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		if _, err := f.WriteAt(data, offset); err != nil {
			s.known = false
			return err
		}
		s.add(bytes, more)
		return nil
	})
}

// receiveBytes is small, so that a slow sender does not delay others.
func (s *hostDir) receiveBytes() int { return chunkBytes }

// Sum returns the SHA-256 of the bytes received so far.
func (p *Part) Sum(ctx context.Context) ([sha256.Size]byte, error) { return p.dir.sum(ctx, p) }

func (s *hostDir) sum(ctx context.Context, p *Part) (sum [sha256.Size]byte, err error) {
	var f *os.File
	err = s.view("open", p.path, func(at *spot) (err error) {
		f, _, err = p.of(at).openFile()
		return err
	})
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h, buffer := sha256.New(), make([]byte, chunkBytes)
	for ctx.Err() == nil {
		n, err := f.Read(buffer)
		h.Write(buffer[:n]) // a hash accepts everything
		if errors.Is(err, io.EOF) {
			return [sha256.Size]byte(h.Sum(nil)), nil
		}
		if err != nil {
			return sum, hostError("read", p.path, err)
		}
	}
	return sum, ctx.Err()
}

// Complete turns the part into the file and replaces an existing file. From then on, the owner counts as the author of the whole file (see Hand).
// check, which may be nil, gets the existing file, or nil if there is none; if it returns an error, nothing changes. created reports whether there
// was no file before.
func (p *Part) Complete(ctx context.Context, check func(fs.FileInfo) error) (created bool, err error) {
	return p.dir.complete(ctx, p, check)
}

func (s *hostDir) complete(ctx context.Context, p *Part, check func(fs.FileInfo) error) (created bool, err error) {
	var refused error
	err = s.change("open", p.path, func(at *spot) error {
		part := p.of(at)
		switch {
		case at.isDir():
			return &Error{Code: IsDirectory}
		case part.info == nil:
			return &Error{Code: NotFound, Detail: "nothing of it has come"}
		}
		if check != nil {
			if refused = check(at.info); refused != nil {
				return nil
			}
		}
		if s.base.opts.Durable {
			if err := syncFile(at.dir, part.name); err != nil {
				return err
			}
		}
		if err := at.dir.Rename(part.name, at.name); err != nil {
			return err
		}
		s.add(0, -1)
		if created = at.info == nil; created {
			s.add(0, 1)
		} else {
			s.add(-at.info.Size(), 0)
		}
		return errors.Join(s.sync(at.dir), s.giveFile(ctx, at.path, math.MaxInt64))
	})
	return created, cmp.Or(err, refused)
}

// Abort removes the bytes received so far.
func (p *Part) Abort() error { return p.dir.abort(p) }

func (s *hostDir) abort(p *Part) error {
	return s.change("open", p.path, func(at *spot) error {
		part := p.of(at)
		if part.info == nil {
			return nil
		}
		return s.remove(part)
	})
}

func (s *hostDir) Discard(ctx context.Context, p string) (found bool, err error) {
	err = s.change("open", p, func(at *spot) error {
		if at.dir == nil || len(at.missing) > 0 || at.path == "." {
			return nil
		}
		all, err := readDir(ctx, at.dir, maxWalk)
		if err != nil {
			return err
		}
		for _, e := range all {
			if !strings.HasPrefix(e.Name(), partsOf(at.name)) {
				continue
			}
			info, err := at.dir.Lstat(e.Name())
			if err == nil {
				part := *at
				part.name, part.info, found = e.Name(), info, true
				err = s.remove(&part)
			}
			if ignoreVanished(err) != nil {
				return err
			}
		}
		return nil
	})
	return found, err
}

// WriteFrom replaces the content of a file by the content of r in one step. It creates the file and the directories above it. It returns the number of
// bytes, and whether the file is new. An error of r leaves the file unchanged.
func (d *Dir) WriteFrom(ctx context.Context, p string, r io.Reader) (size int64, created bool, err error) {
	part := d.Part(p, rand.Text())
	if size, err = part.Receive(ctx, 0, r); err == nil {
		created, err = part.Complete(ctx, nil)
	}
	if err != nil {
		_ = part.Abort() // count removes the part later by its age
	}
	return size, created, err
}

func syncFile(dir *os.Root, name string) error {
	f, err := dir.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Open opens a file for reading. The caller closes it.
func (d *Dir) Open(p string) (File, fs.FileInfo, error) {
	f, err := d.open("open", p)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}
