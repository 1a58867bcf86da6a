package sqlstore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/id"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/task"
)

// statusWaiting is the status of a run that waits for an approval.
const statusWaiting = "waiting_approval"

// asked contains the fields of an approval request that are stored as JSON, because no query needs them.
type asked struct {
	Session   string            `json:"session,omitempty"`
	Principal string            `json:"principal,omitempty"`
	Calls     []approval.Call   `json:"calls"`
	Made      int               `json:"made"`
	Done      []approval.Effect `json:"done,omitempty"`
	Resume    approval.Resume   `json:"resume"`
}

const approvalColumns = `SELECT a.num, a.id, r.id, a.task, a.user, a.status, a.created, a.expires, a.decided, a.decided_by, a.reason,
	a.remember, a.request, coalesce(a.signature, 'null') FROM approvals a CROSS JOIN runs r ON r.num = a.run WHERE r.purged = 0`

type approvalRow struct {
	approval.Request
	num int64
}

func scanApproval(row scanner) (r approvalRow, err error) {
	var rest asked
	if err := row.Scan(&r.num, &r.ID, &r.Run, &r.Task, &r.User, &r.Status, instant{&r.Created}, instant{&r.Expires},
		optional{&r.DecidedAt}, &r.DecidedBy, &r.Reason, &r.Remember, object{&rest}, object{&r.Signature}); err != nil {
		return r, fmt.Errorf("approval %q as it is stored: %w", r.ID, err)
	}
	r.Session, r.Principal, r.Calls = rest.Session, rest.Principal, rest.Calls
	r.Made, r.Done, r.Resume = rest.Made, rest.Done, rest.Resume
	return r, nil
}

func requestsOf(rows []approvalRow) (all []approval.Request) {
	for _, r := range rows {
		all = append(all, r.Request)
	}
	return all
}

// Suspend implements runs.Store.
func (s *Store) Suspend(ctx context.Context, r approval.Request, webhook string) (err error) {
	defer wrap(&err, "suspend run %q", r.Run)
	s.mu.Lock()
	w := s.open[r.Run]
	s.mu.Unlock()
	if w == nil {
		return journal.ErrClosed
	}
	text, err := json.Marshal(asked{r.Session, r.Principal, r.Calls, r.Made, r.Done, r.Resume})
	if err != nil {
		return err
	}
	return s.write(ctx, len(text), func(c *conn) {
		s.admit(c, r.User, quotaWaiting)
		// The writer calls this function after the earlier commits of the journal, so w.progress is up to date.
		before := w.progress
		c.undo = append(c.undo, func() { w.progress = before })
		if c.changed("UPDATE runs SET status = ?, owner = '', bytes = bytes + ? WHERE num = ? AND fence = ? AND ended IS NULL AND purged = 0",
			statusWaiting, w.uncounted, w.num, w.fence) == 0 {
			c.refuse(fmt.Errorf("%w: it was taken over or deleted", journal.ErrBusy))
			return
		}
		w.uncounted = 0
		closeApprovals(c, w.num)
		due := &r.Expires
		if r.Task != "" {
			due = nil
		}
		c.exec(`INSERT INTO approvals (id, run, task, user, status, created, expires, due, request) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			r.ID, w.num, r.Task, r.User, string(approval.Waiting), r.Created, r.Expires, due, text)
		for _, url := range []string{webhook, callbackOf(c, r.Task)} {
			if url != "" {
				c.exec("INSERT INTO webhooks (id, task, user, url, due, approval) VALUES (?, 0, ?, ?, ?, ?)", id.New("evt"), r.User, url, r.Created, r.ID)
			}
		}
	})
}

// callbackOf returns the callback URL of a task, "" if the task has none.
func callbackOf(c *conn, taskID string) string {
	var asked request
	if taskID != "" {
		c.row("SELECT request FROM tasks WHERE id = ?", []any{taskID}, object{&asked})
	}
	return asked.Callback
}

// settleDue clears the due times of a run's approvals, because their decisions have taken effect or cannot take effect any more.
func settleDue(c *conn, run int64) {
	c.exec("UPDATE approvals SET due = NULL WHERE run = ? AND due IS NOT NULL", run)
}

// closeApprovals closes the requests of a run that are still waiting, because the run has ended or makes a new request.
func closeApprovals(c *conn, run int64) {
	c.exec("UPDATE approvals SET status = ? WHERE run = ? AND status = ?", string(approval.Closed), run, string(approval.Waiting))
	settleDue(c, run)
}

// Approvals implements runs.Store.
func (s *Store) Approvals(ctx context.Context, f approval.Filter) (_ []approval.Request, next string, err error) {
	defer wrap(&err, "list approvals")
	where, args := "", []any{}
	for _, e := range []struct{ column, value string }{{"a.user", f.User}, {"a.status", string(f.Status)}, {"a.task", f.Task}} {
		if e.value != "" {
			// The first term lets SQLite use the partial index.
			where, args = where+" AND "+e.column+" <> '' AND "+e.column+" = ?", append(args, e.value)
		}
	}
	if f.Cursor != "" {
		num, err := parseNum(f.Cursor)
		if err != nil {
			return nil, "", err
		}
		where, args = where+" AND a.num < ?", append(args, num)
	}
	limit, bytes, last := pageSize(f.Limit), 0, int64(0)
	var all []approval.Request
	err = s.each(ctx, approvalColumns+where+" ORDER BY a.num DESC LIMIT ?", append(args, limit+1), func(row scanner) error {
		if len(all) == limit || bytes > maxListBytes {
			next = strconv.FormatInt(last, 10)
			return errStop
		}
		r, err := scanApproval(row)
		all, last = append(all, r.Request), r.num
		for _, c := range r.Calls {
			bytes += len(c.Args)
		}
		return err
	})
	return all, next, err
}

// Approval implements runs.Store.
func (s *Store) Approval(ctx context.Context, id string) (_ approval.Request, err error) {
	defer wrap(&err, "approval %q", id)
	row, err := one(ctx, s, approval.ErrNotFound, scanApproval, approvalColumns+" AND a.id = ?", id)
	return row.Request, err
}

// ApprovalsOf implements runs.Store.
func (s *Store) ApprovalsOf(ctx context.Context, run, of string) (_ []approval.Request, err error) {
	defer wrap(&err, "list the approvals of %q", run)
	rows, err := list(ctx, s, scanApproval, approvalColumns+" AND a.run = (SELECT num FROM runs WHERE id = ?) ORDER BY a.num", run)
	if err != nil || of == "" {
		return requestsOf(rows), err
	}
	more, err := list(ctx, s, scanApproval, approvalColumns+" AND a.task <> '' AND a.task = ? AND a.remember = 1 ORDER BY a.num", of)
	return append(requestsOf(more), requestsOf(rows)...), err
}

// Decide implements runs.Store. It writes the decision, its event and the due time of the task in one transaction.
func (s *Store) Decide(ctx context.Context, id string, status approval.Status, d approval.Decision) (_ approval.Request, err error) {
	defer wrap(&err, "decide approval %q", id)
	event, err := json.Marshal(task.ApprovalDecidedData{ApprovalID: id, Decision: string(status), Reason: d.Reason, Remember: d.Remember})
	if err != nil {
		return approval.Request{}, err
	}
	var signature []byte
	if d.Signature != nil {
		if signature, err = json.Marshal(d.Signature); err != nil {
			return approval.Request{}, err
		}
	}
	if err := s.write(ctx, len(event)+len(signature), func(c *conn) {
		var num int64
		var now, of string
		var expires time.Time
		if !c.row(`SELECT a.num, a.status, a.task, a.expires FROM approvals a JOIN runs r ON r.num = a.run WHERE a.id = ? AND r.purged = 0 /*+ FOR UPDATE OF a */`,
			[]any{id}, &num, &now, &of, instant{&expires}) {
			c.refuse(approval.ErrNotFound)
			return
		}
		switch {
		case now != string(approval.Waiting):
			c.refuse(fmt.Errorf("%w: it is %s", approval.ErrDecided, now))
			return
		case status != approval.Expired && !expires.After(d.Time):
			c.refuse(fmt.Errorf("%w: it has expired", approval.ErrDecided))
			return
		}
		c.exec(`UPDATE approvals SET status = ?1, decided = ?2, decided_by = ?3, reason = ?4, remember = ?5,
			due = CASE WHEN task = '' THEN CAST(?2 AS BIGINT) END, signature = ?7 WHERE num = ?6`, string(status), d.Time, d.By, d.Reason, d.Remember, num, signature)
		if of == "" {
			return
		}
		var waiting, session int64
		if c.row(`SELECT t.num, t.session FROM tasks t JOIN sessions s ON s.num = t.session
			WHERE t.id = ? AND t.ended IS NULL AND t.purged = 0 /*+ FOR UPDATE OF s, t */`, []any{of}, &waiting, &session) {
			insertEvents(c, waiting, encodeEvents([]task.Event{{
				Type: task.EventApprovalDecided, Time: d.Time, Data: event, Key: id + "/decided",
			}}), nil)
			c.exec("UPDATE tasks SET due = ? WHERE num = ? AND status = ?", d.Time, waiting, statusWaiting)
			c.exec(setDue, session)
		}
	}); err != nil {
		return approval.Request{}, err
	}
	return s.Approval(ctx, id)
}

// DueRuns implements runs.Store.
func (s *Store) DueRuns(ctx context.Context, now time.Time, limit int) (ids []string, next, decided time.Time, err error) {
	defer wrap(&err, "list the runs that may go on")
	type dueRun struct{ id, status, owner string }
	lives := map[string]bool{}
	rows, err := some(ctx, s, limit, func(row scanner) (r dueRun, err error) {
		return r, row.Scan(&r.id, &r.status, &r.owner)
	}, func(r dueRun) (bool, error) { // reports false for runs of live processes
		if r.status == statusWaiting {
			return true, nil
		}
		alive, known := lives[r.owner]
		if !known {
			alive = s.maybeAlive(r.owner)
			lives[r.owner] = alive
		}
		return !alive || r.owner == s.lease.ID() && !s.isOpen(r.id), nil
	}, `SELECT id, status, owner FROM (
		SELECT r.id, r.status, r.owner, a.due, row_number() OVER (PARTITION BY r.user ORDER BY a.due, r.num) AS turn
		FROM approvals a CROSS JOIN runs r ON r.num = a.run WHERE a.due <= ? AND r.ended IS NULL AND r.purged = 0) of_users
		ORDER BY turn, due`, now)
	if err != nil {
		return nil, next, decided, err
	}
	for _, r := range rows {
		ids = append(ids, r.id)
	}
	err = s.each(ctx, "SELECT (SELECT min(due) FROM approvals WHERE due > ?), (SELECT max(decided) FROM approvals)", []any{now},
		func(row scanner) error { return row.Scan(instant{&next}, instant{&decided}) })
	return ids, next, decided, err
}

// isOpen reports whether this process writes a run's journal.
func (s *Store) isOpen(run string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[run] != nil
}

// Wait implements task.Store. If the request was decided before the task began to wait, the task is due at once.
func (s *Store) Wait(ctx context.Context, id string, fence int64, request string, due time.Time) (err error) {
	defer wrap(&err, "have task %q wait", id)
	return s.write(ctx, 0, func(c *conn) {
		h := s.owned(c, id, fence)
		if c.err != nil {
			return
		}
		at := due // a copy, because the transaction may be repeated
		var status string
		var decided time.Time
		if c.row("SELECT status, decided FROM approvals WHERE id = ? /*+ FOR SHARE */", []any{request}, &status, instant{&decided}); c.err != nil {
			return
		}
		if status != string(approval.Waiting) {
			at = cmp.Or(decided, s.now())
		}
		c.exec("UPDATE tasks SET status = ? WHERE num = ?", statusWaiting, h.num)
		free(c, h.num, h.session, at)
		delete(c.claims, id)
	})
}
