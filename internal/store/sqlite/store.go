// Package sqlite keeps the harness's state in one SQLite file: runs and their journals, sessions, tasks, schedules and the
// keys of the HTTP API. Several processes may share it.
//
// Nothing here opens the file except through SQLite: closing any other descriptor of it would drop the locks that
// SQLite holds in this process (POSIX record locks).
package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"modernc.org/sqlite"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/slots"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/usage"
)

// Sync determines what a commit survives.
type Sync string

// SyncNormal survives a killed process; SyncFull also a power failure, for one fsync each commit.
const (
	SyncNormal Sync = "normal"
	SyncFull   Sync = "full"
)

const (
	busyTimeout = 10 * time.Second     // bounds the wait for another process that writes
	writeWait   = 2 * time.Millisecond // wait between two tries of the writer
)

// Options of a Store. The zero value is ready to use.
type Options struct {
	Sync Sync // default SyncNormal
	// Retention is how long ended runs and tasks are kept; 0 means for ever. The Store purges by itself when it is opened, and every hour.
	Retention time.Duration
	Quotas    Quotas
	Now       func() time.Time // default time.Now
	Upgraded  func(Upgrade)    // called, while the store is opened, after its tables were brought up to date; may be nil
	Logger    *slog.Logger     // default slog.DiscardHandler
}

// Store is an open database. Its methods are safe for concurrent use.
type Store struct {
	path   string
	now    func() time.Time
	log    *slog.Logger
	lease  lease
	writer *writer
	vaults *slots.Slots // turns of transactions with many tokens
	marks  marks
	live   live
	read   *sql.DB

	statements prepared // statements of read
	quotas     Quotas

	mu     sync.Mutex
	open   map[string]*runWriter // journals being written in this process
	closed bool
	queue  *os.File // locked while this process works the queue

	endPurge func() // stops the background purge and waits for it
}

// Open opens the store that url names ("sqlite:PATH" or a path), and creates a missing directory and file so that only this user can read them.
// ctx applies to the opening only. The caller must call Close.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	path, err := filePath(url)
	if err != nil {
		return nil, err
	}
	s, err := open(ctx, path, o)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	return s, nil
}

func open(ctx context.Context, path string, o Options) (*Store, error) {
	o.Sync = cmp.Or(o.Sync, SyncNormal)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Sync != SyncNormal && o.Sync != SyncFull {
		return nil, fmt.Errorf("store.sync is %q: use %s or %s", o.Sync, SyncNormal, SyncFull)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := prepareFile(path); err != nil {
		return nil, err
	}
	c, err := connect(ctx, dsn(path, writeParams(o.Sync)))
	if err != nil {
		return nil, explain(err)
	}
	upgrade, err := initialise(ctx, c, path, o.Now())
	if err != nil {
		return nil, errors.Join(explain(err), c.close())
	}
	if upgrade != nil && o.Upgraded != nil {
		o.Upgraded(*upgrade)
	}
	s := &Store{
		path: path, now: o.Now, quotas: o.Quotas, log: o.Logger, lease: newFileLease(path),
		open: make(map[string]*runWriter),
	}
	if err := s.openReaders(); err != nil {
		return nil, errors.Join(explain(err), c.close())
	}
	s.writer = newWriter(c)
	c.tally.store = func() {
		if err := s.tellUsage(context.Background()); err != nil && !errors.Is(err, journal.ErrClosed) { // Close stores them
			s.log.Warn("figures of usage are not stored yet", "error", err)
		}
	}
	s.vaults = slots.New(slots.Limits{All: 1, Each: 1, Waiting: math.MaxInt, EachWaiting: math.MaxInt}, "tokens", "stored")
	s.endPurge = s.purgeInBackground(o.Retention)
	return s, nil
}

// prepareFile creates a missing directory and file with their permissions. SQLite gives the files -wal and -shm the permissions of the file.
func prepareFile(path string) error {
	const remedy = "check the permissions of its directory, or name another file in store.url"
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("%w: %s", err, remedy)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// O_EXCL: a file that exists must not be opened and closed here.
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if errors.Is(err, fs.ErrExist) { // another process was first
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %s", err, remedy)
		}
		return f.Close()
	case err != nil:
		return fmt.Errorf("%w: %s", err, remedy)
	case info.IsDir():
		return errors.New("it is a directory: name a file in store.url, for instance harness.db in that directory")
	case !info.Mode().IsRegular():
		return errors.New("it is not a regular file: name another one in store.url")
	}
	return nil
}

func writeParams(sync Sync) url.Values {
	return url.Values{
		"_busy_timeout": {fmt.Sprint(busyTimeout.Milliseconds())}, // timeout while opening, see initialise
		"_synchronous":  {string(sync)},
		"_dqs":          {"0"},
		"_pragma": {
			"auto_vacuum(incremental)", // takes effect for a new file only
			"temp_store(memory)",
			"wal_autocheckpoint(4000)",     // pages: each checkpoint waits for the disk and delays one commit
			"journal_size_limit(67108864)", // size of the write-ahead log after a burst
		},
	}
}

// initialise switches to the write-ahead log and brings the schema up to date.
func initialise(ctx context.Context, c *conn, path string, now time.Time) (*Upgrade, error) {
	var mode string
	if err := retryBusy(ctx, func() error {
		c.row("PRAGMA journal_mode = wal", nil, &mode)
		return c.takeErr()
	}); err != nil {
		return nil, err
	}
	if mode != "wal" {
		return nil, fmt.Errorf("its file system does not support write-ahead logging (journal mode is %s): "+
			"name a file on a local disk in store.url", mode)
	}
	upgrade, err := migrate(c, path, now)
	if err != nil {
		return nil, err
	}
	makeShrinkable(c)
	c.row(fmt.Sprint("PRAGMA busy_timeout = ", writeWait.Milliseconds()), nil) // see retryBusy
	return upgrade, c.takeErr()
}

// makeShrinkable rewrites a file of an earlier version once, so that it can give up free pages. If the disk is full, the file stays as it is.
func makeShrinkable(c *conn) {
	var mode int64
	if c.row("PRAGMA auto_vacuum", nil, &mode); c.err != nil || mode != 0 {
		return
	}
	if c.script("VACUUM"); isBusy(c.err) || isFull(c.err) {
		c.err = nil
	}
}

// openReaders opens the pool of connections for reading. In WAL mode a reader sees the last commit and does not wait for the writer.
func (s *Store) openReaders() error {
	const readers = 4
	connector, err := sqlite.NewConnector(dsn(s.path, url.Values{
		"_busy_timeout": {fmt.Sprint(busyTimeout.Milliseconds())}, "_query_only": {"1"}, "_dqs": {"0"},
	}))
	if err != nil {
		return err
	}
	s.read = sql.OpenDB(connector)
	s.read.SetMaxOpenConns(readers)
	s.read.SetMaxIdleConns(readers)
	s.statements.of = s.read
	return nil
}

// Close ends the background purge, stores all submitted changes, and releases the file. Journals still open fail with journal.ErrClosed from
// then on. It is idempotent.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.endPurge()
	s.writer.close()
	c := s.writer.conn
	told := c.tally.send(func(sums map[usageKey]*usage.Sum) error {
		return c.transaction(func() { c.storeUsage(sums) })
	})
	// The writer is closed after the readers: the last connection to close folds the write-ahead log into the file.
	err := errors.Join(told, s.read.Close(), s.writer.conn.close(), s.unlockQueue(nil), s.lease.Release())
	if err != nil {
		return fmt.Errorf("close store %s: %w", s.path, explain(err))
	}
	return nil
}

// refusal is the error of a change that has written nothing. The other changes of its transaction are committed.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// refuse ends a change that has written nothing yet.
func (c *conn) refuse(err error) { c.fail(refusal{err}) }

// write makes the writer apply a change of about the given number of bytes. If its first transaction fails, the change is applied a second time.
// If a unique name is taken, the error is task.ErrExists. When write returns an error, the writer may still be applying the change.
func (s *Store) write(ctx context.Context, bytes int, apply func(*conn)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var refused error
	ch := &change{bytes: bytes, done: make(chan struct{}), apply: func(c *conn) {
		apply(c)
		var r refusal
		if refused = nil; errors.As(c.err, &r) {
			refused, c.err = r.error, nil
		}
	}}
	if !s.writer.submit(ch) {
		return journal.ErrClosed
	}
	switch err := s.wait(ctx, ch); {
	case isUnique(err):
		return task.ErrExists
	case err != nil:
		return fmt.Errorf("write %s: %w", s.path, err)
	}
	return refused
}

// wait starts the storing of a submitted change, and waits until that is done or ctx ends.
func (s *Store) wait(ctx context.Context, ch *change) error {
	err := ctx.Err()
	s.writer.start(ch)
	if err != nil {
		return err
	}
	select {
	case <-ch.done:
		return ch.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Store) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// reserve registers the writer of a run. It returns false if this process has one for the run already.
func (s *Store) reserve(w *runWriter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[w.run] != nil {
		return false
	}
	s.open[w.run] = w
	return true
}

func (s *Store) release(w *runWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[w.run] == w {
		delete(s.open, w.run)
	}
}
