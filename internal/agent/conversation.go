package agent

import (
	"fmt"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

const (
	maxShortText = 4 << 10 // bytes of a request or an answer of an earlier task that is shown in short form
	maxShortLine = 200     // bytes of a result that is shown in short form
	maxShortCode = 400     // bytes of a program that is shown in short form
)

// conversation is what the model is sent: a function of the session's earlier tasks, the task and its steps.
func (w *work) conversation() []model.Message {
	return conversation(w.history, w.task, w.steps, &w.state.compact)
}

func conversation(history []task.Past, t task.Task, steps []task.Step, cut *task.Compact) []model.Message {
	var c talk
	if cut.Dropped > 0 {
		c.user(fmt.Sprintf("(%s of this conversation are left out here.)", count(cut.Dropped, "earlier task")))
	}
	for i, past := range history {
		switch {
		case i < cut.Dropped:
		case i < cut.History || !hasTurn(past.Steps):
			c.short(past.Task)
		default:
			c.past(past)
		}
	}
	if len(steps) == 0 {
		c.user(t.Task)
	}
	c.steps(steps, cut)
	return c.messages
}

// talk is a conversation that grows.
type talk struct{ messages []model.Message }

// user adds what is said to the model. Two such messages are one: not every server takes them in a row.
func (c *talk) user(text string) {
	if n := len(c.messages); n > 0 && c.messages[n-1].Role == model.RoleUser {
		c.messages[n-1].Text += "\n\n" + text
		return
	}
	c.messages = append(c.messages, model.Message{Role: model.RoleUser, Text: text})
}

// short adds an earlier task as request and answer.
func (c *talk) short(t task.Task) {
	c.user(shortText(t.Task))
	answer := shortText(t.Text)
	if t.Status != task.Succeeded || strings.TrimSpace(answer) == "" {
		answer = strings.TrimSpace(answer + "\n\n(" + t.Message + ")")
	}
	c.messages = append(c.messages, model.Message{Role: model.RoleAssistant, Text: answer})
}

// past adds an earlier task with all that was said.
func (c *talk) past(p task.Past) {
	var s state
	for _, step := range p.Steps {
		s.take(step)
	}
	c.steps(p.Steps, &s.compact)
	if s.pending() != nil {
		c.unanswered(callsOf(s.turn)[s.results:])
	}
	if p.Task.Status != task.Succeeded {
		c.user("(The task ended here: " + p.Task.Message + ")")
	}
}

// unanswered adds results of calls that were never done: every call needs one.
func (c *talk) unanswered(calls []model.ToolCall) {
	for _, call := range calls {
		c.result(model.ToolResult{CallID: call.ID, Name: call.Name, Text: "Not done: the task ended before.", IsError: true})
	}
}

// steps adds the steps of a task. Turns that were empty or refused are left out: there is nothing in them for the model,
// and providers do not take them back.
func (c *talk) steps(steps []task.Step, cut *task.Compact) {
	refused := false // the last turn was, and results of its calls are of a time in which they were done
	for _, s := range steps {
		if s.Turn != nil {
			refused = s.Turn.Stop == model.StopRefusal
		}
		switch {
		case s.Note != nil:
			c.user(s.Note.Text)
		case refused && (s.Turn != nil || s.Result != nil):
		case s.Turn != nil && len(s.Turn.Calls) == 0 && strings.TrimSpace(s.Turn.Text) == "":
		case s.Turn != nil:
			turn := &s.Turn.Turn
			if s.Seq < cut.Before {
				turn = shortTurn(turn, cut.Code[s.Seq])
			}
			c.messages = append(c.messages, model.Message{Role: model.RoleAssistant, Turn: turn})
		case s.Result != nil && s.Seq < cut.Before:
			r := s.Result.ToolResult
			r.Text = shortResult(s.Result, cut.Kept[s.Seq])
			c.result(r)
		case s.Result != nil:
			c.result(s.Result.ToolResult)
		}
	}
}

// result adds a result to those of the same turn.
func (c *talk) result(r model.ToolResult) {
	if n := len(c.messages); n > 0 && c.messages[n-1].Role == model.RoleTool {
		c.messages[n-1].Results = append(c.messages[n-1].Results, r)
		return
	}
	c.messages = append(c.messages, model.Message{Role: model.RoleTool, Results: []model.ToolResult{r}})
}

func hasTurn(steps []task.Step) bool {
	for _, s := range steps {
		if s.Turn != nil {
			return true
		}
	}
	return false
}

// shortResult is a result in a line. What a failed program did before is not left out.
func shortResult(r *task.Result, kept string) string {
	if len(r.Text) <= maxShortLine && len(r.Effects) == 0 {
		return r.Text
	}
	var b strings.Builder
	b.WriteString("(Result cut")
	if kept != "" {
		b.WriteString("; it is kept in " + kept)
	}
	if r.RunID != "" && r.RunStatus != run.Succeeded {
		b.WriteString("; the program " + r.RunStatus)
		done, doubt := effectLines(r.Effects)
		for _, part := range []struct {
			label string
			names []string
		}{{"writes done before", done}, {"writes in doubt", doubt}} {
			if len(part.names) > 0 {
				b.WriteString("; " + part.label + ": " + strings.Join(part.names, ", "))
			}
		}
	}
	return b.String() + ")"
}

// shortTurn is a turn whose long programs are a line. The provider's own JSON of a turn that has any goes with them.
func shortTurn(t *model.Turn, kept string) *model.Turn {
	if longCode(t) == "" {
		return t
	}
	short := *t
	short.Raw, short.Calls = nil, slices.Clone(t.Calls)
	for i, c := range short.Calls {
		if code := longProgram(c); code != "" {
			line := fmt.Sprintf("// A program of %d bytes, cut", len(code))
			if kept != "" {
				line += "; it is kept in " + kept
			}
			short.Calls[i].Input = encode(map[string]string{"code": line})
		}
	}
	return &short
}

// longProgram is the code of a call, if it is too long for the short form.
func longProgram(c model.ToolCall) string {
	if code, problem := codeOf(c.Input); c.Name == executeCode && problem == "" && len(code) > maxShortCode {
		return code
	}
	return ""
}

// longCode is all code of a turn that is too long for the short form.
func longCode(t *model.Turn) string {
	var all []string
	for _, c := range t.Calls {
		if code := longProgram(c); code != "" {
			all = append(all, code)
		}
	}
	return strings.Join(all, "\n\n")
}

// shortText is head and tail of a text.
func shortText(s string) string {
	if len(s) <= maxShortText {
		return s
	}
	head, tail := s[:maxShortText*2/3], s[len(s)-maxShortText/3:]
	return strings.ToValidUTF8(head, "") + fmt.Sprintf("\n[… %d bytes …]\n", len(s)-len(head)-len(tail)) + strings.ToValidUTF8(tail, "")
}
