package servers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

const (
	maxValueBytes = 4 << 20   // maximum length of a string or blob in SQLite
	maxHeapBytes  = 256 << 20 // memory limit of SQLite for the whole process
)

// database is an in-memory SQLite database. The first call fills it; after that it is read-only.
type database struct {
	pool *sql.DB
	turn chan struct{} // holds one element; the goroutine that has taken it may use the fields below
	conn *sql.Conn     // the only connection, because an in-memory database exists in a single connection; nil until the first call
	// denied is the operation that the authorizer rejected in the last compiled statement.
	denied string
}

func openDatabase() (*database, error) {
	pool, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, fmt.Errorf("open an in-memory database: %w", err)
	}
	d := &database{pool: pool, turn: make(chan struct{}, 1)}
	d.turn <- struct{}{}
	return d, nil
}

// close waits for a running statement and closes the database.
func (d *database) close() {
	<-d.turn
	if d.conn != nil {
		d.conn.Close()
	}
	d.pool.Close()
}

// take waits for the connection, and creates and fills the database on the first call. release returns the connection.
func (d *database) take(ctx context.Context) (release func(), err error) {
	select {
	case <-d.turn:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the query before this one: %w", ctx.Err())
	}
	release = func() { d.turn <- struct{}{} }
	if d.conn == nil {
		// A cancelled call must not leave a half-filled database behind.
		if err := d.prepare(context.WithoutCancel(ctx)); err != nil {
			release()
			return nil, fmt.Errorf("prepare the demo database: %w", err)
		}
	}
	d.denied = ""
	return release, nil
}

func (d *database) prepare(ctx context.Context) (err error) {
	if d.conn, err = d.pool.Conn(ctx); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() {
		if err != nil {
			d.conn.Close()
			d.conn = nil
		}
	}()
	setup := fmt.Sprintf("PRAGMA temp_store=memory; PRAGMA foreign_keys=on; PRAGMA hard_heap_limit=%d", maxHeapBytes)
	if _, err := d.conn.ExecContext(ctx, setup); err != nil {
		return fmt.Errorf("set limits: %w", err)
	}
	if err := d.fill(ctx); err != nil {
		return err
	}
	return d.lock()
}

// lock restricts the connection to reading its own tables, whatever a statement contains.
func (d *database) lock() error {
	for id, value := range map[int]int{
		sqlite3.SQLITE_LIMIT_LENGTH:     maxValueBytes,
		sqlite3.SQLITE_LIMIT_SQL_LENGTH: 1 << 20,
		sqlite3.SQLITE_LIMIT_ATTACHED:   0,
	} {
		if _, err := sqlite.Limit(d.conn, id, value); err != nil {
			return fmt.Errorf("limit SQLite: %w", err)
		}
	}
	return d.conn.Raw(func(driverConn any) error {
		registerer, ok := driverConn.(sqlite.AuthorizerRegisterer)
		if !ok {
			return errors.New("the SQLite driver has no authorizer")
		}
		return registerer.RegisterAuthorizer(d.authorize)
	})
}

// authorize is called by SQLite for each operation of a statement during compilation.
func (d *database) authorize(action sqlite.AuthorizerActionCode, arg1, arg2, _, _ string) sqlite.AuthorizerReturnCode {
	switch action {
	case sqlite.AuthSelect, sqlite.AuthRead, sqlite.AuthRecursive:
		return sqlite.AuthorizerOK
	case sqlite.AuthFunction:
		if !strings.EqualFold(arg2, "load_extension") {
			return sqlite.AuthorizerOK
		}
	}
	d.denied = describeAction(action, arg1, arg2)
	return sqlite.AuthorizerDeny
}

func describeAction(action sqlite.AuthorizerActionCode, arg1, arg2 string) string {
	switch action {
	case sqlite.AuthInsert:
		return "INSERT into " + arg1
	case sqlite.AuthUpdate:
		return "UPDATE of " + arg1
	case sqlite.AuthDelete:
		return "DELETE from " + arg1
	case sqlite.AuthPragma:
		return "PRAGMA " + arg1
	case sqlite.AuthAttach, sqlite.AuthDetach:
		return "ATTACH or DETACH"
	case sqlite.AuthTransaction, sqlite.AuthSavepoint:
		return "a transaction statement"
	case sqlite.AuthFunction:
		return "the function " + arg2
	default:
		return "a statement that changes the schema"
	}
}

// explain converts an error from SQLite to advice that a model can act on.
func (d *database) explain(err error) error {
	if d.denied != "" {
		return fmt.Errorf("this database is read-only: %s is not allowed; write one SELECT, and use list_tables and "+
			"describe_table for the schema", d.denied)
	}
	message := err.Error()
	if strings.Contains(message, "no such table") {
		return fmt.Errorf("%w; the tables are %s", err, tableNames())
	}
	if strings.Contains(message, "no such column") {
		return fmt.Errorf("%w; describe_table lists the columns of a table", err)
	}
	return err
}

// checkOneStatement rejects a text that does not contain exactly one SQL statement. It implements just enough of SQLite's lexical rules to
// distinguish a semicolon that ends a statement from one in a string, a name or a comment. The authorizer checks what a statement may do.
func checkOneStatement(text string) error {
	if strings.ContainsRune(text, 0) {
		return errors.New("the query holds a NUL character, where SQLite would stop reading")
	}
	inStatement, ended := false, false
	for i := 0; i < len(text); {
		size, code := token(text[i:])
		switch {
		case text[i] == ';':
			ended = ended || inStatement
		case code && ended:
			return errors.New("the query holds more than one statement; call query once for each")
		case code:
			inStatement = true
		}
		i += size
	}
	if !inStatement {
		return errors.New("the query is empty; write one SELECT statement")
	}
	return nil
}

// token returns the length of the quoted text, comment or single byte at the start of s; code is false for comments and space.
func token(s string) (size int, code bool) {
	end := func(from int, mark string) int {
		if n := strings.Index(s[from:], mark); n >= 0 {
			return from + n + len(mark)
		}
		return len(s)
	}
	switch {
	case strings.HasPrefix(s, "--"):
		return end(2, "\n"), false
	case strings.HasPrefix(s, "/*"):
		return end(2, "*/"), false
	case s[0] == '\'' || s[0] == '"' || s[0] == '`':
		return end(1, s[:1]), true // a doubled quote counts as two adjacent texts, which makes no difference here
	case s[0] == '[':
		return end(1, "]"), true
	default:
		return 1, !strings.ContainsRune(" \t\r\n\f", rune(s[0]))
	}
}
