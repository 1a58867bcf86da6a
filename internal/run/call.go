package run

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
)

// pendingCall is a call that the gate answers. It implements InFlight: its goroutine uses the methods and fields asks and told, the
// run's goroutine the others.
type pendingCall struct {
	loop    *loop
	call    *journal.Call
	perform Pending
	release func()         // gives the memory of its arguments back
	asks    *approval.Call // the question to people; nil if there is none
	told    Told
}

// do has the gate answer a call.
func (l *loop) do(ctx context.Context, c *pendingCall) {
	l.inFlight++
	job := func() {
		value, err := c.perform(ctx, c)
		c.release()
		select {
		case l.results <- result{c.call.N, value, err, c.asks, c.told}:
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
}

// Tell implements InFlight.
func (c *pendingCall) Tell(told Told) { c.told = told }

// Ask implements InFlight.
func (c *pendingCall) Ask(asks approval.Call) *frame.Error {
	asks.N = c.call.N
	c.asks = &asks
	return &frame.Error{Kind: frame.KindDenied, Name: "DeniedError", Tool: asks.Tool, Message: "the run ended before the call was approved"}
}

// Intend implements InFlight.
func (c *pendingCall) Intend(ctx context.Context, i journal.Intent) error {
	if err := c.loop.appendIntent(i); err != nil {
		return err
	}
	return c.loop.journal.Commit(ctx)
}

// Charge implements InFlight.
func (c *pendingCall) Charge(used time.Duration) error {
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
