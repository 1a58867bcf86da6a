package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"mcp-code-exec-harness/internal/slots"
)

// slotWait is the longest wait of a request for a slot.
const slotWait = 10 * time.Second

// largeBody is the size in bytes from which on a body is large. Large bodies of one caller are decoded one after another, with a pause.
const largeBody = 128 << 10

// bodyRest is the pause after each MiB of a large body. A program of that size costs 20 to 45 ms of a processor until it executes, so
// those of one caller take less than a third of one.
const bodyRest = 150 * time.Millisecond

// bound bounds the requests of a kind that are served at the same time: of each caller, and of all.
type bound struct {
	*slots.Slots
	what       string
	each, most int
	wait       time.Duration // for a slot; 0 refuses at once
}

func newBound(what string, each, all int, wait time.Duration) *bound {
	return &bound{Slots: slots.New(slots.Limits{All: all, Each: each}, what, "answered"), what: what, each: each, most: all, wait: wait}
}

// enter takes one slot until leave is called. The error names the bound: 429 for the caller's own, 503 for that of all.
func (b *bound) enter(ctx context.Context, caller string) (leave func(), err error) {
	return b.enterN(ctx, caller, 1)
}

// enterN is enter for n slots at once.
func (b *bound) enterN(ctx context.Context, caller string, n int) (leave func(), err error) {
	if leave = b.TryAcquire(caller, n); leave == nil && b.wait > 0 {
		ctx, cancel := context.WithTimeout(ctx, b.wait)
		defer cancel()
		leave, _ = b.Acquire(ctx, caller, n) // the end of the wait has an error of its own below
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
