package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
)

// hostCall is a call that the program has made and whose answer it has not got. It implements InFlight: while the gate works on the
// call, its goroutine uses the methods and the fields asks and told, the run's goroutine the others.
type hostCall struct {
	loop    *loop
	call    *journal.Call
	state   callState
	made    bool // The program has made it on its present runner.
	perform Pending
	release func()         // gives the memory of its arguments back
	asks    *approval.Call // the question to people; nil if there is none
	told    Told
}

// callState is what a call waits for.
type callState string

const (
	undecided  callState = "undecided"  // The call has just been made.
	held       callState = "held"       // It waits until the program has got the recorded answers.
	serial     callState = "serial"     // It waits for the answer of the serial call before it.
	inFlight   callState = "in flight"  // The gate works on it.
	asking     callState = "asking"     // It waits for an approval.
	timed      callState = "timed"      // It is a timer that has not fired.
	answered   callState = "answered"   // Its answer is recorded.
	unanswered callState = "unanswered" // The program gets no answer: the recorded run had been stopped before.
)

// callStates are the steps from each state.
var callStates = map[callState][]callState{
	undecided: {held, serial, inFlight, timed, answered, unanswered},
	held:      {serial, inFlight, timed},
	serial:    {inFlight},
	inFlight:  {asking, answered},
	asking:    {answered},
	timed:     {answered},
}

// calls are the calls of a run whose answers the program has not got, by number. They stay when the run gives up its runner.
type calls struct {
	all    map[int]*hostCall
	count  map[callState]int
	serial []*hostCall // Serial calls without an answer, in order: the first is in flight or waits for an approval.
}

func newCalls() calls { return calls{all: map[int]*hostCall{}, count: map[callState]int{}} }

// in are the calls in a state, by number.
func (s *calls) in(state callState) []*hostCall {
	if s.count[state] == 0 {
		return nil
	}
	var in []*hostCall
	for _, n := range slices.Sorted(maps.Keys(s.all)) {
		if s.all[n].state == state {
			in = append(in, s.all[n])
		}
	}
	return in
}

// made is a call that the program has made on its present runner; nil if it has not.
func (s *calls) made(n int) *hostCall {
	if c := s.all[n]; c != nil && c.made {
		return c
	}
	return nil
}

// make adds a call that the program makes, or finds the one that it has made before on another runner.
func (s *calls) make(l *loop, call *journal.Call) *hostCall {
	c := s.all[call.N]
	if c == nil {
		c = &hostCall{loop: l, call: call, state: undecided}
		s.all[call.N] = c
		s.count[undecided]++
	}
	c.made = true
	return c
}

// forget notes that the program has begun again on another runner.
func (s *calls) forget() {
	for _, c := range s.all {
		c.made = false
	}
}

// remove takes a call out whose answer the program has got.
func (s *calls) remove(c *hostCall) {
	s.count[c.state]--
	delete(s.all, c.call.N)
}

// to makes a step. One that is not in the table is a fault of the loop, and fails the run.
func (c *hostCall) to(next callState) {
	if !slices.Contains(callStates[c.state], next) {
		c.loop.fail(fmt.Errorf("a call that is %s cannot be %s next", c.state, next))
	}
	c.loop.calls.count[c.state]--
	c.loop.calls.count[next]++
	c.state = next
}

// do has the gate answer a call.
func (l *loop) do(ctx context.Context, c *hostCall) {
	c.to(inFlight)
	job := func() {
		value, err := c.perform(ctx, c)
		c.release()
		select {
		case l.results <- result{c.call.N, value, err}:
		case <-l.over:
		}
	}
	select {
	case l.jobs <- job:
	default:
		go l.serve(job)
	}
}

// serve does a job, and then waits for further ones, because a goroutine whose stack has grown costs less than a new one. At most one
// goroutine of a run waits. It ends with the run, or with a job of nil, which the run sends when it gives up its runner.
func (l *loop) serve(job func()) {
	for job != nil {
		job()
		if !l.serving.CompareAndSwap(false, true) {
			return
		}
		select {
		case job = <-l.jobs:
			l.serving.Store(false)
		case <-l.over:
			return
		}
	}
}

// Told is what a program gets of an answer beside its value.
type Told struct {
	// Exact says that the answer has numbers that no JavaScript number holds. Of these the program gets integers as BigInt, and others
	// as strings.
	Exact bool
	// Beside is what the answer has beside the value, as JSON. Where the value is an object or array, it is its property $content.
	Beside json.RawMessage
	Notes  []string // lines that the program prints when it gets the answer
	// Tokens are the types of tokens that the program gets for the first time from a source, each with the place of one: "crm__list $.cards[*]".
	// A program that has tokens gets a notice where it does with one what cannot work, such as taking a part of it.
	Tokens map[string]string
}

// Tell implements InFlight.
func (c *hostCall) Tell(told Told) { c.told = told }

// Ask implements InFlight.
func (c *hostCall) Ask(asks approval.Call) *frame.Error {
	asks.N = c.call.N
	c.asks = &asks
	return &frame.Error{Kind: frame.KindDenied, Name: "DeniedError", Tool: asks.Tool, Message: "the run ended before the call was approved"}
}

// Intend implements InFlight.
func (c *hostCall) Intend(ctx context.Context, i journal.Intent) error {
	if err := c.loop.appendIntent(i); err != nil {
		return err
	}
	return c.loop.journal.Commit(ctx)
}

// Charge implements InFlight.
func (c *hostCall) Charge(used time.Duration) error {
	if c.loop.used.Add(int64(used)); c.loop.spent() {
		return errSpent
	}
	return nil
}

// appendIntent records that a write is about to be sent. Calls in flight use it at the same time.
func (l *loop) appendIntent(i journal.Intent) error {
	l.intents.Lock()
	defer l.intents.Unlock()
	if l.noIntents {
		return errors.New("the run has ended")
	}
	l.journal.Append(journal.Record{Intent: &i})
	l.effects.begin(i.N)
	return nil
}
