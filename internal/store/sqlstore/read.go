package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/journal"
)

// errStop ends the reading of rows before the last one.
var errStop = errors.New("stop")

// scanner is a row of a result.
type scanner interface{ Scan(dest ...any) error }

// prepared keeps the prepared statements of a connection or a pool: parsing a statement can take as long as executing it. There are few
// different texts, because each is a constant or joined from constants.
type prepared struct {
	of interface {
		PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
	}
	translate func(query string) string
	text      func(string) string // same as dialect.text
	all       sync.Map            // *sql.Stmt by text
}

func (p *prepared) prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	if stmt, ok := p.all.Load(query); ok {
		return stmt.(*sql.Stmt), nil
	}
	stmt, err := p.of.PrepareContext(ctx, p.translate(query))
	if err != nil {
		return nil, err
	}
	kept, _ := p.all.LoadOrStore(query, stmt) // if another goroutine was first, closing the database closes stmt
	return kept.(*sql.Stmt), nil
}

// each calls f with every row of a query until f returns an error.
func (p *prepared) each(ctx context.Context, query string, args []any, f func(scanner) error) error {
	stmt, err := p.prepare(ctx, query) //nolint:sqlclosecheck // closing the store closes it
	if err != nil {
		return err
	}
	rows, err := stmt.QueryContext(ctx, p.stored(args)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// stored converts arguments to the form of the tables: a time to microseconds since the Unix epoch, a nil time to NULL, a truth value to 0 or 1.
func (p *prepared) stored(args []any) []any {
	for i, a := range args {
		switch v := a.(type) {
		case string:
			if p.text != nil {
				args[i] = p.text(v)
			}
		case time.Time:
			args[i] = v.UnixMicro()
		case *time.Time:
			args[i] = nil
			if v != nil {
				args[i] = v.UnixMicro()
			}
		case bool:
			args[i] = 0
			if v {
				args[i] = 1
			}
		}
	}
	return args
}

// each calls f with every row of a query until f returns an error. A query whose connection breaks before its first row is repeated, for
// busyTimeout at most: after a restart of the server, each connection of the pool is broken.
func (s *Store) each(ctx context.Context, query string, args []any, f func(scanner) error) error {
	return s.eachAgain(ctx, query, args, func() bool { return false }, f)
}

// eachAgain is like each, but also repeats a query whose connection breaks after some rows if forget has made f forget these rows.
func (s *Store) eachAgain(ctx context.Context, query string, args []any, forget func() bool, f func(scanner) error) error {
	var broken error // error after rows that f does not forget
	err := retryBusy(ctx, func() error {
		rows := 0
		err := s.statements.each(ctx, query, args, func(row scanner) error {
			rows++
			return f(row)
		})
		if err != nil && rows > 0 && !forget() {
			broken = err
			return nil
		}
		return err
	})
	err = cmp.Or(err, broken)
	switch {
	case errors.Is(err, errStop):
		return nil
	case err != nil && s.isClosed():
		return journal.ErrClosed
	}
	return explain(err)
}

// list returns the results of scan for all rows.
func list[T any](ctx context.Context, s *Store, scan func(scanner) (T, error), query string, args ...any) (all []T, err error) {
	forget := func() bool {
		all = nil
		return true
	}
	err = s.eachAgain(ctx, query, args, forget, func(row scanner) error {
		v, err := scan(row)
		if err == nil {
			all = append(all, v)
		}
		return err
	})
	return all, err
}

// some is like list, but returns only the first rows that keep accepts, at most limit. The query must not have a limit of its own: rejected rows
// would use it up.
func some[T any](ctx context.Context, s *Store, limit int, scan func(scanner) (T, error), keep func(T) (bool, error), query string, args ...any) (all []T, err error) {
	err = s.each(ctx, query, args, func(row scanner) error {
		if len(all) >= limit {
			return errStop
		}
		v, err := scan(row)
		if err != nil {
			return err
		}
		kept, err := keep(v)
		if err == nil && kept {
			all = append(all, v)
		}
		return err
	})
	return all, err
}

// one returns the first row, or the error missing if there is no row.
func one[T any](ctx context.Context, s *Store, missing error, scan func(scanner) (T, error), query string, args ...any) (v T, err error) {
	all, err := list(ctx, s, scan, query, args...)
	switch {
	case err != nil:
		return v, err
	case len(all) == 0:
		return v, missing
	}
	return all[0], nil
}

// value scans a row of one column.
func value[T any](row scanner) (v T, err error) {
	err = row.Scan(&v)
	return v, err
}

// instant scans a stored time into a time.Time, and NULL into the zero time.
type instant struct{ t *time.Time }

// Scan implements sql.Scanner.
func (i instant) Scan(v any) error {
	*i.t = time.Time{}
	if n, ok := v.(int64); ok {
		*i.t = time.UnixMicro(n).UTC()
	}
	return nil
}

// optional scans a stored time into a *time.Time, and NULL into nil.
type optional struct{ t **time.Time }

// Scan implements sql.Scanner.
func (o optional) Scan(v any) error {
	*o.t = nil
	if v == nil {
		return nil
	}
	*o.t = new(time.Time)
	return instant{*o.t}.Scan(v)
}

// object scans stored JSON.
type object struct{ into any }

// Scan implements sql.Scanner.
func (o object) Scan(v any) error {
	text, ok := v.([]byte)
	if s, is := v.(string); is {
		text, ok = []byte(s), true
	}
	if !ok {
		return fmt.Errorf("stored JSON is a %T", v)
	}
	return json.Unmarshal(text, o.into)
}

// wrap adds a description of what failed to an error that is not nil.
func wrap(err *error, format string, args ...any) {
	if *err != nil {
		*err = fmt.Errorf(format+": %w", append(args, *err)...)
	}
}
