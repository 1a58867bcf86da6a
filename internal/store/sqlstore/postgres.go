package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"mcp-code-exec-harness/internal/task"
)

// server is a PostgreSQL database, which processes on several machines can share. The statements of this package are written for SQLite and for
// Postgres. Row locks, which only Postgres needs, stand in comments that begin with /*+; translate makes these locks part of the statement.
type server struct {
	lease *rowLease
	*days
	*bus
}

var _ database = (*server)(nil)

//go:embed postgres/*.sql
var postgresMigrations embed.FS

const (
	postgresReaders = 8                // connections of a process for reading
	postgresBeats   = 2                // connections of a process for its lease
	postgresConnect = 10 * time.Second // maximum time for opening a connection
	silenceLimit    = 15 * time.Second // time without confirmation from the other side after which a connection counts as lost
	parts           = 16               // number of parts of each counter, so that processes seldom wait for each other
)

func isPostgres(url string) bool {
	return strings.HasPrefix(url, "postgres://") || strings.HasPrefix(url, "postgresql://")
}

// address returns the URL of a server without user name, password and parameters.
func address(raw string) string {
	u, err := url.Parse(raw)
	if err != nil { // not returned, because the text of err contains the password
		return "postgres"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// openPostgres opens a store in a database of a server, and returns its writing connection.
func (s *Store) openPostgres(ctx context.Context, url string, _ Options) (*conn, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, errors.New("store.url: it is not an address of the form postgres://USER:PASSWORD@HOST:PORT/DATABASE")
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = postgresConnect
	}
	dialer := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: silenceLimit / 3, Interval: silenceLimit / 5, Count: 3}, Control: boundSilence}
	cfg.DialFunc = dialer.DialContext
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "harness"
	}
	// With these settings, the server notices within seconds that a machine is gone, and ends the transactions of that machine. Other processes may
	// be waiting for the locks of these transactions.
	for name, value := range map[string]string{
		"tcp_keepalives_idle": "5", "tcp_keepalives_interval": "3", "tcp_keepalives_count": "3", "tcp_user_timeout": "15000",
		"idle_in_transaction_session_timeout": "10000",
		// Statements find rows by an index. Without this setting, plans made for the small tables of a new store would read whole tables, until the server
		// analyzes the tables that have grown. The few statements that do read whole tables then have a high cost, for which jit would compile them.
		"enable_seqscan": "off", "jit": "off",
	} {
		if cfg.RuntimeParams[name] == "" && !strings.Contains(cfg.RuntimeParams["options"], name) {
			cfg.RuntimeParams[name] = value
		}
	}
	pool := stdlib.OpenDB(*cfg)
	pool.SetMaxOpenConns(postgresReaders)
	pool.SetMaxIdleConns(postgresReaders)
	if err := migratePostgres(ctx, pool); err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	beats := stdlib.OpenDB(*cfg) // separate connections, so that slow reads do not delay the lease
	beats.SetMaxOpenConns(postgresBeats)
	lease, days := newRowLease(beats, s.log), newDays(pool, s.log)
	writing := cfg.Copy()
	writing.RuntimeParams["lock_timeout"] = "5000" // milliseconds; after that the transaction is repeated
	c := newConn(stdlib.OpenDB(*writing), ofPostgres(lease, days))
	if err := c.open(ctx); err != nil {
		return nil, errors.Join(err, c.close(), beats.Close(), pool.Close())
	}
	s.path, s.lease, s.read = address(url), lease, pool
	s.statements.of, s.statements.translate, s.statements.text = pool, translate, postgresText
	s.database = &server{lease, days, newBus(pool, cfg, s.log)}
	return c, nil
}

// migrateTries is how often a migration is tried while transactions of processes of a former version have locks that it needs.
const migrateTries = 50

// migratePostgres brings the schema to the newest version. Each migration is a transaction, and one process migrates at a time. Processes of a former
// version go on meanwhile. A migration waits for a lock for 1.5 seconds at most, because other statements on the table wait for it meanwhile. A wait of more
// than a second makes the server cancel an autovacuum that has the lock.
func migratePostgres(ctx context.Context, db *sql.DB) error {
	entries, err := fs.ReadDir(postgresMigrations, "postgres") // sorted by name
	for tries, done := 0, false; err == nil && !done; {
		done, err = migrateStep(ctx, db, entries)
		if code := postgresCode(err); (code == lockTimeout || code == deadlock) && tries < migrateTries {
			tries++
			err = pause(ctx, reconnectWait)
		}
	}
	return err
}

// migrateStep executes the next migration, and reports whether there was none left.
func migrateStep(ctx context.Context, db *sql.DB, entries []fs.DirEntry) (done bool, err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	var version, major int
	var schema sql.NullString
	if err := tx.QueryRowContext(ctx, "SELECT current_schema()").Scan(&schema); err != nil || !schema.Valid {
		return false, cmp.Or(err, errors.New("its schema (search_path) does not exist: create it"))
	}
	if _, err = tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock(hashtext('harness ' || current_schema()))"); err == nil {
		err = tx.QueryRowContext(ctx, "SELECT current_setting('server_version_num')::int / 10000").Scan(&major)
	}
	if err == nil && major < 15 {
		err = fmt.Errorf("it is PostgreSQL %d: use version 15 or newer", major)
	}
	if err == nil {
		_, err = tx.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)")
	}
	if err == nil {
		err = tx.QueryRowContext(ctx, "SELECT coalesce(max(version), 0) FROM schema_version").Scan(&version)
	}
	switch {
	case err != nil:
		return false, err
	case version > len(entries):
		return false, fmt.Errorf("its schema has version %d, this harness knows %d: use a newer harness, or another database in store.url", version, len(entries))
	case version == len(entries):
		return true, nil
	}
	e := entries[version]
	text, err := postgresMigrations.ReadFile("postgres/" + e.Name())
	if err != nil {
		return false, err
	}
	for _, statement := range []string{"SET LOCAL lock_timeout = '1500ms'", string(text), "DELETE FROM schema_version"} {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return false, fmt.Errorf("migration %s: %w", e.Name(), err)
		}
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO schema_version VALUES ($1)", version+1); err != nil {
		return false, err
	}
	return false, tx.Commit()
}

// countCommit increments a process's number of transactions in the table commits. For the transaction, it also sets harness.part, which is the
// process's part of each counter.
const countCommit = `INSERT INTO commits (process, n) VALUES (?1, 1) ON CONFLICT (process) DO UPDATE SET n = commits.n + 1
	RETURNING n, set_config('harness.part', ?2, true)`

// ofPostgres returns the dialect of Postgres for a process. Each transaction increments the process's number of transactions (countCommit), and sends
// COMMIT after it has received that number. If the answer to a COMMIT is lost, this number tells whether the transaction was committed.
func ofPostgres(lease *rowLease, days *days) *dialect {
	p := pipeline{}
	return &dialect{
		translate: translate,
		text:      postgresText,
		send: func(c *conn, all []statement) error {
			_, err := p.send(c, all)
			return err
		},
		begin: func(c *conn) error {
			opening := []statement{{query: "BEGIN"}, {
				query: countCommit, args: []any{lease.id, strconv.FormatInt(lease.part.Load(), 10)},
				row: func(row scanner) error { return row.Scan(&c.commits, new(string)) },
			}}
			if !c.lost {
				c.opening = opening // sent with the first statements, whose error tells whether the connection still works
				return nil
			}
			if err := c.open(context.Background()); err != nil {
				return err
			}
			c.lost = false
			_, err := p.send(c, opening)
			c.lost = err != nil // A later call succeeds once the server is reachable again.
			return err
		},
		commit: func(c *conn) error {
			if c.opening != nil { // nothing was sent
				return nil
			}
			tag, err := p.send(c, []statement{{query: "COMMIT"}})
			switch {
			case err == nil && tag != "COMMIT":
				return fmt.Errorf("the server answered COMMIT with %s", tag)
			case !isLost(err):
				return err
			}
			var commits int64
			if err := retryBusy(context.Background(), func() error {
				if err := c.open(context.Background()); err != nil {
					return errors.Join(driver.ErrBadConn, err)
				}
				c.lost = false
				// The lost transaction has locked the row, so FOR UPDATE waits until that transaction has ended.
				_, err := p.send(c, []statement{{
					query: "SELECT n FROM commits WHERE process = ? /*+ FOR UPDATE */", args: []any{lease.id},
					row: func(row scanner) error { return row.Scan(&commits) },
				}})
				return err
			}); err != nil {
				return unknownOutcomeError{err}
			}
			if commits < c.commits {
				return errNotCommitted
			}
			return nil
		},
		inTransaction: func(c *conn) (is bool) {
			_ = c.onServer(func(server *pgx.Conn) { is = server.PgConn().TxStatus() != 'I' })
			return is
		},
		reserve: func(c *conn, table, column string, first int64, num *int64) {
			c.later(func(row scanner) error { return row.Scan(num) }, "SELECT nextval(pg_get_serial_sequence(?, ?)) + ?::bigint", table, column, first)
		},
		number: func(c *conn, table, column string) {
			// The new numbers follow those that the rows have within their days (see numbersOfDay).
			c.row(fmt.Sprintf("SELECT setval(pg_get_serial_sequence(?, ?), coalesce(max(%s & %d), 0) + 1, false) FROM %s", column, numbersOfDay-1, table),
				[]any{table, column}, new(int64))
		},
		again: func(err error) bool {
			switch postgresCode(err) {
			case "40001", deadlock, lockTimeout, uniqueViolation: // first a serialization failure, last a row that another process has just inserted
				return true
			case "23514": // the partition of a run is missing
				days.forget()
				return true
			}
			return isLost(err) || errors.Is(err, errNotCommitted) || errors.Is(err, errStale)
		},
	}
}

// unknownOutcomeError means that a transaction may have been committed. The transaction is not repeated.
type unknownOutcomeError struct{ cause error }

func (e unknownOutcomeError) Error() string {
	return "the connection broke at the end of a transaction, whose outcome is unknown: " + e.cause.Error()
}

// SQLSTATE of errors.
const (
	uniqueViolation = "23505" // the key of a row is taken
	deadlock        = "40P01"
	lockTimeout     = "55P03"
)

// errNotCommitted means that a transaction was rolled back because its connection broke.
var errNotCommitted = errors.New("the connection broke before the end of a transaction")

// postgresCode returns the SQLSTATE of an error of the server, "" for another error.
func postgresCode(err error) string {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return ""
	}
	return e.Code
}

// isUnreachable reports whether an error means that no new connection to the server could be opened.
func isUnreachable(err error) bool {
	var refused *pgconn.ConnectError
	return errors.As(err, &refused)
}

// isPostgresLost reports whether an error means that the connection to the server could not be opened, is lost, or cannot be used.
func isPostgresLost(err error) bool {
	var refused *pgconn.ConnectError
	var network net.Error
	switch code := postgresCode(err); {
	case err == nil:
		return false
	case code != "":
		return strings.HasPrefix(code, "08") || strings.HasPrefix(code, "57P") || code == "53300" || code == "25P03" || code == "25006"
		// in this order: connection errors, shutdown, too many connections, a transaction that was idle for too long, a standby
	}
	return errors.Is(err, pgconn.ErrConnClosed) || errors.As(err, &refused) || errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

var (
	indexHint = regexp.MustCompile(`\s+INDEXED BY \w+`)
	// token matches the parts of a statement that translate replaces. It also matches quoted texts, which translate leaves unchanged.
	token = regexp.MustCompile(`'[^']*'|"[^"]*"|/\*\+|\*/|\?\d*|\bCROSS JOIN\b|\bjson_each\(\?\d*\)|\b(\w+\.)?user\b`)
)

// translate returns a statement of this package in the SQL of Postgres.
func translate(query string) string {
	n := 0
	parameter := func(mark string) string {
		if mark != "?" {
			return "$" + mark[1:]
		}
		n++
		return "$" + strconv.Itoa(n)
	}
	return token.ReplaceAllStringFunc(indexHint.ReplaceAllString(query, ""), func(t string) string {
		switch {
		case t[0] == '?':
			return parameter(t)
		case t == "/*+" || t == "*/":
			return ""
		case t == "CROSS JOIN":
			return "JOIN"
		case strings.HasPrefix(t, "json_each("):
			return "json_array_elements_text(" + parameter(t[len("json_each("):len(t)-1]) + "::json)"
		case strings.HasSuffix(t, "user"):
			return strings.TrimSuffix(t, "user") + `"user"`
		}
		return t
	})
}

// postgresText returns a text in a form that Postgres accepts: U+FFFD replaces U+0000 and bytes that are not UTF-8.
func postgresText(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// LockQueue implements task.Store. Any number of processes may work the queue of a server, so LockQueue only records that this process works the
// queue.
func (d *server) LockQueue(ctx context.Context) (release func() error, err error) {
	defer wrap(&err, "work the queue")
	if err := d.lease.work(ctx, true); err != nil {
		return nil, err
	}
	return func() error { return d.lease.work(context.WithoutCancel(ctx), false) }, nil
}

// QueueWorker implements task.Store.
func (d *server) QueueWorker(ctx context.Context) (name string, err error) {
	defer wrap(&err, "look for a process that works the queue")
	return d.lease.other(ctx, " AND working = 1")
}

// Remote reports whether the store is on a server, which processes on other machines may use too.
func (s *Store) Remote() bool {
	_, is := s.database.(*server)
	return is
}

// OtherWorker returns the name of another process that works the queue of a server, or "" if there is none.
func (s *Store) OtherWorker(ctx context.Context) (name string, err error) {
	defer wrap(&err, "look for another process that works the queue")
	d, is := s.database.(*server)
	if !is {
		return "", nil
	}
	return d.lease.other(ctx, " AND working = 1 AND id <> '"+d.lease.id+"'")
}

func (d *server) user(ctx context.Context) (name string, err error) {
	return d.lease.other(ctx, " AND id <> '"+d.lease.id+"'")
}

func (d *server) shrink(context.Context, *Store) error { return nil } // autovacuum does it

func (d *server) sweepCopies(time.Time) error { return nil } // a migration of Postgres makes no copy

func (d *server) close() error { return d.bus.close() }

var _ task.Bus = (*server)(nil)
