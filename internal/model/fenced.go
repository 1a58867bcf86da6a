package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// codeTool is the tool that a model without tool calling calls by writing a block of code. Its input is {code}.
const codeTool = "execute_code"

// fencedID is the prefix of the ids of calls that were read from a model's text.
const fencedID = "fence_"

func isFenced(c ToolCall) bool { return strings.HasPrefix(c.ID, fencedID) }

// fenced is a Model for models that cannot call tools through their provider's interface: the system prompt describes
// the tools, and calls are read from the blocks that the model writes.
type fenced struct {
	inner *client
	on    atomic.Bool // if false, the provider's interface is used until the server reports that the model does not support tools
}

func (f *fenced) Info() Info {
	info := f.inner.Info()
	info.NativeTools = !f.on.Load()
	return info
}

func (f *fenced) Generate(ctx context.Context, req *Request) (*Turn, error) {
	if !f.on.Load() {
		turn, err := f.inner.Generate(ctx, req)
		if failed, ok := errors.AsType[*Error](err); !ok || !failed.noTools {
			return turn, err
		}
		f.on.Store(true)
	}
	sent := &Request{System: f.system(req), OnLost: req.OnLost}
	for _, m := range req.Messages {
		sent.Messages = append(sent.Messages, fencedMessage(m))
	}
	id := fencedID + strconv.Itoa(len(req.Messages))
	if req.OnDelta != nil {
		text := newFenceReader(req.Tools, id, req.OnDelta)
		sent.OnDelta = func(d Delta) {
			if d.Reset {
				text = newFenceReader(req.Tools, id, req.OnDelta)
			}
			if d.Text == "" {
				req.OnDelta(d)
				return
			}
			text.write(d.Text)
		}
		defer func() { text.end(true) }()
	}
	turn, err := f.inner.Generate(ctx, sent)
	if err != nil {
		return nil, err
	}
	read := newFenceReader(req.Tools, id, nil)
	read.write(withoutThoughts(turn.Text))
	read.end(turn.Stop != StopLength)
	turn.Text = strings.TrimSpace(read.prose.String())
	if read.call != nil {
		turn.Calls = []ToolCall{*read.call}
		turn.stopForCalls()
	}
	if read.ignored {
		turn.Raw = nil // Raw contains text that the model invented after its call
	}
	return turn, nil
}

// system returns the system prompt with a description of the tools.
func (f *fenced) system(req *Request) string {
	if len(req.Tools) == 0 {
		return req.System
	}
	var b strings.Builder
	if req.System != "" {
		b.WriteString(req.System + "\n\n")
	}
	b.WriteString("# How to use tools\n\nYou use tools by writing a fenced block. Write one block at most, and end your message after it: " +
		"the next message tells you the result. Never write a result yourself. A message without such a block is your final answer.\n")
	for _, t := range req.Tools {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", t.Name, strings.TrimSpace(t.Description))
		if t.Name == codeTool {
			b.WriteString("\nWrite the code in a block like this (code that is only to be shown goes into a ```text block):\n\n```js\nreturn 1 + 1\n```\n")
			continue
		}
		fmt.Fprintf(&b, "\nThe input's JSON Schema: %s\n\nUse it with a block like this:\n\n```tool\n{\"name\": %q, \"input\": {}}\n```\n", t.InputSchema, t.Name)
	}
	return b.String()
}

// fencedMessage returns a message with calls and results as text.
func fencedMessage(m Message) Message {
	switch {
	case m.Role == RoleTool:
		var b strings.Builder
		for i, r := range m.Results {
			if i > 0 {
				b.WriteString("\n\n")
			}
			word := "Result"
			if r.IsError {
				word = "Error"
			}
			fmt.Fprintf(&b, "%s of %s:\n%s", word, r.Name, r.Text)
		}
		return Message{Role: RoleUser, Text: b.String()}
	case m.Turn == nil || len(m.Turn.Calls) == 0:
		return m
	default:
		turn := *m.Turn
		if !slices.ContainsFunc(turn.Calls, isFenced) {
			turn.Raw = nil // Raw contains calls in the provider's form
		}
		for _, c := range turn.Calls {
			turn.Text = strings.TrimSpace(turn.Text + "\n\n" + fence(c))
		}
		turn.Calls = nil
		return Message{Role: RoleAssistant, Turn: &turn}
	}
}

// fence returns a call as a fenced block.
func fence(c ToolCall) string {
	var input struct {
		Code string `json:"code"`
	}
	if c.Name == codeTool && json.Unmarshal(c.Input, &input) == nil && input.Code != "" {
		return "```js\n" + strings.TrimSuffix(input.Code, "\n") + "\n```"
	}
	if c.Malformed != "" {
		return "```tool\n" + c.Malformed + "\n```"
	}
	return fmt.Sprintf("```tool\n{\"name\": %q, \"input\": %s}\n```", c.Name, c.Input)
}
