package sqlstore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/usage"
)

// Limits of the rows in a slot, so that users who invent names cannot fill the table.
const (
	// maxFailing limits the rows for tools whose calls all failed, because such a tool may not exist. If an owner has this many rows, such a
	// tool gets no new row, and its calls count under usage.Others.
	maxFailing = usage.MaxNames / 5
	// maxSlot limits the rows of one kind in a slot. If a slot has this many rows, users get no new rows; usage without a row counts only for all
	// users together.
	maxSlot = 4000
)

// usageKey identifies a row of the table usage, except for its span and slot.
type usageKey struct {
	at           int64 // time at which the run or task ended, in seconds since the Unix epoch, rounded down to usage.Fine
	kind         usage.Kind
	owner        string
	server, name string
}

func (k usageKey) compare(o usageKey) int {
	return cmp.Or(cmp.Compare(k.at, o.at), cmp.Compare(k.kind, o.kind), cmp.Compare(k.owner, o.owner), cmp.Compare(k.server, o.server), cmp.Compare(k.name, o.name))
}

// Figures of many runs are stored together, some time after the runs, so that they do not delay runs. A killed process loses the figures that it
// has not stored.
const (
	tallyTime = time.Second
	tallyRows = 1000 // number of rows above which the figures are stored at once
)

// tally holds the figures of this process that are not stored yet.
type tally struct {
	store func() // called when the figures are due to be stored

	mu    sync.Mutex
	sums  map[usageKey]*usage.Sum
	due   *time.Timer
	sends sync.Mutex // held while figures are being stored
}

// add adds figures to those that are not stored yet.
func (t *tally) add(sums map[usageKey]*usage.Sum) {
	if len(sums) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.merge(sums)
	switch {
	case t.store == nil: // the store is still being opened
	case t.due == nil:
		t.due = time.AfterFunc(tallyTime, t.store)
	case len(t.sums) > tallyRows:
		t.due.Reset(0)
	}
}

func (t *tally) merge(sums map[usageKey]*usage.Sum) {
	if t.sums == nil {
		t.sums = map[usageKey]*usage.Sum{}
	}
	for key, sum := range sums {
		if t.sums[key] == nil {
			t.sums[key] = &usage.Sum{}
		}
		t.sums[key].Add(sum)
	}
}

// send stores the figures so far by calling store. After an error it keeps them; they are stored with the next figures.
func (t *tally) send(store func(map[usageKey]*usage.Sum) error) error {
	t.sends.Lock()
	defer t.sends.Unlock()
	t.mu.Lock()
	sums := t.sums
	t.sums = nil
	if t.due != nil {
		t.due.Stop()
		t.due = nil
	}
	t.mu.Unlock()
	if len(sums) == 0 {
		return nil
	}
	err := store(sums)
	if err != nil {
		t.mu.Lock()
		t.merge(sums)
		t.mu.Unlock()
	}
	return err
}

// tellUsage stores the figures of this process.
func (s *Store) tellUsage(ctx context.Context) error {
	return s.writer.conn.tally.send(func(sums map[usageKey]*usage.Sum) error {
		return s.write(context.WithoutCancel(ctx), len(sums)*usageBytes, func(c *conn) { c.storeUsage(sums) })
	})
}

// usageBytes is the approximate size of a row.
const usageBytes = 200

// count adds figures to those of the transaction. It is the last step of a change, so that a refused change counts nothing.
func (c *conn) count(kind usage.Kind, owner, server, name string, end time.Time, sum *usage.Sum) {
	if c.err != nil {
		return
	}
	at := slotOf(end, usage.Fine)
	for _, owner := range []string{owner, ""} {
		key := usageKey{at, kind, owner, server, name}
		if c.used[key] == nil {
			c.used[key] = &usage.Sum{}
		}
		c.used[key].Add(sum)
		if owner == "" { // the run has no user, so both keys are the same
			break
		}
	}
}

func slotOf(t time.Time, span time.Duration) int64 {
	seconds := int64(span / time.Second)
	return t.Unix() / seconds * seconds
}

// countRun counts a run that has ended, and its calls.
func (c *conn) countRun(owner string, end *journal.End, calls map[usage.Tool]*usage.Sum) {
	at := time.UnixMicro(end.Time)
	sum := &usage.Sum{N: 1, Calls: int64(end.Calls)}
	if end.Status == "failed" {
		sum.Failed = 1
	}
	sum.Spans[usage.Bucket(time.Duration(end.DurationUS)*time.Microsecond)] = 1
	c.count(usage.Run, owner, "", "", at, sum)
	for tool, sum := range calls {
		c.count(usage.Call, owner, tool.Server, tool.Name, at, sum)
	}
}

// countTask counts a task that has ended.
func (c *conn) countTask(t *taskRow) {
	u := t.Usage
	sum := &usage.Sum{N: 1, Input: int64(u.Tokens.Input), Output: int64(u.Tokens.Output)}
	if t.Status == "failed" {
		sum.Failed = 1
	}
	switch {
	case u.CostUSD != nil:
		sum.Cost = int64(math.Round(*u.CostUSD * 1e9))
	case sum.Input+sum.Output > 0:
		sum.Unpriced = 1
	}
	if d := u.Direct; d != nil {
		sum.Saved = int64(d.Input+d.Output) - sum.Input - sum.Output
	}
	if t.StartedAt != nil {
		sum.Spans[usage.Bucket(t.EndedAt.Sub(*t.StartedAt))] = 1
	}
	c.count(usage.Task, t.UserID, "", usage.Name(u.Model), *t.EndedAt, sum)
}

// usageColumns are the columns of the figures.
var usageColumns = func() string {
	all := "n, failed, calls, input, output, saved, cost, unpriced"
	for i := range usage.Buckets {
		all += fmt.Sprint(", h", i)
	}
	return all
}()

// ofKind lists the columns that rows of each kind use, except the columns of usage.Spans.
var ofKind = map[usage.Kind]string{usage.Run: "n failed calls", usage.Call: "n failed", usage.Task: "n failed input output saved cost unpriced"}

// usageKeys is the number of parameters of a statement before the figures.
const usageKeys = 6

// figures returns the columns of a row and the values to add to them. If only one bucket of s.Spans is not zero, as for a single run, the columns
// of the other buckets are left out. So most rows are written by a few different statements.
func figures(kind usage.Kind, s *usage.Sum) (columns []string, values []any) {
	of := map[string]int64{"n": s.N, "failed": s.Failed, "calls": s.Calls, "input": s.Input, "output": s.Output, "saved": s.Saved, "cost": s.Cost, "unpriced": s.Unpriced}
	columns = strings.Fields(ofKind[kind])
	for _, name := range columns {
		values = append(values, of[name])
	}
	one := -1 // index of the only bucket that is not zero; -1 for none, -2 for several
	for i, n := range s.Spans {
		if n > 0 && one >= 0 {
			one = -2
		}
		if n > 0 && one > -2 {
			one = i
		}
	}
	for i, n := range s.Spans {
		if i == one || one == -2 {
			columns, values = append(columns, fmt.Sprint("h", i)), append(values, n)
		}
	}
	return columns, values
}

// storeUsage stores figures.
func (c *conn) storeUsage(sums map[usageKey]*usage.Sum) {
	var missing []usageRow
	for _, key := range slices.SortedFunc(maps.Keys(sums), usageKey.compare) { // sorted, so that processes that store the same rows cannot deadlock
		sum := sums[key]
		columns, values := figures(key.kind, sum)
		marks, growth := "", ""
		for i, name := range columns {
			marks += fmt.Sprintf(", ?%d", usageKeys+i+1)
			growth += fmt.Sprintf(", %s = %s + ?%d", name, name, usageKeys+i+1)
		}
		insert := "INSERT INTO usage (span, slot, kind, owner, server, name, " + strings.Join(columns, ", ") + ") VALUES (?1, ?2, ?3, ?4, ?5, ?6" + marks + ")"
		update := "UPDATE usage SET " + growth[2:] + " WHERE span = ?1 AND slot = ?2 AND kind = ?3 AND owner = ?4 AND server = ?5 AND name = ?6"
		for _, span := range []time.Duration{usage.Fine, usage.Day} {
			r := usageRow{int64(span / time.Second), slotOf(time.Unix(key.at, 0), span), key, sum.Failed == sum.N, insert, update, values}
			c.expect(func(rows int64) {
				if rows == 0 {
					missing = append(missing, r)
				}
			}, update, r.args()...)
		}
	}
	c.flush()
	for _, r := range missing {
		c.insertUsage(r)
	}
}

// usageRow is a row of the table usage, and the statements that insert it and update it.
type usageRow struct {
	span, slot     int64
	key            usageKey
	failing        bool // true if all calls failed
	insert, update string
	values         []any
}

func (r *usageRow) args() []any {
	return append([]any{r.span, r.slot, string(r.key.kind), r.key.owner, r.key.server, r.key.name}, r.values...)
}

// insertUsage inserts a row, within the limits of the rows. An earlier call may have inserted the same row, for another time of the same slot.
func (c *conn) insertUsage(r usageRow) {
	if c.changed(r.update, r.args()...) > 0 {
		return
	}
	var own, all int64
	c.row("SELECT count(*) FROM usage WHERE span = ? AND slot = ? AND kind = ? AND owner = ?", []any{r.span, r.slot, string(r.key.kind), r.key.owner}, &own)
	if own >= usage.MaxNames || own >= maxFailing && r.failing && r.key.kind == usage.Call {
		if r.key.server, r.key.name = "", usage.Others; c.changed(r.update, r.args()...) > 0 {
			return
		}
	}
	if r.key.owner != "" {
		c.row("SELECT count(*) FROM usage WHERE span = ? AND slot = ? AND kind = ?", []any{r.span, r.slot, string(r.key.kind)}, &all)
		if all >= maxSlot {
			return
		}
	}
	c.exec(r.insert, r.args()...)
}

// Usage implements runs.Store.
func (s *Store) Usage(ctx context.Context, q usage.Query) (_ *usage.Report, err error) {
	defer wrap(&err, "usage")
	if err := s.tellUsage(ctx); err != nil {
		return nil, err
	}
	r := usage.NewReport(q, s.now())
	slots, err := json.Marshal(append([]int64{}, r.Slots()...))
	if err != nil {
		return nil, err
	}
	read := func(whole bool, kind usage.Kind, owners string, args ...any) {
		if err != nil {
			return
		}
		err = s.each(ctx, "SELECT slot, owner, server, name, "+usageColumns+` FROM usage
			WHERE span = ?1 AND slot IN (SELECT CAST(value AS BIGINT) FROM json_each(?2)) AND kind = ?3 AND owner `+owners,
			append([]any{int64(r.Span() / time.Second), string(slots), string(kind)}, args...), func(row scanner) error {
				got := usage.Row{Kind: kind}
				into := []any{&got.Slot, &got.Owner, &got.Server, &got.Name, &got.N, &got.Failed, &got.Calls, &got.Input, &got.Output, &got.Saved, &got.Cost, &got.Unpriced}
				for i := range got.Spans {
					into = append(into, &got.Spans[i])
				}
				if err := row.Scan(into...); err != nil {
					return err
				}
				r.Add(&got, whole)
				return nil
			})
	}
	for _, kind := range []usage.Kind{usage.Run, usage.Call, usage.Task} {
		read(true, kind, "= ?4", q.User)
	}
	if q.User == "" && q.By == usage.ByUser {
		read(false, usage.Run, "> ''")
		read(false, usage.Task, "> ''")
	}
	if err != nil {
		return nil, err
	}
	return r.Close(), nil
}

// purgeUsage deletes slots that are no longer shown. It writes nothing if there are no such slots.
func (s *Store) purgeUsage(ctx context.Context, retention time.Duration) error {
	for span, kept := range map[time.Duration]time.Duration{usage.Fine: usage.KeepFine, usage.Day: usage.KeepDays} {
		if retention > 0 {
			kept = min(kept, retention)
		}
		seconds, before := int64(span/time.Second), slotOf(s.now().Add(-kept), span)
		for {
			some, err := one(ctx, s, nil, value[bool], "SELECT EXISTS (SELECT 1 FROM usage WHERE span = ? AND slot < ?)", seconds, before)
			if err != nil || !some {
				if err != nil {
					return err
				}
				break
			}
			if _, err := s.purgeStep(ctx, `DELETE FROM usage WHERE (span, slot, kind, owner, server, name) IN (
				SELECT span, slot, kind, owner, server, name FROM usage WHERE span = ? AND slot < ? LIMIT ?)`, seconds, before, purgeRecords); err != nil {
				return err
			}
		}
	}
	return nil
}
