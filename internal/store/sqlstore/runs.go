package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/journal"
)

const statusRunning = "running" // status of a run until its end is recorded

const runColumns = `SELECT num, id, user, session, file, tier, status, error_kind, calls,
	started, ended, duration_us, owner FROM runs`

type runRow struct {
	journal.RunInfo
	num int64
}

func scanRun(row scanner) (r runRow, err error) {
	var duration int64
	err = row.Scan(&r.num, &r.ID, &r.User, &r.Session, &r.File, &r.Tier, &r.Status, &r.ErrorKind, &r.Calls,
		instant{&r.Started}, instant{&r.Ended}, &duration, &r.Owner)
	r.Duration = time.Duration(duration) * time.Microsecond
	return r, err
}

// Runs implements runs.Store. If runs are added or deleted between two pages, every other run still appears exactly once.
func (s *Store) Runs(ctx context.Context, f journal.Filter) (runs []journal.RunInfo, next string, err error) {
	defer wrap(&err, "list runs")
	where := " WHERE purged = 0"
	var args []any
	for _, c := range []struct{ column, value string }{{"user", f.User}, {"session", f.Session}, {"status", f.Status}} {
		if c.value != "" {
			// The first term lets SQLite use the partial indexes.
			where += " AND " + c.column + " <> '' AND " + c.column + " = ?"
			args = append(args, c.value)
		}
	}
	if f.Cursor != "" {
		var started, num int64
		if _, err := fmt.Sscanf(f.Cursor, "%d-%d", &started, &num); err != nil || runCursor(started, num) != f.Cursor {
			return nil, "", fmt.Errorf("%w %.40q", journal.ErrCursor, f.Cursor)
		}
		where += " AND (started, num) < (?, ?)"
		args = append(args, started, num)
	}
	limit := pageSize(f.Limit)
	rows, err := list(ctx, s, scanRun, runColumns+where+" ORDER BY started DESC, num DESC LIMIT ?", append(args, limit+1)...)
	if len(rows) > limit {
		rows = rows[:limit]
		next = runCursor(rows[limit-1].Started.UnixMicro(), rows[limit-1].num)
	}
	for _, r := range rows {
		runs = append(runs, r.RunInfo)
	}
	return runs, next, err
}

func runCursor(started, num int64) string { return fmt.Sprintf("%d-%d", started, num) }

// errAmbiguous means that several ids begin with the given text.
var errAmbiguous = errors.New("several runs begin so, give more of the id")

// Run returns the run with an id. If there is none, the error wraps journal.ErrNotFound.
func (s *Store) Run(ctx context.Context, id string) (_ journal.RunInfo, err error) {
	defer wrap(&err, "run %q", id)
	r, err := one(ctx, s, journal.ErrNotFound, scanRun, runColumns+" WHERE id = ? AND purged = 0", id)
	return r.RunInfo, err
}

// MatchRun implements runs.Store.
func (s *Store) MatchRun(ctx context.Context, id string) (_ journal.RunInfo, err error) {
	defer wrap(&err, "run %q", id)
	const shown = 4
	if id == "" {
		return journal.RunInfo{}, journal.ErrNotFound
	}
	found, err := list(ctx, s, scanRun, runColumns+" WHERE id >= ? AND id < ? AND purged = 0 ORDER BY id LIMIT ?",
		id, id+"\U0010ffff", shown+1)
	switch {
	case err != nil:
		return journal.RunInfo{}, err
	case len(found) == 0:
		return journal.RunInfo{}, journal.ErrNotFound
	case len(found) == 1 || found[0].ID == id: // a complete id sorts before longer ones that begin with it
		return found[0].RunInfo, nil
	}
	var ids []string
	for _, r := range found[:min(len(found), shown)] {
		ids = append(ids, r.ID)
	}
	if len(found) > shown {
		ids = append(ids, "...")
	}
	return journal.RunInfo{}, fmt.Errorf("%w: %s", errAmbiguous, strings.Join(ids, ", "))
}

// Strays lists the unfinished runs whose process is dead and which belong to no unfinished task, oldest first. No task resumes these runs, and
// DueRuns does not list them.
func (s *Store) Strays(ctx context.Context) (strays []journal.RunInfo, err error) {
	defer wrap(&err, "list the runs of dead processes and no task")
	dead, err := s.deadOwners(ctx)
	if err != nil || len(dead) == 0 {
		return nil, err
	}
	// Without INDEXED BY, SQLite would scan the ended runs too, in order to avoid sorting.
	rows, err := list(ctx, s, scanRun, runColumns+` INDEXED BY runs_unfinished WHERE ended IS NULL AND owner > ''
		AND NOT EXISTS (SELECT 1 FROM approvals WHERE run = runs.num AND due IS NOT NULL) ORDER BY started, num`)
	for _, r := range rows {
		if slices.Contains(dead, r.Owner) {
			strays = append(strays, r.RunInfo)
		}
	}
	if err != nil || len(strays) == 0 {
		return nil, err
	}
	// Tasks are read after the runs. If a task ends between the two reads, its runs have ended too.
	var named []string
	err = s.each(ctx, "SELECT p.data FROM tasks t CROSS JOIN steps p ON p.task = t.num WHERE t.ended IS NULL", nil, func(row scanner) error {
		var step struct {
			Run struct {
				ID string `json:"runId"`
			} `json:"run"`
		}
		err := row.Scan(object{&step})
		named = append(named, step.Run.ID)
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(named)
	return slices.DeleteFunc(strays, func(r journal.RunInfo) bool {
		_, found := slices.BinarySearch(named, r.ID)
		return found
	}), nil
}
