package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/usage"
)

var _ journal.Store = (*Store)(nil)

// Create implements journal.Store. Nothing is stored before the first commit.
func (s *Store) Create(ctx context.Context, run string) (_ journal.Writer, err error) {
	defer wrap(&err, "create journal of %q", run)
	if err := cmp.Or(ctx.Err(), s.lease.Claim()); err != nil {
		return nil, err
	}
	w := &runWriter{s: s, run: run}
	if !s.reserve(w) {
		return nil, journal.ErrExists
	}
	return w, nil
}

// Resume implements journal.Store: this process becomes the run's owner.
func (s *Store) Resume(ctx context.Context, run string) (_ journal.Writer, records []journal.Record, err error) {
	defer wrap(&err, "resume %q", run)
	if err := s.lease.Claim(); err != nil {
		return nil, nil, err
	}
	w := &runWriter{s: s, run: run}
	if !s.reserve(w) {
		return nil, nil, journal.ErrBusy
	}
	defer func() {
		if err != nil {
			s.release(w)
		}
	}()
	var ended bool
	var session sessionKey
	owner, err := one(ctx, s, journal.ErrNotFound, func(row scanner) (owner string, err error) {
		err = row.Scan(&w.num, &session.user, &session.id, &owner, &w.fence, &ended, &w.asked)
		return owner, err
	}, `SELECT num, user, session, owner, fence, ended IS NOT NULL, EXISTS (SELECT 1 FROM approvals WHERE run = runs.num)
		FROM runs WHERE id = ? AND purged = 0`, run)
	switch {
	case err != nil:
		return nil, nil, err
	case ended:
		return nil, nil, journal.ErrEnded
	}
	w.mu.Lock()
	w.session = session
	w.mu.Unlock()
	if err := s.adopt(ctx, w, owner); err != nil {
		return nil, nil, err
	}
	if records, err = s.records(ctx, run, 0, math.MaxInt, math.MaxInt); err != nil {
		return nil, nil, err
	}
	if w.seq, err = journal.Continue(records); err != nil {
		return nil, nil, err
	}
	for i := range records {
		w.calls.Add(&records[i])
	}
	w.stored, w.writes = w.seq.Last(), unanswered(records)
	return w, records, nil
}

// adopt makes this process the owner of an unfinished run of a dead process, or of a process that has lost the run's task to this process. A run that
// this process already owns gets a new fence too. The run's bytes are counted again, since its former process may not have counted the last ones.
func (s *Store) adopt(ctx context.Context, w *runWriter, owner string) error {
	alive, err := s.lease.Alive(owner)
	switch {
	case err != nil:
		return err
	case alive && owner != s.lease.ID():
		works, err := s.worksRun(ctx, w)
		if err != nil {
			return err
		}
		if !works {
			return fmt.Errorf("%w: process %s", journal.ErrBusy, s.lease.Describe(owner))
		}
	}
	err = s.write(ctx, 0, func(c *conn) {
		from, to := s.partition(w.num)
		if c.changed(`UPDATE runs SET owner = ?1, fence = fence + 1, status = 'running',
			bytes = (SELECT coalesce(sum(length(data)), 0) FROM journal WHERE run = ?2)
				+ (SELECT coalesce(sum(length(b.data)), 0) FROM blob_refs r JOIN blobs b ON b.id = r.blob AND b.id >= ?5 AND b.id < ?6 WHERE r.run = ?2)
			WHERE num = ?2 AND owner = ?3 AND fence = ?4 AND ended IS NULL AND purged = 0`, s.lease.ID(), w.num, owner, w.fence, from, to) == 0 {
			c.refuse(fmt.Errorf("%w: it has just been resumed or deleted", journal.ErrBusy))
		}
	})
	w.fence++
	return err
}

// worksRun reports whether this process works the task of a run.
func (s *Store) worksRun(ctx context.Context, w *runWriter) (bool, error) {
	steps, err := list(ctx, s, scanStep, `SELECT p.seq, p.data FROM sessions s CROSS JOIN tasks t ON t.num = s.working CROSS JOIN steps p ON p.task = t.num
		WHERE s.user = ? AND s.id = ? AND t.owner = ? AND t.ended IS NULL`, w.session.user, w.session.id, s.lease.ID())
	return slices.ContainsFunc(steps, func(step task.Step) bool { return step.Run != nil && step.Run.RunID == w.run }), err
}

// Read implements journal.Store.
func (s *Store) Read(ctx context.Context, run string) (records []journal.Record, err error) {
	defer wrap(&err, "read journal of %q", run)
	records, err = s.records(ctx, run, 0, math.MaxInt, math.MaxInt)
	if err == nil && len(records) == 0 {
		err = journal.ErrNotFound
	}
	return records, err
}

// ReadPage implements runs.Store.
func (s *Store) ReadPage(ctx context.Context, run string, after int64, limit, bytes int) (records []journal.Record, err error) {
	defer wrap(&err, "read journal of %q", run)
	return s.records(ctx, run, after, limit, bytes)
}

// records reads the records of a run with numbers above after, until it has limit records or the given number of bytes.
func (s *Store) records(ctx context.Context, run string, after int64, limit, bytes int) ([]journal.Record, error) {
	num, err := one(ctx, s, journal.ErrNotFound, value[int64], "SELECT num FROM runs WHERE id = ? AND purged = 0", run)
	if errors.Is(err, journal.ErrNotFound) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	from, to := s.partition(num)
	records, outside, err := s.recordsOf(ctx, run, num, from, to, after, limit, bytes)
	if err == nil && outside {
		records, _, err = s.recordsOf(ctx, run, num, math.MinInt64, math.MaxInt64, after, limit, bytes)
	}
	return records, err
}

// recordsOf is records for the run with an id and a number. Blobs are looked for from one number to another; outside reports whether one was not found.
func (s *Store) recordsOf(
	ctx context.Context, run string, num, from, to, after int64, limit, bytes int,
) (records []journal.Record, outside bool, err error) {
	// One statement reads one state of the database: a purge at the same time cannot remove records from the middle. Statements that name a run's number
	// read only its partition.
	size, last := 0, int64(math.MaxInt64)
	if int64(limit) < last-after {
		last = after + int64(limit) // numbers have no gaps
	}
	err = s.each(ctx, `
		SELECT j.seq, j.type, j.data, r.field, b.data
		FROM runs
		JOIN journal j ON j.run = runs.num
		LEFT JOIN blob_refs r ON r.run = j.run AND r.seq = j.seq
		LEFT JOIN blobs b ON b.id = r.blob AND b.id >= ? AND b.id < ?
		WHERE runs.num = ? AND runs.id = ? AND runs.purged = 0 AND j.seq > ? AND j.seq <= ?
		ORDER BY j.seq`, []any{from, to, num, run, after, last}, func(row scanner) error {
		var seq int64
		var kind string
		var data sql.RawBytes
		var field sql.NullString
		var large []byte
		if err := row.Scan(&seq, &kind, &data, &field, &large); err != nil {
			return err
		}
		if n := len(records); n == 0 || records[n-1].Seq != seq {
			if size >= bytes {
				return errStop
			}
			r, err := decode(seq, kind, data)
			if err != nil {
				return err
			}
			records = append(records, r)
			size += len(data)
		}
		if !field.Valid {
			return nil
		}
		if large == nil {
			outside = true
			return errStop
		}
		size += len(large)
		return setField(&records[len(records)-1], field.String, large)
	})
	return records, outside, err
}

// runWriter writes the journal of one run.
type runWriter struct {
	s   *Store
	run string

	mu      sync.Mutex
	seq     journal.Sequence
	pending []row
	start   *journal.Start // start record, while pending contains its row
	end     *journal.End
	session sessionKey // session of the start record; empty before that record is appended
	calls   usage.Calls
	last    *change // last change submitted to Store.writer; nil once the change has succeeded
	err     error
	closed  bool

	closing sync.Once
	asked   bool // true if an earlier process asked for approvals

	// After the first commit, only functions that Store.writer calls use these fields.
	fence int64 // runs.fence
	progress
}

// progress describes which part of a run is stored.
type progress struct {
	num       int64         // runs.num, 0 before the run is stored
	stored    int64         // number of the last stored record
	over      error         // error of the quota that ended the run
	uncounted int           // bytes of stored records not yet added to runs.bytes
	writes    map[int]int64 // times of the intents without an answer, by call; never changed in place
}

// Append implements journal.Writer. It encodes the record, so that the transaction that stores the record does not have to.
func (w *runWriter) Append(r journal.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = w.append(r)
		wrap(&w.err, "journal of %q", w.run)
	}
}

func (w *runWriter) append(r journal.Record) error {
	if w.closed {
		return journal.ErrClosed
	}
	if err := w.seq.Next(&r); err != nil {
		return err
	}
	enc, err := encode(r)
	if err != nil {
		return err
	}
	w.pending = append(w.pending, enc)
	w.calls.Add(&r)
	switch {
	case r.Start != nil:
		start := *r.Start // a copy, because the record belongs to the caller
		w.start = &start
		w.session = sessionKey{start.User, start.Session}
	case r.End != nil:
		end := *r.End
		w.end = &end
	}
	return nil
}

// isIn reports whether the run is in a session.
func (w *runWriter) isIn(session sessionKey) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.session == session
}

// Commit implements journal.Writer.
func (w *runWriter) Commit(ctx context.Context) error {
	ch, err := w.schedule()
	if ch == nil || err != nil {
		return err
	}
	return w.s.wait(ctx, ch)
}

// schedule submits all appended records. It returns the last change, or nil if everything is stored.
func (w *runWriter) schedule() (*change, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil || len(w.pending) == 0 {
		return w.last, w.err
	}
	ch := &change{done: make(chan struct{})}
	rows, start, end := w.pending, w.start, w.end
	var calls map[usage.Tool]*usage.Sum
	if end != nil {
		calls = w.calls.Sums // no record follows
	}
	for i := range rows {
		ch.bytes += rows[i].bytes()
	}
	ch.apply = func(c *conn) {
		before := w.progress
		c.undo = append(c.undo, func() { w.progress = before })
		w.store(c, rows, ch.bytes, start, end, calls)
	}
	ch.settled = func() {
		if start != nil && isUnique(ch.err) { // the run's id is taken
			ch.err = journal.ErrExists
		}
		w.settled(ch)
	}
	if !w.s.writer.submit(ch) {
		w.err = fmt.Errorf("journal of %q: %w", w.run, journal.ErrClosed)
		return nil, w.err
	}
	w.last, w.pending, w.start, w.end = ch, nil, nil, nil
	return ch, nil
}

// settled records the outcome of a change. After a failed change all later ones fail, too: their records would leave a gap.
func (w *runWriter) settled(ch *change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.err != nil:
		ch.err = w.err
		return
	case w.over != nil:
		ch.err = w.over
	}
	if ch.err == nil {
		if w.last == ch {
			w.last = nil
		}
		return
	}
	what := fmt.Sprintf("write journal of %q", w.run)
	if !errors.Is(ch.err, task.ErrQuota) { // users see quota errors, which must not show the path
		what += " in " + w.s.path
	}
	wrap(&ch.err, "%s", what)
	w.err = ch.err
}

// maxUncounted is the number of uncounted bytes of a run or task at which these bytes are added to the row of the run or task. Only bytes in
// the row count against the user's quota.
const maxUncounted = 64 << 10

// store writes rows; bytes is their size.
func (w *runWriter) store(c *conn, rows []row, bytes int, start *journal.Start, end *journal.End, calls map[usage.Tool]*usage.Sum) {
	if rows[0].seq != w.stored+1 { // an earlier change has failed
		c.fail(fmt.Errorf("record %d would follow record %d", rows[0].seq, w.stored))
	}
	w.uncounted += bytes
	if start != nil {
		w.insertRun(c, start, end)
	} else if w.uncounted >= maxUncounted && end == nil {
		rows, end = w.withinQuota(c, rows)
	}
	for i := range rows {
		w.insertRow(c, &rows[i], i == 0 && start == nil)
		w.settleWrites(c, &rows[i])
	}
	if start == nil && end != nil {
		c.exec("UPDATE runs SET ended = ?, status = ?, calls = ?, duration_us = ?, error_kind = ?, bytes = bytes + ? WHERE num = ?",
			end.Time, end.Status, end.Calls, end.DurationUS, errorKind(end.Error), w.uncounted, w.num)
		w.uncounted = 0
		if w.asked {
			closeApprovals(c, w.num)
		}
	}
	if end != nil {
		c.countRun(w.session.user, end, calls)
	}
}

// insertRow stores one record. Only the first record of a transaction is fenced: it fails if another process has taken over the run, or the run
// was deleted.
func (w *runWriter) insertRow(c *conn, r *row, fenced bool) {
	if !fenced {
		c.exec("INSERT INTO journal (run, seq, type, n, data) VALUES (?, ?, ?, ?, ?)", w.num, r.seq, r.kind, r.n, r.data)
	} else {
		c.expect(func(rows int64) {
			if rows == 0 {
				c.fail(fmt.Errorf("%w: it was taken over or deleted", journal.ErrBusy))
			}
		}, `INSERT INTO journal (run, seq, type, n, data)
			SELECT num, ?, ?, ?, ? FROM runs WHERE num = ? AND fence = ? AND purged = 0 /*+ FOR SHARE */`,
			r.seq, r.kind, r.n, r.data, w.num, w.fence)
	}
	for i := range r.blobs {
		w.s.insertBlob(c, w.num, r.seq, &r.blobs[i])
	}
	w.stored = r.seq
}

// withinQuota counts the bytes that are not counted yet. It returns rows or, if the quota of the run's user is used up, the record that ends the
// run. The last record of a run is never refused.
func (w *runWriter) withinQuota(c *conn, rows []row) ([]row, *journal.End) {
	c.exec("UPDATE runs SET bytes = bytes + ? WHERE num = ? AND fence = ?", w.uncounted, w.num, w.fence)
	w.uncounted = 0
	over := w.s.exceeded(c, w.session.user, quotaBytes)
	if over == nil {
		return rows, nil
	}
	text, err := json.Marshal(map[string]string{"kind": "quota", "message": over.Error()})
	c.fail(err)
	end := &journal.End{Status: "failed", Error: text, Time: w.s.now().UnixMicro()}
	last, err := encode(journal.Record{Seq: w.stored + 1, End: end})
	c.fail(err)
	w.over = over
	return []row{last}, end
}

// insertRun stores the row of a run, with its end if the same transaction stores the end record.
func (w *runWriter) insertRun(c *conn, start *journal.Start, end *journal.End) {
	w.num = 0
	w.admit(c)
	var ended any
	if end == nil {
		end = &journal.End{Status: statusRunning}
	} else {
		ended = end.Time
	}
	w.num = c.insertAs(w.num, `INSERT INTO runs
		(num, id, user, session, file, tier, started, owner, bytes, ended, status, calls, duration_us, error_kind)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING num`,
		w.run, start.User, start.Session, start.File, start.Tier, start.Time, w.s.lease.ID(), w.uncounted,
		ended, end.Status, end.Calls, end.DurationUS, errorKind(end.Error))
	w.uncounted = 0
}

// admit refuses the first record of a run if the run's user has used up the quota, or if the run's session is closed: such a run would outlive the
// session. The session may have no row. It also reserves the run's number.
func (w *runWriter) admit(c *conn) {
	check := w.s.queueQuota(c, w.session.user, quotaBytes)
	var closed bool
	if w.session.id != "" {
		c.later(func(row scanner) error { return row.Scan(&closed) },
			"SELECT closed IS NOT NULL FROM sessions WHERE user = ? AND id = ? /*+ FOR SHARE */", w.session.user, w.session.id)
	}
	c.reserveFrom("runs", "num", w.s.numbers(w.s.now()), &w.num)
	c.flush()
	c.fail(check())
	if closed {
		c.fail(fmt.Errorf("session %q has been deleted: %w", w.session.id, task.ErrNotFound))
	}
}

// insertBlob stores a large value once in the partition of its run. It looks for the value each time, because a purge may have deleted it.
func (s *Store) insertBlob(c *conn, run, seq int64, b *blob) {
	var id, reserved int64
	from, to := s.partition(run)
	c.reserveFrom("blobs", "id", from, &reserved)
	if !c.row("SELECT id FROM blobs WHERE hash = ? AND id >= ? AND id < ? /*+ FOR SHARE */", []any{b.hash[:], from, to}, &id) {
		id = c.insertAs(reserved, "INSERT INTO blobs (id, hash, data) VALUES (?, ?, ?) RETURNING id", b.hash[:], b.data)
	}
	c.exec("INSERT INTO blob_refs (run, seq, field, blob) VALUES (?, ?, ?, ?)", run, seq, b.field, id)
}

// errorKind returns the kind of a recorded error, "" if there is none.
func errorKind(text json.RawMessage) string {
	var e struct {
		Kind string `json:"kind"`
	}
	if len(text) > 0 && json.Unmarshal(text, &e) != nil {
		return ""
	}
	return e.Kind
}

// Close implements journal.Writer.
func (w *runWriter) Close(ctx context.Context) (err error) {
	w.closing.Do(func() {
		err = w.Commit(ctx)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.closed = true
		w.s.release(w)
	})
	return err
}
