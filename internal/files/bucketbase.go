package files

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/bucket"
	"mcp-code-exec-harness/internal/id"
)

// The names of objects. Directories of owners have names without a dot (DirName), so these names are free. Directories of runs are below runsKey, so
// that Sweep finds them without a look at all sessions.
const (
	listKey    = ".tree"     // the list of a directory
	dataKey    = ".data/"    // the objects with the content of the files of a directory
	useKey     = ".use"      // the usage of all directories of a user
	runsKey    = ".run/"     // directories whose second id is that of a run
	removedKey = ".removed/" // directories whose removal has begun
)

// removedAge is the age from which another process completes a removal.
const removedAge = 10 * time.Minute

// bucketBase is a part of a bucket that holds one directory per owner.
type bucketBase struct {
	objects *bucket.Bucket
	prefix  string // beginning of all keys, with "/" at the end
	opts    Options
	now     func() time.Time
	ctx     context.Context //nolint:containedctx // methods of Dirs without a context end with the base
	cancel  context.CancelFunc

	mu   sync.Mutex
	open map[string]*bucketDir // directories by path inside the base

	usesMu sync.Mutex
	uses   map[string]*bucketUse // records by user
}

var _ Base = (*bucketBase)(nil)

// OpenBucket returns the base whose directories are in a bucket, in objects whose keys begin with the section of the options and, if it is not empty,
// the given name. Writes survive a power failure as the bucket promises it, whatever Durable says. The caller closes the bucket after the base.
func OpenBucket(objects *bucket.Bucket, name string, opts Options) Base {
	ctx, cancel := context.WithCancel(context.Background())
	return &bucketBase{
		objects: objects, prefix: cmp.Or(name, opts.Section) + "/", opts: opts, now: time.Now, ctx: ctx, cancel: cancel,
		open: map[string]*bucketDir{}, uses: map[string]*bucketUse{},
	}
}

// In returns what opens bases: OpenBase if objects is nil, else OpenBucket with the name.
func In(objects func() (*bucket.Bucket, error), name string) func(dir string, opts Options) (Base, error) {
	if objects == nil {
		return OpenBase
	}
	return func(_ string, opts Options) (Base, error) {
		in, err := objects()
		if err != nil {
			return nil, err
		}
		return OpenBucket(in, name, opts), nil
	}
}

func (b *bucketBase) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cancel()
	for key, d := range b.open {
		d.retired.Store(true)
		delete(b.open, key)
	}
	return nil
}

func (b *bucketBase) Open(ids ...string) (*Dir, error) {
	names, err := dirNames(ids)
	if err != nil {
		return nil, fmt.Errorf("open the %s directory: %w", b.opts.Section, err)
	}
	key := path.Join(names...)
	b.mu.Lock()
	defer b.mu.Unlock()
	d := b.open[key]
	if d == nil || d.retired.Load() {
		d = &bucketDir{base: b, names: names, prefix: b.key(names)}
		b.open[key] = d
	}
	d.refs++
	return &Dir{directory: d, release: sync.OnceFunc(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if d.refs--; d.refs == 0 {
			d.retired.Store(true)
			if b.open[key] == d {
				delete(b.open, key)
			}
		}
	})}, nil
}

// key returns the beginning of the keys of a directory.
func (b *bucketBase) key(names []string) string {
	if isRun(names) {
		return b.prefix + runsKey + path.Join(names...) + "/"
	}
	return b.prefix + path.Join(names...) + "/"
}

func isRun(names []string) bool { return len(names) == 2 && id.Is("run", names[1]) }

func (b *bucketBase) Remove(ids ...string) error {
	names, err := dirNames(ids)
	if err == nil {
		err = b.remove(b.ctx, names, false)
	}
	if err != nil {
		return fmt.Errorf("remove a %s directory: %w", b.opts.Section, err)
	}
	return nil
}

// remove deletes a directory. A process that ends meanwhile leaves a mark, by which Sweep of any process completes the removal. No run has the
// directory of another one, so that these need no mark. If orphans is true, remove also looks for objects without a list.
func (b *bucketBase) remove(ctx context.Context, names []string, orphans bool) error {
	b.mu.Lock()
	if d := b.open[path.Join(names...)]; d != nil {
		d.retired.Store(true)
		delete(b.open, path.Join(names...))
	}
	b.mu.Unlock()
	now, err := b.list(ctx, names)
	switch {
	case errors.Is(err, bucket.ErrNotFound) && !orphans:
		return nil
	case err != nil && !errors.Is(err, bucket.ErrNotFound):
		return err
	case isRun(names):
		if err := b.removeAll(ctx, b.key(names)); err != nil {
			return err
		}
		return b.forget(ctx, names)
	}
	if _, err := b.objects.Put(ctx, b.prefix+removedKey+path.Join(names...), []byte(now.list.Born), ""); err != nil {
		return err
	}
	return b.complete(ctx, names)
}

// complete completes the removal of a directory that is marked. What the owner has created since then stays.
func (b *bucketBase) complete(ctx context.Context, names []string) error {
	mark, prefix := b.prefix+removedKey+path.Join(names...), b.key(names)
	var marked time.Time
	if err := b.objects.List(ctx, mark, true, func(o bucket.Object) error {
		if o.Key == mark {
			marked = o.Modified
		}
		return nil
	}); err != nil || marked.IsZero() {
		return err
	}
	born, _, err := b.objects.Get(ctx, mark, "")
	if err != nil {
		return err
	}
	now, err := b.list(ctx, names)
	live := map[string]bool{}
	switch {
	case errors.Is(err, bucket.ErrNotFound):
	case err != nil:
		return err
	case now.list.Born == string(born):
		if err := b.objects.Delete(ctx, prefix+listKey); err != nil {
			return err
		}
		if err := b.forget(ctx, names); err != nil {
			return err
		}
		if err := b.objects.Delete(ctx, keysOf(prefix, now.list.Nodes)...); err != nil {
			return err
		}
	default: // created again
		for _, key := range keysOf(prefix, now.list.Nodes) {
			live[key] = true
		}
	}
	if err := b.purge(ctx, prefix, func(o bucket.Object) bool { return o.Modified.Before(marked) && !live[o.Key] }); err != nil {
		return err
	}
	return b.objects.Delete(ctx, mark)
}

func (b *bucketBase) removeAll(ctx context.Context, prefix string) error {
	if err := b.objects.Delete(ctx, prefix+listKey); err != nil { // first, so that writers in other processes notice it
		return err
	}
	return b.purgeUnder(ctx, prefix, func(bucket.Object) bool { return true })
}

// purge removes those objects with the content of a directory's files for which drop returns true.
func (b *bucketBase) purge(ctx context.Context, prefix string, drop func(bucket.Object) bool) error {
	return b.purgeUnder(ctx, prefix+dataKey, drop)
}

func (b *bucketBase) purgeUnder(ctx context.Context, prefix string, drop func(bucket.Object) bool) error {
	var keys []string
	err := b.objects.List(ctx, prefix, true, func(o bucket.Object) error {
		if drop(o) {
			keys = append(keys, o.Key)
		}
		return nil
	})
	if err != nil || len(keys) == 0 {
		return err
	}
	return b.objects.Delete(ctx, keys...)
}

// keysOf returns the keys of the objects that nodes refer to.
func keysOf(prefix string, nodes map[string]*node) (keys []string) {
	for _, n := range nodes {
		for _, c := range n.Chunks {
			keys = append(keys, prefix+dataKey+c.ID)
		}
	}
	return keys
}

// list reads the list of a directory.
func (b *bucketBase) list(ctx context.Context, names []string) (*snapshot, error) {
	data, version, err := b.objects.Get(ctx, b.key(names)+listKey, "")
	if err != nil {
		return nil, err
	}
	return decodeList(data, version)
}

func (b *bucketBase) Sweep(ctx context.Context, before time.Time, ended func(run string) bool) error {
	var failed error
	marks, runs := map[string]time.Time{}, map[string]time.Time{} // times by USER/SESSION and USER/RUN
	err := b.objects.List(ctx, b.prefix+removedKey, true, func(o bucket.Object) error {
		marks[strings.TrimPrefix(o.Key, b.prefix+removedKey)] = o.Modified
		return nil
	})
	if err == nil {
		err = b.objects.List(ctx, b.prefix+runsKey, true, func(o bucket.Object) error {
			if parts := strings.SplitN(strings.TrimPrefix(o.Key, b.prefix+runsKey), "/", 3); len(parts) == 3 {
				of := parts[0] + "/" + parts[1]
				if at := runs[of]; at.Before(o.Modified) {
					runs[of] = o.Modified
				}
			}
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("sweep the %s directories: %w", b.opts.Section, err)
	}
	for of, at := range marks {
		if b.now().Sub(at) > removedAge {
			failed = errors.Join(failed, b.complete(ctx, strings.Split(of, "/")))
		}
	}
	for of, at := range runs {
		names := strings.Split(of, "/")
		b.mu.Lock()
		inUse := b.open[of] != nil
		b.mu.Unlock()
		if !inUse && at.Before(before) && ended(names[1]) {
			failed = errors.Join(failed, b.remove(ctx, names, true))
		}
	}
	if failed != nil {
		return fmt.Errorf("remove a %s directory: %w", b.opts.Section, failed)
	}
	return nil
}

// bucketUse is the object with the bytes of all directories of a user, as it was read or written last.
type bucketUse struct {
	mu      sync.Mutex
	version string // empty if it was not read
	dirs    map[string]reservation
}

// reservation is a bound on the bytes of a directory. A change that adds bytes reserves them before the work.
type reservation struct {
	Born  string `json:"born"`  // life of the directory
	Seq   int64  `json:"seq"`   // number of the change, by the list; no change up to this one leaves more than Bytes
	Bytes int64  `json:"bytes"` // the most that a change with this number may leave
	Tries int    `json:"tries"` // number of changes that tried to be the one with this number; one of them succeeds
}

// sum returns the bytes of all directories.
func (u *bucketUse) sum() (sum int64) {
	for _, r := range u.dirs {
		sum += r.Bytes
	}
	return sum
}

func (b *bucketBase) use(user string) *bucketUse {
	b.usesMu.Lock()
	defer b.usesMu.Unlock()
	u := b.uses[user]
	if u == nil {
		if len(b.uses) >= maxUses {
			clear(b.uses) // The records are read again.
		}
		u = &bucketUse{}
		b.uses[user] = u
	}
	return u
}

// reserve reserves bytes for the next change of a directory. It returns an Error with code ENOSPC if they exceed the quota of the user, and
// bucket.ErrConflict if the list of e is no longer the last one.
func (b *bucketBase) reserve(ctx context.Context, names []string, e *list, bytes int64) error {
	return b.account(ctx, names, func(u *bucketUse) (bool, error) {
		of, next := u.dirs[names[1]], reservation{e.Born, e.Seq + 1, bytes, 1}
		switch {
		case of.Born == next.Born && of.Seq > next.Seq:
			return false, bucket.ErrConflict
		case of.Born == next.Born && of.Seq == next.Seq, of.Born != next.Born && of.Born != "" && next.Seq == 1:
			next.Bytes, next.Tries = max(bytes, of.Bytes), of.Tries+1
		}
		u.dirs[names[1]] = next
		return true, b.opts.userFull(u.sum()-next.Bytes+of.Bytes, next.Bytes-of.Bytes)
	})
}

// account changes the record of a user with change, which returns whether it has changed anything. If it has not, or returns an error, the record is
// read again once.
func (b *bucketBase) account(ctx context.Context, names []string, change func(*bucketUse) (bool, error)) error {
	if b.opts.Limits.MaxUserBytes == 0 || len(names) < 2 {
		return nil
	}
	key := b.prefix + names[0] + "/" + useKey
	u := b.use(names[0])
	u.mu.Lock()
	defer u.mu.Unlock()
	fresh := false
	for range maxRounds {
		if fresh || u.version == "" {
			if err := b.readUse(ctx, u, names[0], key); err != nil {
				return err
			}
			fresh = true
		}
		version := u.version
		changed, err := change(u)
		if err != nil || !changed {
			u.version = "" // change may have edited it
			if fresh {
				return err
			}
			fresh = true
			continue
		}
		data, err := json.Marshal(u.dirs)
		if err != nil {
			return err
		}
		u.version = "" // The version is known again when the write has succeeded.
		if version, err = b.objects.Put(ctx, key, data, version); err == nil {
			u.version = version
			return nil
		}
		if !errors.Is(err, bucket.ErrConflict) {
			return err
		}
		if err := pause(ctx); err != nil {
			return err
		}
		fresh = true
	}
	return bucket.ErrConflict
}

// forget removes the reservation of a directory that was removed.
func (b *bucketBase) forget(ctx context.Context, names []string) error {
	return b.account(ctx, names, func(u *bucketUse) (bool, error) {
		_, had := u.dirs[names[1]]
		delete(u.dirs, names[1])
		return had, nil
	})
}

// readUse reads the bytes of all directories of a user. If there is no record, it adds them up.
func (b *bucketBase) readUse(ctx context.Context, u *bucketUse, user, key string) error {
	data, version, err := b.objects.Get(ctx, key, "")
	if err == nil {
		u.version, u.dirs = version, map[string]reservation{}
		return json.Unmarshal(data, &u.dirs)
	}
	if !errors.Is(err, bucket.ErrNotFound) {
		return err
	}
	all := map[string]reservation{}
	for _, prefix := range []string{b.prefix + user + "/", b.prefix + runsKey + user + "/"} {
		var dirs []string
		if err := b.objects.List(ctx, prefix, false, func(o bucket.Object) error {
			if dir, ok := strings.CutSuffix(strings.TrimPrefix(o.Key, prefix), "/"); ok && !strings.HasPrefix(dir, ".") {
				dirs = append(dirs, dir)
			}
			return nil
		}); err != nil {
			return err
		}
		for _, dir := range dirs {
			s, err := b.list(ctx, []string{user, dir})
			if errors.Is(err, bucket.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			all[dir] = reservation{s.list.Born, s.list.Seq, s.used.Bytes, 1}
		}
	}
	u.version, u.dirs = bucket.Absent, all
	return nil
}

const maxRounds = 50 // maximum number of attempts of a change that others keep overtaking

// pause waits up to 20 ms, so that writers that overtake each other do not do it again.
func pause(ctx context.Context) error {
	var random [1]byte
	_, _ = rand.Read(random[:]) // It never fails.
	select {
	case <-time.After(time.Duration(random[0]) * 80 * time.Microsecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
