package api

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"runtime"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/files"
)

// content opens a file with the content that its owner reads. If the layout of the file is not cached, content takes a slot and scans the file.
func (a *API) content(ctx context.Context, at *area, p string) (*files.Content, error) {
	// Within this time after a write, a file may be written again without a change of its modification time.
	const settled = 2 * time.Second
	key := layoutKey{user: at.user, session: at.session, path: p, restored: at.restore != nil}
	known := func(info fs.FileInfo) *files.Layout {
		key.size, key.modified = info.Size(), info.ModTime()
		return a.layouts.get(key)
	}
	leave := func() {}
	if f, info, err := at.dir.Open(p); err == nil && known(info) == nil {
		leave, err = a.scans.enter(ctx, identity(ctx).Caller())
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	defer leave()
	c, err := at.dir.Content(ctx, p, at.restore, known)
	if err == nil && a.opt.Now().Sub(c.Info.ModTime()) > settled {
		a.layouts.put(key, c.Layout)
	}
	return c, err
}

// layouts caches the results of scans of files (files.Layout), such as the size and the hash of the content that the owner reads.
type layouts struct {
	mu  sync.Mutex
	all map[layoutKey]*files.Layout
}

type layoutKey struct {
	user, session, path string
	restored            bool
	size                int64
	modified            time.Time
}

// maxLayouts is the maximum number of cached layouts. A layout takes up to 64 bytes for each MiB of its file.
const maxLayouts = 2000

func (l *layouts) get(key layoutKey) *files.Layout {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all[key]
}

func (l *layouts) put(key layoutKey, of *files.Layout) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil || len(l.all) >= maxLayouts {
		l.all = map[layoutKey]*files.Layout{}
	}
	l.all[key] = of
}

// forget removes the layouts of the files in a session of a user.
func (l *layouts) forget(user, session string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.all, func(key layoutKey, _ *files.Layout) bool { return key.user == user && key.session == session })
}

// scansAtOnce is the maximum number of files that are scanned at the same time.
var scansAtOnce = runtime.GOMAXPROCS(0)
