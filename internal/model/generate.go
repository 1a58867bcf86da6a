package model

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// wire speaks one wire format. Its methods may be called from several goroutines.
type wire interface {
	// attempt asks once. Errors are an *Error, or wrap the context's.
	attempt(ctx context.Context, req *Request, how how, out *output) (*Turn, error)
	// adapt changes how this request, or every later one, is made after an error that says how. True means that another
	// attempt is worth it.
	adapt(*Error, *how) bool
}

// how is the way in which one request is made.
type how struct {
	// plain: earlier turns are told as text and calls, without what only the provider can read. It is for providers that
	// refuse their own signatures, as Anthropic's newer models do once anything before them in a conversation has changed.
	plain bool
}

// raw is a turn as its provider wrote it, if it is to be sent back in that form; nil otherwise.
func (h how) raw(cfg Config, format Format, t *Turn) []byte {
	if h.plain || t.Format != format || t.Provider != cfg.Provider || t.Model != cfg.Name || slices.ContainsFunc(t.Calls, isFenced) {
		return nil
	}
	return t.Raw
}

// client asks through a wire, again where that helps.
type client struct {
	cfg  Config
	wire wire
}

func (c *client) Info() Info {
	return Info{Provider: c.cfg.Provider, Name: c.cfg.Name, ContextWindow: c.cfg.ContextWindow, NativeTools: true}
}

// output passes deltas on, and knows what the attempt under way has received.
type output struct {
	onDelta func(Delta)
	dirty   bool // deltas were passed on

	begun   bool // the provider has begun to answer
	usage   Usage
	written strings.Builder // texts, names and arguments
}

// restart forgets the attempt, but not that its deltas were passed on.
func (o *output) restart() {
	o.begun, o.usage = false, Usage{}
	o.written.Reset()
}

func (o *output) send(d Delta) {
	if o.onDelta != nil {
		o.dirty = true
		o.onDelta(d)
	}
}

func (o *output) text(text string) {
	if text != "" {
		o.begun = true
		o.written.WriteString(text)
		o.send(Delta{Text: text})
	}
}

func (o *output) call(name, id, input string) {
	o.begun = true
	o.written.WriteString(input)
	o.send(Delta{Call: name, CallID: id, Input: input})
}

// again says that the turn begins again.
func (o *output) again(notice string) {
	if o.onDelta != nil {
		o.onDelta(Delta{Notice: notice, Reset: o.dirty})
		o.dirty = false
	}
}

func (c *client) Generate(ctx context.Context, req *Request) (*Turn, error) {
	out := &output{onDelta: req.OnDelta}
	way := how{plain: slices.ContainsFunc(req.Messages, func(m Message) bool { return m.Turn != nil && m.Turn.Plain })}
	adapted := 0
	for retry := 0; ; {
		start := time.Now()
		turn, err := c.wire.attempt(ctx, req, way, out)
		if err == nil {
			turn.Provider, turn.Model, turn.Plain, turn.Duration = c.cfg.Provider, c.cfg.Name, way.plain, time.Since(start)
			turn.Usage = completed(turn.Usage, req, out.written.String())
			return turn, nil
		}
		if out.begun && req.OnLost != nil {
			req.OnLost(completed(out.usage, req, out.written.String()))
		}
		out.restart()
		if ctx.Err() != nil {
			return nil, fmt.Errorf("ask model %s: %w", c.cfg.Name, context.Cause(ctx))
		}
		var failed *Error
		if !errors.As(err, &failed) {
			return nil, fmt.Errorf("ask model %s: %w", c.cfg.Name, err)
		}
		if adapted < maxAdaptations && c.wire.adapt(failed, &way) {
			adapted++
			continue
		}
		if !failed.Kind.Passing() || retry >= c.cfg.MaxRetries {
			return nil, failed
		}
		wait := backoff(retry)
		if failed.RetryAfter > 0 {
			wait = failed.RetryAfter
		}
		if deadline, ok := ctx.Deadline(); wait > maxWait || ok && time.Until(deadline) < wait {
			return nil, failed
		}
		out.again(fmt.Sprintf("%s: %s; next attempt in %s", failed.Kind.words(), failed.Message, wait.Round(time.Millisecond)))
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("ask model %s: %w", c.cfg.Name, context.Cause(ctx))
		}
		retry++
	}
}

const (
	// maxAdaptations bounds how often one request is made in another way.
	maxAdaptations = 3
	// maxWait is the longest pause that a server can ask for before the request is given up: what takes longer, a daily
	// limit for example, the caller should know.
	maxWait = 2 * time.Minute
)

// backoff is the pause before retry n, counted from 0: 0.5 s, 1 s, 2 s, 4 s and so on to 16 s at most, each shortened by up
// to half at random so that clients do not come back together.
func backoff(n int) time.Duration {
	most := min(500*time.Millisecond<<min(n, 10), 16*time.Second)
	return most - rand.N(most/2)
}
