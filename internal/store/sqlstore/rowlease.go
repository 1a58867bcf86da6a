package sqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mcp-code-exec-harness/internal/journal"
)

const (
	leaseTime  = 15 * time.Second // time for which a process counts as alive after it has renewed its lease
	leaseBeat  = leaseTime / 3    // interval at which a process renews its lease
	leaseSweep = time.Hour        // time after which the row of a dead process is deleted
)

// rowLease is a lease in the form of a row of the table processes. The process renews its row. If the row has expired by the clock of the server, the
// process counts as dead, and other processes may take over its tasks and runs. If the process was only slow, its later commits to these tasks and
// runs fail, because their fences have changed. When a process is killed, the other processes on the same machine know that at once.
type rowLease struct {
	id, name string
	place    string       // see thisPlace
	process  string       // see thisProcess
	part     atomic.Int64 // number of this process's part in each counter
	db       *sql.DB
	log      *slog.Logger

	ctx     context.Context // ends with the lease
	end     context.CancelFunc
	beating sync.WaitGroup

	claiming sync.Mutex // guards claimed
	claimed  bool

	mu       sync.Mutex
	working  bool // true while this process works the queue
	released bool
}

var _ lease = (*rowLease)(nil)

func newRowLease(db *sql.DB, log *slog.Logger) *rowLease {
	host, err := os.Hostname()
	if err != nil {
		host = "a machine without a name"
	}
	ctx, end := context.WithCancel(context.Background())
	l := &rowLease{ctx: ctx, end: end, id: strings.ToLower(rand.Text()[:16]), place: thisPlace(), process: thisProcess(), name: fmt.Sprintf("%d on %s", os.Getpid(), host), db: db, log: log}
	l.part.Store(int64(l.id[0]) % parts) // an arbitrary part, until the first beat chooses one
	return l
}

// ID implements lease.
func (l *rowLease) ID() string { return l.id }

// Claim implements lease.
func (l *rowLease) Claim() error {
	l.claiming.Lock()
	defer l.claiming.Unlock()
	l.mu.Lock()
	released := l.released
	l.mu.Unlock()
	switch {
	case released:
		return journal.ErrClosed
	case l.claimed:
		return nil
	}
	if err := l.beat(l.ctx); err != nil {
		return fmt.Errorf("register this process in the store: %w", err)
	}
	l.claimed = true
	l.beating.Go(func() {
		tick := time.NewTicker(leaseBeat)
		defer tick.Stop()
		for {
			select {
			case <-l.ctx.Done():
				return
			case <-tick.C:
			}
			if err := l.beat(l.ctx); err != nil && l.ctx.Err() == nil {
				l.log.Warn("this process could not renew its lease: others may take over what it works on", "error", err)
			}
		}
	})
	return nil
}

// beat renews the lease. The first beat chooses the part that the fewest live processes use.
func (l *rowLease) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaseBeat)
	defer cancel()
	l.mu.Lock()
	working := 0
	if l.working {
		working = 1
	}
	l.mu.Unlock()
	return retryBusy(ctx, func() error {
		var part int64
		err := l.db.QueryRowContext(ctx, `INSERT INTO processes (id, name, place, process, expires, working, part) VALUES ($1, $2, $3, $4, now() + make_interval(secs => $5), $6,
				(SELECT p FROM generate_series(0, $7 - 1) p LEFT JOIN processes o ON o.part = p AND o.expires > now() GROUP BY p ORDER BY count(o.id), p LIMIT 1))
			ON CONFLICT (id) DO UPDATE SET expires = excluded.expires, working = excluded.working RETURNING part`,
			l.id, l.name, l.place, l.process, leaseTime.Seconds(), working, parts).Scan(&part)
		if err == nil {
			l.part.Store(part)
			_, err = l.db.ExecContext(ctx, `WITH gone AS (DELETE FROM processes WHERE expires < now() - make_interval(secs => $1) RETURNING id)
				DELETE FROM commits WHERE process IN (SELECT id FROM gone)`, leaseSweep.Seconds())
		}
		return err
	})
}

// work records whether this process works the queue.
func (l *rowLease) work(ctx context.Context, working bool) error {
	l.mu.Lock()
	l.working = working
	released := l.released
	l.mu.Unlock()
	switch {
	case released && !working:
		return nil
	case released:
		return journal.ErrClosed
	case working:
		if err := l.Claim(); err != nil {
			return err
		}
	}
	return l.beat(ctx)
}

// other returns the name of a live process that meets a condition in SQL, "" if there is none. It may be this process, unless the condition excludes it.
func (l *rowLease) other(ctx context.Context, and string) (found string, err error) {
	err = retryBusy(ctx, func() error {
		rows, err := l.db.QueryContext(ctx, "SELECT id, name FROM processes WHERE expires > now()"+and+" ORDER BY id")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id, name string
			if err := rows.Scan(&id, &name); err != nil {
				return err
			}
			if alive, err := l.Alive(id); alive || err != nil {
				found = "process " + name
				return err
			}
		}
		return rows.Err()
	})
	return found, err
}

// Alive implements lease.
func (l *rowLease) Alive(id string) (alive bool, err error) {
	if id == l.id {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), postgresConnect)
	defer cancel()
	var place, process string
	err = retryBusy(ctx, func() error {
		return l.db.QueryRowContext(ctx, "SELECT place, process, expires > now() FROM processes WHERE id = $1", id).Scan(&place, &process, &alive)
	})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("find out whether an owner of runs is alive: %w", err)
	}
	return alive && !(l.place != "" && place == l.place && isGone(process)), nil
}

// Others implements lease. A process on another machine may begin at any moment.
func (l *rowLease) Others() bool { return true }

// Describe implements lease.
func (l *rowLease) Describe(id string) string {
	ctx, cancel := context.WithTimeout(context.Background(), postgresConnect)
	defer cancel()
	var name string
	if err := retryBusy(ctx, func() error {
		return l.db.QueryRowContext(ctx, "SELECT name FROM processes WHERE id = $1", id).Scan(&name)
	}); err != nil {
		return "of owner " + id
	}
	return name
}

// Release implements lease. It is called before the connections are closed.
func (l *rowLease) Release() error {
	l.mu.Lock()
	l.released = true
	l.mu.Unlock()
	l.end()
	l.claiming.Lock() // no Claim starts to renew the lease from here on
	defer l.claiming.Unlock()
	l.beating.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), leaseBeat)
	defer cancel()
	err := retryBusy(ctx, func() error {
		_, err := l.db.ExecContext(ctx, "WITH gone AS (DELETE FROM processes WHERE id = $1) DELETE FROM commits WHERE process = $1", l.id)
		return err
	})
	if err = errors.Join(err, l.db.Close()); err != nil {
		return fmt.Errorf("give up the lease: %w", err)
	}
	return nil
}
