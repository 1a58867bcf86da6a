package agent

import (
	"encoding/json"
	"fmt"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

const (
	maxEventValue = 8 << 10  // maximum size in bytes of an argument or a console line in an event
	maxEventText  = 64 << 10 // maximum size in bytes of a program or an output in an event
)

func (w *work) turnEvent(t *task.Turn) task.Event {
	calls := []any{}
	for _, c := range callsOf(t) {
		calls = append(calls, map[string]any{"id": c.ID, "name": c.Name, "input": bounded(c.Input, maxEventText)})
	}
	return w.event(task.EventTurn, fmt.Sprintf("turn/%d", w.state.asks), map[string]any{
		"turn": w.state.asks, "text": t.Text, "calls": calls, "usage": t.Usage, "costUsd": t.CostUSD,
	})
}

func (w *work) endedEvent(out *run.Outcome) task.Event {
	data := map[string]any{"runId": out.RunID, "status": out.Status, "output": bounded(out.Output, maxEventText)}
	if out.Error != nil {
		data["error"] = task.Error{Kind: out.Error.Kind, Message: clip.Counted(out.Error.Message, maxEventValue)}
	}
	return w.event(task.EventRunEnded, out.RunID+"/ended", data)
}

func (w *work) event(kind, key string, data any) task.Event {
	return task.Event{Type: kind, Key: key, Time: w.a.opt.Now(), Data: encode(data)}
}

// stream sends a part of a turn to the task's watchers.
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

// encode returns the JSON of an event's data. Encoding fails only for invalid JSON from a server or a model; the result then describes the error.
func encode(v any) json.RawMessage {
	raw, err := journal.Encode(v)
	if err != nil {
		raw, _ = journal.Encode(map[string]string{"problem": err.Error()})
	}
	return raw
}

// bounded returns a JSON value. The argument most is the maximum size in bytes. In place of a longer value, bounded returns a JSON string with
// the beginning of the value.
func bounded(value json.RawMessage, most int) json.RawMessage {
	switch {
	case len(value) == 0:
		return json.RawMessage("null")
	case len(value) > most:
		return encode(clip.Counted(string(value), most))
	default:
		return value
	}
}
