package files

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mcp-code-exec-harness/internal/bucket"
)

const (
	blobBytes  = 4 << 20        // maximum size of an object with content of a file
	mergeBytes = 256 << 10      // an append puts its data and a last chunk below this size into one object
	orphanAge  = 24 * time.Hour // age from which an object that nothing refers to is the leftover of a dead process
)

// bucketDir is the directory of an owner in a bucket. All Dirs of the owner in this process share it. Other processes may use the same directory: each
// sees the changes of all others, and quotas hold for all of them together.
//
// The content of a file is in objects that are never changed. A change first writes new objects, then replaces the list of the directory, which
// makes the change visible at once, and then removes the objects that are no longer in use.
type bucketDir struct {
	base    *bucketBase
	names   []string
	prefix  string // beginning of the keys, with "/" at the end
	refs    int    // guarded by base.mu
	retired atomic.Bool

	changes sync.Mutex // held during a change: changes of this process do not overtake each other

	mu   sync.Mutex
	last *snapshot // the list that was read or written last; nil if there is none, or it is doubtful
	born string    // ID of this life of the directory; empty before it was read
}

var _ directory = (*bucketDir)(nil)

// Pause forgets the list of the directory.
func (d *bucketDir) Pause() {
	d.base.mu.Lock()
	alone := d.refs == 1
	d.base.mu.Unlock()
	if alone {
		d.know(nil)
	}
}

// known returns the snapshot that was read or written last; nil if there is none.
func (d *bucketDir) known() *snapshot {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last
}

func (d *bucketDir) know(s *snapshot) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = s
	if s != nil && s.list.Born != "" {
		d.born = s.list.Born
	}
}

// load reads the list, unless it is still the one that is known.
func (d *bucketDir) load(ctx context.Context) (*snapshot, error) {
	if d.retired.Load() {
		return nil, fs.ErrClosed
	}
	d.mu.Lock()
	last, born := d.last, d.born
	d.mu.Unlock()
	version := ""
	if last != nil && last.version != bucket.Absent {
		version = last.version
	}
	data, version, err := d.base.objects.Get(ctx, d.prefix+listKey, version)
	switch {
	case errors.Is(err, bucket.ErrUnchanged):
		return last, nil
	case errors.Is(err, bucket.ErrNotFound) && born == "":
		s := &snapshot{version: bucket.Absent}
		d.know(s)
		return s, nil
	case errors.Is(err, bucket.ErrNotFound): // removed by another process
		d.retired.Store(true)
		return nil, fs.ErrClosed
	case err != nil:
		return nil, err
	}
	s, err := decodeList(data, version)
	if err != nil {
		return nil, err
	}
	if born != "" && born != s.list.Born { // removed, and created again
		d.retired.Store(true)
		return nil, fs.ErrClosed
	}
	d.know(s)
	return s, nil
}

// view runs an operation that only reads.
func (d *bucketDir) view(ctx context.Context, op, p string, fn func(s *snapshot, at string) error) error {
	name, err := d.clean(p)
	var s *snapshot
	if err == nil {
		s, err = d.load(ctx)
	}
	if err == nil {
		err = fn(s, name)
	}
	if err != nil {
		return hostError(op, p, err)
	}
	return nil
}

func (d *bucketDir) clean(p string) (string, error) {
	name, err := clean(p)
	if err == nil {
		err = d.base.opts.reservedName(name)
	}
	return name, err
}

// change is a change of a directory.
type change struct {
	ctx      context.Context //nolint:containedctx // of the operation
	id       string
	uploaded []string                // IDs of the objects that it has written
	reserved *reservation            // the last part of the user's quota that it has reserved; nil for none
	stored   func() ([]chunk, error) // content that is written once, however often the change is repeated
}

// change runs a changing operation. fn is called again if another process has changed the directory meanwhile.
func (d *bucketDir) change(ctx context.Context, op, p string, fn func(c *change, e *edit, at string) error) error {
	name, err := d.clean(p)
	if err == nil {
		d.changes.Lock()
		defer d.changes.Unlock()
		c := &change{ctx: ctx, id: rand.Text()[:16]}
		err = d.apply(c, func(e *edit) error { return fn(c, e, name) })
	}
	if err != nil {
		return hostError(op, p, err)
	}
	return nil
}

// errUnknown means that the answer to the write of a list was lost.
var errUnknown = &Error{Code: IO, Detail: "the bucket of the files does not answer, and the change may have been made; look before you repeat it"}

// apply edits the list of the directory and writes it, until no other change has come between. The first attempt relies on what is known.
func (d *bucketDir) apply(c *change, fn func(*edit) error) error {
	s, fresh := d.known(), false
	for range maxRounds {
		var err error
		if s == nil || d.retired.Load() {
			if s, err = d.load(c.ctx); err != nil {
				d.discard(c)
				return err
			}
			fresh = true
		}
		e := newEdit(s, &d.base.opts, d.base.now())
		if err = fn(e); err == nil && e.changed {
			err = d.commit(c, s, e)
		}
		switch {
		case errors.Is(err, errUnknown):
			return err
		case err == nil && e.changed:
			return nil
		case fresh && !errors.Is(err, bucket.ErrConflict), errors.Is(err, bucket.ErrUnavailable):
			d.discard(c)
			return err
		case fresh:
			if err := pause(c.ctx); err != nil {
				d.discard(c)
				return err
			}
		}
		if s, err = d.load(c.ctx); err != nil {
			d.discard(c)
			return err
		}
		fresh = true
	}
	d.discard(c)
	return bucket.ErrConflict
}

// commit writes an edited list in place of s. It returns bucket.ErrConflict if s is no longer the list of the directory.
func (d *bucketDir) commit(c *change, s *snapshot, e *edit) error {
	ctx := context.WithoutCancel(c.ctx) // the outcome must be known; requests end by themselves
	sweep := false
	if d.base.now().Sub(time.Unix(e.list.Swept, 0)) > orphanAge {
		e.list.Swept, sweep = d.base.now().Unix(), true
	}
	e.list.Seq++
	e.list.Changes = append(slices.Clone(e.list.Changes[max(0, len(e.list.Changes)-maxChanges+1):]), c.id)
	data, err := e.encode()
	if err != nil {
		return err
	}
	version, err := d.base.objects.Put(ctx, d.prefix+listKey, data, s.version)
	if err != nil {
		d.know(nil)
		now, failed := d.load(ctx)
		switch {
		case failed != nil && errors.Is(err, bucket.ErrUnavailable):
			return errUnknown
		case failed != nil:
			return failed
		case slices.Contains(now.list.Changes, c.id): // the answer was lost
		case errors.Is(err, bucket.ErrUnavailable):
			return bucket.ErrConflict // The write did not take effect, and the bucket is back.
		default:
			return err
		}
	} else {
		done := e.snapshot
		done.version = version
		d.know(&done)
	}
	if e.used.Bytes < s.used.Bytes {
		_ = d.base.account(ctx, d.names, func(u *bucketUse) (bool, error) { // after an error, the next change of the directory corrects it
			of := u.dirs[d.names[1]]
			if of.Born == e.list.Born && of.Seq >= e.list.Seq {
				return false, nil
			}
			u.dirs[d.names[1]] = reservation{e.list.Born, e.list.Seq, e.used.Bytes, 1}
			return true, nil
		})
	}
	var drop []string
	for id, refs := range e.refs {
		if refs < 0 {
			drop = append(drop, id)
		}
	}
	for _, id := range c.uploaded { // These include those of attempts that were overtaken.
		if e.refs[id] <= 0 {
			drop = append(drop, id)
		}
	}
	d.drop(ctx, drop)
	if sweep {
		d.sweep(ctx, &e.snapshot)
	}
	return nil
}

// dropTime bounds the removal of objects that are no longer in use. What stays is removed by a later sweep.
const dropTime = 5 * time.Second

func (d *bucketDir) drop(ctx context.Context, ids []string) {
	if len(ids) == 0 {
		return
	}
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = d.prefix + dataKey + id
	}
	ctx, cancel := context.WithTimeout(ctx, dropTime)
	defer cancel()
	_ = d.base.objects.Delete(ctx, keys...)
}

// discard removes the objects of a change that failed, and gives back what it has reserved of the user's quota.
func (d *bucketDir) discard(c *change) {
	ctx := context.WithoutCancel(c.ctx)
	d.drop(ctx, c.uploaded)
	s := d.known()
	if c.reserved == nil || s == nil {
		return
	}
	_ = d.base.account(ctx, d.names, func(u *bucketUse) (bool, error) { // after an error, the next change of the directory corrects it
		of := u.dirs[d.names[1]]
		if of.Born != c.reserved.Born || of.Seq != c.reserved.Seq || of.Tries > 1 { // Other changes may rely on the reservation.
			return false, nil
		}
		if of.Bytes = s.used.Bytes; d.retired.Load() {
			delete(u.dirs, d.names[1])
			return true, nil
		}
		u.dirs[d.names[1]] = of
		return true, nil
	})
}

// sweep removes old objects that nothing refers to.
func (d *bucketDir) sweep(ctx context.Context, s *snapshot) {
	live, before := map[string]bool{}, d.base.now().Add(-orphanAge)
	for _, key := range keysOf(d.prefix, s.list.Nodes) {
		live[key] = true
	}
	_ = d.base.purge(ctx, d.prefix, func(o bucket.Object) bool { return o.Modified.Before(before) && !live[o.Key] }) // the next sweep tries again
}

// store writes size bytes of r to objects.
func (d *bucketDir) store(c *change, size int64, r io.Reader) (chunks []chunk, err error) {
	buffer := make([]byte, min(size, blobBytes))
	for size > 0 {
		if err := c.ctx.Err(); err != nil {
			return nil, err
		}
		piece := buffer[:min(size, blobBytes)]
		if _, err := io.ReadFull(r, piece); err != nil {
			return nil, err
		}
		id := rand.Text()
		c.uploaded = append(c.uploaded, id)
		if _, err := d.base.objects.Put(c.ctx, d.prefix+dataKey+id, piece, ""); err != nil {
			return nil, err
		}
		chunks = append(chunks, chunk{id, int64(len(piece))})
		size -= int64(len(piece))
	}
	return chunks, nil
}

// extend returns chunks with data at their end.
func (d *bucketDir) extend(c *change, chunks []chunk, data []byte) ([]chunk, error) {
	if n := len(chunks); n > 0 && len(data) > 0 && chunks[n-1].Size < mergeBytes {
		last, err := d.base.objects.Read(c.ctx, d.prefix+dataKey+chunks[n-1].ID, 0, chunks[n-1].Size)
		if errors.Is(err, bucket.ErrNotFound) {
			return nil, bucket.ErrConflict // replaced meanwhile
		}
		if err != nil {
			return nil, err
		}
		chunks, data = chunks[:n-1], append(last, data...)
	}
	more, err := d.store(c, int64(len(data)), bytes.NewReader(data))
	return append(slices.Clone(chunks), more...), err
}

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

func (d *bucketDir) open(op, p string) (f File, err error) {
	err = d.view(d.base.ctx, op, p, func(s *snapshot, at string) error {
		n, err := s.file(at)
		if err == nil {
			f = d.read(n, at)
		}
		return err
	})
	return f, err
}

// read returns a file for reading.
func (d *bucketDir) read(n *node, p string) *bucketFile {
	f := &bucketFile{dir: d, ctx: d.base.ctx, node: n, name: path.Base(p)}
	f.SectionReader = io.NewSectionReader(bucketReader{f}, 0, n.size())
	return f
}

// bucketFile is an open file of a bucket.
type bucketFile struct {
	*io.SectionReader
	dir  *bucketDir
	ctx  context.Context //nolint:containedctx // io.Reader has no other way
	node *node
	name string

	mu    sync.Mutex
	chunk int    // index of the chunk of which a part is in memory
	from  int64  // offset of this part in the chunk
	ahead []byte // the part, at most aheadBytes; nil if there is none
}

const (
	aheadBytes = 1 << 20  // number of bytes that are read at once from a file that is read in pieces
	pieceBytes = 16 << 10 // size from which a read counts as a piece
)

var _ File = (*bucketFile)(nil)

func (f *bucketFile) Stat() (fs.FileInfo, error) { return nodeInfo{f.name, f.node}, nil }

// Close releases the memory of the file.
func (f *bucketFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ahead = nil
	return nil
}

// bucketReader reads the content of a bucketFile.
type bucketReader struct{ f *bucketFile }

// ReadAt implements io.ReaderAt.
func (r bucketReader) ReadAt(p []byte, offset int64) (n int, err error) {
	f, begins := r.f, int64(0)
	for i, c := range f.node.Chunks {
		at := offset + int64(n) - begins
		begins += c.Size
		if at >= c.Size {
			continue
		}
		if n == len(p) {
			return n, nil
		}
		want := min(int64(len(p)-n), c.Size-at)
		data, err := f.read(i, c, at, want)
		if err != nil {
			return n, err
		}
		n += copy(p[n:], data)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// read returns a part of a chunk.
func (f *bucketFile) read(i int, c chunk, at, length int64) (data []byte, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ahead != nil && f.chunk == i && at >= f.from && at+length <= f.from+int64(len(f.ahead)) {
		return f.ahead[at-f.from:][:length], nil
	}
	size := length
	if length >= pieceBytes && length < aheadBytes {
		size = min(aheadBytes, c.Size-at)
	}
	data, err = f.dir.base.objects.Read(f.ctx, f.dir.prefix+dataKey+c.ID, at, size)
	switch {
	case errors.Is(err, bucket.ErrNotFound):
		return nil, errChanged
	case err != nil:
		return nil, err
	case int64(len(data)) != size:
		return nil, errChanged
	}
	if size > length {
		f.chunk, f.from, f.ahead = i, at, data
	}
	return data[:length], nil
}
