package model

import (
	"encoding/json"
	"fmt"
	"sync/atomic"

	"mcp-code-exec-harness/internal/journal"
)

// responses implements OpenAI's Responses API, also on Azure. The provider stores nothing: every request contains the
// whole conversation, and encrypted reasoning is sent back to the model.
// https://developers.openai.com/api/docs/guides/reasoning
type responses struct {
	// noEncrypted reports whether the server refused encrypted reasoning, because the model does not reason.
	noEncrypted atomic.Bool
}

func (*responses) format() Format { return FormatResponses }

func (w *responses) body(req *Request, most int, parts []part) (object, error) {
	body := object{"store": false}
	if !w.noEncrypted.Load() {
		body["include"] = []string{"reasoning.encrypted_content"}
	}
	if req.System != "" {
		body["instructions"] = req.System
	}
	if most > 0 {
		body["max_output_tokens"] = most
	}
	var tools []object
	for _, t := range req.Tools {
		// Not strict: that mode would make every property of a schema required.
		tools = append(tools, object{
			"type": "function", "name": t.Name, "description": t.Description, "parameters": t.InputSchema, "strict": false,
		})
	}
	if len(tools) > 0 {
		body["tools"] = tools
	}
	input := []any{}
	for _, p := range parts {
		switch {
		case p.raw != nil:
			var items []json.RawMessage
			if err := json.Unmarshal(p.raw, &items); err != nil {
				return nil, fmt.Errorf("read a stored turn: %w", err)
			}
			for _, item := range answering(items) {
				input = append(input, item)
			}
		case p.result != nil:
			input = append(input, object{"type": "function_call_output", "call_id": p.result.CallID, "output": p.result.Text})
		case p.role == RoleUser || !blank(p.text):
			input = append(input, object{"role": p.role, "content": p.text})
		}
		for _, c := range p.calls {
			input = append(input, object{"type": "function_call", "call_id": c.ID, "name": c.Name, "arguments": string(c.Input)})
		}
	}
	body["input"] = input
	return body, nil
}

// answering returns a turn's items without reasoning at the end. A cut turn can end with reasoning, and the server refuses such a turn.
func answering(items []json.RawMessage) []json.RawMessage {
	for n := len(items); n > 0; n-- {
		var last struct{ Type string }
		if json.Unmarshal(items[n-1], &last) != nil || last.Type != "reasoning" {
			return items[:n]
		}
	}
	return nil
}

// responsesAnswer collects the output items of a response.
type responsesAnswer struct {
	out      *output
	items    []json.RawMessage
	response object // the last event's response; nil until it arrives
}

func (*responses) answer(out *output) answer { return &responsesAnswer{out: out} }

func (a *responsesAnswer) take(event object, data []byte) (done bool, err error) {
	var raw struct {
		Item     json.RawMessage
		Response json.RawMessage
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return false, err
	}
	i, response := num(event["output_index"]), obj(event["response"])
	switch event["type"] {
	case "response.output_item.added", "response.output_item.done":
		a.out.begun = true
		if item := obj(event["item"]); event["type"] == "response.output_item.added" && item["type"] == "function_call" {
			a.out.call(str(item["name"]), str(item["call_id"]), "")
		}
		if i == len(a.items) {
			a.items = append(a.items, nil)
		}
		if i >= 0 && i < len(a.items) { // no server sends other indexes
			a.items[i] = raw.Item
		}
	case "response.output_text.delta", "response.refusal.delta":
		a.out.text(str(event["delta"]))
	case "response.function_call_arguments.delta":
		if piece := str(event["delta"]); i >= 0 && i < len(a.items) && piece != "" {
			var item object
			if err := decode(a.items[i], &item); err != nil {
				return false, err
			}
			a.out.call(str(item["name"]), str(item["call_id"]), piece)
		}
	case "response.completed", "response.incomplete":
		var complete struct{ Output []json.RawMessage }
		if err := json.Unmarshal(raw.Response, &complete); err != nil {
			return false, err
		}
		if len(complete.Output) > 0 { // some servers omit the items in the last event
			a.items = complete.Output
		}
		a.response = response
		a.count(obj(response["usage"]))
		return true, nil
	case "response.failed":
		if usage := obj(response["usage"]); num(usage["input_tokens"]) > 0 {
			a.out.begun = true
			a.count(usage)
		}
		return false, parseFailure(0, raw.Response)
	}
	return false, nil
}

func (a *responsesAnswer) count(u object) {
	input := obj(u["input_tokens_details"])
	a.out.usage = Usage{
		Input:       num(u["input_tokens"]),
		CachedInput: num(input["cached_tokens"]),
		CacheWrite:  num(input["cache_write_tokens"]),
		Output:      num(u["output_tokens"]),
		Reasoning:   num(obj(u["output_tokens_details"])["reasoning_tokens"]),
	}
}

func (a *responsesAnswer) turn() (*Turn, error) {
	if a.response == nil {
		return nil, nil
	}
	t := &Turn{Stop: StopEnd}
	for _, raw := range a.items {
		var item object
		if err := decode(raw, &item); err != nil {
			return nil, err
		}
		switch item["type"] {
		case "message":
			content, _ := item["content"].([]any)
			for _, part := range content {
				t.Text += str(obj(part)["text"])
				if obj(part)["type"] == "refusal" {
					t.Text += str(obj(part)["refusal"])
					t.Stop = StopRefusal
				}
			}
		case "function_call":
			t.Calls = append(t.Calls, newCall(str(item["call_id"]), str(item["name"]), str(item["arguments"])))
		}
	}
	if a.response["status"] == "incomplete" {
		t.Stop = StopLength
		if obj(a.response["incomplete_details"])["reason"] == "content_filter" {
			t.Stop = StopRefusal
		}
	}
	var err error
	t.Raw, err = journal.Encode(append([]json.RawMessage{}, a.items...))
	return t, err
}

func (w *responses) adapt(e *Error, plain *bool) bool {
	switch {
	case e.Status/100 != 4:
		return false
	case mentions(e.Message, "encrypted content is not supported"):
		return !w.noEncrypted.Swap(true)
	}
	refused := e.code == "invalid_encrypted_content" ||
		mentions(e.Message, "encrypted content", "without its required", "items are not persisted")
	return refused && set(plain)
}
