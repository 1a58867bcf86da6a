// Package sqlstore keeps the harness's state in SQL: runs and their journals, sessions, tasks, schedules and the keys of the HTTP API. The database
// is a SQLite file (sqlite.go; filelease.go, live.go, queuelock.go and backup.go handle the files beside it) or a PostgreSQL server (postgres.go,
// rowlease.go, bus.go, days.go). Several processes may share the database.
//
// The statements are the same for both databases, so both give the same guarantees, and one test suite covers both. The statements are written for
// SQLite, whose only writer sees no other change between two statements of a transaction. A transaction of Postgres (READ COMMITTED) may see other
// changes. Therefore a statement locks the rows that it reads if a later statement depends on them: translate turns a comment such as
// /*+ FOR UPDATE */ into a part of the statement. If a transaction inserts a row that another process has just inserted, the transaction is repeated.
// A statement whose result is not needed at once takes no round trip of its own to a server (see conn).
// The package has more than 4,000 lines because a package for each database would have the statements twice.
//
// The package opens the file of SQLite only through SQLite: closing any other descriptor of the file would drop the locks that
// SQLite holds in this process (POSIX record locks).
package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/slots"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/usage"
)

// Sync determines what a commit survives.
type Sync string

// A commit with SyncNormal survives a killed process. A commit with SyncFull also survives a power failure, but costs one fsync.
const (
	SyncNormal Sync = "normal"
	SyncFull   Sync = "full"
)

const (
	busyTimeout = 10 * time.Second     // maximum wait for another process that writes
	writeWait   = 2 * time.Millisecond // wait between two tries of the writer
	// reconnectWait is the wait between two tries to reach a server.
	reconnectWait = 100 * time.Millisecond
)

// Options of a Store. The zero value is ready to use.
type Options struct {
	Sync Sync // default SyncNormal
	// Retention is how long ended runs and tasks are kept; 0 means for ever. The Store purges by itself when it is opened, and every hour.
	Retention time.Duration
	Quotas    Quotas
	Now       func() time.Time // default time.Now
	Upgraded  func(Upgrade)    // called while the store is opened, after a migration of its schema; may be nil
	Logger    *slog.Logger     // default slog.DiscardHandler

	transfer bool // true for a source or target of Transfer: nothing is purged, and the store may be an unfinished copy
}

// Store is an open database. Its methods are safe for concurrent use.
type Store struct {
	database
	path   string // path of the file, or the address of the server
	now    func() time.Time
	log    *slog.Logger
	lease  lease
	writer *writer
	vaults *slots.Slots // slot for a transaction that stores many tokens; users take turns
	marks  marks
	read   *sql.DB

	statements prepared // prepared statements of read
	quotas     Quotas

	mu     sync.Mutex
	open   map[string]*runWriter // journals being written in this process
	closed bool

	endPurge func() // stops the background purge and waits for it
}

// database is what a Store needs from a database besides statements.
type database interface {
	task.Bus
	// LockQueue and QueueWorker implement task.Store.
	LockQueue(ctx context.Context) (release func() error, err error)
	QueueWorker(ctx context.Context) (name string, err error)
	// user names another process that uses the store, "" if there is none.
	user(ctx context.Context) (name string, err error)
	// ping returns an error if the database cannot be reached, or takes no changes.
	ping(ctx context.Context, s *Store) error
	// inspect describes the database, and warns about settings of its server.
	inspect(ctx context.Context) (detail string, warnings []string, err error)
	// workers counts the processes that work the queue.
	workers(ctx context.Context) (int, error)
	// addWords adds a task to the index of words by which tasks are found; dropWords removes it.
	addWords(c *conn, num int64, user, text string)
	dropWords(c *conn, num int64)
	// findWords returns the parts of a query for the tasks that a search finds.
	findWords(search, user string) (wordQuery, error)
	// numbers returns a number below those of the runs that begin at a time.
	numbers(now time.Time) (first int64)
	// partition returns the range of the numbers of the runs, and of the blobs, that are in the same partition as a run.
	partition(run int64) (from, to int64)
	// makeDay makes the partition of a run with a number, if it is missing.
	makeDay(ctx context.Context, run int64) error
	// makeDays makes the partitions for the days that follow a time.
	makeDays(ctx context.Context, now time.Time)
	// purgeDays deletes runs by days, and returns their number and the ranges of the numbers of the runs that a purge deletes one by one.
	purgeDays(ctx context.Context, s *Store, before time.Time) (total int, rest []numberRange, err error)
	// shrink gives the space of deleted rows back to the file system.
	shrink(ctx context.Context, s *Store) error
	// sweepCopies removes the copies that migrations made before the given time.
	sweepCopies(before time.Time) error
	// close is called before the connections are closed.
	close() error
}

// numberRange are the numbers from one to another, which is not among them.
type numberRange struct{ from, to int64 }

// wordQuery has the parts of a query for the tasks that a search finds.
type wordQuery struct {
	tables string // task_words and tasks, joined
	number string // column with the task's number
	where  string
	args   []any
}

// Open opens the store that url names: "postgres://USER:PASSWORD@HOST/DATABASE", or "sqlite:PATH" or a path. It creates a missing directory and file so
// that only this user can read them.
// ctx applies to the opening only. The caller must call Close.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	name := address(url)
	if !isPostgres(url) {
		var err error
		if name, err = filePath(url); err != nil {
			return nil, err
		}
	}
	s, err := open(ctx, url, o)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", name, err)
	}
	return s, nil
}

func open(ctx context.Context, url string, o Options) (*Store, error) {
	o.Sync = cmp.Or(o.Sync, SyncNormal)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Sync != SyncNormal && o.Sync != SyncFull {
		return nil, fmt.Errorf("store.sync is %q: use %s or %s", o.Sync, SyncNormal, SyncFull)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Store{now: o.Now, quotas: o.Quotas, log: o.Logger, open: make(map[string]*runWriter)}
	openDatabase := s.openFile
	if isPostgres(url) {
		openDatabase = s.openPostgres
	}
	c, err := openDatabase(ctx, url, o)
	if err != nil {
		return nil, explain(err)
	}
	s.writer = newWriter(c)
	c.tally.store = func() {
		if err := s.tellUsage(context.Background()); err != nil && !errors.Is(err, journal.ErrClosed) { // after ErrClosed, Close stores the figures
			s.log.Warn("figures of usage are not stored yet", "error", err)
		}
	}
	s.vaults = slots.New(slots.Limits{All: 1, Each: 1, Waiting: math.MaxInt, EachWaiting: math.MaxInt}, "tokens", "stored")
	s.endPurge = func() {}
	if o.transfer {
		return s, nil
	}
	if _, half, err := s.transferring(ctx); err != nil || half {
		return nil, errors.Join(err, unfinishedError(half, s.path), s.Close())
	}
	s.endPurge = s.purgeInBackground(o.Retention)
	return s, nil
}

// Close ends the background purge, stores all submitted changes, and releases the file. Journals that are still open then fail
// with journal.ErrClosed. Close may be called again.
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
	// The writer is closed after the readers: the last connection that is closed writes the write-ahead log into the file.
	err := errors.Join(told, s.database.close(), s.lease.Release(), s.read.Close(), s.writer.conn.close())
	if err != nil {
		return fmt.Errorf("close store %s: %w", s.path, explain(err))
	}
	return nil
}

// refusal is the error of a change that has written nothing. The other changes of its transaction are committed.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// refuse makes a change fail with an error; the change must not have written anything yet.
func (c *conn) refuse(err error) { c.fail(refusal{err}) }

// write makes the writer apply a change of about the given number of bytes. If a transaction fails, apply may be called again in another one. If a
// unique name is taken, the error is task.ErrExists. When write returns an error, the writer may still be applying the change.
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

// wait makes the writer store a submitted change soon, and waits until the change is done or ctx ends.
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

// reserve registers the writer of a run. It returns false if this process already has a writer for the run.
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
