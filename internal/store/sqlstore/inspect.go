package sqlstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"mcp-code-exec-harness/internal/task"
)

// maxDue is the maximum number of sessions that Load counts. It limits the cost of Load for a long queue.
const maxDue = 10_000

// connections is the maximum number of connections of a process to a server: for reading, for writing, for the lease, and for events.
const connections = postgresReaders + 1 + postgresBeats + 1

// Load returns how much work the store has. It reads only counters, and a bounded number of rows that an index finds.
func (s *Store) Load(ctx context.Context, now time.Time) (l task.Load, err error) {
	defer wrap(&err, "count what waits")
	if l.Queued, err = s.Queued(ctx); err != nil {
		return l, err
	}
	if l.Approvals, err = one(ctx, s, nil, value[int], "SELECT waiting FROM totals"); err != nil {
		return l, err
	}
	if err = s.each(ctx, `SELECT count(*), min(due) FROM (
		SELECT due FROM (SELECT due FROM sessions WHERE ready = 1 LIMIT ?2) a
		UNION ALL SELECT due FROM (SELECT due FROM sessions WHERE ready = 0 AND due <= ?1 ORDER BY due LIMIT ?2) b) c`,
		[]any{now, maxDue}, func(row scanner) error { return row.Scan(&l.Due, instant{&l.OldestDue}) }); err != nil {
		return l, err
	}
	l.Workers, err = s.workers(ctx)
	return l, err
}

// Ping returns an error if the database cannot be reached, or takes no changes.
func (s *Store) Ping(ctx context.Context) (err error) {
	defer wrap(&err, "reach store %s", s.path)
	return s.ping(ctx, s)
}

// Inspect returns a description of the store, and warnings about settings of its server.
func (s *Store) Inspect(ctx context.Context) (detail string, warnings []string, err error) {
	defer wrap(&err, "inspect store %s", s.path)
	version, err := one(ctx, s, nil, value[int], "SELECT version FROM schema_version")
	if err != nil {
		return "", nil, err
	}
	if detail, warnings, err = s.inspect(ctx); err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("%s, tables of version %d", detail, version), warnings, nil
}

func (d *file) ping(ctx context.Context, s *Store) error {
	_, err := one(ctx, s, nil, value[int], "SELECT version FROM schema_version")
	return err
}

func (d *file) inspect(context.Context) (detail string, warnings []string, err error) {
	return "SQLite", nil, nil
}

// workers counts only this process: no other process works the queue of a file at the same time.
func (d *file) workers(context.Context) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.queue == nil {
		return 0, nil
	}
	return 1, nil
}

// ping uses a connection of the lease, which no reader holds.
func (d *server) ping(ctx context.Context, _ *Store) error {
	var standby, readOnly bool
	err := d.lease.db.QueryRowContext(ctx, "SELECT pg_is_in_recovery(), current_setting('transaction_read_only')::bool").Scan(&standby, &readOnly)
	switch {
	case err != nil:
		return err
	case standby:
		return errors.New("the server is a standby: name the primary in store.url")
	case readOnly:
		return errors.New("the server takes no changes: transactions are read-only (default_transaction_read_only)")
	}
	return nil
}

func (d *server) workers(ctx context.Context) (n int, err error) {
	err = retryBusy(ctx, func() error {
		return d.lease.db.QueryRowContext(ctx, "SELECT count(*) FROM processes WHERE expires > now() AND working = 1").Scan(&n)
	})
	return n, err
}

// listenTime is the maximum wait for a notification that was sent.
const listenTime = 2 * time.Second

func (d *server) inspect(ctx context.Context) (detail string, warnings []string, err error) {
	if err := d.ping(ctx, nil); err != nil {
		return "", nil, err
	}
	var version, commit, fsync string
	var most, processes int
	if err := d.lease.db.QueryRowContext(ctx, `SELECT split_part(current_setting('server_version'), ' ', 1), current_setting('synchronous_commit'), current_setting('fsync'),
		current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,
		(SELECT count(*) FROM processes WHERE expires > now())`).Scan(&version, &commit, &fsync, &most, &processes); err != nil {
		return "", nil, err
	}
	warn := func(format string, values ...any) { warnings = append(warnings, fmt.Sprintf(format, values...)) }
	if commit == "off" || fsync == "off" {
		warn("the server forgets its last commits when it crashes, intents of calls among them: set synchronous_commit and fsync to on (they are %s and %s)", commit, fsync)
	}
	if need := connections * (max(processes, 1) + 1); most < need {
		warn("the server takes %d connections, and %d processes and one more that replaces one of them need %d: raise max_connections", most, max(processes, 1), need)
	}
	if err := d.bus.probe(ctx); err != nil {
		warn("LISTEN does not work (%s); behind a pool of connections such as PgBouncer in transaction mode, statements fail too: name the server itself in store.url", err)
	}
	return "PostgreSQL " + version, warnings, nil
}

// probe sends a notification from one connection to another.
func (b *bus) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, listenTime)
	defer cancel()
	c, err := pgx.ConnectConfig(ctx, b.cfg)
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx)) //nolint:errcheck // nothing was written
	channel := "harness_probe_" + strings.ToLower(rand.Text()[:16])
	if _, err := c.Exec(ctx, "LISTEN "+channel); err != nil {
		return err
	}
	if _, err := b.db.ExecContext(ctx, "SELECT pg_notify($1, '')", channel); err != nil {
		return err
	}
	if _, err := c.WaitForNotification(ctx); err != nil {
		return fmt.Errorf("no notification within %s", listenTime)
	}
	return nil
}

// maxRows is the maximum number of rows of a table that Rows counts. It limits the cost of Rows.
const maxRows = 10_000_000

// Rows returns how many rows each table has, at most maxRows. A table that cannot be read has -1.
func (s *Store) Rows(ctx context.Context) map[string]int64 {
	all := map[string]int64{}
	for _, t := range transferred {
		n, err := one(ctx, s, nil, value[int64], "SELECT count(*) FROM (SELECT 1 FROM "+t.name+fmt.Sprintf(" LIMIT %d) counted", maxRows))
		if err != nil {
			n = -1
		}
		all[t.name] = n
	}
	return all
}
