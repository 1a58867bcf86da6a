package files

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"sync"
)

func (d *bucketDir) ReadFile(p string, offset, length int64) (data []byte, err error) {
	const attempts = 3
	for range attempts {
		err = d.view(d.base.ctx, "open", p, func(s *snapshot, at string) error {
			if offset < 0 {
				return invalid("the offset is negative")
			}
			n, err := s.file(at)
			if err != nil {
				return err
			}
			left := max(0, n.size()-offset)
			if length >= 0 {
				left = min(left, length)
			}
			data = make([]byte, left)
			got, err := d.read(n, at).ReadAt(data, offset)
			data = data[:got]
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		})
		if e, ok := errors.AsType[*Error](err); !ok || e.Detail != errChanged.Detail {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

// file returns the file at a path.
func (s *snapshot) file(p string) (*node, error) {
	n, _, err := s.lookup(p)
	switch {
	case err != nil:
		return nil, err
	case n == nil:
		return nil, &Error{Code: NotFound}
	case n.Dir:
		return nil, &Error{Code: IsDirectory}
	}
	return n, nil
}

func (d *bucketDir) ReadDir(ctx context.Context, p string, recursive bool) ([]Entry, error) {
	list := listing{entries: []Entry{}, opts: &d.base.opts}
	err := d.view(ctx, "scandir", p, func(s *snapshot, at string) error {
		n, _, err := s.lookup(at)
		switch {
		case err != nil:
			return err
		case n == nil:
			return &Error{Code: NotFound}
		case !n.Dir:
			return &Error{Code: NotDir}
		}
		return s.read(&list, at, recursive)
	})
	if err != nil {
		return nil, err
	}
	return list.entries, nil
}

func (d *bucketDir) Stat(p string) (e Entry, err error) {
	err = d.view(d.base.ctx, "stat", p, func(s *snapshot, at string) error {
		n, _, err := s.lookup(at)
		switch {
		case err != nil:
			return err
		case n == nil:
			return &Error{Code: NotFound}
		case n == topNode:
			e = Entry{Name: ".", Path: ".", IsDir: true}
		default:
			e = n.entry(at)
		}
		return nil
	})
	return e, err
}

func (d *bucketDir) Hand(p string) (h Hand) {
	_ = d.view(d.base.ctx, "stat", p, func(s *snapshot, at string) error {
		if n, _, err := s.lookup(at); err == nil && n != nil && n.Given > 0 {
			h = Hand{n.Given, n.size(), n.Time}
		}
		return nil
	})
	return h
}

// put replaces the content of a file by what content returns, which is called once the quotas have room for it.
func (d *bucketDir) put(c *change, e *edit, at string, size, given int64, content func() ([]chunk, error)) error {
	n, missing, err := e.lookup(at)
	before, more := int64(0), int64(1)
	switch {
	case err != nil:
		return err
	case n != nil && n.Dir:
		return &Error{Code: IsDirectory}
	case n != nil:
		before, more = n.size(), 0
	}
	if err := e.room(size-before, more+int64(len(missing))); err != nil {
		return err
	}
	if size > before { // before the work, so that processes together do not exceed the quota
		if err := d.base.reserve(c.ctx, d.names, &e.list, e.used.Bytes+size-before); err != nil {
			return err
		}
		c.reserved = &reservation{Born: e.list.Born, Seq: e.list.Seq + 1}
	}
	chunks, err := content()
	if err != nil {
		return err
	}
	e.mkdirs(missing)
	e.set(at, &node{Time: e.now, Given: min(given, size), Chunks: chunks})
	return nil
}

func (d *bucketDir) writeFrom(ctx context.Context, p string, size int64, r io.Reader) error {
	return d.change(ctx, "open", p, func(c *change, e *edit, at string) error {
		return d.put(c, e, at, size, 0, d.once(c, size, r))
	})
}

// once returns a function that writes size bytes of r to objects at its first call, and returns the same chunks at later calls.
func (d *bucketDir) once(c *change, size int64, r io.Reader) func() ([]chunk, error) {
	if c.stored == nil {
		c.stored = sync.OnceValues(func() ([]chunk, error) { return d.store(c, size, r) })
	}
	return c.stored
}

func (d *bucketDir) copy(ctx context.Context, op, to string, f File, of Hand) error {
	info, err := f.Stat()
	if err != nil {
		return hostError(op, to, err)
	}
	given := int64(0)
	if of.time == info.ModTime().UnixNano() {
		given = of.Given
	}
	return d.change(ctx, op, to, func(c *change, e *edit, at string) error {
		return d.put(c, e, at, info.Size(), given, d.once(c, info.Size(), io.NewSectionReader(f, 0, info.Size())))
	})
}

func (d *bucketDir) removeCopied(op, from string, copied fs.FileInfo) error {
	return d.change(d.base.ctx, op, from, func(_ *change, e *edit, at string) error {
		n, _, err := e.lookup(at)
		if err != nil || n == nil {
			return err
		}
		if was, ok := copied.(nodeInfo); !ok || n.Dir || n.Time != was.node.Time || !slices.Equal(n.Chunks, was.node.Chunks) {
			return errMoved
		}
		e.set(at, nil)
		return nil
	})
}

func (d *bucketDir) AppendFile(ctx context.Context, p string, data []byte) error {
	return d.change(ctx, "open", p, func(c *change, e *edit, at string) error {
		n, _, err := e.lookup(at)
		if err != nil {
			return err
		}
		had := &node{}
		if n != nil {
			had = n
		}
		return d.put(c, e, at, had.size()+int64(len(data)), had.Given, func() ([]chunk, error) { return d.extend(c, had.Chunks, data) })
	})
}

func (d *bucketDir) truncate(p string, size int64) error {
	return d.change(d.base.ctx, "open", p, func(_ *change, e *edit, at string) error {
		n, _, err := e.lookup(at)
		if err != nil || n == nil || n.Dir || n.size() <= size {
			return err
		}
		short := &node{Time: e.now, Given: min(n.Given, size)}
		for _, c := range n.Chunks {
			if size <= 0 {
				break
			}
			c.Size = min(c.Size, size)
			short.Chunks = append(short.Chunks, c)
			size -= c.Size
		}
		e.set(at, short)
		return nil
	})
}

func (d *bucketDir) Mkdir(ctx context.Context, p string, parents bool) error {
	return d.change(ctx, "mkdir", p, func(_ *change, e *edit, at string) error {
		n, missing, err := e.lookup(at)
		switch {
		case err != nil:
			return err
		case n != nil && n.Dir && parents:
			return nil
		case n != nil:
			return &Error{Code: Exists}
		case len(missing) > 0 && !parents:
			return errNoMkdir
		}
		if err := e.room(0, int64(len(missing)+1)); err != nil {
			return err
		}
		e.mkdirs(append(missing, at))
		return nil
	})
}

func (d *bucketDir) Delete(p string) error {
	return d.change(d.base.ctx, "unlink", p, func(_ *change, e *edit, at string) error {
		n, _, err := e.lookup(at)
		switch {
		case err != nil || n == nil:
			return err
		case n.Dir:
			return errDeleteDir
		}
		e.set(at, nil)
		return nil
	})
}

func (d *bucketDir) Remove(ctx context.Context, p string, recursive, force bool) error {
	return d.change(ctx, "rm", p, func(_ *change, e *edit, at string) error {
		n, _, err := e.lookup(at)
		switch {
		case err != nil:
			return err
		case at == ".":
			return errTop
		case n == nil && force:
			return nil
		case n == nil:
			return &Error{Code: NotFound}
		}
		if n.Dir {
			all := e.below(at)
			if len(all) > 0 && !recursive {
				return errNotEmpty
			}
			for _, p := range all {
				e.set(p, nil)
			}
		}
		e.set(at, nil)
		return nil
	})
}

// Rename changes the list only, whatever the size of a directory, so that it is atomic.
func (d *bucketDir) Rename(ctx context.Context, from, to string) error {
	target, err := clean(to)
	err = d.change(ctx, "rename", from, func(_ *change, e *edit, at string) error {
		if err != nil {
			return err
		}
		return e.rename(at, target)
	})
	if e, ok := errors.AsType[*Error](err); ok {
		e.To = shown(to)
	}
	return err
}
