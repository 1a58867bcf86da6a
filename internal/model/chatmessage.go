package model

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
)

// chatMessage assembles the message that the chunks of a chat completion are pieces of, with every field that the server
// sends: known ones for the turn, and unknown ones because the server may want them back.
type chatMessage struct {
	fields map[string]any // but for the calls
	calls  []*chatCall
	finish string
	usage  Usage
}

// chatCall is one call under way.
type chatCall struct {
	index  json.Number
	fields map[string]any
}

func (c *chatCall) id() string   { return str(c.fields["id"]) }
func (c *chatCall) name() string { return str(c.function()["name"]) }

func (c *chatCall) function() map[string]any {
	f, _ := c.fields["function"].(map[string]any)
	return f
}

func str(v any) string {
	s, _ := v.(string)
	return s
}

// chatUsage is the token counts of a chunk.
type chatUsage struct {
	Prompt  int `json:"prompt_tokens"`
	Output  int `json:"completion_tokens"`
	Details struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	OutputDetails struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// add takes the next chunk.
func (m *chatMessage) add(chunk json.RawMessage, out *output) error {
	var c struct {
		Choices []struct {
			Delta  map[string]any `json:"delta"`
			Finish string         `json:"finish_reason"`
		} `json:"choices"`
		Usage *chatUsage `json:"usage"`
	}
	numbers := json.NewDecoder(bytes.NewReader(chunk))
	numbers.UseNumber() // they go back as they came
	if err := numbers.Decode(&c); err != nil {
		return err
	}
	if u := c.Usage; u != nil {
		m.usage = Usage{Input: u.Prompt, CachedInput: u.Details.Cached, Output: u.Output, Reasoning: u.OutputDetails.Reasoning}
		out.usage = m.usage
	}
	if len(c.Choices) == 0 {
		return nil
	}
	out.begun = true
	choice := c.Choices[0]
	if choice.Finish != "" {
		m.finish = choice.Finish
	}
	if calls, ok := choice.Delta["tool_calls"].([]any); ok {
		for _, call := range calls {
			if fields, ok := call.(map[string]any); ok {
				m.addCall(fields, out)
			}
		}
	}
	delete(choice.Delta, "tool_calls")
	out.text(str(choice.Delta["content"]))
	out.text(str(choice.Delta["refusal"]))
	if m.fields == nil {
		m.fields = map[string]any{}
	}
	merge(m.fields, choice.Delta)
	return nil
}

// complete says whether the call has a name and all of its arguments.
func (c *chatCall) complete() bool {
	return c.name() != "" && json.Valid([]byte(str(c.function()["arguments"])))
}

// addCall takes a piece of a call. Servers that send each call whole, as Google's, may give all of them the same index or
// none; a new id is a new call, and so is a name after a call that is complete.
func (m *chatMessage) addCall(piece map[string]any, out *output) {
	index, _ := piece["index"].(json.Number)
	delete(piece, "index")
	var call *chatCall
	for _, c := range m.calls {
		if c.index == index {
			call = c
		}
	}
	id := str(piece["id"])
	f, _ := piece["function"].(map[string]any)
	if call == nil || id != "" && id != call.id() || id == "" && str(f["name"]) != "" && call.complete() {
		call = &chatCall{index: index, fields: map[string]any{}}
		m.calls = append(m.calls, call)
	}
	merge(call.fields, piece)
	if call.id() == "" { // some servers give none
		call.fields["id"] = "call_" + rand.Text()
	}
	out.call(call.name(), call.id(), str(f["arguments"]))
}

// streamed are the fields whose texts come in pieces; other texts come whole.
var streamed = map[string]bool{
	"content": true, "refusal": true, "arguments": true, "reasoning": true, "reasoning_content": true, "thinking": true, "transcript": true,
}

// merge adds the fields of a piece to what came before.
func merge(whole, piece map[string]any) {
	for key, v := range piece {
		switch next := v.(type) {
		case nil:
		case string:
			if old := str(whole[key]); streamed[key] {
				next = old + next
			} else if next == "" {
				continue
			}
			whole[key] = next
		case map[string]any:
			old, ok := whole[key].(map[string]any)
			if !ok {
				old = map[string]any{}
				whole[key] = old
			}
			merge(old, next)
		case []any:
			old, _ := whole[key].([]any)
			whole[key] = append(old, next...)
		default:
			whole[key] = v
		}
	}
}

// turn is the whole message as a turn.
func (m *chatMessage) turn() (*Turn, error) {
	t := &Turn{Format: FormatChat, Stop: StopEnd, Usage: m.usage}
	fields := m.fields
	if fields == nil {
		fields = map[string]any{}
	}
	fields["role"] = "assistant"
	t.Text = withoutThoughts(str(fields["content"]))
	if refusal := str(fields["refusal"]); refusal != "" {
		t.Text += refusal
		t.Stop = StopRefusal
	}
	if len(m.calls) > 0 {
		raw := make([]any, len(m.calls))
		for i, c := range m.calls {
			call := newCall(c.id(), c.name(), str(c.function()["arguments"]))
			if f := c.function(); f != nil {
				f["arguments"] = string(call.Input) // servers that read the arguments fail on what is no JSON
			}
			c.fields["type"] = "function"
			raw[i] = c.fields
			t.Calls = append(t.Calls, call)
		}
		fields["tool_calls"] = raw
	} else if fields["content"] == nil {
		fields["content"] = ""
	}
	switch m.finish {
	case "length":
		t.Stop = StopLength
	case "content_filter":
		t.Stop = StopRefusal
	default:
		t.Stop = stopOf(t.Stop, len(t.Calls) > 0)
	}
	var err error
	if t.Raw, err = encode(fields); err != nil {
		return nil, fmt.Errorf("read the model's output: %w", err)
	}
	return t, nil
}

// withoutThoughts cuts off what models that think aloud write before their answer.
func withoutThoughts(text string) string {
	trimmed := strings.TrimSpace(text)
	if strings.HasPrefix(trimmed, "<think>") {
		if _, after, ok := strings.Cut(trimmed, "</think>"); ok {
			return after
		}
	}
	return text
}
