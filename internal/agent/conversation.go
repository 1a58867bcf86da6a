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
	maxShortText = 4 << 10 // maximum size in bytes of a request or an answer of an earlier task in short form
	maxShortLine = 200     // maximum size in bytes of a result in short form
	maxShortCode = 400     // maximum size in bytes of a program in short form
)

// conversation returns the messages of the next request. The messages depend only on the arguments. cut says what is shortened or left out.
func conversation(history []task.Past, t task.Task, steps []task.Step, cut *task.Compact) []model.Message {
	var c talk
	left := cut.Dropped
	if cut.Of > 0 {
		left += cut.Of - len(history)
	}
	if left > 0 {
		c.user(fmt.Sprintf("(%s of this conversation are left out here.)", count(left, "earlier task")))
	}
	c.moved = left > 0 || cut.History > 0
	for i, past := range history {
		switch {
		case i < cut.Dropped:
		case i < cut.History || !hasTurn(past.Steps):
			c.short(past.Task)
		default:
			c.past(past)
		}
	}
	c.moved = false
	if len(steps) == 0 {
		c.user(t.Task)
	}
	c.steps(steps, cut)
	return c.messages
}

// talk builds a conversation.
type talk struct {
	messages []model.Message
	// moved reports that other messages stand before the turns to add than when the model generated them. Then they are added without their provider's
	// form, because a signature in it may be valid only after the same messages.
	moved bool
}

// user adds a text for the model. It joins consecutive texts into one message, because some servers refuse two in a row.
func (c *talk) user(text string) {
	if n := len(c.messages); n > 0 && c.messages[n-1].Role == model.RoleUser {
		c.messages[n-1].Text += "\n\n" + text
		return
	}
	c.messages = append(c.messages, model.Message{Role: model.RoleUser, Text: text})
}

// short adds an earlier task as its request and its answer only.
func (c *talk) short(t task.Task) {
	c.user(shortText(t.Task))
	answer := shortText(t.Text)
	if t.Status != task.Succeeded || strings.TrimSpace(answer) == "" {
		answer = strings.TrimSpace(answer + "\n\n(" + t.Message + ")")
	}
	c.messages = append(c.messages, model.Message{Role: model.RoleAssistant, Text: answer})
}

// past adds an earlier task with all its steps.
func (c *talk) past(p task.Past) {
	var s state
	for _, step := range p.Steps {
		s.take(step)
	}
	c.steps(p.Steps, &s.compact)
	if s.pending() != nil { // every call needs a result
		for _, call := range callsOf(s.turn)[s.results:] {
			c.result(model.ToolResult{CallID: call.ID, Name: call.Name, Text: "Not done: the task ended before.", IsError: true})
		}
	}
	if p.Task.Status != task.Succeeded {
		c.user("(The task ended here: " + p.Task.Message + ")")
	}
}

// steps adds the steps of a task. It leaves out empty and refused turns, because providers do not accept them in a request.
func (c *talk) steps(steps []task.Step, cut *task.Compact) {
	refused := false // whether the last turn was refused; earlier versions executed the calls of such a turn and recorded results
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
				turn, _ = shortTurn(turn, cut.Kept[s.Seq])
			}
			if c.moved && turn.Raw != nil {
				said := *turn
				said.Raw = nil
				turn = &said
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

// result adds a result to the message with the other results of its turn.
func (c *talk) result(r model.ToolResult) {
	if n := len(c.messages); n > 0 && c.messages[n-1].Role == model.RoleTool {
		c.messages[n-1].Results = append(c.messages[n-1].Results, r)
		return
	}
	c.messages = append(c.messages, model.Message{Role: model.RoleTool, Results: []model.ToolResult{r}})
}

func hasTurn(steps []task.Step) bool {
	return slices.ContainsFunc(steps, func(s task.Step) bool { return s.Turn != nil })
}

// shortResult returns a result as one line, with the writes of a failed program.
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
		var w writes
		for _, e := range r.Effects {
			w.add(e, "")
		}
		if len(w.done) > 0 {
			b.WriteString("; writes done before: " + strings.Join(w.done, ", "))
		}
		if len(w.doubt) > 0 {
			b.WriteString("; writes in doubt: " + strings.Join(w.doubt, ", "))
		}
	}
	return b.String() + ")"
}

// shortTurn replaces long programs of a turn by one line each and drops the provider's own JSON. It also returns these programs.
func shortTurn(t *model.Turn, kept string) (short *model.Turn, programs string) {
	short = t
	for i, c := range t.Calls {
		code := inputOf(c).Code
		if c.Name != executeCode || len(code) <= maxShortCode {
			continue
		}
		if short == t {
			turn := *t
			turn.Raw, turn.Calls = nil, slices.Clone(t.Calls)
			short = &turn
		} else {
			programs += "\n\n"
		}
		programs += code
		line := fmt.Sprintf("// A program of %d bytes, cut", len(code))
		if kept != "" {
			line += "; it is kept in " + kept
		}
		short.Calls[i].Input = encode(map[string]string{"code": line})
	}
	return short, programs
}

// shortText returns the beginning and the end of a long text.
func shortText(s string) string {
	if len(s) <= maxShortText {
		return s
	}
	head, tail := s[:maxShortText*2/3], s[len(s)-maxShortText/3:]
	return strings.ToValidUTF8(head, "") + fmt.Sprintf("\n[… %d bytes …]\n", len(s)-len(head)-len(tail)) + strings.ToValidUTF8(tail, "")
}
