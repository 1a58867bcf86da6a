package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"mcp-code-exec-harness/internal/journal"
)

// Hider replaces sensitive values in texts that a model wrote.
type Hider interface {
	// Answer changes the pieces of the answer's text. A sensitive value may begin in one piece and end in another.
	Answer(pieces []string) ([]string, error)
	// Text changes a text that is not part of the answer, such as reasoning.
	Text(text string) (string, error)
	// Input changes the input of a call.
	Input(c ToolCall) (json.RawMessage, error)
}

// opaque are the fields of Raw that Hide does not change, because only the provider can read them or because the provider must get them back
// unchanged. The model wrote all other texts.
var opaque = map[Format]map[string]bool{
	FormatMessages:  {"type": true, "id": true, "name": true, "signature": true, "data": true, "tool_use_id": true, "encrypted_content": true, "encrypted_index": true},
	FormatResponses: {"type": true, "id": true, "name": true, "call_id": true, "status": true, "role": true, "encrypted_content": true},
	FormatChat:      {"type": true, "id": true, "name": true, "role": true, "signature": true, "thought_signature": true, "data": true},
}

// Hide replaces sensitive values in the turn: in its text, its calls, and the same texts in Raw. If a signed text in Raw would
// change, it becomes empty and keeps its signature: the provider reads the reasoning from the signature, and refuses a changed
// text.
func (t *Turn) Hide(h Hider) error {
	fenced := slices.ContainsFunc(t.Calls, isFenced)
	t.Calls = slices.Clone(t.Calls)
	for i := range t.Calls {
		c := &t.Calls[i]
		var err error
		if c.Input, err = h.Input(*c); err != nil {
			return err
		}
		if c.Malformed, err = h.Text(c.Malformed); err != nil {
			return err
		}
	}
	text, err := h.Answer([]string{t.Text})
	if err != nil {
		return err
	}
	t.Text = text[0]
	if len(t.Raw) == 0 {
		return nil
	}
	var whole any
	if err := decode(t.Raw, &whole); err != nil {
		return fmt.Errorf("read the provider's form of a turn: %w", err)
	}
	r := rawTexts{format: t.Format, calls: t.Calls, hider: h}
	if fenced {
		r.calls = nil // the calls are in the text
	}
	if err := r.change(whole); err != nil {
		return err
	}
	switch {
	case !r.changed:
	case fenced:
		t.Raw = nil // Raw has the program only within its text, so the turn is sent from Calls
	default:
		t.Raw, err = journal.Encode(whole)
	}
	return err
}

// rawTexts changes the texts in the Raw of one turn.
type rawTexts struct {
	format  Format
	calls   []ToolCall // changed calls that walk has not reached yet
	hider   Hider
	answer  []place // texts of the answer, in order
	changed bool
}

// place is a string field of an object.
type place struct {
	in  object
	key string
}

func (r *rawTexts) change(whole any) error {
	if err := r.walk(whole); err != nil {
		return err
	}
	pieces := make([]string, len(r.answer))
	for i, p := range r.answer {
		pieces[i] = str(p.in[p.key])
	}
	hidden, err := r.hider.Answer(pieces)
	if err != nil {
		return err
	}
	for i, p := range r.answer {
		r.set(p, hidden[i])
	}
	return nil
}

func (r *rawTexts) set(p place, text string) {
	if p.in[p.key] != text {
		p.in[p.key], r.changed = text, true
	}
}

// walk changes all texts except those of the answer, which it collects.
func (r *rawTexts) walk(value any) error {
	switch v := value.(type) {
	case []any:
		for i, element := range v {
			text, ok := element.(string)
			if !ok {
				if err := r.walk(element); err != nil {
					return err
				}
				continue
			}
			hidden, err := r.hider.Text(text)
			if err != nil {
				return err
			}
			if hidden != text {
				v[i], r.changed = hidden, true
			}
		}
	case object:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if err := r.field(v, key); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *rawTexts) field(in object, key string) error {
	text, isText := in[key].(string)
	switch {
	case isText && opaque[r.format][key]:
		return nil
	case r.isInput(in, key):
		return r.input(in, key)
	case !isText:
		return r.walk(in[key])
	case r.isAnswer(in, key):
		r.answer = append(r.answer, place{in, key})
		return nil
	}
	hidden, err := r.hider.Text(text)
	if err != nil {
		return err
	}
	if hidden != text && str(in["signature"]) != "" {
		hidden = ""
	}
	r.set(place{in, key}, hidden)
	return nil
}

// isInput reports whether a field holds the input of the next call.
func (r *rawTexts) isInput(in object, key string) bool {
	if len(r.calls) == 0 {
		return false
	}
	switch r.format {
	case FormatMessages:
		return key == "input" && in["type"] == "tool_use"
	case FormatResponses:
		return key == "arguments" && in["type"] == "function_call"
	default:
		return key == "arguments"
	}
}

// input replaces the field by the input of the next call.
func (r *rawTexts) input(in object, key string) error {
	call := r.calls[0]
	r.calls = r.calls[1:]
	if text, ok := in[key].(string); ok {
		switch was := newCall("", "", text); {
		case was.Malformed != "" && call.Malformed != "":
			r.set(place{in, key}, call.Malformed)
		case !bytes.Equal(journal.Canonical(was.Input), journal.Canonical(call.Input)):
			r.set(place{in, key}, string(call.Input))
		}
		return nil
	}
	was, err := journal.Encode(in[key])
	if err == nil && !bytes.Equal(journal.Canonical(was), journal.Canonical(call.Input)) {
		in[key], r.changed = call.Input, true
	}
	return err
}

// isAnswer reports whether a field holds a text of the answer.
func (r *rawTexts) isAnswer(in object, key string) bool {
	switch r.format {
	case FormatMessages:
		return key == "text" && in["type"] == "text"
	case FormatResponses:
		return key == "text" && in["type"] == "output_text" || key == "refusal"
	default:
		return key == "content" || key == "refusal"
	}
}
