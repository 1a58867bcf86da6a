package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

// watch shows the events of a task until the task or ctx ends. It begins after the event with the number *after, and updates *after. It calls
// watching at the first event; from then on it misses no piece of an answer. There always is a first event: task.queued or, if *after is above 0, a
// delta with reset.
func (a *app) watch(ctx context.Context, v *view, tasks *task.Service, id string, after *int64, watching func()) {
	defer watching()
	for e, err := range tasks.Events(ctx, id, *after) {
		if err != nil {
			if ctx.Err() == nil {
				fmt.Fprintln(a.Stderr, "harness: warning: the task cannot be watched:", err)
			}
			return
		}
		watching()
		*after = max(*after, e.ID)
		v.event(e)
	}
}

// eventData has those fields of events that are shown. Package task defines the data of each type of event.
type eventData struct {
	Turn    int
	Text    string
	Call    string
	Input   string
	Reset   bool
	Calls   []model.ToolCall
	Usage   model.Usage
	CostUSD *float64
	RunID   string
	Code    string
	N       int
	Kind    string
	Name    string
	Args    json.RawMessage
	Bytes   int
	Error   *task.Error

	Progress, Total float64
	Level           string
	Notice          string
	Output          json.RawMessage

	ApprovalID string
	ExpiresAt  time.Time
	Decision   string
	Reason     string
}

// event shows an event of a task.
func (v *view) event(e task.Event) {
	var d struct {
		eventData
		// Calls of tools in a turn, or calls of a program in a request for an approval.
		Calls json.RawMessage
	}
	if json.Unmarshal(e.Data, &d) != nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	switch e.Type {
	case task.EventQueued:
		v.say("waiting for a process that works the task")
	case task.EventStarted:
		v.waitForModel(e.Time)
	case task.EventDelta:
		v.writes(d.eventData)
	case task.EventTurn:
		if len(d.Calls) > 0 && json.Unmarshal(d.Calls, &d.eventData.Calls) != nil {
			return
		}
		v.turn(d.eventData, e.Time)
	case task.EventRunStarted:
		v.run(d.RunID, d.Code, e.Time)
	case task.EventCall:
		v.call(d.N, d.Kind, d.Name, d.Args, e.Time)
	case task.EventAnswer:
		problem := ""
		if d.Error != nil {
			problem = d.Error.Message
		}
		v.answer(d.N, d.Bytes, problem, 0, e.Time)
	case task.EventProgress:
		v.reported(d.N, mcpclient.Progress{Progress: d.Progress, Total: d.Total})
	case task.EventLog:
		v.log(d.Level, d.Text)
	case task.EventRunEnded:
		kind, problem := "", ""
		if d.Error != nil {
			kind, problem = d.Error.Kind, d.Error.Message
		}
		v.ended(d.Output, kind, problem, e.Time.Sub(v.began))
		v.waitForModel(e.Time)
	case task.EventNote:
		v.lines(v.pick("  ! ", "  note: "), d.Text, dim)
	case task.EventApprovalRequested:
		v.say("waiting for an approval")
		v.asked(d.Calls, e.Time)
		if v.follow {
			v.lines(v.pick("  ? ", "  "), fmt.Sprintf("waits for an approval until %s: harness approvals show %s",
				d.ExpiresAt.Local().Format(time.DateTime), d.ApprovalID), yellow)
		}
	case task.EventApprovalDecided:
		text := d.Decision + v.decided(e.Time)
		if d.Reason != "" {
			text += ": " + d.Reason
		}
		v.lines(v.pick("  ! ", "  "), text, map[string]string{string(approval.Approved): green}[d.Decision])
		v.say("waiting for the run to go on")
	case task.EventEnded:
		v.taskEnded(e.Data)
	}
}

// asked notes which calls wait for a person's decision.
func (v *view) asked(calls json.RawMessage, at time.Time) {
	var waiting []task.WaitingCall
	if json.Unmarshal(calls, &waiting) != nil {
		return
	}
	v.waitsSince = at
	for _, w := range waiting {
		if c := v.calls[w.N]; c != nil {
			c.asked = true
		}
	}
}

// decided excludes the wait for a person's decision from the duration of the run. The calls that waited count as begun at the decision. decided
// returns a text about the wait.
func (v *view) decided(at time.Time) string {
	if v.waitsSince.IsZero() {
		return ""
	}
	waited := at.Sub(v.waitsSince)
	v.began, v.waitsSince = v.began.Add(waited), time.Time{}
	for _, c := range v.calls {
		if c.asked {
			c.began, c.asked = at, false
		}
	}
	return " after " + took(waited)
}

// taskEnded shows how a task ended, and its totals.
func (v *view) taskEnded(data json.RawMessage) {
	var t task.Task
	if json.Unmarshal(data, &t) != nil {
		return
	}
	v.stopped()
	color := green
	if t.Status != task.Succeeded {
		color = red
	}
	v.lines("", t.Message, color)
	if t.Error != nil && !strings.HasPrefix(t.Message, t.Error.Message) {
		v.lines("", t.Error.Kind+": "+t.Error.Message, color)
	}
	u := t.Usage
	line := fmt.Sprintf("session %s%s%s tokens in, %s out (measured)", t.SessionID, v.pick(" · ", ", "), count(u.Tokens.Input), count(u.Tokens.Output))
	if u.CostUSD != nil {
		line += v.pick(" · ", ", ") + dollars(*u.CostUSD)
	}
	if d := u.Direct; d != nil && d.Input > 0 {
		line += fmt.Sprintf("%scalling the tools directly: about %s in, %s out (estimated)", v.pick(" · ", "; "), count(d.Input), count(d.Output))
	}
	v.lines("", line, dim)
	v.lines("", "go on in it: "+goOn(t.SessionID), dim)
}

func count(n int) string { return humanize.Comma(int64(n)) }

// observe shows an event of a run in this process.
func (v *view) observe(e run.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	switch {
	case e.Log != nil:
		v.log(e.Log.Level, e.Log.Text)
	case e.Call != nil:
		v.call(e.Call.N, e.Call.Kind, e.Call.Name, e.Call.Args, now)
	case e.Answer != nil:
		v.answer(e.Answer.N, len(e.Answer.Value), message(e.Answer.Error), e.Answer.Kept, now)
	}
}

// message returns the message of an error in a journal.
func message(raw json.RawMessage) string {
	var e struct{ Message string }
	if len(raw) == 0 {
		return ""
	}
	if json.Unmarshal(raw, &e) != nil || e.Message == "" {
		return string(raw)
	}
	return e.Message
}

// record shows a record of a journal. The record of a call has no time. A call begins at the time of the answer that precedes its record or, for a write, at
// the time of its intent record.
func (v *view) record(r journal.Record) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case r.Start != nil:
		v.clock = time.UnixMicro(r.Start.Time)
		v.run(r.Start.Run, r.Start.Source, v.clock)
	case r.Call != nil:
		v.call(r.Call.N, r.Call.Kind, r.Call.Name, r.Call.Args, v.clock)
	case r.Intent != nil:
		if c := v.calls[r.Intent.N]; c != nil {
			c.began = time.UnixMicro(r.Intent.Time)
		}
	case r.Answer != nil:
		v.clock = time.UnixMicro(max(r.Answer.Now, v.clock.UnixMicro()))
		if c, asked := v.calls[r.Answer.N], v.requests[r.Answer.N]; c != nil && asked.DecidedAt != nil {
			c.waited = asked.DecidedAt.Sub(asked.Created)
			if c.began.Before(*asked.DecidedAt) {
				c.began = *asked.DecidedAt
			}
		}
		v.answer(r.Answer.N, len(r.Answer.Value), message(r.Answer.Error), r.Answer.Kept, v.clock)
	case r.Log != nil:
		v.log(r.Log.Level, r.Log.Text)
	case r.End != nil:
		var e run.Error
		if len(r.End.Error) > 0 && json.Unmarshal(r.End.Error, &e) != nil {
			e = run.Error{Message: string(r.End.Error)}
		}
		v.ended(r.End.Output, e.Kind, e.Message, time.Duration(r.End.DurationUS)*time.Microsecond)
	}
}

// decisions notes the approval requests of a run, oldest first. A call that needed an approval begins at the decision.
func (v *view) decisions(all []approval.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.requests = map[int]approval.Request{}
	for _, r := range all {
		for _, c := range r.Calls {
			v.requests[c.N] = r
		}
	}
}
