package model

import (
	"crypto/rand"
	"encoding/json"
	"strings"
	"sync/atomic"

	"mcp-code-exec-harness/internal/journal"
)

// chat implements OpenAI's chat completions. Google and Compatible servers use this format. The provider OpenAI also uses it if Config.BaseURL is
// the address of another server, or ends in /chat/completions.
type chat struct {
	google bool
	// maxCompletion reports whether the server wants max_completion_tokens, as OpenAI's reasoning models behind a gateway do.
	maxCompletion atomic.Bool
	// noOptions reports whether the server does not know stream_options.
	noOptions atomic.Bool
}

// foreignSignature marks a call that another model made. Gemini 3 refuses a conversation with a call that has no signature.
// https://ai.google.dev/gemini-api/docs/thought-signatures
var foreignSignature = object{"google": object{"thought_signature": "skip_thought_signature_validator"}}

func (*chat) format() Format { return FormatChat }

func (c *chat) body(req *Request, most int, parts []part) (object, error) {
	body := object{}
	if !c.noOptions.Load() {
		body["stream_options"] = object{"include_usage": true}
	}
	if most > 0 && c.maxCompletion.Load() {
		body["max_completion_tokens"] = most
	} else if most > 0 {
		body["max_tokens"] = most
	}
	var tools []object
	for _, t := range req.Tools {
		tools = append(tools, object{"type": "function", "function": object{
			"name": t.Name, "description": t.Description, "parameters": t.InputSchema,
		}})
	}
	if len(tools) > 0 {
		body["tools"] = tools
	}
	var list []any
	if req.System != "" {
		list = append(list, object{"role": "system", "content": req.System})
	}
	for _, p := range parts {
		switch {
		case p.raw != nil:
			list = append(list, p.raw)
		case p.result != nil:
			list = append(list, object{"role": "tool", "content": p.result.Text, "tool_call_id": p.result.CallID})
		default:
			list = append(list, c.message(p))
		}
	}
	body["messages"] = list
	return body, nil
}

// message returns a text of the user, or an assistant's message that is not sent in its provider's form.
func (c *chat) message(p part) object {
	message := object{"role": p.role, "content": p.text}
	var calls []object
	for _, call := range p.calls {
		calls = append(calls, object{
			"id": call.ID, "type": "function", "function": object{"name": call.Name, "arguments": string(call.Input)},
		})
	}
	if len(calls) > 0 {
		message["tool_calls"] = calls
		if c.google {
			calls[0]["extra_content"] = foreignSignature
		}
	}
	return message
}

func (c *chat) adapt(e *Error, plain *bool) bool {
	switch {
	case e.Status/100 != 4:
		return false
	case mentions(e.Message, "max_completion_tokens"):
		return !c.maxCompletion.Swap(true)
	case mentions(e.Message, "stream_options"):
		return !c.noOptions.Swap(true)
	}
	return mentions(e.Message, "thought_signature", "thought signature") && set(plain)
}

// chatAnswer assembles a message from the chunks of a chat completion, with every field that the server sends: known
// fields for the turn, and unknown fields because the server may want them back.
type chatAnswer struct {
	out    *output
	fields object // fields of the message except the calls
	calls  []*chatCall
	finish string
}

// chatCall is a call that is being received.
type chatCall struct {
	index  json.Number
	fields object
}

func (c *chatCall) id() string       { return str(c.fields["id"]) }
func (c *chatCall) function() object { return obj(c.fields["function"]) }
func (c *chatCall) name() string     { return str(c.function()["name"]) }

// complete reports whether the call has a name and all of its arguments.
func (c *chatCall) complete() bool {
	return c.name() != "" && json.Valid([]byte(str(c.function()["arguments"])))
}

func (*chat) answer(out *output) answer { return &chatAnswer{out: out, fields: object{}} }

func (a *chatAnswer) take(chunk object, _ []byte) (done bool, err error) {
	if u := obj(chunk["usage"]); u != nil {
		a.out.usage = Usage{
			Input:       num(u["prompt_tokens"]),
			CachedInput: num(obj(u["prompt_tokens_details"])["cached_tokens"]),
			Output:      num(u["completion_tokens"]),
			Reasoning:   num(obj(u["completion_tokens_details"])["reasoning_tokens"]),
		}
	}
	choices, _ := chunk["choices"].([]any)
	if len(choices) == 0 {
		return false, nil
	}
	a.out.begun = true
	choice := obj(choices[0])
	if finish := str(choice["finish_reason"]); finish != "" {
		a.finish = finish
	}
	delta := obj(choice["delta"])
	calls, _ := delta["tool_calls"].([]any)
	for _, call := range calls {
		if piece := obj(call); piece != nil {
			a.addCall(piece)
		}
	}
	delete(delta, "tool_calls")
	a.out.text(str(delta["content"]))
	a.out.text(str(delta["refusal"]))
	merge(a.fields, delta)
	return false, nil // token counts may follow the last piece
}

// addCall adds a piece of a call. Servers that send each call whole, such as Google's, may give all calls the same index
// or none. So a new id begins a new call, and so does a name after a complete call.
func (a *chatAnswer) addCall(piece object) {
	index, _ := piece["index"].(json.Number)
	delete(piece, "index")
	var call *chatCall
	for _, c := range a.calls {
		if c.index == index {
			call = c
		}
	}
	id, f := str(piece["id"]), obj(piece["function"])
	if call == nil || id != "" && id != call.id() || id == "" && str(f["name"]) != "" && call.complete() {
		call = &chatCall{index: index, fields: object{}}
		a.calls = append(a.calls, call)
	}
	merge(call.fields, piece)
	if call.id() == "" { // some servers send no id
		call.fields["id"] = "call_" + rand.Text()
	}
	a.out.call(call.name(), call.id(), str(f["arguments"]))
}

// streamed are the fields whose strings arrive in pieces. Other strings arrive whole.
var streamed = map[string]bool{
	"content": true, "refusal": true, "arguments": true, "reasoning": true, "reasoning_content": true, "thinking": true, "transcript": true,
}

// merge adds the fields of a piece to those received before.
func merge(whole, piece object) {
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
		case object:
			old := obj(whole[key])
			if old == nil {
				old = object{}
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

func (a *chatAnswer) turn() (*Turn, error) {
	if a.finish == "" {
		return nil, nil
	}
	a.fields["role"] = "assistant"
	t := &Turn{Stop: StopEnd, Text: withoutThoughts(str(a.fields["content"]))}
	if refusal := str(a.fields["refusal"]); refusal != "" {
		t.Text += refusal
		t.Stop = StopRefusal
	}
	var calls []object
	for _, c := range a.calls {
		call := newCall(c.id(), c.name(), str(c.function()["arguments"]))
		if f := c.function(); f != nil {
			f["arguments"] = string(call.Input) // servers that parse the arguments fail on invalid JSON
		}
		c.fields["type"] = "function"
		calls = append(calls, c.fields)
		t.Calls = append(t.Calls, call)
	}
	if len(calls) > 0 {
		a.fields["tool_calls"] = calls
	} else if a.fields["content"] == nil {
		a.fields["content"] = ""
	}
	switch a.finish {
	case "length":
		t.Stop = StopLength
	case "content_filter":
		t.Stop = StopRefusal
	}
	var err error
	t.Raw, err = journal.Encode(a.fields)
	return t, err
}

// withoutThoughts cuts off the reasoning that some models write in <think> before their answer.
func withoutThoughts(text string) string {
	trimmed := strings.TrimSpace(text)
	if strings.HasPrefix(trimmed, "<think>") {
		if _, after, ok := strings.Cut(trimmed, "</think>"); ok {
			return after
		}
	}
	return text
}
