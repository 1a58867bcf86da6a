package sqlstore

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"mcp-code-exec-harness/internal/journal"
)

// settleWrites tracks a run's writes without an answer. It stores a doubt for each write whose outcome r leaves unknown.
func (w *runWriter) settleWrites(c *conn, r *row) {
	sent, open := w.writes[r.n]
	switch {
	case r.kind == "intent":
		w.writes = maps.Clone(w.writes) // the progress kept for a rollback holds the old map
		if w.writes == nil {
			w.writes = map[int]int64{}
		}
		w.writes[r.n] = r.sent
	case r.kind == "answer" && open:
		w.writes = maps.Clone(w.writes)
		delete(w.writes, r.n)
		if r.inDoubt {
			w.insertDoubt(c, r.n, sent)
		}
	case r.kind == "end":
		for _, n := range slices.Sorted(maps.Keys(w.writes)) {
			w.insertDoubt(c, n, w.writes[n])
		}
		w.writes = nil
	}
}

// insertDoubt stores that the outcome of a write stays unknown. It looks for the call from the end, since the call is a recent one.
func (w *runWriter) insertDoubt(c *conn, n int, sent int64) {
	c.exec(`INSERT INTO doubts (run, call, seq, user, sent)
		SELECT run, n, seq, ?, ? FROM journal WHERE run = ? AND type = 'call' AND n = ? ORDER BY seq DESC LIMIT 1`, w.session.user, sent, w.num, n)
}

// unanswered returns the times of the intents without an answer, by call.
func unanswered(records []journal.Record) map[int]int64 {
	writes := map[int]int64{}
	for _, r := range records {
		switch {
		case r.Intent != nil:
			writes[r.Intent.N] = r.Intent.Time
		case r.Answer != nil:
			delete(writes, r.Answer.N)
		}
	}
	return writes
}

const doubtColumns = `SELECT d.num, r.id, r.user, r.session, d.sent, j.data, b.data
	FROM doubts d CROSS JOIN runs r ON r.num = d.run CROSS JOIN journal j ON j.run = d.run AND j.seq = d.seq
	LEFT JOIN blob_refs f ON f.run = d.run AND f.seq = d.seq AND f.field = 'args' LEFT JOIN blobs b ON b.id = f.blob
	WHERE r.purged = 0 AND d.verdict = 'open'`

// Doubts implements runs.Store.
func (s *Store) Doubts(ctx context.Context, f journal.DoubtFilter) (all []journal.Doubt, next string, err error) {
	defer wrap(&err, "list doubts")
	where, args := "", []any{}
	if f.User != "" {
		where, args = where+" AND d.user = ?", append(args, f.User)
	}
	if f.Cursor != "" {
		num, err := parseNum(f.Cursor)
		if err != nil {
			return nil, "", err
		}
		where, args = where+" AND d.num < ?", append(args, num)
	}
	limit, bytes, last := pageSize(f.Limit), 0, int64(0)
	err = s.each(ctx, doubtColumns+where+" ORDER BY d.num DESC LIMIT ?", append(args, limit+1), func(row scanner) error {
		if len(all) == limit || bytes > maxListBytes {
			next = strconv.FormatInt(last, 10)
			return errStop
		}
		var d journal.Doubt
		var large []byte
		if err := row.Scan(&last, &d.Run, &d.User, &d.Session, instant{&d.Sent}, object{&d.Call}, &large); err != nil {
			return err
		}
		if large != nil {
			d.Call.Args = large
		}
		bytes += len(d.Call.Args)
		all = append(all, d)
		return nil
	})
	return all, next, err
}

// Settlements implements runs.Store.
func (s *Store) Settlements(ctx context.Context, run string, calls []int) (_ map[int]journal.Settlement, err error) {
	defer wrap(&err, "read the settlements of %q", run)
	text, err := json.Marshal(append([]int{}, calls...))
	if err != nil {
		return nil, err
	}
	all := map[int]journal.Settlement{}
	return all, s.each(ctx, `SELECT call, verdict, settled, settled_by, note FROM doubts
		WHERE run = (SELECT num FROM runs WHERE id = ? AND purged = 0) AND call IN (SELECT CAST(value AS BIGINT) FROM json_each(?))`, []any{run, string(text)},
		func(row scanner) error {
			var n int
			var of journal.Settlement
			err := row.Scan(&n, &of.Verdict, optional{&of.At}, &of.By, &of.Note)
			all[n] = of
			return err
		})
}

// Settle implements runs.Store.
func (s *Store) Settle(ctx context.Context, run string, call int, of journal.Settlement) (now journal.Settlement, changed bool, err error) {
	defer wrap(&err, "settle call %d of %q", call, run)
	err = s.write(ctx, len(of.Note), func(c *conn) {
		var num int64
		now, changed = journal.Settlement{}, false // the transaction may be repeated
		if !c.row(`SELECT d.num, d.verdict, d.settled, d.settled_by, d.note FROM runs r CROSS JOIN doubts d ON d.run = r.num
			WHERE r.id = ? AND r.purged = 0 AND d.call = ? /*+ FOR UPDATE OF d */`, []any{run, call}, &num, &now.Verdict, optional{&now.At}, &now.By, &now.Note) {
			c.refuse(journal.ErrNoDoubt)
			return
		}
		switch now.Verdict {
		case of.Verdict:
		case journal.Open:
			now, changed = of, true
			c.exec("UPDATE doubts SET verdict = ?, settled = ?, settled_by = ?, note = ? WHERE num = ?", string(of.Verdict), of.At, of.By, of.Note, num)
		default:
			c.refuse(journal.ErrSettled)
		}
	})
	return now, changed, err
}
