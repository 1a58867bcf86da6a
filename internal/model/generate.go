package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/journal"
)

// wire implements one wire format. Its methods may be called concurrently.
type wire interface {
	format() Format
	// body returns the body of a request, without the fields that all formats share. most limits the output tokens; 0 means no limit.
	body(req *Request, most int, parts []part) (object, error)
	// answer returns a reader of one answer, which sends deltas and token counts to out.
	answer(out *output) answer
	// adapt changes the form of later requests, or sets plain, if an error says what the server does not accept. It reports whether another attempt
	// is worthwhile.
	adapt(e *Error, plain *bool) bool
}

// answer assembles a turn from the events of a stream.
type answer interface {
	// take processes an event, given both decoded and raw. The error is a failure that the provider reports, or describes a fault of the stream.
	take(event object, data []byte) (done bool, err error)
	// turn returns the complete turn without the fields that all formats share, or nil if the stream ended early.
	turn() (*Turn, error)
}

// client sends requests to a provider through a wire, and retries them if that may help.
type client struct {
	cfg    Config
	wire   wire
	url    string
	header http.Header
	http   *http.Client
}

func (c *client) Info() Info {
	return Info{Provider: c.cfg.Provider, Name: c.cfg.Name, ContextWindow: c.cfg.ContextWindow, NativeTools: true}
}

// attempt sends one request. With plain, earlier turns are sent as text and calls, without the parts that only the
// provider can read: some models refuse their own signatures once anything earlier in the conversation has changed.
func (c *client) attempt(ctx context.Context, req *Request, plain bool, out *output) (*Turn, error) {
	body, err := c.wire.body(req, c.cfg.MaxTokens, c.conversation(req.Messages, plain))
	if err != nil {
		return nil, err
	}
	body["model"], body["stream"] = c.cfg.Name, true
	raw, err := journal.Encode(body)
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	start := time.Now()
	answer := c.wire.answer(out)
	if err := c.post(ctx, raw, answer.take); err != nil {
		return nil, err
	}
	turn, err := answer.turn()
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the model's output: %w", err)
	case turn == nil:
		return nil, c.cfg.newError(KindCut, "the stream ended before the turn did")
	}
	turn.Provider, turn.Model, turn.Format, turn.Plain = c.cfg.Provider, c.cfg.Name, c.wire.format(), plain
	turn.Usage = completed(out.usage, req, out.written.String())
	turn.Duration = time.Since(start)
	turn.stopForCalls()
	return turn, nil
}

// output sends deltas, and records what the current attempt has received.
type output struct {
	onDelta func(Delta)
	dirty   bool // reports whether deltas of this turn were sent

	begun   bool // reports whether the provider has begun to answer
	usage   Usage
	written strings.Builder // texts and arguments received
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

// again announces that the turn starts over.
func (o *output) again(notice string) {
	if o.onDelta != nil {
		o.onDelta(Delta{Notice: notice, Reset: o.dirty})
		o.dirty = false
	}
}

func (c *client) Generate(ctx context.Context, req *Request) (*Turn, error) {
	out := &output{onDelta: req.OnDelta}
	plain := slices.ContainsFunc(req.Messages, func(m Message) bool { return m.Turn != nil && m.Turn.Plain })
	adapted := 0
	for retry := 0; ; {
		turn, err := c.attempt(ctx, req, plain, out)
		if err == nil {
			return turn, nil
		}
		if out.begun && req.OnLost != nil {
			req.OnLost(completed(out.usage, req, out.written.String()))
		}
		out.begun, out.usage = false, Usage{}
		out.written.Reset()
		if ctx.Err() != nil {
			return nil, fmt.Errorf("ask model %s: %w", c.cfg.Name, context.Cause(ctx))
		}
		failed, ok := errors.AsType[*Error](err)
		if !ok {
			return nil, fmt.Errorf("ask model %s: %w", c.cfg.Name, err)
		}
		if adapted < maxAdaptations && c.wire.adapt(failed, &plain) {
			adapted++
			continue
		}
		if !failed.Kind.Passing() || retry >= c.cfg.MaxRetries {
			return nil, failed
		}
		wait := cmp.Or(max(failed.RetryAfter, 0), backoff(retry))
		if tooLong(ctx, wait) {
			return nil, failed
		}
		out.again(fmt.Sprintf("%s: %s; next attempt in %s", failed.Kind.words(), failed.Message, wait.Round(time.Millisecond)))
		if err := c.pause(ctx, wait); err != nil {
			return nil, err
		}
		retry++
	}
}

// tooLong reports whether a pause is longer than maxWait or lasts beyond ctx's deadline. The caller then gets the error instead of another
// attempt.
func tooLong(ctx context.Context, wait time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return wait > maxWait || ok && time.Until(deadline) < wait
}

// pause waits before another attempt.
func (c *client) pause(ctx context.Context, wait time.Duration) error {
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("ask model %s: %w", c.cfg.Name, context.Cause(ctx))
	}
}

const (
	maxAdaptations = 3 // maximum number of adaptations of one request
	// maxWait is the maximum pause before a retry. If a server asks for a longer pause, the caller gets its error.
	maxWait = 2 * time.Minute
)

// backoff returns the pause before retry n, counted from 0: 0.5 s, 1 s, 2 s, 4 s and so on, at most 16 s. It shortens each
// pause randomly by up to half, so that clients do not retry at the same time.
func backoff(n int) time.Duration {
	most := min(500*time.Millisecond<<min(n, 10), 16*time.Second)
	return most - rand.N(most/2)
}

// set sets a flag, and reports whether it was not set before.
func set(flag *bool) bool {
	was := *flag
	*flag = true
	return !was
}
