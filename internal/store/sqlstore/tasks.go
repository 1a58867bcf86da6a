package sqlstore

import (
	"cmp"
	"context"
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
func (s *Store) CreateTask(ctx context.Context, n task.New) (_ task.Task, created bool, err error) {
	defer wrap(&err, "create task %q", n.Task.ID)
	row, err := s.encodeNew(&n)
	if err != nil {
		return task.Task{}, false, err
	}
	var earlier string
	if err := s.write(ctx, row.bytes, func(c *conn) { earlier = s.insertNew(c, row) }); err != nil {
		return task.Task{}, false, err
	}
	if earlier != "" {
		t, err := s.Task(ctx, earlier)
		return t, false, err
	}
	return row.task.Task, true, nil
}

// newRows is a task.New as it is stored.
type newRows struct {
	*changeRows
	session  task.Session
	key      string
	bodyHash string
}

func (s *Store) encodeNew(n *task.New) (*newRows, error) {
	if n.Session.ID != n.Task.SessionID || n.Session.UserID != n.Task.UserID {
		return nil, fmt.Errorf("%w: its session is another one", task.ErrInvalidInput)
	}
	t := n.Task
	t.Status = cmp.Or(t.Status, task.Queued)
	t.Owner = ""
	if n.Own {
		if err := s.lease.Claim(); err != nil {
			return nil, err
		}
		t.Owner = s.lease.ID()
	}
	rows, err := encodeChange(&task.Change{Task: &t, Events: n.Events, Webhook: n.Webhook}, s.now())
	if err != nil {
		return nil, err
	}
	rows.bytes += len(rows.task.request) + len(rows.task.Context)
	return &newRows{rows, n.Session, n.IdempotencyKey, n.BodyHash}, nil
}

// insertNew stores a task, or returns the id of the earlier one with the same idempotency key.
func (s *Store) insertNew(c *conn, r *newRows) (earlier string) {
	t := r.task
	var hash string
	if r.key != "" {
		c.later(func(row scanner) error { return row.Scan(&earlier, &hash) }, `SELECT t.id, i.hash FROM idempotency i JOIN tasks t ON t.num = i.task
			JOIN sessions s ON s.num = t.session WHERE i.user = ? AND i.key = ? AND t.purged = 0 AND s.closed IS NULL`, t.UserID, r.key)
	}
	tasks, bytes := s.queueQuota(c, t.UserID, quotaTasks), s.queueQuota(c, t.UserID, quotaBytes)
	useSession := s.queueSession(c, &r.session)
	var num int64
	c.reserve("tasks", &num) // after the statement that locks the session, so that its tasks are numbered in the order of their transactions
	if c.flush(); earlier != "" {
		if hash != r.bodyHash {
			c.refuse(task.ErrIdempotency)
		}
		return earlier
	}
	if err := cmp.Or(tasks(), bytes()); err != nil {
		c.refuse(err)
	}
	session := useSession()
	due := cmp.Or(t.RunAt, &t.CreatedAt)
	num = c.insertAs(num, `INSERT INTO tasks
		(num, id, session, user, status, owner, cached, cache_key, created, run_at, due, started, ended, context, request, outcome, bytes)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING num`, t.ID, session, t.UserID, string(t.Status), t.Owner, t.Cached, t.CacheKey,
		t.CreatedAt, t.RunAt, due, t.StartedAt, t.EndedAt, []byte(t.Context), t.request, t.outcome, r.bytes)
	s.addWords(c, num, t.UserID, t.Task.Task)
	insertEvents(c, num, r.events, nil)
	insertWebhook(c, num, r.webhook)
	c.exec(setDue, session)
	if r.key != "" { // a key that exists here belongs to a deleted task
		c.exec(`DELETE FROM idempotency WHERE user = ? AND key = ? AND NOT EXISTS (SELECT 1 FROM tasks t
			JOIN sessions s ON s.num = t.session WHERE t.num = idempotency.task AND t.purged = 0 AND s.closed IS NULL)`, t.UserID, r.key)
		c.exec("INSERT INTO idempotency (user, key, hash, task, created) VALUES (?, ?, ?, ?, ?)",
			t.UserID, r.key, r.bodyHash, num, t.CreatedAt)
	}
	if t.EndedAt != nil {
		c.countTask(t)
	}
	return ""
}

// queueSession reads the session of a task. After the next flush, use creates the session, or updates when it was used, and returns its number.
func (s *Store) queueSession(c *conn, session *task.Session) (use func() (num int64)) {
	var num, reserved int64
	var closed bool
	c.later(func(row scanner) error { return row.Scan(&num, &closed) },
		"SELECT num, closed IS NOT NULL FROM sessions WHERE user = ? AND id = ? /*+ FOR UPDATE */", session.UserID, session.ID)
	c.reserve("sessions", &reserved)
	return func() int64 {
		switch {
		case num == 0:
			return s.insertSession(c, reserved, session)
		case closed:
			c.refuse(fmt.Errorf("session %q: %w", session.ID, task.ErrNotFound))
		}
		c.exec("UPDATE sessions SET used = CASE WHEN used < ?1 THEN ?1 ELSE used END, expires = ?2 WHERE num = ?3", session.UsedAt, orNull(session.ExpiresAt), num)
		return num
	}
}

// Task implements task.Store.
func (s *Store) Task(ctx context.Context, id string) (_ task.Task, err error) {
	defer wrap(&err, "task %q", id)
	t, err := one(ctx, s, task.ErrNotFound, scanTask, taskColumns+openTask, id)
	return t.Task, err
}

// Maximum bytes of stored JSON that one answer holds in memory.
const (
	maxListBytes    = 8 << 20
	maxHistoryBytes = 8 << 20
)

// Tasks implements task.Store. If tasks are added or deleted between two pages, every other task still appears exactly once.
func (s *Store) Tasks(ctx context.Context, f task.Filter) (tasks []task.Task, next string, err error) {
	defer wrap(&err, "list tasks")
	var where strings.Builder
	var args []any
	add := func(sql string, values ...any) {
		where.WriteString(sql)
		args = append(args, values...)
	}
	tables, number := taskTables, "t.num"
	if f.Search != "" {
		found, err := s.findWords(f.Search, f.UserID)
		if err != nil {
			return nil, "", err
		}
		tables, number = found.tables+sessionOfTask, found.number
		add(found.where, found.args...)
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
			return nil, "", err
		}
		add(" AND "+number+" < ?", num)
	}
	limit := pageSize(f.Limit)
	add(" ORDER BY "+number+" DESC LIMIT ?", limit+1)
	var last int64
	bytes := 0
	err = s.each(ctx, listColumns+tables+where.String(), args, func(row scanner) error {
		if len(tasks) == limit || bytes > maxListBytes {
			next = strconv.FormatInt(last, 10)
			return errStop
		}
		t, err := scanTask(row)
		tasks, last = append(tasks, t.Task), t.num
		bytes += t.bytes
		return err
	})
	return tasks, next, err
}

// pageSize returns the length of a list's page for the limit that the caller gives.
func pageSize(limit int) int {
	if limit <= 0 {
		return 50
	}
	return min(limit, 1000)
}

// parseNum parses the cursor of a list that is ordered by num.
func parseNum(cursor string) (int64, error) {
	num, err := strconv.ParseInt(cursor, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %w %.40q", task.ErrInvalidInput, journal.ErrCursor, cursor)
	}
	return num, nil
}

// History implements task.Store.
func (s *Store) History(ctx context.Context, id string, limit int) (history []task.Past, err error) {
	defer wrap(&err, "history of task %q", id)
	var earlier []string
	sum := 0
	if err := s.each(ctx, `SELECT t.id, t.bytes FROM tasks b JOIN tasks t ON t.session = b.session AND t.num < b.num
		WHERE b.id = ? AND t.ended IS NOT NULL AND t.purged = 0 ORDER BY t.num DESC LIMIT ?`, []any{id, limit}, func(row scanner) error {
		var id string
		var bytes int
		if err := row.Scan(&id, &bytes); err != nil {
			return err
		}
		if sum += bytes; sum > maxHistoryBytes {
			return errStop
		}
		earlier = append(earlier, id)
		return nil
	}); err != nil {
		return nil, err
	}
	for _, id := range slices.Backward(earlier) {
		past := task.Past{}
		if past.Task, err = s.Task(ctx, id); err == nil {
			past.Steps, err = s.Steps(ctx, id)
		}
		if errors.Is(err, task.ErrNotFound) {
			continue // deleted after its id was read
		}
		if err != nil {
			return nil, err
		}
		history = append(history, past)
	}
	return history, nil
}

// Cached implements task.Store. It leaves out tasks that were themselves answered from the cache: if they counted, an answer would never become too
// old.
func (s *Store) Cached(ctx context.Context, user, key string, since time.Time) (_ task.Task, err error) {
	defer wrap(&err, "an earlier answer")
	t, err := one(ctx, s, task.ErrNotFound, scanTask, taskColumns+taskTables+` AND t.user = ? AND t.cache_key = ? AND t.cache_key <> ''
		AND t.status = 'succeeded' AND t.cached = 0 AND t.ended > ? ORDER BY t.ended DESC, t.num DESC LIMIT 1`, user, key, since)
	return t.Task, err
}

// Queued implements task.Store.
func (s *Store) Queued(ctx context.Context) (n int, err error) {
	defer wrap(&err, "count waiting tasks")
	return one(ctx, s, nil, value[int], `SELECT tasks - (SELECT count(*) FROM tasks INDEXED BY tasks_owned WHERE ended IS NULL AND owner <> '')
		- (SELECT count(*) FROM tasks INDEXED BY tasks_status WHERE status = 'waiting_approval' AND purged = 0) FROM totals`)
}

// CancelRequests implements task.Store.
func (s *Store) CancelRequests(ctx context.Context) (ids []string, err error) {
	defer wrap(&err, "list cancelled tasks")
	return list(ctx, s, value[string], "SELECT id FROM tasks WHERE owner = ? AND cancel = 1 AND ended IS NULL ORDER BY num", s.lease.ID())
}
