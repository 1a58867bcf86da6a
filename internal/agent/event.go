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
	calls := []task.TurnCall{}
	for _, c := range callsOf(t) {
		calls = append(calls, task.TurnCall{ID: c.ID, Name: c.Name, Input: bounded(c.Input, maxEventText)})
	}
	return w.event(task.EventTurn, fmt.Sprintf("turn/%d", w.state.asks), task.TurnData{
		Turn: w.state.asks, Text: t.Text, Calls: calls, Usage: t.Usage, Cost: t.CostUSD,
	})
}

func (w *work) endedEvent(out *run.Outcome) task.Event {
	data := task.RunEndedData{RunID: out.RunID, Status: out.Status, Output: bounded(out.Output, maxEventText)}
	if out.Error != nil {
		data.Error = &task.Error{Kind: out.Error.Kind, Message: clip.Counted(out.Error.Message, maxEventValue)}
	}
	return w.event(task.EventRunEnded, out.RunID+"/ended", data)
}

func (w *work) event(kind, key string, data any) task.Event {
	return task.Event{Type: kind, Key: key, Time: w.a.opt.Now(), Data: encode(data)}
}

// stream sends a part of a turn to the task's watchers.
func (w *work) stream(d model.Delta) {
	data := task.DeltaData{Text: d.Text}
	switch {
	case d.Reset:
		data = task.DeltaData{Reset: true, Notice: d.Notice}
	case d.Notice != "":
		data = task.DeltaData{Notice: d.Notice}
	case d.Call != "":
		data = task.DeltaData{Call: d.Call, CallID: d.CallID, Input: d.Input}
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
