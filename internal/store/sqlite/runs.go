package sqlite

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/journal"
)

const statusRunning = "running" // until the end is recorded

const runColumns = `num, id, user, session, file, tier, status, error_kind, calls, source_hash,
	started, ended, duration_us, owner`

func scanRun(rows *sql.Rows) (num int64, r journal.RunInfo, err error) {
	var hash sql.RawBytes
	var started, duration int64
	var ended sql.NullInt64
	if err := rows.Scan(&num, &r.ID, &r.User, &r.Session, &r.File, &r.Tier, &r.Status, &r.ErrorKind, &r.Calls, &hash,
		&started, &ended, &duration, &r.Owner); err != nil {
		return 0, r, err
	}
	r.SourceHash = hex.EncodeToString(hash)
	r.Started = time.UnixMicro(started)
	r.Duration = time.Duration(duration) * time.Microsecond
	if ended.Valid {
		r.Ended = time.UnixMicro(ended.Int64)
	}
	return num, r, nil
}

// Runs lists stored runs, newest first. next continues the list, and is empty at its end; runs that come or go meanwhile
// neither repeat nor hide others.
func (s *Store) Runs(ctx context.Context, f journal.Filter) (runs []journal.RunInfo, next string, err error) {
	where := []string{"purged = 0"}
	var args []any
	for _, c := range []struct{ column, value string }{{"user", f.User}, {"session", f.Session}, {"status", f.Status}} {
		if c.value != "" {
			// The first term lets SQLite use the partial indexes.
			where = append(where, c.column+" <> ''", c.column+" = ?")
			args = append(args, c.value)
		}
	}
	if f.Cursor != "" {
		started, num, err := parseCursor(f.Cursor)
		if err != nil {
			return nil, "", fmt.Errorf("list runs: %w", err)
		}
		where = append(where, "(started, num) < (?, ?)")
		args = append(args, started, num)
	}
	limit := f.Limit
	if limit <= 0 {
		limit = 50
	}
	limit = min(limit, 1000)
	rows, err := s.read.QueryContext(ctx, "SELECT "+runColumns+" FROM runs WHERE "+strings.Join(where, " AND ")+
		" ORDER BY started DESC, num DESC LIMIT ?", append(args, limit+1)...)
	if err != nil {
		return nil, "", fmt.Errorf("list runs: %w", s.fail(err))
	}
	defer rows.Close()
	for rows.Next() {
		if len(runs) == limit {
			return runs, next, nil
		}
		num, r, err := scanRun(rows)
		if err != nil {
			return nil, "", fmt.Errorf("list runs: %w", s.fail(err))
		}
		runs = append(runs, r)
		next = fmt.Sprintf("%d-%d", r.Started.UnixMicro(), num)
	}
	if err := rows.Err(); err != nil {
		return nil, "", fmt.Errorf("list runs: %w", s.fail(err))
	}
	return runs, "", nil
}

func parseCursor(c string) (started, num int64, err error) {
	a, b, _ := strings.Cut(c, "-")
	started, aerr := strconv.ParseInt(a, 10, 64)
	num, berr := strconv.ParseInt(b, 10, 64)
	if aerr != nil || berr != nil {
		return 0, 0, fmt.Errorf("%w %.40q", journal.ErrCursor, c)
	}
	return started, num, nil
}

// errAmbiguous reports the beginning of several ids.
var errAmbiguous = errors.New("several runs begin so, give more of the id")

// Run returns the run of an id. The error wraps journal.ErrNotFound.
func (s *Store) Run(ctx context.Context, id string) (journal.RunInfo, error) {
	r, err := s.MatchRun(ctx, id)
	if errors.Is(err, errAmbiguous) || err == nil && r.ID != id {
		return journal.RunInfo{}, fmt.Errorf("run %q: %w", id, journal.ErrNotFound)
	}
	return r, err
}

// MatchRun returns the run of an id, or of the beginning of one, if it is the only run that begins so. Errors wrap
// journal.ErrNotFound or name the candidates.
func (s *Store) MatchRun(ctx context.Context, id string) (journal.RunInfo, error) {
	r, err := s.matchRun(ctx, id)
	if err != nil {
		return r, fmt.Errorf("run %q: %w", id, err)
	}
	return r, nil
}

func (s *Store) matchRun(ctx context.Context, id string) (journal.RunInfo, error) {
	const shown = 4
	if id == "" {
		return journal.RunInfo{}, journal.ErrNotFound
	}
	rows, err := s.read.QueryContext(ctx, "SELECT "+runColumns+" FROM runs"+
		" WHERE id >= ? AND id < ? AND purged = 0 ORDER BY id LIMIT ?", id, id+"\U0010ffff", shown+1)
	if err != nil {
		return journal.RunInfo{}, s.fail(err)
	}
	defer rows.Close()
	var found []journal.RunInfo
	for rows.Next() {
		_, r, err := scanRun(rows)
		if err != nil {
			return journal.RunInfo{}, s.fail(err)
		}
		if r.ID == id {
			return r, nil
		}
		found = append(found, r)
	}
	switch err := rows.Err(); {
	case err != nil:
		return journal.RunInfo{}, s.fail(err)
	case len(found) == 0:
		return journal.RunInfo{}, journal.ErrNotFound
	case len(found) == 1:
		return found[0], nil
	}
	var ids []string
	for i, r := range found {
		if i == shown {
			ids = append(ids, "...")
			break
		}
		ids = append(ids, r.ID)
	}
	return journal.RunInfo{}, fmt.Errorf("%w: %s", errAmbiguous, strings.Join(ids, ", "))
}

// Orphans lists the unfinished runs whose process is dead, oldest first: they can be resumed by any one process.
func (s *Store) Orphans(ctx context.Context) ([]journal.RunInfo, error) {
	runs, err := s.orphans(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the runs of dead processes: %w", err)
	}
	return runs, nil
}

// Strays lists the orphans that no unfinished task names: nobody will go on with them. Oldest first.
func (s *Store) Strays(ctx context.Context) ([]journal.RunInfo, error) {
	strays, err := s.orphans(ctx)
	if err == nil && len(strays) > 0 { // tasks are looked at last: one that ends meanwhile has ended its runs
		var named map[string]bool
		named, err = s.runsOfTasks(ctx)
		strays = slices.DeleteFunc(strays, func(r journal.RunInfo) bool { return named[r.ID] })
	}
	if err != nil {
		return nil, fmt.Errorf("list the runs of dead processes and no task: %w", err)
	}
	return strays, nil
}

// runsOfTasks are the runs that the steps of unfinished tasks name.
func (s *Store) runsOfTasks(ctx context.Context) (map[string]bool, error) {
	rows, err := s.query(ctx, `SELECT json_extract(CAST(p.data AS TEXT), '$.run.runId') AS run
		FROM tasks t CROSS JOIN steps p ON p.task = t.num WHERE t.ended IS NULL AND run IS NOT NULL`)
	if err != nil {
		return nil, s.fail(err)
	}
	runs, err := scanTexts(rows)
	if err != nil {
		return nil, s.fail(err)
	}
	named := make(map[string]bool)
	for _, run := range runs {
		named[run] = true
	}
	return named, nil
}

func (s *Store) orphans(ctx context.Context) ([]journal.RunInfo, error) {
	// INDEXED BY keeps SQLite from passing over all runs that have ended, which would save it the sorting.
	rows, err := s.read.QueryContext(ctx, "SELECT "+runColumns+" FROM runs INDEXED BY runs_unfinished WHERE ended IS NULL ORDER BY started, num")
	if err != nil {
		return nil, s.fail(err)
	}
	defer rows.Close()
	var out []journal.RunInfo
	alive := make(map[string]bool)
	for rows.Next() {
		_, r, err := scanRun(rows)
		if err != nil {
			return nil, s.fail(err)
		}
		lives, known := alive[r.Owner]
		if !known {
			if lives, err = s.lease.Alive(r.Owner); err != nil {
				return nil, err
			}
			alive[r.Owner] = lives
		}
		if !lives {
			out = append(out, r)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, s.fail(err)
	}
	return out, nil
}
