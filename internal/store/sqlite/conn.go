package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"modernc.org/sqlite"

	"mcp-code-exec-harness/internal/usage"
)

// conn is the writing connection. One goroutine at a time uses it. No context reaches the driver: a transaction serves many callers.
//
// The first error stays in err, and statements after it do nothing, so that a change of many statements checks it once.
type conn struct {
	db         *sql.DB
	only       *sql.Conn
	statements prepared // statements of only
	err        error
	begun      bool                    // tryBegin has begun the next transaction
	undo       []func()                // functions by which a rollback reverts changes in memory
	uncounted  map[int64]int           // bytes not yet added to tasks.bytes, by tasks.num
	used       map[usageKey]*usage.Sum // usage figures of what the transaction stores
	tally      *tally                  // receives used after a commit
}

func connect(ctx context.Context, dsn string) (*conn, error) {
	connector, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	only, err := db.Conn(ctx)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &conn{db: db, only: only, statements: prepared{of: only}, uncounted: map[int64]int{}, used: map[usageKey]*usage.Sum{}, tally: &tally{}}, nil
}

func (c *conn) close() error {
	var errs []error
	for _, stmt := range c.statements.all.Range { // closing a single connection does not close its statements
		errs = append(errs, stmt.(*sql.Stmt).Close())
	}
	return errors.Join(append(errs, c.only.Close(), c.db.Close())...)
}

// fail sets the error unless there is one.
func (c *conn) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// takeErr returns the error and clears it.
func (c *conn) takeErr() error {
	err := c.err
	c.err = nil
	return err
}

// orNull returns a pointer to t, or nil for the zero time.
func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// result is what a statement did: the rows it changed, and the number of the last row it inserted.
type result struct{ rows, id int64 }

// exec executes one statement, which is prepared once.
func (c *conn) exec(query string, args ...any) (r result) {
	if c.err == nil {
		r, c.err = c.execute(query, args)
	}
	return r
}

func (c *conn) execute(query string, args []any) (r result, err error) {
	stmt, err := c.statements.prepare(context.Background(), query) //nolint:sqlclosecheck // close closes it
	if err != nil {
		return r, err
	}
	res, err := stmt.Exec(stored(args)...)
	if err != nil {
		return r, err
	}
	if r.rows, err = res.RowsAffected(); err == nil {
		r.id, err = res.LastInsertId()
	}
	return r, err
}

// script executes statements that are not worth preparing.
func (c *conn) script(text string) {
	if c.err == nil {
		_, c.err = c.only.ExecContext(context.Background(), text)
	}
}

// each calls f with every row until there is an error.
func (c *conn) each(query string, args []any, f func(scanner) error) {
	if c.err == nil {
		c.fail(c.statements.each(context.Background(), query, args, func(row scanner) error { return errors.Join(f(row), c.err) }))
	}
}

// row scans the first row into dest and reports whether there is one.
func (c *conn) row(query string, args []any, dest ...any) (found bool) {
	c.each(query, args, func(row scanner) error {
		if found || len(dest) == 0 {
			return nil
		}
		found = true
		return row.Scan(dest...)
	})
	return found && c.err == nil
}

// retryBusy repeats f while another process has the lock that f needs, for busyTimeout at most. SQLite's own waiting backs off to 100 ms, far
// too long for transactions of 0.1 ms, so it is limited to writeWait. For some locks, such as the one for changing the journal mode, SQLite does
// not wait at all.
func retryBusy(ctx context.Context, f func() error) error {
	for begin := time.Now(); ; {
		err := f()
		if !isBusy(err) || time.Since(begin) > busyTimeout {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(writeWait):
		}
	}
}

const begin = "BEGIN IMMEDIATE"

// tryBegin begins the next transaction in advance. It returns false if another process has the write lock.
func (c *conn) tryBegin() bool {
	_, err := c.execute(begin, nil)
	c.begun = err == nil
	return !isBusy(err)
}

// transaction calls f in a transaction that holds the write lock from its beginning, and rolls back after an error.
func (c *conn) transaction(f func()) error {
	if !c.begun {
		if err := retryBusy(context.Background(), func() error { _, err := c.execute(begin, nil); return err }); err != nil {
			return err
		}
	}
	c.undo, c.begun = nil, false
	clear(c.used)
	f()
	c.exec("COMMIT")
	err := c.takeErr()
	if err == nil {
		c.tally.add(c.used)
		return nil
	}
	for _, undo := range slices.Backward(c.undo) {
		undo()
	}
	// SQLite has rolled back by itself after some errors, such as a full disk.
	if _, rerr := c.execute("ROLLBACK", nil); rerr != nil && !strings.Contains(rerr.Error(), "no transaction is active") {
		return errors.Join(err, rerr)
	}
	return err
}
