package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/task"
)

// The colours of what is shown of a task.
const (
	dim    = "2"
	bold   = "1"
	green  = "32"
	blue   = "34"
	purple = "35"
)

// shownArgs is how many characters of a call's arguments are shown.
const shownArgs = 160

// watch shows what happens to a task until it has ended or ctx ends.
func (a *app) watch(ctx context.Context, tasks *task.Service, id string) {
	for e, err := range tasks.Events(ctx, id, 0) {
		if err != nil {
			if ctx.Err() == nil {
				fmt.Fprintln(a.Stderr, "harness: warning: the task cannot be watched:", err)
			}
			return
		}
		a.showEvent(e)
	}
}

// eventData is what is shown of events; see the types of package task.
type eventData struct {
	Turn  int    `json:"turn"`
	Text  string `json:"text"`
	Calls []struct {
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	} `json:"calls"`
	Usage   model.Usage     `json:"usage"`
	CostUSD *float64        `json:"costUsd"`
	RunID   string          `json:"runId"`
	Code    string          `json:"code"`
	N       int             `json:"n"`
	Kind    string          `json:"kind"`
	Name    string          `json:"name"`
	Args    json.RawMessage `json:"args"`
	OK      bool            `json:"ok"`
	Error   *struct {
		Kind    string `json:"kind"`
		Message string `json:"message"`
	} `json:"error"`
	Level  string          `json:"level"`
	Notice string          `json:"notice"`
	Status string          `json:"status"`
	Output json.RawMessage `json:"output"`
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
			a.stderr.line(fmt.Sprintf("  → %s %s", callName(d.Kind, d.Name, d.Args), cut(string(callArgs(d.Kind, d.Args)), shownArgs)), blue)
		}
	case task.EventAnswer:
		if !d.OK && d.Error != nil {
			a.stderr.line(fmt.Sprintf("  ← call %d: %s", d.N, cut(d.Error.Message, shownArgs)), yellow)
		}
	case task.EventLog:
		color := ""
		if d.Level == "error" {
			color = red
		}
		a.stderr.line("  · "+d.Text, color)
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

// toolArgs is how a program's call of a tool travels: by server and tool, or by the tool's full name; with one object, or
// with values for its parameters in order.
type toolArgs struct {
	Server     string          `json:"server"`
	Input      json.RawMessage `json:"input"`
	Positional json.RawMessage `json:"positional"`
}

// callName is what a call is of.
func callName(kind, name string, args json.RawMessage) string {
	if kind == "fs" {
		return "fs." + name
	}
	var of toolArgs
	if kind == "tool" && json.Unmarshal(args, &of) == nil && of.Server != "" {
		return of.Server + "__" + name
	}
	return name
}

// callArgs is what a tool is called with, as the program wrote it.
func callArgs(kind string, args json.RawMessage) json.RawMessage {
	var of toolArgs
	switch {
	case kind != "tool" || json.Unmarshal(args, &of) != nil:
		return args
	case len(of.Input) > 0:
		return of.Input
	case len(of.Positional) > 0:
		return of.Positional
	}
	return nil
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

// cut shortens a text to a number of characters, on one line.
func cut(text string, most int) string {
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}
