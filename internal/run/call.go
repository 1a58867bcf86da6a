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

// hostCall is a host call for which the program has not got the answer yet. It implements InFlight. While the gate works on the
// call, the call's goroutine uses the methods of InFlight and the fields asks, told and kept; the run's goroutine uses everything else.
type hostCall struct {
	loop    *loop
	call    *journal.Call
	state   callState
	made    bool // reports that the program has made the call on its present runner
	perform Pending
	release func()         // gives back the memory of the arguments
	asks    *approval.Call // question to people about the call; nil if there is none
	told    Told
	kept    time.Time // time of the earlier call whose answer this is; zero if there is none
}

// callState is the state of a call: whether it is answered, or else what it waits for.
type callState string

const (
	undecided  callState = "undecided"  // The call has just been made.
	held       callState = "held"       // The call waits until the program has got the recorded answers.
	serial     callState = "serial"     // The call waits for the answer of the previous serial call.
	inFlight   callState = "in flight"  // The gate works on the call.
	asking     callState = "asking"     // The call waits for an approval.
	timed      callState = "timed"      // The call is a timer that has not fired.
	answered   callState = "answered"   // The answer is recorded.
	unanswered callState = "unanswered" // The program gets no answer, because the recorded run was stopped before the answer.
)

// callStates maps each state to the states that may follow it.
var callStates = map[callState][]callState{
	undecided: {held, serial, inFlight, timed, answered, unanswered},
	held:      {serial, inFlight, timed},
	serial:    {inFlight},
	inFlight:  {asking, answered},
	asking:    {answered},
	timed:     {answered},
}

// calls holds those calls of a run for which the program has not got the answer yet. When the run gives up its runner, calls keeps them.
type calls struct {
	all    map[int]*hostCall
	count  map[callState]int
	serial []*hostCall // serial calls without an answer, in order; the first is in flight or waits for an approval
}

func newCalls() calls { return calls{all: map[int]*hostCall{}, count: map[callState]int{}} }

// in returns the calls in a state, ordered by number.
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

// made returns the call with number n if the program has made it on its present runner, otherwise nil.
func (s *calls) made(n int) *hostCall {
	if c := s.all[n]; c != nil && c.made {
		return c
	}
	return nil
}

// make adds a call that the program makes, or returns the existing one if the program made it before on another runner.
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

// forget records that the program has begun again on another runner and has made no calls there.
func (s *calls) forget() {
	for _, c := range s.all {
		c.made = false
	}
}

// remove removes a call whose answer the program has got.
func (s *calls) remove(c *hostCall) {
	s.count[c.state]--
	delete(s.all, c.call.N)
}

// to changes the state of the call. A change that is not in the map callStates is a bug of the loop and fails the run.
func (c *hostCall) to(next callState) {
	if !slices.Contains(callStates[c.state], next) {
		c.loop.fail(fmt.Errorf("a call that is %s cannot be %s next", c.state, next))
	}
	c.loop.calls.count[c.state]--
	c.loop.calls.count[next]++
	c.state = next
}

// do lets the gate answer a call, in another goroutine.
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

// serve runs a job and then waits for further jobs, because reusing a goroutine whose stack has grown is cheaper than starting a new one.
// At most one goroutine of a run waits. It ends with the run, or with a nil job, which the run sends when it gives up its runner.
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

// Told is the part of an answer that a program gets in addition to the value.
type Told struct {
	// Exact reports that the answer has numbers that JavaScript numbers cannot represent. The program gets such integers as BigInt,
	// and other such numbers as strings.
	Exact bool
	// Beside is the part of the answer that is not the value, as JSON. If the value is an object or array, Beside is its property $content.
	Beside json.RawMessage
	Notes  []string // lines that the program prints when it gets the answer
	// Skill reports that the value is the code of a skill, which the guest executes. The program gets what that returns.
	Skill bool
	// Tokens has an entry for each type of token that the program gets from the answer's source for the first time. It maps the type to the
	// source and the place of the first token: "crm__list $.cards[*]". A program with tokens gets a notice when it uses a token in a way that
	// cannot work, such as taking a part of it.
	Tokens map[string]string
}

// Tell implements InFlight.
func (c *hostCall) Tell(told Told) { c.told = told }

// Kept implements InFlight.
func (c *hostCall) Kept(at time.Time) { c.kept = at }

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

// appendIntent records that a write is about to be sent. Calls in flight may use it concurrently.
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
