package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"modernc.org/sqlite"
)

// file is a database in a SQLite file. Processes find each other by files beside this file.
type file struct {
	path string
	live live

	mu     sync.Mutex
	closed bool
	queue  *os.File // locked while this process works the queue
}

var _ database = (*file)(nil)

// ofSQLite is the dialect of SQLite. A transaction holds the write lock from its beginning.
var ofSQLite = &dialect{
	translate:     func(query string) string { return query },
	begin:         func(c *conn) error { return c.execute(statement{query: "BEGIN IMMEDIATE"}) },
	commit:        func(c *conn) error { return c.execute(statement{query: "COMMIT"}) },
	inTransaction: func(*conn) bool { return true },
	again:         func(error) bool { return false },
}

func connect(ctx context.Context, dsn string) (*conn, error) {
	connector, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	c := newConn(sql.OpenDB(connector), ofSQLite)
	if err := c.open(ctx); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// openFile opens a store in a file, and returns its writing connection.
func (s *Store) openFile(ctx context.Context, url string, o Options) (*conn, error) {
	path, err := filePath(url)
	if err != nil {
		return nil, err
	}
	if err := prepareFile(path); err != nil {
		return nil, err
	}
	c, err := connect(ctx, dsn(path, writeParams(o.Sync)))
	if err != nil {
		return nil, err
	}
	upgrade, err := initialise(ctx, c, path, o.Now())
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	if upgrade != nil && o.Upgraded != nil {
		o.Upgraded(*upgrade)
	}
	s.database, s.path, s.lease = &file{path: path}, path, newFileLease(path)
	if err := s.openReaders(); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// prepareFile creates a missing directory and file for this user only. SQLite gives the files -wal and -shm the permissions of the file.
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
			"journal_size_limit(67108864)", // bytes: maximum size of the write-ahead log after a checkpoint
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

// makeShrinkable rewrites a file of an earlier version once, so that it can give up free pages. If the disk is full or another process
// uses the file, the file stays as it is.
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
	s.statements.of, s.statements.translate = s.read, ofSQLite.translate
	return nil
}

func (d *file) close() error {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	return d.unlockQueue(nil)
}

const (
	shrinkPages = 2000 // maximum number of pages that one transaction returns to the file system
	shrinkFrom  = 50   // the file is shrunk if at least one in this many pages is free
)

// shrink returns free pages at the end of the file to the file system.
func (d *file) shrink(ctx context.Context, s *Store) error {
	for {
		var left int64
		type size struct{ pages, free int64 }
		now, err := one(ctx, s, nil, func(row scanner) (n size, err error) {
			err = row.Scan(&n.pages, &n.free)
			return n, err
		}, "SELECT page_count, freelist_count FROM pragma_page_count, pragma_freelist_count")
		if err != nil || now.free*shrinkFrom < now.pages {
			return err
		}
		if err := s.write(ctx, 0, func(c *conn) {
			c.row(fmt.Sprintf("PRAGMA incremental_vacuum(%d)", shrinkPages), nil)
			c.row("PRAGMA freelist_count", nil, &left)
		}); err != nil {
			return err
		}
		if left >= now.free { // makeShrinkable could not rewrite this file of an earlier version
			return nil
		}
		if left*shrinkFrom < now.pages {
			return d.checkpoint(ctx)
		}
	}
}

// checkpoint writes the write-ahead log into the file, which shrinks only then, and empties the log.
func (d *file) checkpoint(ctx context.Context) error {
	c, err := connect(ctx, dsn(d.path, writeParams(SyncNormal)))
	if err != nil {
		return explain(err)
	}
	if c.row("PRAGMA wal_checkpoint(truncate)", nil); isBusy(c.err) { // another process writes the log into the file
		c.err = nil
	}
	return explain(errors.Join(c.err, c.close()))
}
