package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"sync/atomic"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/startup"
)

// messages implements Anthropic's Messages API. https://platform.claude.com/docs/en/api/messages
type messages struct {
	// most is the output limit of the model in tokens, as the server reported it; 0 until it does.
	most atomic.Int64
}

// defaultMaxTokens is an output limit that all models of Anthropic since 2025 support. For a model with a lower limit, the lower limit applies.
const defaultMaxTokens = 32000

func (*messages) format() Format { return FormatMessages }

func (m *messages) body(req *Request, most int, parts []part) (object, error) {
	most = cmp.Or(most, defaultMaxTokens)
	if limit := m.most.Load(); limit > 0 {
		most = min(most, int(limit))
	}
	body := object{"max_tokens": most}
	cached := object{"type": "ephemeral"}
	var tools []object
	for _, t := range req.Tools {
		tools = append(tools, object{"name": t.Name, "description": t.Description, "input_schema": t.InputSchema})
	}
	// The provider caches tools, system prompt and messages, in this order, up to the marked block.
	if req.System != "" {
		body["system"] = []object{{"type": "text", "text": req.System, "cache_control": cached}}
	} else if len(tools) > 0 {
		tools[len(tools)-1]["cache_control"] = cached
	}
	if len(tools) > 0 {
		body["tools"] = tools
	}
	type message struct {
		Role    Role  `json:"role"`
		Content []any `json:"content"`
	}
	var list []message
	for _, p := range parts {
		role, blocks, err := blocksOf(p)
		if err != nil {
			return nil, err
		}
		// Results of calls and the user's next text form one message, and so do consecutive turns.
		if n := len(list); n > 0 && list[n-1].Role == role {
			list[n-1].Content = append(list[n-1].Content, blocks...)
		} else if len(blocks) > 0 {
			list = append(list, message{role, blocks})
		}
	}
	if n := len(list); n > 0 && list[n-1].Role == RoleUser {
		obj(list[n-1].Content[len(list[n-1].Content)-1])["cache_control"] = cached
	}
	body["messages"] = list
	return body, nil
}

// blocksOf returns a part as content blocks. It omits blank text, which models can write and the server refuses.
func blocksOf(p part) (role Role, blocks []any, err error) {
	switch {
	case p.raw != nil:
		var list []json.RawMessage
		if err := json.Unmarshal(p.raw, &list); err != nil {
			return "", nil, fmt.Errorf("read a stored turn: %w", err)
		}
		for _, block := range list {
			var text struct{ Type, Text string }
			if json.Unmarshal(block, &text) != nil || text.Type != "text" || !blank(text.Text) {
				blocks = append(blocks, block)
			}
		}
		return RoleAssistant, blocks, nil
	case p.result != nil:
		content := []object{{"type": "text", "text": p.result.Text}}
		return RoleUser, []any{object{
			"type": "tool_result", "tool_use_id": p.result.CallID, "is_error": p.result.IsError, "content": content,
		}}, nil
	}
	if !blank(p.text) {
		blocks = append(blocks, object{"type": "text", "text": p.text})
	}
	for _, c := range p.calls {
		blocks = append(blocks, object{"type": "tool_use", "id": c.ID, "name": c.Name, "input": c.Input})
	}
	return p.role, blocks, nil
}

// messagesAnswer assembles the content blocks of a streamed message, with every field that the server sends.
type messagesAnswer struct {
	out    *output
	blocks []object
	inputs map[int]string // inputs of calls by block, as the model wrote them
	stop   object         // last delta of the message
	done   bool
}

func (*messages) answer(out *output) answer {
	return &messagesAnswer{out: out, inputs: map[int]string{}}
}

func (a *messagesAnswer) take(event object, _ []byte) (done bool, err error) {
	i, delta := num(event["index"]), obj(event["delta"])
	switch event["type"] {
	case "message_start":
		a.out.begun = true
		a.count(obj(obj(event["message"])["usage"]))
		a.out.usage.Output = 0 // message_delta sends the whole count
	case "message_delta":
		a.stop = delta
		a.count(obj(event["usage"]))
	case "content_block_start":
		block := obj(event["content_block"])
		if i != len(a.blocks) || block == nil {
			return false, fmt.Errorf("content block %d begins after %d", i, len(a.blocks))
		}
		a.blocks = append(a.blocks, block)
		if block["type"] == "tool_use" {
			a.out.call(str(block["name"]), str(block["id"]), "")
		} else {
			a.out.text(str(block["text"]))
		}
	case "content_block_delta":
		if i < 0 || i >= len(a.blocks) {
			return false, fmt.Errorf("content block %d of %d goes on", i, len(a.blocks))
		}
		a.add(i, delta)
	case "message_stop":
		a.done = true
	}
	return a.done, nil
}

// add adds a piece to a block.
func (a *messagesAnswer) add(i int, delta object) {
	block := a.blocks[i]
	for _, key := range []string{"text", "thinking", "signature"} {
		if piece := str(delta[key]); piece != "" {
			block[key] = str(block[key]) + piece
		}
	}
	if citation := delta["citation"]; citation != nil {
		citations, _ := block["citations"].([]any)
		block["citations"] = append(citations, citation)
	}
	if piece := str(delta["partial_json"]); piece != "" && block["type"] == "tool_use" {
		a.inputs[i] += piece
		a.out.call(str(block["name"]), str(block["id"]), piece)
	}
	a.out.text(str(delta["text"]))
}

// count updates token counts. The event message_start has all counts, and message_delta has those that changed.
func (a *messagesAnswer) count(u object) {
	usage := &a.out.usage
	fresh := usage.Input - usage.CachedInput - usage.CacheWrite
	for key, n := range map[string]*int{
		"input_tokens": &fresh, "cache_read_input_tokens": &usage.CachedInput, "cache_creation_input_tokens": &usage.CacheWrite,
		"output_tokens": &usage.Output,
	} {
		if u[key] != nil {
			*n = num(u[key])
		}
	}
	if details := obj(u["output_tokens_details"]); details != nil {
		usage.Reasoning = num(details["thinking_tokens"])
	}
	usage.Input = fresh + usage.CachedInput + usage.CacheWrite
}

func (a *messagesAnswer) turn() (*Turn, error) {
	if !a.done {
		return nil, nil
	}
	t := &Turn{Stop: StopEnd}
	for i, block := range a.blocks {
		switch block["type"] {
		case "text":
			t.Text += str(block["text"])
		case "tool_use":
			arguments := a.inputs[i]
			if arguments == "" { // compatible servers may send the whole input in the block
				raw, err := journal.Encode(block["input"])
				if err != nil {
					return nil, err
				}
				arguments = string(raw)
			}
			call := newCall(str(block["id"]), str(block["name"]), arguments)
			block["input"] = call.Input // the server refuses an input that is not an object
			t.Calls = append(t.Calls, call)
		}
	}
	switch a.stop["stop_reason"] {
	case "max_tokens", "model_context_window_exceeded":
		t.Stop = StopLength
	case "refusal":
		t.Stop = StopRefusal
		t.Text = cmp.Or(t.Text, str(obj(a.stop["stop_details"])["explanation"]))
	}
	var err error
	t.Raw, err = journal.Encode(append([]object{}, a.blocks...))
	return t, err
}

// tooMuch matches the server's message that max_tokens exceeds the model's output limit.
var tooMuch = startup.Regexp(`max_tokens: \d+ > (\d+)`)

func (m *messages) adapt(e *Error, plain *bool) bool {
	if e.Kind != KindInvalidRequest {
		return false
	}
	if found := tooMuch().FindStringSubmatch(e.Message); found != nil {
		limit, err := strconv.ParseInt(found[1], 10, 64)
		return err == nil && limit > 0 && m.most.Swap(limit) != limit
	}
	// Examples: Invalid `signature` in `thinking` block; blocks in the latest assistant message cannot be modified.
	return mentions(e.Message, "thinking") && mentions(e.Message, "signature", "block") && set(plain)
}
