package files

import (
	"context"
	"crypto/sha256"
	"io"
	"io/fs"
	"math"
	"path"
	"strings"
)

// at returns the path of a part, beside the path of its file.
func (p *Part) at(file string) string { return path.Join(path.Dir(file), p.name(path.Base(file))) }

// part returns the part of a file, nil if it does not exist.
func (s *snapshot) part(p *Part, file string) (*node, error) {
	if n, _, err := s.lookup(file); err != nil || n != nil && n.Dir {
		if err == nil {
			err = &Error{Code: IsDirectory}
		}
		return nil, err
	}
	n, _, err := s.lookup(p.at(file))
	return n, err
}

func (d *bucketDir) partSize(p *Part) (size int64, err error) {
	err = d.view(d.base.ctx, "stat", p.path, func(s *snapshot, at string) error {
		if n, _, err := s.lookup(p.at(at)); err == nil && n != nil {
			size = n.size()
		}
		return nil
	})
	return size, err
}

func (d *bucketDir) partFits(ctx context.Context, p *Part, size int64) error {
	return d.change(ctx, "open", p.path, func(_ *change, e *edit, at string) error {
		n, err := e.part(p, at)
		if err != nil {
			return err
		}
		_, missing, err := e.lookup(at)
		have, more := int64(0), int64(1)
		if n != nil {
			have, more = n.size(), 0
		}
		if err == nil {
			err = e.room(size-have, more+int64(len(missing)))
		}
		if err == nil {
			err = d.fits(ctx, e.used.Bytes+size-have)
		}
		return err
	})
}

// fits returns an Error with code ENOSPC if the user has no room for a directory with this number of bytes.
func (d *bucketDir) fits(ctx context.Context, bytes int64) error {
	if d.base.opts.Limits.MaxUserBytes == 0 || len(d.names) < 2 {
		return nil
	}
	u := d.base.use(d.names[0])
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := d.base.readUse(ctx, u, d.names[0], d.base.prefix+d.names[0]+"/"+useKey); err != nil {
		return err
	}
	return d.base.opts.userFull(u.sum(), bytes-u.dirs[d.names[1]].Bytes)
}

func (d *bucketDir) receive(ctx context.Context, p *Part, offset int64, data []byte) error {
	return d.change(ctx, "open", p.path, func(c *change, e *edit, at string) error {
		n, err := e.part(p, at)
		if err != nil {
			return err
		}
		had := &node{}
		if n != nil {
			had = n
		}
		if have := had.size(); offset != have && offset != 0 {
			return invalid("%d bytes of the file have come, and this part begins at %d", have, offset)
		}
		if offset == 0 {
			had = &node{}
		}
		return d.put(c, e, p.at(at), offset+int64(len(data)), 0, func() ([]chunk, error) { return d.extend(c, had.Chunks, data) })
	})
}

// receiveBytes is the size of an object, so that the list is not written for each small piece.
func (d *bucketDir) receiveBytes() int { return blobBytes }

func (d *bucketDir) sum(ctx context.Context, p *Part) (sum [sha256.Size]byte, err error) {
	err = d.view(ctx, "open", p.path, func(s *snapshot, at string) error {
		n, err := s.file(p.at(at))
		if err != nil {
			return err
		}
		f := d.read(n, at)
		f.ctx = ctx
		h := sha256.New()
		if _, err := io.Copy(h, f); err != nil {
			return err
		}
		sum = [sha256.Size]byte(h.Sum(nil))
		return nil
	})
	return sum, err
}

func (d *bucketDir) complete(ctx context.Context, p *Part, check func(fs.FileInfo) error) (created bool, err error) {
	var refused error
	err = d.change(ctx, "open", p.path, func(_ *change, e *edit, at string) error {
		n, err := e.part(p, at)
		switch {
		case err != nil:
			return err
		case n == nil:
			return &Error{Code: NotFound, Detail: "nothing of it has come"}
		}
		file, _, err := e.lookup(at)
		if err != nil {
			return err
		}
		refused, created = nil, file == nil
		if check != nil {
			var info fs.FileInfo
			if file != nil {
				info = nodeInfo{path.Base(at), file}
			}
			if refused = check(info); refused != nil {
				return nil
			}
		}
		e.set(p.at(at), nil)
		e.set(at, &node{Time: e.now, Given: min(math.MaxInt64, n.size()), Chunks: n.Chunks})
		return nil
	})
	if err == nil && refused != nil {
		return false, refused
	}
	return created, err
}

func (d *bucketDir) abort(p *Part) error {
	return d.change(d.base.ctx, "open", p.path, func(_ *change, e *edit, at string) error {
		if n, _, err := e.lookup(p.at(at)); err != nil || n == nil {
			return err
		}
		e.set(p.at(at), nil)
		return nil
	})
}

func (d *bucketDir) Discard(ctx context.Context, p string) (found bool, err error) {
	err = d.change(ctx, "open", p, func(_ *change, e *edit, at string) error {
		found = false
		if at == "." {
			return nil
		}
		prefix := path.Join(path.Dir(at), partsOf(path.Base(at)))
		for p := range e.list.Nodes {
			if strings.HasPrefix(p, prefix) {
				e.set(p, nil)
				found = true
			}
		}
		return nil
	})
	return found, err
}
