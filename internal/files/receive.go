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

// partPrefix begins the names of files that are being received. They count in quotas, and no program sees them.
const partPrefix = reserved + "part-"

// partAge is how long a part that nothing is added to is kept.
const partAge = 24 * time.Hour

func isPart(name string) bool { return strings.HasPrefix(name, partPrefix) }

// Part is a file that is being received: bytes beside the file of its path, which Complete puts in its place. Parts with the same path and key
// are the same one, also after a restart. It is safe for concurrent use, but of several senders at the same time only one gets ahead.
type Part struct {
	dir  *Dir
	path string
	key  string
}

// Part returns the part of a file that has a key; nothing is created before the first byte.
func (d *Dir) Part(p, key string) *Part { return &Part{d, p, key} }

// partsOf begins the names of the parts of a file.
func partsOf(name string) string { return partPrefix + hash(name) + "-" }

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// of is the spot of the part beside the file's.
func (p *Part) of(at *spot) *spot {
	part := *at
	part.name, part.info = partsOf(at.name)+hash(p.key), nil
	if part.dir == nil || len(part.missing) > 0 {
		return &part
	}
	if info, err := part.dir.Lstat(part.name); err == nil && info.Mode().IsRegular() && !hardLinked(info) {
		part.info = info
	}
	return &part
}

// receiveBytes is how much of a file is written at a time, so that a slow sender delays no other.
const receiveBytes = 256 << 10

// Size is how many bytes have come.
func (p *Part) Size() (int64, error) {
	var size int64
	err := p.dir.view("stat", p.path, func(at *spot) error {
		if part := p.of(at); part.info != nil {
			size = part.info.Size()
		}
		return nil
	})
	return size, err
}

// Fits reports whether a file of so many bytes can be received, as an Error if not.
func (p *Part) Fits(ctx context.Context, size int64) error {
	return p.dir.change("open", p.path, func(s *state, at *spot) error {
		if at.isDir() || at.path == "." {
			return &Error{Code: IsDirectory}
		}
		if part := p.of(at); part.info != nil {
			size -= part.info.Size()
		}
		return s.room(ctx, size, 0)
	})
}

// Receive adds the content of r from offset on. The offset is 0, to start again, or the result of Size. Bytes read
// before an error of r are kept, so that the sender can continue there; the file itself changes with Complete. It returns the number
// of bytes received so far.
func (p *Part) Receive(ctx context.Context, offset int64, r io.Reader) (int64, error) {
	buffer := make([]byte, receiveBytes)
	for first := true; ; first = false {
		n, failed := fill(r, buffer)
		if first || n > 0 {
			if err := p.receive(ctx, offset, buffer[:n]); err != nil {
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

// fill reads until the buffer is full. The error is that of r: io.EOF at its end, also with bytes before it.
func fill(r io.Reader, buffer []byte) (n int, err error) {
	for n < len(buffer) && err == nil {
		var more int
		more, err = r.Read(buffer[n:])
		n += more
	}
	return n, err
}

// receive writes bytes at an offset of a part; at 0 it is emptied.
func (p *Part) receive(ctx context.Context, offset int64, data []byte) error {
	return p.dir.change("open", p.path, func(s *state, at *spot) (err error) {
		if at.isDir() || at.path == "." {
			return &Error{Code: IsDirectory}
		}
		part := p.of(at)
		var have, more int64
		switch {
		case part.info != nil:
			have = part.info.Size()
		default:
			more = 1
		}
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

// Sum is the SHA-256 of what has come.
func (p *Part) Sum(ctx context.Context) (sum [sha256.Size]byte, err error) {
	var f *os.File
	err = p.dir.view("open", p.path, func(at *spot) (err error) {
		f, _, err = p.of(at).openFile()
		return err
	})
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h, buffer := sha256.New(), make([]byte, receiveBytes)
	for ctx.Err() == nil {
		n, err := f.Read(buffer)
		h.Write(buffer[:n]) // a hash takes everything
		if errors.Is(err, io.EOF) {
			return [sha256.Size]byte(h.Sum(nil)), nil
		}
		if err != nil {
			return sum, hostError("read", p.path, err)
		}
	}
	return sum, ctx.Err()
}

// Complete makes a file of what has come, which is the owner's from then on (see Hand). It replaces one that is there. check, which may be nil, is asked about the file that stands there,
// nil for none; its error leaves everything as it is. created says that there was none.
func (p *Part) Complete(ctx context.Context, check func(fs.FileInfo) error) (created bool, err error) {
	var refused error
	err = p.dir.change("open", p.path, func(s *state, at *spot) error {
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

// Abort removes what has come.
func (p *Part) Abort() error {
	return p.dir.change("open", p.path, func(s *state, at *spot) error {
		part := p.of(at)
		if part.info == nil {
			return nil
		}
		return s.remove(part)
	})
}

// Discard removes the parts of a file, and reports whether there were any.
func (d *Dir) Discard(ctx context.Context, p string) (found bool, err error) {
	err = d.change("open", p, func(s *state, at *spot) error {
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

// WriteFrom replaces the content of a file by what r has, in one step, creating it and the directories above it. It returns how many bytes
// these are, and whether there was no such file. An error of r leaves the file as it is.
func (d *Dir) WriteFrom(ctx context.Context, p string, r io.Reader) (size int64, created bool, err error) {
	part := d.Part(p, rand.Text())
	if size, err = part.Receive(ctx, 0, r); err == nil {
		created, err = part.Complete(ctx, nil)
	}
	if err != nil {
		_ = part.Abort() // the sweep removes the rest by age
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

// Open opens a file for reading. Later renames and removals do not affect it. The caller closes it.
func (d *Dir) Open(p string) (*os.File, fs.FileInfo, error) {
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
