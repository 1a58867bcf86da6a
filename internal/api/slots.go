package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"mcp-code-exec-harness/internal/slots"
)

// slotWait is the maximum time that a request waits for a slot.
const slotWait = 10 * time.Second

// decodeWait is the maximum time that a body waits to be decoded. It is longer than slotWait, because a client may have hundreds of calls in
// flight, and few bodies are decoded at the same time. Each body takes milliseconds, the number of waiting bodies is limited, and callers take turns.
const decodeWait = time.Minute

// largeBody is the minimum size in bytes of a large body. Large bodies of one caller are decoded one after another, with a pause between them.
const largeBody = 128 << 10

// bodyRest is the pause after each MiB of a large body. A program of 1 MiB takes 20 to 45 ms of processor time until it executes, so the programs of
// one caller use less than a third of a processor.
const bodyRest = 150 * time.Millisecond

// bound limits the requests of one kind that are served at the same time, for each caller and for all callers.
type bound struct {
	*slots.Slots
	what       string
	each, most int
	wait       time.Duration // maximum wait for a slot; if it is 0, requests do not wait
}

func newBound(what string, each, all int, wait time.Duration) *bound {
	return &bound{Slots: slots.New(slots.Limits{All: all, Each: each}, what, "answered"), what: what, each: each, most: all, wait: wait}
}

// enter takes one slot until leave is called. The error names the limit that is reached: status 429 for the caller's limit, 503 for the limit of all
// callers.
func (b *bound) enter(ctx context.Context, caller string) (leave func(), err error) {
	return b.enterN(ctx, caller, 1)
}

// enterN takes n slots at once, as enter takes one.
func (b *bound) enterN(ctx context.Context, caller string, n int) (leave func(), err error) {
	if leave = b.TryAcquire(caller, n); leave == nil && b.wait > 0 {
		ctx, cancel := context.WithTimeout(ctx, b.wait)
		defer cancel()
		leave, _ = b.Acquire(ctx, caller, n) // the error is dropped, because the problems below replace it
	}
	switch {
	case leave != nil:
		return leave, nil
	case b.Held(caller) > 0 && b.Held(caller)+n > b.each:
		return nil, problem(http.StatusTooManyRequests, fmt.Sprintf("more than %d %s at the same time: wait until one has ended", b.each, b.what))
	default:
		return nil, problem(http.StatusServiceUnavailable, fmt.Sprintf("the server is busy with %d %s: try again later", b.most, b.what))
	}
}
