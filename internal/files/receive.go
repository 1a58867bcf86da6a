package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"
)

// partPrefix begins the names of files that are being received. They count in quotas, and no program sees them.
const partPrefix = reserved + "part-"

// partAge is how long a part that nothing is added to is kept.
const partAge = 24 * time.Hour

func isPart(name string) bool { return strings.HasPrefix(name, partPrefix) }

// partOf is the spot of the part of a file, beside it.
func partOf(at *spot) *spot {
	sum := sha256.Sum256([]byte(at.name))
	part := *at
	part.name, part.info = partPrefix+hex.EncodeToString(sum[:16]), nil
	if part.dir == nil || len(part.missing) > 0 {
		return &part
	}
	if info, err := part.dir.Lstat(part.name); err == nil && info.Mode().IsRegular() && !hardLinked(info) {
		part.info = info
	}
	return &part
}

// receiveBytes is how much of a file is written at a time: a sender that is slow keeps nobody waiting.
const receiveBytes = 256 << 10

// Received is how many bytes have come of a file that is being received.
func (d *Dir) Received(p string) (int64, error) {
	var size int64
	err := d.view("stat", p, func(at *spot) error {
		if part := partOf(at); part.info != nil {
			size = part.info.Size()
		}
		return nil
	})
	return size, err
}

// Receive adds what r has to the part of a file that has come, from an offset on, which is 0 to begin anew, or what Received says. What comes
// before an error of r stays, so that the sender goes on from there; the file itself changes with Complete. It returns how many
// bytes have come.
func (d *Dir) Receive(ctx context.Context, p string, offset int64, r io.Reader) (int64, error) {
	buffer := make([]byte, receiveBytes)
	for first := true; ; first = false {
		n, failed := fill(r, buffer)
		if first || n > 0 {
			if err := d.receive(ctx, p, offset, buffer[:n]); err != nil {
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
func (d *Dir) receive(ctx context.Context, p string, offset int64, data []byte) error {
	return d.change("open", p, func(s *state, at *spot) (err error) {
		if at.isDir() || at.path == "." {
			return &Error{Code: IsDirectory}
		}
		part := partOf(at)
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

// Complete makes a file of the part that has come, which replaces one that is there.
func (d *Dir) Complete(ctx context.Context, p string) error {
	return d.change("open", p, func(s *state, at *spot) error {
		part := partOf(at)
		switch {
		case at.isDir():
			return &Error{Code: IsDirectory}
		case part.info == nil:
			return &Error{Code: NotFound, Detail: "nothing of it has come"}
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
		if at.info == nil {
			s.add(0, 1)
		} else {
			s.add(-at.info.Size(), 0)
		}
		return s.sync(at.dir)
	})
}

func syncFile(dir *os.Root, name string) error {
	f, err := dir.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Abort removes the part of a file that has come.
func (d *Dir) Abort(p string) error {
	return d.change("open", p, func(s *state, at *spot) error {
		part := partOf(at)
		if part.info == nil {
			return nil
		}
		return s.remove(part)
	})
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
