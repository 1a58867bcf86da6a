package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/task"
)

var _ task.Store = (*Store)(nil)

// CreateTask implements task.Store.
func (s *Store) CreateTask(ctx context.Context, n task.New) (t task.Task, created bool, err error) {
	row, err := s.encodeNew(&n)
	if err != nil {
		return t, false, err
	}
	var earlier string
	err = s.decide(ctx, row.bytes(), func(c *conn) (err error) {
		earlier, err = row.insert(c)
		return err
	})
	if err == nil && earlier != "" {
		t, err := s.Task(ctx, earlier)
		return t, false, err
	}
	if err == nil {
		t, err = row.task.task()
	}
	if err != nil {
		return t, false, fmt.Errorf("create task %q: %w", n.Task.ID, err)
	}
	return t, true, nil
}

// newRows is a task.New as it is stored.
type newRows struct {
	task     *taskRow
	events   []task.Event
	session  task.Session
	key      string
	bodyHash string
}

func (s *Store) encodeNew(n *task.New) (*newRows, error) {
	if n.Session.ID != n.Task.SessionID || n.Session.UserID != n.Task.UserID {
		return nil, fmt.Errorf("create task %q: %w: its session is another one's", n.Task.ID, task.ErrInvalidInput)
	}
	t := n.Task
	if t.Status == "" {
		t.Status = task.Queued
	}
	row, err := encodeTask(&t, s.now())
	if err != nil {
		return nil, fmt.Errorf("create task %q: %w", t.ID, err)
	}
	return &newRows{task: row, events: encodeEvents(n.Events), session: n.Session, key: n.IdempotencyKey, bodyHash: n.BodyHash}, nil
}

func (r *newRows) bytes() int { return len(r.task.request) + len(r.task.outcome) }

// insert stores the task, or names the earlier one that was asked for with the same idempotency key.
func (r *newRows) insert(c *conn) (earlier string, err error) {
	if r.key != "" {
		var hash string
		found, err := c.row(`SELECT t.id, i.hash FROM idempotency i JOIN tasks t ON t.num = i.task
			JOIN sessions s ON s.num = t.session WHERE i.user = ? AND i.key = ? AND t.purged = 0 AND s.deleted = 0`,
			[]any{r.task.user, r.key}, &earlier, &hash)
		switch {
		case err != nil:
			return "", err
		case found && hash != r.bodyHash:
			return "", refuse(task.ErrIdempotency)
		case found:
			return earlier, nil
		}
	}
	session, err := r.useSession(c)
	if err != nil {
		return "", err
	}
	t := r.task
	res, err := c.exec(`INSERT INTO tasks
		(id, session, user, status, cached, cache_key, created, run_at, started, ended, request, outcome)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		t.id, session, t.user, t.status, t.cached, t.cacheKey, t.created, t.runAt, t.started, t.ended, t.request, t.outcome)
	if err != nil {
		return "", err
	}
	num, err := res.LastInsertId()
	if err != nil {
		return "", err
	}
	if _, err := insertEvents(c, num, r.events); err != nil {
		return "", err
	}
	if r.key == "" {
		return "", nil
	}
	// One that is there belongs to a task that is gone.
	_, err = c.exec("INSERT OR REPLACE INTO idempotency (user, key, hash, task, created) VALUES (?, ?, ?, ?, ?)",
		t.user, r.key, r.bodyHash, num, t.created)
	return "", err
}

// useSession makes the task's session, or notes its use.
func (r *newRows) useSession(c *conn) (num int64, err error) {
	var user string
	var gone int64 // deleted, or about to be
	found, err := c.row("SELECT num, user, deleted <> 0 OR coalesce(expires, 0) = ? FROM sessions WHERE id = ?",
		[]any{closedAt, r.session.ID}, &num, &user, &gone)
	switch {
	case err != nil:
		return 0, err
	case !found:
		return insertSession(c, &r.session)
	case user != r.session.UserID || gone != 0:
		return 0, refuse(fmt.Errorf("session %q: %w", r.session.ID, task.ErrNotFound))
	}
	_, err = c.exec("UPDATE sessions SET used = max(used, ?), expires = ? WHERE num = ?",
		r.session.UsedAt.UnixMicro(), someMicros(r.session.ExpiresAt), num)
	return num, err
}

// Task implements task.Store.
func (s *Store) Task(ctx context.Context, id string) (task.Task, error) {
	t, err := s.task(ctx, " AND t.id = ?", id)
	if err != nil {
		return t, fmt.Errorf("task %q: %w", id, err)
	}
	return t, nil
}

// task returns the first task of a condition.
func (s *Store) task(ctx context.Context, where string, args ...any) (task.Task, error) {
	var r taskRow
	err := r.scan(s.queryRow(ctx, "SELECT "+taskColumns+taskTables+where, args...))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return task.Task{}, task.ErrNotFound
	case err != nil:
		return task.Task{}, s.fail(err)
	}
	return r.task()
}

// tasks returns all tasks of a condition.
func (s *Store) tasks(ctx context.Context, where string, args ...any) (tasks []task.Task, nums []int64, err error) {
	rows, err := s.query(ctx, "SELECT "+taskColumns+taskTables+where, args...)
	if err != nil {
		return nil, nil, s.fail(err)
	}
	if tasks, nums, err = scanTasks(rows); err != nil {
		return nil, nil, s.fail(err)
	}
	return tasks, nums, nil
}

// Tasks implements task.Store. Tasks that come or go meanwhile neither repeat nor hide others.
func (s *Store) Tasks(ctx context.Context, f task.Filter) (tasks []task.Task, next string, err error) {
	var where strings.Builder
	var args []any
	for _, term := range []struct{ sql, value string }{
		{" AND t.user = ?", f.UserID},
		{" AND t.session = (SELECT num FROM sessions WHERE id = ?)", f.SessionID},
		{" AND t.status = ?", string(f.Status)},
	} {
		if term.value != "" {
			where.WriteString(term.sql)
			args = append(args, term.value)
		}
	}
	if f.Cursor != "" {
		num, err := parseNum(f.Cursor)
		if err != nil {
			return nil, "", fmt.Errorf("list tasks: %w", err)
		}
		where.WriteString(" AND t.num < ?")
		args = append(args, num)
	}
	limit := pageSize(f.Limit)
	tasks, nums, err := s.tasks(ctx, where.String()+" ORDER BY t.num DESC LIMIT ?", append(args, limit+1)...)
	if err != nil {
		return nil, "", fmt.Errorf("list tasks: %w", err)
	}
	if len(tasks) > limit {
		tasks, next = tasks[:limit], strconv.FormatInt(nums[limit-1], 10)
	}
	return tasks, next, nil
}

// pageSize is how long a list gets that was asked for with a limit.
func pageSize(limit int) int {
	if limit <= 0 {
		return 50
	}
	return min(limit, 1000)
}

// parseNum reads the cursor of a list in the order of num.
func parseNum(cursor string) (int64, error) {
	num, err := strconv.ParseInt(cursor, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %w %.40q", task.ErrInvalidInput, journal.ErrCursor, cursor)
	}
	return num, nil
}

// SessionTasks implements task.Store.
func (s *Store) SessionTasks(ctx context.Context, session, before string) ([]task.Task, error) {
	tasks, _, err := s.tasks(ctx, ` AND t.session = (SELECT num FROM sessions WHERE id = ?) AND t.ended IS NOT NULL
		AND t.num < (SELECT num FROM tasks WHERE id = ?) ORDER BY t.num`, session, before)
	if err != nil {
		return nil, fmt.Errorf("list the tasks of session %q: %w", session, err)
	}
	return tasks, nil
}

// Cached implements task.Store. An answer that was itself another one's is not given again: it would never grow old.
func (s *Store) Cached(ctx context.Context, user, key string, since time.Time) (task.Task, error) {
	t, err := s.task(ctx, ` AND t.user = ? AND t.cache_key = ? AND t.cache_key <> '' AND t.status = 'succeeded' AND t.cached = 0
		AND t.ended > ? ORDER BY t.ended DESC, t.num DESC LIMIT 1`, user, key, since.UnixMicro())
	if err != nil {
		return t, fmt.Errorf("an earlier answer: %w", err)
	}
	return t, nil
}

// Unfinished implements task.Store.
func (s *Store) Unfinished(ctx context.Context) ([]task.Task, error) {
	all, _, err := s.tasks(ctx, " AND t.ended IS NULL ORDER BY t.num")
	if err != nil {
		return nil, fmt.Errorf("list unfinished tasks: %w", err)
	}
	var out []task.Task
	alive := map[string]bool{"": false}
	for _, t := range all {
		lives, known := alive[t.Owner]
		if !known {
			if lives, err = s.owner.alive(t.Owner); err != nil {
				return nil, fmt.Errorf("list unfinished tasks: %w", err)
			}
			alive[t.Owner] = lives
		}
		if !lives {
			out = append(out, t)
		}
	}
	return out, nil
}

// CancelRequests implements task.Store.
func (s *Store) CancelRequests(ctx context.Context) (ids []string, err error) {
	rows, err := s.query(ctx, `SELECT id FROM tasks
		WHERE owner = ? AND cancel = 1 AND ended IS NULL ORDER BY num`, s.owner.id)
	if err != nil {
		return nil, fmt.Errorf("list cancelled tasks: %w", s.fail(err))
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, fmt.Errorf("list cancelled tasks: %w", s.fail(err))
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list cancelled tasks: %w", s.fail(err))
	}
	return ids, nil
}
