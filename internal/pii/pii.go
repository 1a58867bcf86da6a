// Package pii replaces personal data in every text on its way to a model, a log, an event or the disk. Hide puts a token in
// place of each value; Restore puts the values back into the arguments of tools. They are called by
//
//   - package task: for the texts of requests, before anything is stored
//   - package wiring: for programs and the modules and instructions of servers that they import, and for recordings of tasks
//   - package run: for all that a guest sends: arguments, console lines, outputs, errors
//   - package gate: for every answer to a guest, a journal and a file, and for the arguments of tools
//   - package agent: for prompts and results, which become steps on the disk and texts for the model
//   - package telemetry: for messages and attributes of the log and of traces (Redact)
//
// Journals, steps, events, webhooks and the model's conversation consist of these texts. Files that users put into their
// directories stay as they are; what a program reads of them passes Hide.
//
// No filter uses the detectors of package detect yet: None finds nothing.
package pii

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"mcp-code-exec-harness/internal/journal"
)

// Scope is the owner of tokens: a token has a meaning only in the session that it was made for.
type Scope struct {
	User, Session string // both empty: no owner; such tokens cannot be restored
}

// Filter finds personal data, and stores which token stands for which value. Its methods are safe for concurrent use.
type Filter interface {
	// Hide replaces values by tokens. Tokens in the text stay. New tokens are durable when it returns.
	Hide(ctx context.Context, s Scope, text string) (string, error)
	// Restore replaces the tokens of the scope by their values. Other tokens stay.
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

// Hide replaces values by tokens.
func (s Session) Hide(ctx context.Context, text string) (string, error) {
	return s.replace(ctx, Filter.Hide, "hide", text)
}

// Restore replaces tokens by values.
func (s Session) Restore(ctx context.Context, text string) (string, error) {
	return s.replace(ctx, Filter.Restore, "restore", text)
}

// HideJSON hides in every string of a JSON text, keys included. A text that is not JSON is hidden as a whole.
func (s Session) HideJSON(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) {
	return s.eachString(raw, func(text string) (string, error) { return s.Hide(ctx, text) })
}

// RestoreJSON restores in every string of a JSON text, keys included.
func (s Session) RestoreJSON(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) {
	return s.eachString(raw, func(text string) (string, error) { return s.Restore(ctx, text) })
}

func (s Session) replace(
	ctx context.Context, do func(Filter, context.Context, Scope, string) (string, error), verb, text string,
) (string, error) {
	if s.filter == nil || text == "" {
		return text, nil
	}
	changed, err := do(s.filter, ctx, s.scope, text)
	if err != nil {
		return "", fmt.Errorf("%s personal data: %w", verb, err)
	}
	return changed, nil
}

// Redact is Hide without an owner, for texts such as lines of the log: it is not reversible. A text for which the filter fails
// is left out. For None it is nil.
func Redact(f Filter) func(string) string {
	s := In(f, "", "")
	if s.filter == nil {
		return nil
	}
	return func(text string) string {
		hidden, err := s.Hide(context.Background(), text)
		if err != nil {
			return "[not shown: " + err.Error() + "]"
		}
		return hidden
	}
}

// eachString changes the strings of a JSON text. All other bytes stay: the order of keys, and how numbers are written.
func (s Session) eachString(raw json.RawMessage, change func(string) (string, error)) (json.RawMessage, error) {
	if s.filter == nil || len(raw) == 0 {
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
		encoded, err := journal.Encode(changed)
		if err != nil {
			return nil, fmt.Errorf("write a string: %w", err)
		}
		out = append(append(out, raw[done:from]...), encoded...)
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
