package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"modernc.org/sqlite"
)

// conn is the writing connection: the driver's own, without database/sql, because a commit is on the path of every
// tool call. It belongs to one goroutine. No context reaches the driver: a group of writes serves many callers.
type conn struct {
	dc    driver.Conn
	stmts map[string]driver.Stmt
	args  []driver.NamedValue
}

func connect(ctx context.Context, dsn string) (*conn, error) {
	connector, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	dc, err := connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{dc: dc, stmts: make(map[string]driver.Stmt)}, nil
}

func (c *conn) close() error {
	var errs []error
	for _, s := range c.stmts {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.dc.Close())...)
}

func (c *conn) prepare(query string, args []any) (driver.Stmt, error) {
	s := c.stmts[query]
	if s == nil {
		var err error
		if s, err = c.dc.Prepare(query); err != nil {
			return nil, err
		}
		c.stmts[query] = s
	}
	c.args = c.args[:0]
	for i, a := range args {
		switch v := a.(type) {
		case int:
			a = int64(v)
		case bool:
			a = int64(0)
			if v {
				a = int64(1)
			}
		case *int64:
			a = nil
			if v != nil {
				a = *v
			}
		}
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: a})
	}
	return s, nil
}

// exec runs one statement, which is prepared once.
func (c *conn) exec(query string, args ...any) (driver.Result, error) {
	s, err := c.prepare(query, args)
	if err != nil {
		return nil, err
	}
	return s.(driver.StmtExecContext).ExecContext(context.Background(), c.args)
}

// changed runs one statement and returns how many rows it changed.
func (c *conn) changed(query string, args ...any) (int, error) {
	res, err := c.exec(query, args...)
	if err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	return int(n), err
}

// script runs statements that are not worth preparing.
func (c *conn) script(text string) error {
	_, err := c.dc.(driver.ExecerContext).ExecContext(context.Background(), text, nil)
	return err
}

// each calls f with every row's values, which f must not keep beyond its return.
func (c *conn) each(query string, args []any, f func(row []driver.Value) error) (err error) {
	s, err := c.prepare(query, args)
	if err != nil {
		return err
	}
	rows, err := s.(driver.StmtQueryContext).QueryContext(context.Background(), c.args)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	values := make([]driver.Value, len(rows.Columns()))
	for {
		switch err := rows.Next(values); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := f(values); err != nil {
			return err
		}
	}
}

// row scans the first row into dest, each an *int64 or *string, and says whether there is one.
func (c *conn) row(query string, args []any, dest ...any) (found bool, err error) {
	err = c.each(query, args, func(row []driver.Value) error {
		if found {
			return nil
		}
		found = true
		for i, d := range dest {
			ok := false
			switch d := d.(type) {
			case *int64:
				*d, ok = row[i].(int64)
			case *string:
				*d, ok = row[i].(string)
			}
			if !ok {
				return fmt.Errorf("column %d of %.40s... is a %T", i+1, query, row[i])
			}
		}
		return nil
	})
	return found, err
}

// retryBusy repeats f while another process has the lock that it needs, for busyTimeout at most. SQLite's own wait backs
// off to 100 ms, far too long where a transaction takes 0.1 ms, so that it is cut to writeWait; and some locks it does
// not wait for at all, such as that for changing the journal mode.
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

// transaction runs f in a transaction that holds the write lock from its beginning, and rolls back if f fails.
func (c *conn) transaction(f func() error) error {
	if err := retryBusy(context.Background(), func() error { _, err := c.exec("BEGIN IMMEDIATE"); return err }); err != nil {
		return err
	}
	err := f()
	if err == nil {
		if _, err = c.exec("COMMIT"); err == nil {
			return nil
		}
	}
	// SQLite has rolled back by itself after some errors, such as a full disk; then there is nothing to do.
	if _, rerr := c.exec("ROLLBACK"); rerr != nil && !strings.Contains(rerr.Error(), "no transaction is active") {
		return errors.Join(err, rerr)
	}
	return err
}
