package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/task"
)

var _ journal.Store = (*Store)(nil)

// Create implements journal.Store. Nothing is stored before the first commit.
func (s *Store) Create(ctx context.Context, run string) (journal.Writer, error) {
	w, err := s.create(ctx, run)
	if err != nil {
		return nil, fmt.Errorf("create journal of %q: %w", run, err)
	}
	return w, nil
}

func (s *Store) create(ctx context.Context, run string) (*runWriter, error) {
	if err := s.lease.Claim(); err != nil {
		return nil, err
	}
	w := newRunWriter(s, run)
	if !s.reserve(w) {
		return nil, journal.ErrExists
	}
	var one int
	switch err := s.queryRow(ctx, "SELECT 1 FROM runs WHERE id = ?", run).Scan(&one); {
	case errors.Is(err, sql.ErrNoRows):
		return w, nil
	case err == nil:
		err = journal.ErrExists
		fallthrough
	default:
		s.release(w)
		return nil, s.fail(err)
	}
}

// Resume implements journal.Store: the run becomes this process's. It fails with ErrBusy while the process that owned
// it is alive.
func (s *Store) Resume(ctx context.Context, run string) (journal.Writer, []journal.Record, error) {
	w, records, err := s.resume(ctx, run)
	if err != nil {
		return nil, nil, fmt.Errorf("resume %q: %w", run, err)
	}
	return w, records, nil
}

func (s *Store) resume(ctx context.Context, run string) (_ *runWriter, _ []journal.Record, err error) {
	if err := s.lease.Claim(); err != nil {
		return nil, nil, err
	}
	w := newRunWriter(s, run)
	if !s.reserve(w) {
		return nil, nil, journal.ErrBusy
	}
	defer func() {
		if err != nil {
			s.release(w)
		}
	}()
	var owner string
	var ended sql.NullInt64
	switch err := s.read.QueryRowContext(ctx, "SELECT num, user, owner, fence, ended FROM runs WHERE id = ? AND purged = 0", run).
		Scan(&w.num, &w.user, &owner, &w.fence, &ended); {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil, journal.ErrNotFound
	case err != nil:
		return nil, nil, s.fail(err)
	case ended.Valid:
		return nil, nil, journal.ErrEnded
	}
	if err := s.adopt(ctx, w, owner); err != nil {
		return nil, nil, err
	}
	records, err := s.records(ctx, run, 0, math.MaxInt, math.MaxInt)
	if err != nil {
		return nil, nil, err
	}
	if w.seq, err = journal.Continue(records); err != nil {
		return nil, nil, err
	}
	w.stored = w.seq.Last()
	return w, records, nil
}

// adopt makes an unfinished run of a dead process this one's; a run that is this process's already gets a new fence too.
func (s *Store) adopt(ctx context.Context, w *runWriter, owner string) error {
	alive, err := s.lease.Alive(owner)
	switch {
	case err != nil:
		return err
	case alive && owner != s.lease.ID():
		return fmt.Errorf("%w: process %s", journal.ErrBusy, s.lease.Describe(owner))
	}
	err = s.decide(ctx, 0, func(c *conn) error {
		n, err := c.changed("UPDATE runs SET owner = ?, fence = fence + 1 WHERE num = ? AND owner = ? AND fence = ? AND ended IS NULL AND purged = 0",
			s.lease.ID(), w.num, owner, w.fence)
		if err == nil && n == 0 {
			err = refuse(fmt.Errorf("%w: it has just been resumed or deleted", journal.ErrBusy))
		}
		return err
	})
	w.fence++
	return err
}

// Read implements journal.Store.
func (s *Store) Read(ctx context.Context, run string) ([]journal.Record, error) {
	records, err := s.records(ctx, run, 0, math.MaxInt, math.MaxInt)
	if err == nil && len(records) == 0 {
		err = journal.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read journal of %q: %w", run, err)
	}
	return records, nil
}

// ReadPage implements runs.Store.
func (s *Store) ReadPage(ctx context.Context, run string, after int64, limit, bytes int) ([]journal.Record, error) {
	records, err := s.records(ctx, run, after, limit, bytes)
	if err != nil {
		return nil, fmt.Errorf("read journal of %q: %w", run, err)
	}
	return records, nil
}

// records reads the records of a run with numbers above after, until there are limit of them or they have so many bytes.
func (s *Store) records(ctx context.Context, run string, after int64, limit, bytes int) ([]journal.Record, error) {
	// One statement sees one state of the database, whatever is purged meanwhile.
	rows, err := s.read.QueryContext(ctx, `
		SELECT j.seq, j.type, j.data, r.field, b.data
		FROM runs
		JOIN journal j ON j.run = runs.num
		LEFT JOIN blob_refs r ON r.run = j.run AND r.seq = j.seq
		LEFT JOIN blobs b ON b.id = r.blob
		WHERE runs.id = ? AND runs.purged = 0 AND j.seq > ?
		ORDER BY j.seq`, run, after)
	if err != nil {
		return nil, s.fail(err)
	}
	defer rows.Close()
	var out []journal.Record
	size := 0
	for rows.Next() {
		var seq int64
		var kind string
		var data sql.RawBytes
		var field sql.NullString
		var value []byte
		if err := rows.Scan(&seq, &kind, &data, &field, &value); err != nil {
			return nil, s.fail(err)
		}
		if len(out) == 0 || out[len(out)-1].Seq != seq {
			if len(out) >= limit || size >= bytes {
				return out, nil
			}
			r, err := decode(seq, kind, data)
			if err != nil {
				return nil, err
			}
			out = append(out, r)
			size += len(data)
		}
		if field.Valid {
			if err := place(&out[len(out)-1], field.String, value); err != nil {
				return nil, err
			}
			size += len(value)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, s.fail(err)
	}
	return out, nil
}

// runWriter is the journal of one run while it is written.
type runWriter struct {
	s   *Store
	run string

	mu      sync.Mutex
	seq     journal.Sequence
	pending []row
	start   *journal.Start // among pending
	end     *journal.End
	of      sessionKey // of the start record; empty before it is appended, or where the run is in none
	next    *change    // will carry pending; the writer has it in its queue
	last    *change    // the writer is at it, or was
	err     error
	closed  bool

	// The writer's goroutine alone uses these after the first commit.
	num    int64 // runs.num, 0 before the run is stored
	fence  int64 // runs.fence
	user   string
	stored int64 // number of the last stored record
	over   error // the quota that ended the run
}

func newRunWriter(s *Store, run string) *runWriter { return &runWriter{s: s, run: run} }

// Append implements journal.Writer. The record is encoded here, so that the one goroutine that writes need not.
func (w *runWriter) Append(r journal.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = w.append(r)
	}
}

func (w *runWriter) append(r journal.Record) error {
	if w.closed {
		return fmt.Errorf("journal of %q: %w", w.run, journal.ErrClosed)
	}
	if err := w.seq.Next(&r); err != nil {
		return fmt.Errorf("journal of %q: %w", w.run, err)
	}
	enc, err := encode(r)
	if err != nil {
		return fmt.Errorf("journal of %q: %w", w.run, err)
	}
	w.pending = append(w.pending, enc)
	switch {
	case r.Start != nil:
		start := *r.Start // the caller keeps its record
		w.start = &start
		w.of = sessionKey{start.User, start.Session}
	case r.End != nil:
		end := *r.End
		w.end = &end
	}
	return nil
}

// session is where the run is.
func (w *runWriter) session() sessionKey {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.of
}

// Commit implements journal.Writer.
func (w *runWriter) Commit(ctx context.Context) error {
	ch, err := w.schedule()
	if err == nil {
		err = ctx.Err()
	}
	if ch == nil || err != nil {
		return err
	}
	return w.s.wait(ctx, ch)
}

// schedule returns the change that carries all that was appended, nil if all is stored.
func (w *runWriter) schedule() (*change, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.err != nil:
		return nil, w.err
	case w.next != nil:
		return w.next, nil
	case len(w.pending) == 0:
		return w.last, nil
	}
	w.next = &change{done: make(chan struct{})}
	if !w.s.writer.submit(w) {
		w.next = nil
		w.err = fmt.Errorf("journal of %q: %w", w.run, journal.ErrClosed)
		return nil, w.err
	}
	return w.next, nil
}

// take implements source.
func (w *runWriter) take() *change {
	w.mu.Lock()
	defer w.mu.Unlock()
	ch, rows, start, end, err := w.next, w.pending, w.start, w.end, w.err
	w.last, w.next, w.pending, w.start, w.end = ch, nil, nil, nil, nil
	for i := range rows {
		ch.bytes += rows[i].bytes()
	}
	num, stored := w.num, w.stored
	ch.apply = func(c *conn) error {
		if err != nil { // an earlier commit failed: what follows it would leave a gap
			return err
		}
		return w.store(c, rows, start, end)
	}
	ch.undo = func() { w.num, w.stored, w.over = num, stored, nil }
	return ch
}

// settled implements source.
func (w *runWriter) settled(ch *change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ch.err == nil && w.over != nil {
		ch.err = w.over
	}
	if ch.err != nil && w.err == nil {
		if errors.Is(ch.err, task.ErrQuota) { // the user is told, who learns no path
			ch.err = fmt.Errorf("write journal of %q: %w", w.run, ch.err)
		} else {
			ch.err = fmt.Errorf("write journal of %q in %s: %w", w.run, w.s.path, ch.err)
		}
		w.err = ch.err
	}
	if w.last == ch && ch.err == nil {
		w.last = nil
	}
}

// store writes rows inside of a transaction.
func (w *runWriter) store(c *conn, rows []row, start *journal.Start, end *journal.End) error {
	bytes := 0
	for i := range rows {
		bytes += rows[i].bytes()
	}
	var err error
	if start != nil {
		err = w.insertRun(c, start, bytes)
	} else {
		err = w.grow(c, bytes)
	}
	if err != nil {
		return err
	}
	if end == nil {
		if rows, end, err = w.withinQuota(c, rows); err != nil {
			return err
		}
	}
	if end != nil {
		if _, err := c.exec("UPDATE runs SET ended = ?, status = ?, calls = ?, duration_us = ?, error_kind = ? WHERE num = ?",
			end.Time, end.Status, end.Calls, end.DurationUS, errorKind(end), w.num); err != nil {
			return err
		}
	}
	for i := range rows {
		r := &rows[i]
		if r.seq != w.stored+1 {
			return fmt.Errorf("record %d would follow record %d", r.seq, w.stored)
		}
		if _, err := c.exec("INSERT INTO journal (run, seq, type, n, data) VALUES (?, ?, ?, ?, ?)",
			w.num, r.seq, r.kind, r.n, r.data); err != nil {
			return err
		}
		for j := range r.blobs {
			if err := insertBlob(c, w.num, r.seq, &r.blobs[j]); err != nil {
				return err
			}
		}
		w.stored = r.seq
	}
	return nil
}

// grow adds to the size of a stored run, and refuses where another process has taken the run over or has ended it.
func (w *runWriter) grow(c *conn, bytes int) error {
	n, err := c.changed("UPDATE runs SET bytes = bytes + ? WHERE num = ? AND fence = ? AND ended IS NULL AND purged = 0", bytes, w.num, w.fence)
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: it was taken over or deleted meanwhile", journal.ErrBusy)
	}
	return err
}

// withinQuota returns rows, or, where they exceed the quota of the run's user, the record that ends the run instead. A run that
// has ended is never refused its last record.
func (w *runWriter) withinQuota(c *conn, rows []row) ([]row, *journal.End, error) {
	err := w.s.admit(c, w.user, quotaBytes)
	var over refusal
	if !errors.As(err, &over) || w.stored == 0 {
		return rows, nil, err
	}
	text, err := json.Marshal(map[string]string{"kind": "quota", "message": over.Error()})
	if err != nil {
		return nil, nil, err
	}
	end := &journal.End{Status: "failed", Error: text, Time: w.s.now().UnixMicro()}
	last, err := encode(journal.Record{Seq: w.stored + 1, End: end})
	w.over = over.error
	return []row{last}, end, err
}

func (w *runWriter) insertRun(c *conn, start *journal.Start, bytes int) error {
	if err := w.mayBegin(c, sessionKey{start.User, start.Session}); err != nil {
		return err
	}
	hash := sha256.Sum256([]byte(start.Source))
	res, err := c.exec(`INSERT INTO runs
		(id, user, session, file, tier, source_hash, started, status, owner, bytes)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		w.run, start.User, start.Session, start.File, start.Tier, hash[:], start.Time, statusRunning, w.s.lease.ID(), bytes)
	if isUnique(err) {
		return journal.ErrExists
	}
	if err != nil {
		return err
	}
	w.user = start.User
	w.num, err = res.LastInsertId()
	return err
}

// mayBegin refuses the first record of a run whose user has used up the quota, or whose session is closed: the run would outlive it.
// A run may be in a session that the store has no row of.
func (w *runWriter) mayBegin(c *conn, key sessionKey) error {
	if err := w.s.admit(c, key.user, quotaBytes); err != nil {
		return err
	}
	if key.id == "" {
		return nil
	}
	var closed int64
	if _, err := c.row("SELECT closed IS NOT NULL FROM sessions WHERE user = ? AND id = ?", []any{key.user, key.id}, &closed); err != nil {
		return err
	}
	if closed != 0 {
		return fmt.Errorf("session %q has been deleted: %w", key.id, task.ErrNotFound)
	}
	return nil
}

// insertBlob keeps a large value once. Whether it is there is asked anew each time: a purge may have deleted it.
func insertBlob(c *conn, run, seq int64, b *blob) error {
	var id int64
	found, err := c.row("SELECT id FROM blobs WHERE hash = ?", []any{b.hash[:]}, &id)
	if err != nil {
		return err
	}
	if !found {
		res, err := c.exec("INSERT INTO blobs (hash, data) VALUES (?, ?)", b.hash[:], b.data)
		if err != nil {
			return err
		}
		if id, err = res.LastInsertId(); err != nil {
			return err
		}
	}
	_, err = c.exec("INSERT INTO blob_refs (run, seq, field, blob) VALUES (?, ?, ?, ?)", run, seq, b.field, id)
	return err
}

func errorKind(end *journal.End) string {
	var e struct {
		Kind string `json:"kind"`
	}
	if len(end.Error) > 0 && json.Unmarshal(end.Error, &e) != nil {
		return ""
	}
	return e.Kind
}

// Close implements journal.Writer.
func (w *runWriter) Close(ctx context.Context) error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil
	}
	w.mu.Unlock()
	err := w.Commit(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.closed = true
		w.s.release(w)
	}
	return err
}
