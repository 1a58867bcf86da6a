package agent

import (
	"context"
	"encoding/json"
	"strings"

	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/pii"
)

// hide puts tokens in the place of the personal data that a model wrote itself, before its turn is stored: literals of its programs get those
// that they would get when they are executed. The provider's own JSON stays: it has signatures, and refuses a turn that is another.
func (w *work) hide(ctx context.Context, t *model.Turn) (err error) {
	for i := range t.Calls {
		if t.Calls[i].Input, err = w.hideInput(ctx, t.Calls[i]); err != nil {
			return err
		}
	}
	t.Text, err = w.privacy.Hide(ctx, pii.FromProgram, t.Text)
	return err
}

// hideJSON is a JSON text with tokens; one without values stays as it is, to the byte.
func (w *work) hideJSON(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) {
	hidden, err := w.privacy.Hide(ctx, pii.FromProgram, string(raw))
	if err != nil || hidden == string(raw) {
		return raw, err
	}
	return w.privacy.HideJSON(ctx, pii.FromProgram, raw)
}

// hideInput is the input of a call with tokens.
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
