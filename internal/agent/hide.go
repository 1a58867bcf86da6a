package agent

import (
	"context"
	"encoding/json"
	"strings"

	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/task"
)

// hide puts tokens in place of personal data that a model wrote itself, before the turn is stored, recorded and sent back. Literals of programs
// get the same tokens as when the programs are executed. If hiding fails, hide empties the turn.
func (w *work) hide(ctx context.Context, t *task.Turn) error {
	h := &hider{w: w, ctx: ctx, before: w.state.answering()}
	text := t.Text
	err := t.Hide(h)
	if err != nil {
		t.Text, t.Calls, t.Raw = "", nil, nil
		return err
	}
	if h.before == "" || t.Whole != "" { // a recorded turn already has Whole
		return nil
	}
	whole, err := w.privacy.HidePieces(ctx, pii.FromProgram, []string{h.before, text})
	if joined := strings.Join(whole, ""); err == nil && joined != h.before+t.Text {
		t.Whole = joined
	}
	return err
}

// hider hides the personal data in one turn.
type hider struct {
	w      *work
	ctx    context.Context
	before string // the answer so far, which the turn continues
}

func (h *hider) Answer(pieces []string) ([]string, error) {
	hidden, err := h.w.privacy.HidePieces(h.ctx, pii.FromProgram, append([]string{h.before}, pieces...))
	if err != nil {
		return nil, err
	}
	return hidden[1:], nil
}

func (h *hider) Text(text string) (string, error) {
	return h.w.privacy.Hide(h.ctx, pii.FromProgram, text)
}

func (h *hider) Input(c model.ToolCall) (json.RawMessage, error) { return h.w.hideInput(h.ctx, c) }

// hideJSON replaces personal data in a JSON text by tokens. A text without personal data stays unchanged, byte for byte.
func (w *work) hideJSON(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) {
	hidden, err := w.privacy.Hide(ctx, pii.FromProgram, string(raw))
	if err != nil || hidden == string(raw) {
		return raw, err
	}
	return w.privacy.HideJSON(ctx, pii.FromProgram, raw)
}

// hideInput replaces personal data in the input of a call by tokens.
func (w *work) hideInput(ctx context.Context, c model.ToolCall) (json.RawMessage, error) {
	var all map[string]json.RawMessage
	code := inputOf(c).Code
	if c.Name != executeCode || code == "" || json.Unmarshal(c.Input, &all) != nil {
		return w.hideJSON(ctx, c.Input)
	}
	changed := false
	for name, value := range all {
		hidden := value
		var err error
		if strings.EqualFold(name, "code") && json.Unmarshal(value, &code) == nil {
			var program string
			if program, err = w.privacy.HideProgram(ctx, code); program != code {
				hidden = encode(program)
			}
		} else {
			hidden, err = w.hideJSON(ctx, value)
		}
		if err != nil {
			return nil, err
		}
		changed = changed || string(hidden) != string(value)
		all[name] = hidden
	}
	if !changed {
		return c.Input, nil
	}
	return encode(all), nil
}
