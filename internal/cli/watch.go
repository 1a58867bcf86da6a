package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/task"
)

// How many bytes are shown of a call's arguments, and of a text in a list.
const (
	shownArgs = 160
	shownText = 100
)

// watch shows the events of a task behind one until it or ctx ends, and notes the last one.
func (a *app) watch(ctx context.Context, tasks *task.Service, id string, after *int64) {
	for e, err := range tasks.Events(ctx, id, *after) {
		if err != nil {
			if ctx.Err() == nil {
				fmt.Fprintln(a.Stderr, "harness: warning: the task cannot be watched:", err)
			}
			return
		}
		*after = max(*after, e.ID)
		a.showEvent(e)
	}
}

// eventData has the fields of events that are shown; see the types of package task.
type eventData struct {
	Turn    int
	Text    string
	Calls   []model.ToolCall
	Usage   model.Usage
	CostUSD *float64
	RunID   string
	Code    string
	N       int
	Kind    string
	Name    string
	Args    json.RawMessage
	OK      bool
	Error   *task.Error
	Level   string
	Notice  string
	Output  json.RawMessage
}

func (a *app) showEvent(e task.Event) {
	var d eventData
	if json.Unmarshal(e.Data, &d) != nil {
		return
	}
	switch e.Type {
	case task.EventTurn:
		a.showTurn(d)
	case task.EventRunStarted:
		a.stderr.line("  run "+d.RunID, dim)
		for _, line := range strings.Split(strings.TrimRight(d.Code, "\n"), "\n") {
			a.stderr.code("  │ " + line)
		}
	case task.EventCall:
		if d.Kind == "tool" || d.Kind == "fs" {
			name, args := called(d)
			a.stderr.line(fmt.Sprintf("  → %s %s", name, cut(string(args), shownArgs)), blue)
		}
	case task.EventAnswer:
		if !d.OK && d.Error != nil {
			a.stderr.line(fmt.Sprintf("  ← call %d: %s", d.N, cut(d.Error.Message, shownArgs)), yellow)
		}
	case task.EventLog:
		a.stderr.line("  · "+d.Text, levelColors[d.Level])
	case task.EventRunEnded:
		if d.Error != nil {
			a.stderr.line(fmt.Sprintf("  ✗ %s: %s", d.Error.Kind, cut(d.Error.Message, 2*shownArgs)), red)
		} else {
			a.stderr.line("  ✓ "+cut(string(d.Output), 2*shownArgs), green)
		}
	case task.EventDelta:
		if d.Notice != "" {
			a.stderr.line("  ! "+d.Notice, yellow)
		}
	case task.EventNote:
		a.stderr.line("  ! "+d.Text, dim)
	case task.EventEnded:
		a.showEnd(e.Data)
	}
}

// toolArgs are the arguments of a call record. A program names the tool by server and tool, or by its full name, and gives
// one object, or values for the parameters in order.
type toolArgs struct {
	Server     string
	Input      json.RawMessage
	Positional json.RawMessage
}

// called is the called tool or file function, and its arguments as the program wrote them.
func called(d eventData) (name string, args json.RawMessage) {
	var of toolArgs
	switch {
	case d.Kind == "fs":
		return "fs." + d.Name, d.Args
	case json.Unmarshal(d.Args, &of) != nil:
		return d.Name, d.Args
	case of.Server != "":
		d.Name = of.Server + "__" + d.Name
	}
	if of.Input == nil {
		of.Input = of.Positional
	}
	return d.Name, of.Input
}

func (a *app) showTurn(d eventData) {
	cost := ""
	if d.CostUSD != nil {
		cost = fmt.Sprintf(", $%.4f", *d.CostUSD)
	}
	a.stderr.line(fmt.Sprintf("turn %d (%d tokens in, %d out%s)", d.Turn, d.Usage.Input, d.Usage.Output, cost), bold)
	if d.Text != "" && len(d.Calls) > 0 { // the last turn's text is the answer
		a.stderr.line("  "+strings.ReplaceAll(strings.TrimSpace(d.Text), "\n", "\n  "), "")
	}
	for _, call := range d.Calls {
		if call.Name != "execute_code" {
			a.stderr.line(fmt.Sprintf("  %s %s", call.Name, cut(string(call.Input), shownArgs)), purple)
		}
	}
}

func (a *app) showEnd(data json.RawMessage) {
	var t task.Task
	if json.Unmarshal(data, &t) != nil {
		return
	}
	color := green
	if t.Status != task.Succeeded {
		color = red
	}
	a.stderr.line(t.Message, color)
	if t.Error != nil && !strings.HasPrefix(t.Message, t.Error.Message) {
		a.stderr.line(t.Error.Kind+": "+t.Error.Message, color)
	}
	u := t.Usage
	line := fmt.Sprintf("session %s · %d tokens in, %d out (measured)", t.SessionID, u.Tokens.Input, u.Tokens.Output)
	if u.CostUSD != nil {
		line += fmt.Sprintf(" · $%.4f", *u.CostUSD)
	}
	if d := u.Direct; d != nil && d.Input > 0 {
		line += fmt.Sprintf(" · calling the tools directly: about %d in, %d out (estimated)", d.Input, d.Output)
	}
	a.stderr.line(line, dim)
}

// cut shortens a text to a number of bytes, on one line.
func cut(text string, most int) string {
	return clip.Text(strings.Join(strings.Fields(text), " "), most)
}
