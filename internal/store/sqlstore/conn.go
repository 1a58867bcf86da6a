package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/usage"
)

// dialect contains what differs between the writing connections of SQLite and Postgres.
type dialect struct {
	translate func(query string) string
	text      func(string) string // converts a text to one that the database accepts; nil leaves texts unchanged
	// send executes statements in one round trip, and calls their functions in the same order. It stops at the first error. If send is nil, each
	// statement is executed at once.
	send func(c *conn, all []statement) error
	// begin begins a transaction. If isBusy is true for the error, a later call may succeed.
	begin func(c *conn) error
	// commit ends a transaction. If the answer of the database is lost, commit finds out whether the database has committed the transaction.
	commit func(c *conn) error
	// inTransaction reports whether the database is in a transaction, which a rollback must end.
	inTransaction func(c *conn) bool
	// reserve sets num to first plus the next number of a table, so that the number is known before the row is inserted. It is nil if the database
	// inserts at once.
	reserve func(c *conn, table, column string, first int64, num *int64)
	// number makes the numbers of new rows follow the numbers that a table contains. It is nil if the database does so by itself.
	number func(c *conn, table, column string)
	// again reports whether it is worth repeating a transaction that failed with an error and has changed nothing.
	again func(err error) bool
}

// conn is the writing connection. One goroutine at a time uses it. No context reaches the driver: a transaction serves many callers.
//
// The first error stays in err, and statements after it do nothing, so that a change of many statements checks err once.
//
// A statement whose result the change does not need at once (exec, expect, later) waits in queue if the database has a send. The queue is sent with the
// next statement that returns its result, or before the end of the transaction, so that many statements take one round trip. A queued statement's
// error fails the transaction, maybe while another change is applied.
type conn struct {
	dialect    *dialect
	db         *sql.DB
	only       *sql.Conn
	statements *prepared // prepared statements of the connection in only
	err        error
	patient    bool                    // a transaction that cannot begin yet is tried again (see isBusy); else it fails with a waitError
	opening    []statement             // statements that begin the transaction; they are sent with its first other statements
	queue      []statement             // statements of the transaction that are not sent yet
	lost       bool                    // true after send has lost the connection; begin replaces the connection
	undo       []func()                // functions by which a rollback reverts changes in memory
	claims     map[string]taskHead     // num and session of the tasks that this process has claimed, by tasks.id; a claim may have been lost
	uncounted  map[int64]int           // bytes not yet added to tasks.bytes, by tasks.num
	used       map[usageKey]*usage.Sum // usage figures of what the transaction stores
	tally      *tally                  // receives used after a commit
	commits    int64                   // number of the transaction among those of this process (Postgres)
}

func newConn(db *sql.DB, d *dialect) *conn {
	return &conn{dialect: d, db: db, statements: &prepared{translate: d.translate, text: d.text}, patient: true, claims: map[string]taskHead{}, uncounted: map[int64]int{}, used: map[usageKey]*usage.Sum{}, tally: &tally{}}
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

// fail sets err unless an earlier error is set.
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

// statement is a statement of a transaction. Its functions are called before the transaction ends, and may queue further statements. They may refuse
// the change only if the change calls flush itself. Otherwise another change may be applied when they are called.
type statement struct {
	query string
	args  []any
	row   func(scanner) error // called with each row; nil if the statement returns no rows
	done  func(rows int64)    // called after row, with the number of changed rows if row is nil; may be nil
}

// maxQueue is the maximum number of queued statements.
const maxQueue = 1000

// exec executes one statement, which is prepared once.
func (c *conn) exec(query string, args ...any) { c.do(statement{query: query, args: args}) }

// expect is like exec, and later calls f with the number of changed rows.
func (c *conn) expect(f func(rows int64), query string, args ...any) {
	c.do(statement{query: query, args: args, done: f})
}

// later executes a query, and later calls f with every row.
func (c *conn) later(f func(scanner) error, query string, args ...any) {
	c.do(statement{query: query, args: args, row: f})
}

// changed executes one statement at once, and returns the number of changed rows.
func (c *conn) changed(query string, args ...any) (rows int64) {
	c.expect(func(n int64) { rows = n }, query, args...)
	c.flush()
	return rows
}

// do queues a statement, or executes it if the database has no send.
func (c *conn) do(s statement) {
	switch {
	case c.err != nil:
	case c.dialect.send == nil:
		c.fail(c.execute(s))
	default:
		if c.queue = append(c.queue, s); len(c.queue) == maxQueue {
			c.flush()
		}
	}
}

// flush sends the queue.
func (c *conn) flush() {
	for c.err == nil && len(c.queue) > 0 {
		all := append(c.opening, c.queue...)
		c.opening, c.queue = nil, nil
		c.fail(c.dialect.send(c, all))
	}
}

// execute executes a statement at once.
func (c *conn) execute(s statement) error {
	switch {
	case c.dialect.send != nil:
		return c.dialect.send(c, []statement{s})
	case s.row != nil:
		err := c.statements.each(context.Background(), s.query, s.args, s.row)
		if err == nil && s.done != nil {
			s.done(0)
		}
		return err
	}
	stmt, err := c.statements.prepare(context.Background(), s.query) //nolint:sqlclosecheck // close closes it
	if err != nil {
		return err
	}
	res, err := stmt.Exec(c.statements.stored(s.args)...)
	if err != nil || s.done == nil {
		return err
	}
	rows, err := res.RowsAffected()
	if err == nil {
		s.done(rows)
	}
	return err
}

// reserve reserves the number of the row that insertAs will insert into a table, if that saves a round trip. num is set at the next flush.
func (c *conn) reserve(table string, num *int64) { c.reserveFrom(table, "num", 0, num) }

// reserveFrom is like reserve, for a column whose numbers begin at first (see database.numbers).
func (c *conn) reserveFrom(table, column string, first int64, num *int64) {
	if c.dialect.reserve != nil {
		c.dialect.reserve(c, table, column, first, num)
	}
}

// insertAs executes a statement that inserts a row, and returns the number of the row. The number is the first parameter of the statement, and the
// statement returns it. num is the number that reserve has set, or 0.
func (c *conn) insertAs(num int64, query string, args ...any) int64 {
	if num == 0 {
		return c.insert(query, append([]any{nil}, args...)...)
	}
	c.exec(query, append([]any{num}, args...)...)
	return num
}

// insert executes a statement that returns the number of the row that it inserts.
func (c *conn) insert(query string, args ...any) (num int64) {
	c.row(query, args, &num)
	return num
}

// script executes statements that are not worth preparing. In Postgres, text is one statement.
func (c *conn) script(text string) {
	switch {
	case c.err != nil:
	case c.dialect.send != nil: // The text belongs to the transaction, and may create what the next statement needs to be prepared.
		c.exec(text)
		c.flush()
	default:
		_, c.err = c.only.ExecContext(context.Background(), text)
	}
}

// each calls f with every row until there is an error.
func (c *conn) each(query string, args []any, f func(scanner) error) {
	c.later(func(row scanner) error { return errors.Join(f(row), c.err) }, query, args...)
	c.flush()
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

// retryBusy repeats f while another process has the lock that f needs, or the connection to the server is lost. It repeats f once at least, and begins no
// repetition after busyTimeout. SQLite's own waiting backs off to 100 ms, far too long for transactions of 0.1 ms, so it is limited to writeWait. For
// some locks, such as the one for changing the journal mode, SQLite does not wait at all.
func retryBusy(ctx context.Context, f func() error) error {
	begin := time.Now()
	for n := 1; ; n++ {
		err := f()
		if !isBusy(err) || n > 1 && time.Since(begin) > busyTimeout {
			return err
		}
		wait := writeWait
		switch {
		case isLost(err) && !isUnreachable(err) && n <= postgresReaders: // an idle connection was lost; the next one may be lost as well
			wait = 0
		case isLost(err):
			wait = reconnectWait
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-time.After(wait):
		}
	}
}

// waitError means that a transaction has not begun, because another process has a lock, or the server cannot be reached. A later transaction may succeed.
type waitError struct{ error }

func (e waitError) Unwrap() error { return e.error }

func isWait(err error) bool {
	var wait waitError
	return errors.As(err, &wait)
}

// maxRepeats is the maximum number of attempts at a transaction. A transaction that fails because a key is taken is repeated once: then
// it sees the row that another process has just inserted.
const maxRepeats = 10

// transaction calls f in a transaction, and rolls back after an error. It calls f again if the database wants the transaction to be repeated.
func (c *conn) transaction(f func()) (err error) {
	taken := false // true after an attempt that failed because a key was taken
	for range maxRepeats {
		if err = c.once(f); err == nil || isWait(err) || !c.dialect.again(err) || taken && isUnique(err) {
			return err
		}
		taken = taken || isUnique(err)
	}
	return err
}

func (c *conn) once(f func()) error {
	begin := func() error { return c.dialect.begin(c) }
	if c.patient {
		if err := retryBusy(context.Background(), begin); err != nil {
			return err
		}
	} else if err := begin(); isBusy(err) {
		return waitError{err}
	} else if err != nil {
		return err
	}
	c.undo = nil
	clear(c.used)
	f()
	c.flush()
	err := c.takeErr()
	if err == nil {
		err = c.dialect.commit(c)
	}
	c.opening, c.queue = nil, nil
	if err == nil {
		c.tally.add(c.used)
		return nil
	}
	for _, undo := range slices.Backward(c.undo) {
		undo()
	}
	if !c.dialect.inTransaction(c) {
		return err
	}
	// SQLite has rolled back by itself after some errors, such as a full disk, and Postgres after a broken connection.
	if rerr := c.execute(statement{query: "ROLLBACK"}); rerr != nil && !isLost(rerr) && !strings.Contains(rerr.Error(), "no transaction is active") {
		return errors.Join(err, rerr)
	}
	return err
}
