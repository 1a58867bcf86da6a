package model

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"mcp-code-exec-harness/internal/journal"
)

// Recording holds the turns of a model, for replays without the model. It is stored as JSON.
type Recording struct {
	Model Info           `json:"model"`
	Turns []RecordedTurn `json:"turns"`
}

// RecordedTurn is a turn and the digest of its request.
type RecordedTurn struct {
	Request Digest `json:"request"`
	Turn    *Turn  `json:"turn"`
}

// Digest identifies a request by its system prompt, the names of its tools, and the texts, calls and results of its
// messages. A provider's own JSON, ids, usage and durations do not count.
type Digest struct {
	System   string `json:"system"`
	Tools    string `json:"tools"`
	Messages int    `json:"messages"` // number of messages
	History  string `json:"history"`  // hash of all messages
}

// DigestOf returns the digest of a request.
func DigestOf(req *Request) Digest {
	tools := make([]string, len(req.Tools))
	for i, t := range req.Tools {
		tools[i] = t.Name
	}
	type call struct {
		Name, Malformed string
		Input           json.RawMessage
	}
	type result struct {
		Name, Text string
		IsError    bool
	}
	type message struct {
		Role    Role
		Text    string
		Calls   []call
		Results []result
	}
	history := make([]message, len(req.Messages))
	for i, m := range req.Messages {
		h := message{Role: m.Role, Text: m.Text}
		if m.Turn != nil {
			h.Text = m.Turn.Text
			for _, c := range m.Turn.Calls {
				h.Calls = append(h.Calls, call{c.Name, c.Malformed, journal.Canonical(c.Input)})
			}
		}
		for _, r := range m.Results {
			h.Results = append(h.Results, result{r.Name, r.Text, r.IsError})
		}
		history[i] = h
	}
	return Digest{System: digest(req.System), Tools: digest(tools), Messages: len(history), History: digest(history)}
}

// digest returns the first 64 bits of the SHA-256 of a value's JSON. Digests need not resist an adversary, so that suffices.
func digest(v any) string {
	raw, err := json.Marshal(v)
	if err != nil { // the input of a call is invalid JSON, which no model of this package returns
		raw = []byte(err.Error())
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}

// DivergedError reports a request that differs from the recorded one.
type DivergedError struct {
	Turn int    // counted from 1
	What string // description of the difference
}

func (e *DivergedError) Error() string {
	return fmt.Sprintf("model turn %d diverged from the recording: %s", e.Turn, e.What)
}

// Recorded is a Model that answers from a recording, turn after turn. Its methods may be called concurrently.
type Recorded struct {
	rec  Recording
	mu   sync.Mutex
	next int
}

var (
	_ Model = (*Recorded)(nil)
	_ Model = (*Recorder)(nil)
)

// NewRecorded returns a model that replays a recording. The caller must not change rec afterwards.
func NewRecorded(rec Recording) *Recorded { return &Recorded{rec: rec} }

// Info describes the model that was recorded.
func (r *Recorded) Info() Info { return r.rec.Model }

// Left returns the number of turns that were not requested yet.
func (r *Recorded) Left() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.rec.Turns) - r.next
}

// Generate returns the next recorded turn, or a *DivergedError if it was recorded for a different request.
func (r *Recorded) Generate(ctx context.Context, req *Request) (*Turn, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("replay a model turn: %w", context.Cause(ctx))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	number := r.next + 1
	if number > len(r.rec.Turns) {
		return nil, &DivergedError{number, fmt.Sprintf("only %d turns are recorded", len(r.rec.Turns))}
	}
	recorded, got := r.rec.Turns[r.next], DigestOf(req)
	switch want := recorded.Request; {
	case got.System != want.System:
		return nil, &DivergedError{number, "the system prompt differs"}
	case got.Tools != want.Tools:
		return nil, &DivergedError{number, "the tools differ"}
	case got.Messages != want.Messages:
		return nil, &DivergedError{number, fmt.Sprintf("the conversation has %d messages instead of %d", got.Messages, want.Messages)}
	case got.History != want.History:
		return nil, &DivergedError{number, "the messages differ"}
	}
	r.next++
	turn := *recorded.Turn
	if req.OnDelta != nil {
		if turn.Text != "" {
			req.OnDelta(Delta{Text: turn.Text})
		}
		for _, c := range turn.Calls {
			req.OnDelta(Delta{Call: c.Name, CallID: c.ID, Input: string(c.Input)})
		}
	}
	return &turn, nil
}

// Recorder is a Model that records the turns of another Model. Its methods may be called concurrently.
type Recorder struct {
	inner Model
	mu    sync.Mutex
	turns []RecordedTurn
}

// NewRecorder returns a model that records the turns of inner.
func NewRecorder(inner Model) *Recorder { return &Recorder{inner: inner} }

// Info describes the model that is recorded.
func (r *Recorder) Info() Info { return r.inner.Info() }

// Generate asks the recorded model. It records turns, not errors. Callers may change a returned turn before the next request, to
// hide personal data; the recording contains the changed turn.
func (r *Recorder) Generate(ctx context.Context, req *Request) (*Turn, error) {
	d := DigestOf(req)
	turn, err := r.inner.Generate(ctx, req)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turns = append(r.turns, RecordedTurn{Request: d, Turn: turn})
	return turn, nil
}

// Recording returns the turns recorded so far, without durations, so that recordings of equal turns are equal. No call of
// Generate may be in progress.
func (r *Recorder) Recording() Recording {
	r.mu.Lock()
	defer r.mu.Unlock()
	turns := slices.Clone(r.turns)
	for i := range turns {
		recorded := *turns[i].Turn
		recorded.Duration = 0
		turns[i].Turn = &recorded
	}
	return Recording{Model: r.inner.Info(), Turns: turns}
}
