package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

const (
	maxEventValue = 8 << 10  // bytes of an argument or a console line in an event
	maxEventText  = 64 << 10 // bytes of a program or an output in an event
)

// turnEvent tells of a turn.
func (w *work) turnEvent(t *task.Turn) task.Event {
	type call struct {
		ID    string          `json:"id"`
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	}
	calls := []call{}
	for _, c := range callsOf(t) {
		calls = append(calls, call{c.ID, c.Name, bounded(c.Input, maxEventText)})
	}
	return w.event(task.EventTurn, fmt.Sprintf("turn/%d", w.state.asks), map[string]any{
		"turn": w.state.asks, "text": t.Text, "calls": calls, "usage": t.Usage, "costUsd": t.CostUSD,
	})
}

func (w *work) startedEvent(id, code string) task.Event {
	return w.event(task.EventRunStarted, id+"/started", map[string]any{"runId": id, "code": clip(code, maxEventText)})
}

func (w *work) endedEvent(out *run.Outcome) task.Event {
	data := map[string]any{"runId": out.RunID, "status": out.Status, "output": bounded(out.Output, maxEventText)}
	if out.Error != nil {
		data["error"] = task.Error{Kind: out.Error.Kind, Message: clip(out.Error.Message, maxEventValue)}
	}
	return w.event(task.EventRunEnded, out.RunID+"/ended", data)
}

func (w *work) event(kind, key string, data any) task.Event {
	return task.Event{Type: kind, Key: key, Time: w.a.opt.Now(), Data: encode(data)}
}

// stream passes a piece of a turn on to those who watch.
func (w *work) stream(d model.Delta) {
	data := map[string]any{}
	switch {
	case d.Reset:
		data["reset"], data["notice"] = true, d.Notice
	case d.Notice != "":
		data["notice"] = d.Notice
	case d.Call != "":
		data["call"], data["callId"], data["input"] = d.Call, d.CallID, d.Input
	default:
		data["text"] = d.Text
	}
	w.log.Stream(encode(data))
}

// encode is the JSON of an event's data. Only a value that a server or a model sent as JSON, and that is none, cannot be
// encoded.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		b.Reset()
		e.Encode(map[string]string{"problem": err.Error()})
	}
	return bytes.TrimSpace(b.Bytes())
}

// bounded is a JSON value, or the beginning of its text, as a text, if it is longer than most bytes.
func bounded(value json.RawMessage, most int) json.RawMessage {
	switch {
	case len(value) == 0:
		return json.RawMessage("null")
	case len(value) > most:
		return encode(clip(string(value), most))
	default:
		return value
	}
}

// clip is a text of at most some most bytes.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + fmt.Sprintf("… (%d bytes more)", len(s)-most)
}
