// Package pii keeps personal data from models, logs, events and disks. Every text on its way there passes Hide, which puts
// a token in place of each value; every argument of a tool passes Restore, which puts the values back. Who passes them:
//
//   - package task: the texts of requests, before anything is stored
//   - package harness: programs and the modules and instructions of servers that they import; recordings of tasks
//   - package run: whatever a guest sends: arguments, console lines, outputs, errors
//   - package gate: every answer on its way to a guest, a journal and a file; the arguments of tools on theirs to a server
//   - package agent: prompts and results, which are steps on the disk and then texts for the model
//   - package telemetry: messages and attributes of the log and of traces (Redact)
//
// Everything else is made of these: journals, steps, events, webhooks and the model's conversation hold hidden text only.
// Files that users put into their directories themselves stay as they are; what a program reads of them is hidden.
//
// There is no detector yet: None finds nothing, and texts stay as they are.
package pii

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
)

// Scope is whose tokens they are: a token means something inside the session that it was made for, and nowhere else.
type Scope struct {
	User, Session string // both empty: nobody's, of which nothing is restored
}

// Filter finds personal data, and knows which token stands for what. Its methods are safe for concurrent use.
type Filter interface {
	// Hide puts tokens in place of values. What was hidden before stays as it is. New tokens are durable when it returns.
	Hide(ctx context.Context, s Scope, text string) (string, error)
	// Restore puts values in place of the tokens that the scope was given; others stay as they are.
	Restore(ctx context.Context, s Scope, text string) (string, error)
}

// None is the filter that finds nothing.
type None struct{}

var _ Filter = None{}

// Hide implements Filter.
func (None) Hide(_ context.Context, _ Scope, text string) (string, error) { return text, nil }

// Restore implements Filter.
func (None) Restore(_ context.Context, _ Scope, text string) (string, error) { return text, nil }

// Session is a filter in one scope. The zero Session changes nothing.
type Session struct {
	filter Filter
	scope  Scope
}

// In is a filter in a scope; nil is None.
func In(f Filter, user, session string) Session {
	if f == (None{}) {
		f = nil // JSON need not be read to find nothing in it
	}
	return Session{f, Scope{user, session}}
}

// Hide puts tokens in place of values.
func (s Session) Hide(ctx context.Context, text string) (string, error) {
	if s.filter == nil || text == "" {
		return text, nil
	}
	hidden, err := s.filter.Hide(ctx, s.scope, text)
	if err != nil {
		return "", fmt.Errorf("hide personal data: %w", err)
	}
	return hidden, nil
}

// Redact is Hide for texts of nobody's, such as lines of the log: values in them cannot be restored. A text that cannot be
// hidden is not shown. Of None it is nil.
func Redact(f Filter) func(string) string {
	nobody := In(f, "", "")
	if nobody.filter == nil {
		return nil
	}
	return func(text string) string {
		hidden, err := nobody.Hide(context.Background(), text)
		if err != nil {
			return "[not shown: " + err.Error() + "]"
		}
		return hidden
	}
}

// HideJSON hides in every string of a JSON text, keys included. What is no JSON is hidden as text.
func (s Session) HideJSON(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) {
	if s.filter == nil {
		return raw, nil
	}
	return eachString(raw, func(text string) (string, error) { return s.Hide(ctx, text) })
}

// Restore puts values in place of tokens.
func (s Session) Restore(ctx context.Context, text string) (string, error) {
	if s.filter == nil || text == "" {
		return text, nil
	}
	values, err := s.filter.Restore(ctx, s.scope, text)
	if err != nil {
		return "", fmt.Errorf("restore personal data: %w", err)
	}
	return values, nil
}

// RestoreJSON restores in every string of a JSON text, keys included.
func (s Session) RestoreJSON(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) {
	if s.filter == nil {
		return raw, nil
	}
	return eachString(raw, func(text string) (string, error) { return s.Restore(ctx, text) })
}

// eachString changes the strings of a JSON text. All other bytes stay: the order of keys, and how numbers are written.
func eachString(raw json.RawMessage, change func(string) (string, error)) (json.RawMessage, error) {
	if len(raw) == 0 {
		return raw, nil
	}
	if !json.Valid(raw) {
		text, err := change(string(raw))
		return json.RawMessage(text), err
	}
	var out []byte // nil while nothing has changed
	done := 0      // what of raw is in out
	for at := 0; ; {
		from := bytes.IndexByte(raw[at:], '"')
		if from < 0 {
			break
		}
		from += at
		at = endOfString(raw, from)
		var text string
		if err := json.Unmarshal(raw[from:at], &text); err != nil {
			return nil, fmt.Errorf("read a string: %w", err)
		}
		changed, err := change(text)
		if err != nil {
			return nil, err
		}
		if changed == text {
			continue
		}
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(changed); err != nil {
			return nil, fmt.Errorf("write a string: %w", err)
		}
		out = append(append(out, raw[done:from]...), bytes.TrimSpace(b.Bytes())...)
		done = at
	}
	if out == nil {
		return raw, nil
	}
	return append(out, raw[done:]...), nil
}

// endOfString is where the JSON string ends that begins at from, of a valid text.
func endOfString(raw []byte, from int) int {
	for i := from + 1; ; i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}
