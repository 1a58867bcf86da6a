package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/usage"
)

// dialect contains what differs between the writing connections of SQLite and Postgres.
type dialect struct {
	translate func(query string) string
	text      func(string) string // converts a text to one that the database accepts; nil leaves texts unchanged
	// begin begins a transaction. If isBusy is true for the error, a later call may succeed.
	begin func(c *conn) error
	// commit ends a transaction. If the answer of the database is lost, commit finds out whether the database has committed the transaction.
	commit func(c *conn) error
	// number lets the numbers of new rows in a table continue the numbers of the rows that the table has. It is nil if the database does so by
	// itself.
	number func(c *conn, table, column string)
	// again reports whether it is worth repeating a transaction that failed with an error and has changed nothing.
	again func(err error) bool
}

// conn is the writing connection. One goroutine at a time uses it. No context reaches the driver: a transaction serves many callers.
//
// The first error stays in err, and statements after it do nothing, so that a change of many statements checks it once.
type conn struct {
	dialect    *dialect
	db         *sql.DB
	only       *sql.Conn
	statements *prepared // prepared statements of the connection in only
	err        error
	begun      bool                    // tryBegin has begun the next transaction
	undo       []func()                // functions by which a rollback reverts changes in memory
	uncounted  map[int64]int           // bytes not yet added to tasks.bytes, by tasks.num
	used       map[usageKey]*usage.Sum // usage figures of what the transaction stores
	tally      *tally                  // receives used after a commit
	commits    int64                   // number of the transaction (Postgres)
}

func newConn(db *sql.DB, d *dialect) *conn {
	return &conn{dialect: d, db: db, statements: &prepared{translate: d.translate, text: d.text}, uncounted: map[int64]int{}, used: map[usageKey]*usage.Sum{}, tally: &tally{}}
}

// open opens the connection, or replaces one that is broken.
func (c *conn) open(ctx context.Context) (err error) {
	if c.only != nil {
		_ = c.only.Close() // The error of a broken connection says nothing new.
	}
	if c.only, err = c.db.Conn(ctx); err != nil {
		c.only = nil
		return err
	}
	c.statements = &prepared{of: c.only, translate: c.dialect.translate, text: c.dialect.text}
	return nil
}

func (c *conn) close() error {
	var errs []error
	for _, stmt := range c.statements.all.Range { // closing a single connection does not close its statements
		errs = append(errs, stmt.(*sql.Stmt).Close())
	}
	if c.only != nil {
		errs = append(errs, c.only.Close())
	}
	return errors.Join(append(errs, c.db.Close())...)
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

// result is what a statement did.
type result struct{ rows int64 } // changed rows

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
	res, err := stmt.Exec(c.statements.stored(args)...)
	if err != nil {
		return r, err
	}
	r.rows, err = res.RowsAffected()
	return r, err
}

// insert executes a statement that returns the number of the row that it inserts.
func (c *conn) insert(query string, args ...any) (num int64) {
	c.row(query, args, &num)
	return num
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
		wait := writeWait
		if isLost(err) {
			wait = reconnectWait
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// tryBegin begins the next transaction in advance. It returns false if the transaction cannot begin yet (see isBusy).
func (c *conn) tryBegin() bool {
	err := c.dialect.begin(c)
	c.begun = err == nil
	return !isBusy(err)
}

// maxRepeats is the maximum number of times that a transaction is repeated. A transaction that fails because a key is taken is repeated once: then
// it sees the row that another process has just inserted.
const maxRepeats = 10

// transaction calls f in a transaction, and rolls back after an error. It calls f again if the database wants the transaction to be repeated.
func (c *conn) transaction(f func()) (err error) {
	for n := range maxRepeats {
		if err = c.once(f); err == nil || !c.dialect.again(err) || n > 0 && isUnique(err) {
			return err
		}
	}
	return err
}

func (c *conn) once(f func()) error {
	if !c.begun {
		if err := retryBusy(context.Background(), func() error { return c.dialect.begin(c) }); err != nil {
			return err
		}
	}
	c.undo, c.begun = nil, false
	clear(c.used)
	f()
	err := c.takeErr()
	if err == nil {
		err = c.dialect.commit(c)
	}
	if err == nil {
		c.tally.add(c.used)
		return nil
	}
	for _, undo := range slices.Backward(c.undo) {
		undo()
	}
	// SQLite has rolled back by itself after some errors, such as a full disk, and Postgres after a broken connection.
	if _, rerr := c.execute("ROLLBACK", nil); rerr != nil && !isLost(rerr) && !strings.Contains(rerr.Error(), "no transaction is active") {
		return errors.Join(err, rerr)
	}
	return err
}
