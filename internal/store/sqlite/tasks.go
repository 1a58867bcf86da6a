package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
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
		earlier, err = s.insertNew(c, row)
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
	due      int64
	events   []task.Event
	session  task.Session
	key      string
	bodyHash string
}

func (s *Store) encodeNew(n *task.New) (*newRows, error) {
	if n.Session.ID != n.Task.SessionID || n.Session.UserID != n.Task.UserID {
		return nil, fmt.Errorf("create task %q: %w: its session is another one", n.Task.ID, task.ErrInvalidInput)
	}
	t := n.Task
	if t.Status == "" {
		t.Status = task.Queued
	}
	row, err := encodeTask(&t, s.now())
	if err != nil {
		return nil, fmt.Errorf("create task %q: %w", t.ID, err)
	}
	r := &newRows{task: row, due: row.created, events: encodeEvents(n.Events), session: n.Session, key: n.IdempotencyKey, bodyHash: n.BodyHash}
	if row.runAt != nil {
		r.due = *row.runAt
	}
	if n.Own {
		if err := s.lease.Claim(); err != nil {
			return nil, fmt.Errorf("create task %q: %w", t.ID, err)
		}
		row.owner = s.lease.ID()
	}
	return r, nil
}

func (r *newRows) bytes() int {
	n := len(r.task.request) + len(r.task.context) + len(r.task.outcome)
	for _, e := range r.events {
		n += len(e.Data)
	}
	return n
}

// insertNew stores a task, or names the earlier one that was asked for with the same idempotency key.
func (s *Store) insertNew(c *conn, r *newRows) (earlier string, err error) {
	if r.key != "" {
		var hash string
		found, err := c.row(`SELECT t.id, i.hash FROM idempotency i JOIN tasks t ON t.num = i.task
			JOIN sessions s ON s.num = t.session WHERE i.user = ? AND i.key = ? AND t.purged = 0 AND s.closed IS NULL`,
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
	if err := s.admit(c, r.task.user, quotaTasks, quotaBytes); err != nil {
		return "", err
	}
	session, err := s.useSession(c, &r.session)
	if err != nil {
		return "", err
	}
	t := r.task
	res, err := c.exec(`INSERT INTO tasks
		(id, session, user, status, owner, cached, cache_key, created, run_at, due, started, ended, context, request, outcome, bytes)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, t.id, session, t.user, t.status, t.owner, t.cached, t.cacheKey,
		t.created, t.runAt, r.due, t.started, t.ended, t.context, t.request, t.outcome, r.bytes())
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
	if _, err := c.exec(lineUp, session); err != nil {
		return "", err
	}
	if r.key == "" {
		return "", nil
	}
	// A key that is there belongs to a task that is gone.
	_, err = c.exec("INSERT OR REPLACE INTO idempotency (user, key, hash, task, created) VALUES (?, ?, ?, ?, ?)",
		t.user, r.key, r.bodyHash, num, t.created)
	return "", err
}

// useSession creates a task's session, or notes its use.
func (s *Store) useSession(c *conn, session *task.Session) (num int64, err error) {
	var closed int64
	found, err := c.row("SELECT num, closed IS NOT NULL FROM sessions WHERE user = ? AND id = ?", []any{session.UserID, session.ID}, &num, &closed)
	switch {
	case err != nil:
		return 0, err
	case !found:
		return s.insertSession(c, session)
	case closed != 0:
		return 0, refuse(fmt.Errorf("session %q: %w", session.ID, task.ErrNotFound))
	}
	_, err = c.exec("UPDATE sessions SET used = max(used, ?), expires = ? WHERE num = ?",
		session.UsedAt.UnixMicro(), someMicros(session.ExpiresAt), num)
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

// tasks returns the tasks of a condition without their context: at most limit, and fewer where they are large. more says that
// there are others.
func (s *Store) tasks(ctx context.Context, limit int, where string, args ...any) (tasks []task.Task, nums []int64, more bool, err error) {
	rows, err := s.query(ctx, "SELECT "+listColumns+taskTables+where, args...)
	if err != nil {
		return nil, nil, false, s.fail(err)
	}
	defer rows.Close()
	bytes := 0
	for rows.Next() {
		if len(tasks) == limit || bytes > maxListBytes {
			return tasks, nums, true, nil
		}
		var r taskRow
		if err := r.scan(rows); err != nil {
			return nil, nil, false, s.fail(err)
		}
		t, err := r.task()
		if err != nil {
			return nil, nil, false, err
		}
		bytes += len(r.request) + len(r.outcome)
		tasks, nums = append(tasks, t), append(nums, r.num)
	}
	if err := rows.Err(); err != nil {
		return nil, nil, false, s.fail(err)
	}
	return tasks, nums, false, nil
}

// Tasks implements task.Store. Tasks that come or go meanwhile neither repeat nor hide others.
func (s *Store) Tasks(ctx context.Context, f task.Filter) (tasks []task.Task, next string, err error) {
	var where strings.Builder
	var args []any
	add := func(sql string, values ...any) {
		where.WriteString(sql)
		args = append(args, values...)
	}
	switch {
	case f.UserID != "" && f.SessionID != "":
		add(" AND t.session = (SELECT num FROM sessions WHERE user = ? AND id = ?)", f.UserID, f.SessionID)
	case f.UserID != "":
		add(" AND t.user = ?", f.UserID)
	case f.SessionID != "":
		add(" AND t.session IN (SELECT num FROM sessions WHERE id = ?)", f.SessionID)
	}
	if f.Status != "" {
		add(" AND t.status = ?", string(f.Status))
	}
	if f.Cursor != "" {
		num, err := parseNum(f.Cursor)
		if err != nil {
			return nil, "", fmt.Errorf("list tasks: %w", err)
		}
		add(" AND t.num < ?", num)
	}
	limit := pageSize(f.Limit)
	tasks, nums, more, err := s.tasks(ctx, limit, where.String()+" ORDER BY t.num DESC LIMIT ?", append(args, limit+1)...)
	if err != nil {
		return nil, "", fmt.Errorf("list tasks: %w", err)
	}
	if more {
		next = strconv.FormatInt(nums[len(nums)-1], 10)
	}
	return tasks, next, nil
}

// Bounds of what one answer holds in memory, in bytes of stored JSON.
const (
	maxListBytes    = 8 << 20
	maxHistoryBytes = 8 << 20
)

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

// History implements task.Store.
func (s *Store) History(ctx context.Context, id string, limit int) ([]task.Past, error) {
	history, err := s.history(ctx, id, limit)
	if err != nil {
		return nil, fmt.Errorf("history of task %q: %w", id, err)
	}
	return history, nil
}

func (s *Store) history(ctx context.Context, id string, limit int) (history []task.Past, err error) {
	rows, err := s.query(ctx, `SELECT t.id, t.bytes FROM tasks b JOIN tasks t ON t.session = b.session AND t.num < b.num
		WHERE b.id = ? AND t.ended IS NOT NULL AND t.purged = 0 ORDER BY t.num DESC LIMIT ?`, id, limit)
	if err != nil {
		return nil, s.fail(err)
	}
	defer rows.Close()
	var earlier []string
	for sum := 0; rows.Next(); {
		var id string
		var bytes int
		if err := rows.Scan(&id, &bytes); err != nil {
			return nil, s.fail(err)
		}
		if sum += bytes; sum > maxHistoryBytes {
			break
		}
		earlier = append(earlier, id)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return nil, s.fail(err)
	}
	for _, id := range slices.Backward(earlier) {
		past := task.Past{}
		if past.Task, err = s.Task(ctx, id); err == nil {
			past.Steps, err = s.Steps(ctx, id)
		}
		if errors.Is(err, task.ErrNotFound) {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		history = append(history, past)
	}
	return history, nil
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

// Queued implements task.Store.
func (s *Store) Queued(ctx context.Context) (n int, err error) {
	err = s.queryRow(ctx, "SELECT count(*) FROM tasks WHERE ended IS NULL AND owner = ''").Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count waiting tasks: %w", s.fail(err))
	}
	return n, nil
}

// CancelRequests implements task.Store.
func (s *Store) CancelRequests(ctx context.Context) (ids []string, err error) {
	rows, err := s.query(ctx, "SELECT id FROM tasks WHERE owner = ? AND cancel = 1 AND ended IS NULL ORDER BY num", s.lease.ID())
	if err == nil {
		ids, err = scanTexts(rows)
	}
	if err != nil {
		return nil, fmt.Errorf("list cancelled tasks: %w", s.fail(err))
	}
	return ids, nil
}

// scanTexts reads rows of one text.
func scanTexts(rows *sql.Rows) (texts []string, err error) {
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, rows.Err()
}
