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

// wire speaks one wire format. Its methods may be called from several goroutines.
type wire interface {
	format() Format
	// body is a request without the fields that all formats have. most limits the tokens of the output; 0 does not.
	body(req *Request, most int, parts []part) (object, error)
	// answer reads one answer, whose deltas and token counts go to out.
	answer(out *output) answer
	// adapt changes how later requests are made, or sets plain, after an error that says how. True means that another
	// attempt is worth it.
	adapt(e *Error, plain *bool) bool
}

// answer assembles a turn from the events of a stream.
type answer interface {
	// take takes an event, decoded and as it came. Errors are a failure, or say what is wrong with the stream.
	take(event object, data []byte) (done bool, err error)
	// turn is the complete turn, without what all formats have alike; nil if the stream ended before it.
	turn() (*Turn, error)
}

// client asks a provider through a wire, again where that helps.
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

// attempt asks once. With plain, earlier turns are sent as text and calls, without what only the provider can read: some
// models refuse their own signatures once anything before them in a conversation has changed.
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
	dirty   bool // deltas of this turn were sent

	begun   bool // the provider has begun to answer
	usage   Usage
	written strings.Builder // texts and arguments
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

// again announces that the turn begins again.
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

// tooLong reports whether a caller gets an error rather than another attempt after such a pause.
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
	maxAdaptations = 3 // most adaptations of one request
	// maxWait is the longest pause before a retry. The caller gets the error of a server that asks for a longer one.
	maxWait = 2 * time.Minute
)

// backoff is the pause before retry n, counted from 0: 0.5 s, 1 s, 2 s, 4 s and so on to 16 s at most, each shortened by up
// to half at random so that clients do not come back together.
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
