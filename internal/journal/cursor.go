package journal

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Undelivered is the Delivery of an answer that came after the program had ended. It is recorded for the audit; a replay does
// not give it to the guest.
const Undelivered = -1

// Undelivered reports whether the answer came after the program had ended, so that the guest never got it.
func (a *Answer) Undelivered() bool { return a.Delivery == Undelivered }

// DivergedError reports that a replayed program differs from the recorded one. Want is nil for a call that was not recorded, Got is nil
// for a recorded call that was not made. The message contains no values.
type DivergedError struct {
	N    int // number of the call
	Want *Call
	Got  *Call
}

func (e *DivergedError) Error() string {
	switch {
	case e.Want == nil:
		return fmt.Sprintf("diverged at call %d: the program called %s, the recording has no such call", e.N, title(e.Got))
	case e.Got == nil:
		return fmt.Sprintf("diverged at call %d: the program did not make the recorded call of %s", e.N, title(e.Want))
	case e.Want.Kind != e.Got.Kind || !Covers(e.Want.Name, e.Got.Name):
		return fmt.Sprintf("diverged at call %d: the program called %s, the recording has %s", e.N, title(e.Got), title(e.Want))
	default:
		return fmt.Sprintf("diverged at call %d (%s): the arguments differ from the recorded ones: %s",
			e.N, title(e.Want), Diff(e.Want.Args, e.Got.Args))
	}
}

// title returns the kind and name of a call, shortened because the program chooses the name.
func title(c *Call) string { return clip(fmt.Sprintf("%s %q", c.Kind, c.Name), 120) }

// clip shortens a text to about limit bytes by cutting out its middle.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit/2], "") + "..." + strings.ToValidUTF8(s[len(s)-limit/2:], "")
}

// Cursor answers a replayed program from its journal: Match compares every call, and Next returns the answer to deliver whenever the guest is
// idle. A Cursor of no records has no answers. Only one goroutine may use a Cursor.
type Cursor struct {
	end        *End
	calls      map[int]*recorded // calls by number
	deliveries []*recorded       // answers in the order of Delivery
	next       int               // index into deliveries
	logs       []Log
}

type recorded struct {
	call   *Call
	intent *Intent // first intent, with time and precondition of the first attempt; nil if there is none
	answer *Answer // nil if the run broke off before the answer came
	made   bool    // whether the replayed program has made the call
}

// NewCursor returns a Cursor of records that Check accepts. The Cursor keeps pointers into the records.
func NewCursor(records []Record) *Cursor {
	c, _ := newCursor(records) // a journal that Check refuses is replayed as far as possible
	return c
}

// newCursor adds all valid records, and returns the first error.
func newCursor(records []Record) (*Cursor, error) {
	c := &Cursor{calls: make(map[int]*recorded)}
	var first error
	for i := range records {
		if err := c.add(&records[i]); err != nil && first == nil {
			first = fmt.Errorf("record %d: %w", records[i].Seq, err)
		}
	}
	slices.SortFunc(c.deliveries, func(a, b *recorded) int { return a.answer.Delivery - b.answer.Delivery })
	return c, first
}

// Check returns an error unless records are the beginning of a journal that can be replayed: record numbers have no gaps, there is one
// start, intents and answers belong to calls, each call has at most one answer, and deliveries have no gaps.
func Check(records []Record) error {
	if len(records) == 0 {
		return errors.New("the journal is empty")
	}
	if _, err := Continue(records); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	run := records[0].Start.Run
	c, err := newCursor(records)
	if err != nil {
		return fmt.Errorf("journal of %q: %w", run, err)
	}
	for i, d := range c.deliveries {
		if d.answer.Delivery != i+1 {
			return fmt.Errorf("journal of %q: the answer of call %d has delivery %d, want %d", run, d.call.N, d.answer.Delivery, i+1)
		}
	}
	return nil
}

func (c *Cursor) add(r *Record) error {
	switch {
	case r.Call != nil:
		if r.Call.N < 1 || c.calls[r.Call.N] != nil {
			return fmt.Errorf("call %d is recorded twice or has no number", r.Call.N)
		}
		c.calls[r.Call.N] = &recorded{call: r.Call}
	case r.Intent != nil:
		rec := c.calls[r.Intent.N]
		if rec == nil {
			return fmt.Errorf("intent of call %d, which is not recorded", r.Intent.N)
		}
		if rec.intent == nil {
			rec.intent = r.Intent
		}
	case r.Answer != nil:
		return c.addAnswer(r.Answer)
	case r.Log != nil:
		c.logs = append(c.logs, *r.Log)
	case r.End != nil:
		c.end = r.End
	}
	return nil
}

func (c *Cursor) addAnswer(a *Answer) error {
	rec := c.calls[a.N]
	switch {
	case rec == nil:
		return fmt.Errorf("answer to call %d, which is not recorded", a.N)
	case rec.answer != nil:
		return fmt.Errorf("second answer to call %d", a.N)
	}
	rec.answer = a
	if a.Undelivered() {
		return nil
	}
	if rec.call.Sync != (a.Delivery == 0) {
		return fmt.Errorf("answer to call %d has delivery %d, its sync is %t", a.N, a.Delivery, rec.call.Sync)
	}
	if !rec.call.Sync {
		c.deliveries = append(c.deliveries, rec)
	}
	return nil
}

// Add adds an answer that was recorded after the Cursor was made. The answer is delivered after all others. call is the call that the answer
// belongs to, or nil if the program has not made that call.
func (c *Cursor) Add(call *Call, a *Answer) error {
	if c.calls[a.N] == nil && call != nil {
		c.calls[a.N] = &recorded{call: call, made: true}
	}
	return c.addAnswer(a)
}

// Deliveries returns the number of recorded answers to asynchronous calls, which an idle guest gets.
func (c *Cursor) Deliveries() int { return len(c.deliveries) }

// End returns the recorded outcome, nil if the run has not ended.
func (c *Cursor) End() *End { return c.end }

// Logs returns the recorded console lines in order. A resumed program prints them again, but they are not recorded again.
func (c *Cursor) Logs() []Log { return c.logs }

// Call returns the record of call n, or nil if there is none. A resumed run performs a call without a record; in an offline replay, a call
// without a record is a divergence.
func (c *Cursor) Call(n int) *Call { return c.at(n).call }

// Intent returns the first recorded intent of call n, or nil if there is none. A write without an intent was never sent.
func (c *Cursor) Intent(n int) *Intent { return c.at(n).intent }

// Answer returns the recorded answer of call n, or nil. A synchronous call gets its answer at once, an asynchronous call when Next returns it.
func (c *Cursor) Answer(n int) *Answer { return c.at(n).answer }

func (c *Cursor) at(n int) recorded {
	if rec := c.calls[n]; rec != nil {
		return *rec
	}
	return recorded{}
}

// Match compares a call of the program with the record of the same number: kind, name, and arguments as JSON values. If they
// agree, it records that the program has made the call. If they differ or there is no record, it returns a *DivergedError.
func (c *Cursor) Match(call *Call) error {
	rec := c.calls[call.N]
	if rec == nil {
		return &DivergedError{N: call.N, Got: call}
	}
	if rec.call.Kind != call.Kind || !Covers(rec.call.Name, call.Name) || !CoversJSON(rec.call.Args, call.Args) {
		return &DivergedError{N: call.N, Want: rec.call, Got: call}
	}
	rec.made = true
	return nil
}

// Next returns the recorded answer to deliver next, nil when all were delivered. An idle guest that has not made the call of this answer has
// diverged.
func (c *Cursor) Next() *Answer {
	if c.next == len(c.deliveries) {
		return nil
	}
	return c.deliveries[c.next].answer
}

// Advance records that the answer of Next was delivered.
func (c *Cursor) Advance() {
	if c.next < len(c.deliveries) {
		c.next++
	}
}

// Finish checks a program that has ended by itself. It returns a *DivergedError for the first recorded call that the program did not
// make. If the program made all of them, the error is for the first call whose recorded answer was not delivered.
func (c *Cursor) Finish() error {
	for _, n := range slices.Sorted(maps.Keys(c.calls)) {
		if rec := c.calls[n]; !rec.made {
			return &DivergedError{N: n, Want: rec.call}
		}
	}
	if c.next < len(c.deliveries) {
		rec := c.deliveries[c.next]
		return &DivergedError{N: rec.call.N, Want: rec.call}
	}
	return nil
}
