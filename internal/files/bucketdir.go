package files

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"slices"
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
