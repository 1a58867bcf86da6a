// Package sqlite keeps the harness's state in one SQLite file: runs and their journals, sessions, tasks, schedules and the
// keys of the HTTP API. Several processes may share it.
//
// Nothing here opens the file except through SQLite: closing any other descriptor of it would drop the locks that
// SQLite holds in this process (POSIX record locks).
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"modernc.org/sqlite"

	"mcp-code-exec-harness/internal/journal"
)

// Sync says what a commit survives.
type Sync string

// SyncNormal survives a killed process; SyncFull also a power failure, for one fsync each commit.
const (
	SyncNormal Sync = "normal"
	SyncFull   Sync = "full"
)

const (
	busyTimeout = 10 * time.Second     // bounds the wait for another process that writes
	writeWait   = 2 * time.Millisecond // between two tries of the writer
)

// Options of a Store. The zero value is ready to use.
type Options struct {
	Sync Sync // default SyncNormal
	// Retention is how long ended runs and tasks are kept; 0 is for ever. The Store purges on its own when it is opened
	// and every hour.
	Retention time.Duration
	Quotas    Quotas
	Now       func() time.Time // default time.Now
	Logger    *slog.Logger     // default slog.DiscardHandler
}

// Store is an open database. Its methods are safe for concurrent use.
type Store struct {
	path   string
	now    func() time.Time
	log    *slog.Logger
	lease  lease
	writer *writer
	read   *sql.DB

	statements statements // of read
	quotas     Quotas

	mu     sync.Mutex
	open   map[string]*runWriter // journals being written in this process
	closed bool
	queue  *os.File             // locked while this process works the queue
	used   map[string]time.Time // when the use of a key was last stored

	endPurge func() // stops the background purge and waits for it
}

// Open opens the store that url names ("sqlite:PATH" or a path), creating directory and file where they are missing,
// readable by this user only. ctx bounds the opening alone. Close must be called.
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
	if o.Sync == "" {
		o.Sync = SyncNormal
	}
	if o.Sync != SyncNormal && o.Sync != SyncFull {
		return nil, fmt.Errorf("store.sync is %q: use %s or %s", o.Sync, SyncNormal, SyncFull)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if err := prepareFile(path); err != nil {
		return nil, err
	}
	c, err := connect(ctx, dsn(path, writeParams(o.Sync)))
	if err != nil {
		return nil, explain(err)
	}
	if err := initialise(ctx, c); err != nil {
		return nil, errors.Join(explain(err), c.close())
	}
	s := &Store{
		path: path, now: o.Now, quotas: o.Quotas, log: o.Logger, lease: newFileLease(path),
		open: make(map[string]*runWriter), used: make(map[string]time.Time),
	}
	if err := s.openReaders(); err != nil {
		return nil, errors.Join(explain(err), c.close())
	}
	s.writer = newWriter(c)
	s.endPurge = s.purgeInBackground(o.Retention)
	return s, nil
}

// prepareFile makes directory and file with the rights they are to have; SQLite gives its -wal and -shm the file's.
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
		"_busy_timeout": {fmt.Sprint(busyTimeout.Milliseconds())}, // while opening, see initialise
		"_synchronous":  {string(sync)},
		"_dqs":          {"0"},
		"_pragma": {
			"auto_vacuum(incremental)", // counts for a new file only
			"temp_store(memory)",
			"wal_autocheckpoint(4000)",     // pages: each checkpoint waits for the disk and delays one commit
			"journal_size_limit(67108864)", // what a burst leaves of the write-ahead log
		},
	}
}

// initialise switches to the write-ahead log and brings the schema up to date.
func initialise(ctx context.Context, c *conn) error {
	var mode string
	err := retryBusy(ctx, func() error {
		_, err := c.row("PRAGMA journal_mode = wal", nil, &mode)
		return err
	})
	if err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("its file system does not support write-ahead logging (journal mode is %s): "+
			"name a file on a local disk in store.url", mode)
	}
	if err := migrate(c); err != nil {
		return err
	}
	if err := makeShrinkable(c); err != nil {
		return err
	}
	_, err = c.row(fmt.Sprint("PRAGMA busy_timeout = ", writeWait.Milliseconds()), nil) // see retryBusy
	return err
}

// makeShrinkable rewrites a file of an earlier version once, so that it can give up free pages. Where that fails, for want of
// disk space for example, the file stays as it is.
func makeShrinkable(c *conn) error {
	var mode int64
	if _, err := c.row("PRAGMA auto_vacuum", nil, &mode); err != nil || mode != 0 {
		return err
	}
	if err := c.script("VACUUM"); err != nil && !isBusy(err) && !isFull(err) {
		return err
	}
	return nil
}

// openReaders makes the pool that reads. In WAL mode readers see the last commit and wait for nobody.
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
	return nil
}

// Close ends the background purge, stores what was committed, and releases the file. Journals still open fail with
// journal.ErrClosed from then on. It is idempotent.
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
	// The writer last: the last connection to close folds the write-ahead log into the file.
	err := errors.Join(s.statements.close(), s.read.Close(), s.writer.conn.close(), s.unlockQueue(nil), s.lease.Release())
	if err != nil {
		return fmt.Errorf("close store %s: %w", s.path, explain(err))
	}
	return nil
}

// Stats counts what the store has written since it was opened. Changes that share a transaction are what group commit
// saves.
type Stats struct {
	Changes      int64
	Transactions int64
}

// Stats returns the counters.
func (s *Store) Stats() Stats {
	return Stats{Changes: s.writer.changes.Load(), Transactions: s.writer.transactions.Load()}
}

// do has the writer apply a change, which may be applied a second time if its first transaction failed.
func (s *Store) do(ctx context.Context, apply func(*conn) error) error {
	return s.doLarge(ctx, 0, apply)
}

// doLarge is do for a change that writes so many bytes.
func (s *Store) doLarge(ctx context.Context, bytes int, apply func(*conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ch := &change{apply: apply, bytes: bytes, done: make(chan struct{})}
	if !s.writer.submit(ch) {
		return journal.ErrClosed
	}
	return s.wait(ctx, ch)
}

func (s *Store) wait(ctx context.Context, ch *change) error {
	select {
	case <-ch.done:
		return ch.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fail names what a reading error means.
func (s *Store) fail(err error) error {
	if s.isClosed() {
		return journal.ErrClosed
	}
	return explain(err)
}

func (s *Store) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// reserve notes that a run is being written; false if it is already.
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
