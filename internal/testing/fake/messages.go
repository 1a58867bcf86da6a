package fake

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// block is a content block of Anthropic's Messages.
type block struct {
	Type         string          `json:"type"`
	Text         string          `json:"text,omitempty"`
	Thinking     string          `json:"thinking,omitempty"`
	Signature    string          `json:"signature,omitempty"`
	ID           string          `json:"id,omitempty"`
	Name         string          `json:"name,omitempty"`
	Input        json.RawMessage `json:"input,omitempty"`
	ToolUseID    string          `json:"tool_use_id,omitempty"`
	Content      json.RawMessage `json:"content,omitempty"`
	IsError      bool            `json:"is_error,omitempty"`
	Caller       json.RawMessage `json:"caller,omitempty"`
	CacheControl json.RawMessage `json:"cache_control,omitempty"`
}

// blocks parses content that is a string or a list of blocks.
func blocks(raw json.RawMessage) ([]block, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []block{{Type: "text", Text: text}}, nil
	}
	var list []block
	return list, json.Unmarshal(raw, &list)
}

type messagesMessage struct {
	role   string
	blocks []block
}

var plainID = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

func readMessages(st *state, r *http.Request, body []byte) (Request, *refusal) {
	forgiven := st.forgive
	st.forgive = false
	if r.Header.Get("X-Api-Key") == "" {
		return Request{}, &refusal{http.StatusUnauthorized, "", "x-api-key header is required"}
	}
	if r.Header.Get("Anthropic-Version") == "" {
		return Request{}, bad("anthropic-version: header is required")
	}
	var in struct {
		Model     string          `json:"model"`
		MaxTokens *int            `json:"max_tokens"`
		System    json.RawMessage `json:"system"`
		Stream    bool            `json:"stream"`
		Tools     []struct {
			Name         string          `json:"name"`
			Description  string          `json:"description"`
			InputSchema  json.RawMessage `json:"input_schema"`
			CacheControl json.RawMessage `json:"cache_control,omitempty"`
		} `json:"tools"`
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return Request{}, bad("the body is not valid JSON: %v", err)
	}
	switch {
	case in.Model == "":
		return Request{}, bad("model: Field required")
	case in.MaxTokens == nil || *in.MaxTokens < 1:
		return Request{}, bad("max_tokens: Field required")
	case len(in.Messages) == 0:
		return Request{}, bad("messages: at least one message is required")
	case !in.Stream:
		return Request{}, bad("this server only streams")
	}
	req := Request{Model: in.Model, MaxTokens: *in.MaxTokens}
	marks := 0
	mark := func(c json.RawMessage) {
		if len(c) > 0 {
			marks++
		}
	}
	if len(in.System) > 0 {
		system, err := blocks(in.System)
		if err != nil {
			return Request{}, bad("system: %v", err)
		}
		for _, b := range system {
			mark(b.CacheControl)
			req.System += b.Text
		}
	}
	for i, t := range in.Tools {
		mark(t.CacheControl)
		in.Tools[i].CacheControl = nil
		if !plainID.MatchString(t.Name) || !strings.Contains(string(t.InputSchema), `"object"`) {
			return Request{}, bad("tools.%d: name or input_schema is not valid", i)
		}
		req.Tools = append(req.Tools, t.Name)
	}
	var list []messagesMessage // the API combines consecutive messages of one role
	for i, m := range in.Messages {
		content, err := blocks(m.Content)
		if err != nil || len(content) == 0 {
			return Request{}, bad("messages.%d: content must not be empty", i)
		}
		if m.Role != "user" && m.Role != "assistant" {
			return Request{}, bad("messages.%d: role %q is not allowed", i, m.Role)
		}
		for j, b := range content {
			mark(b.CacheControl)
			content[j].CacheControl = nil
			if b.Type == "text" && strings.TrimSpace(b.Text) == "" {
				return Request{}, bad("messages.%d: text content blocks must be non-empty", i)
			}
		}
		if n := len(list); n > 0 && list[n-1].role == m.Role {
			list[n-1].blocks = append(list[n-1].blocks, content...)
		} else {
			list = append(list, messagesMessage{m.Role, content})
		}
	}
	if marks > 4 {
		return Request{}, bad("A maximum of 4 blocks with cache_control may be provided. Found %d.", marks)
	}
	if list[0].role != "user" {
		return Request{}, bad("messages: first message must use the \"user\" role")
	}
	if list[len(list)-1].role != "user" {
		return Request{}, bad("messages: this model does not support assistant message prefill")
	}
	prefix := []any{req.System, in.Tools}
	thinks := false
	for i, m := range list {
		if m.role == "user" {
			if fault := userBlocks(&req, list, i); fault != nil {
				return Request{}, fault
			}
		} else {
			thought, fault := assistantBlocks(st, &req, i, m.blocks, digest(prefix), forgiven)
			if fault != nil {
				return Request{}, fault
			}
			thinks = thinks || thought
		}
		var kept []block
		for _, b := range m.blocks {
			if b.Type != "thinking" {
				kept = append(kept, b)
			}
		}
		prefix = append(prefix, m.role, kept)
	}
	st.forgive = forgiven && !thinks // holds until the client sends signatures again
	st.prefix = digest(prefix)
	return req, nil
}

// userBlocks reads message i, which is the user's, and checks that it answers the calls of the message before.
func userBlocks(req *Request, list []messagesMessage, i int) *refusal {
	open := map[string]bool{}
	if i > 0 {
		for _, b := range list[i-1].blocks {
			if b.Type == "tool_use" {
				open[b.ID] = true
			}
		}
	}
	var results []Result
	text := ""
	for _, b := range list[i].blocks {
		switch b.Type {
		case "text":
			text += b.Text
		case "tool_result":
			if text != "" {
				return bad("messages.%d: tool_result blocks must come first", i)
			}
			if !open[b.ToolUseID] {
				return bad("messages.%d: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.", i, b.ToolUseID)
			}
			delete(open, b.ToolUseID)
			content, err := blocks(b.Content)
			if err != nil && len(b.Content) > 0 {
				return bad("messages.%d: %v", i, err)
			}
			result := Result{CallID: b.ToolUseID, IsError: b.IsError}
			for _, c := range content {
				result.Text += c.Text
			}
			results = append(results, result)
		default:
			return bad("messages.%d: block type %q is not allowed here", i, b.Type)
		}
	}
	for id := range open {
		return bad("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s", i-1, id)
	}
	if results != nil {
		req.Messages = append(req.Messages, Message{Role: "tool", Results: results})
	}
	if text != "" {
		req.Messages = append(req.Messages, Message{Role: "user", Text: text})
	}
	return nil
}

// assistantBlocks reads message i, which is the assistant's, and checks its signatures. It reports whether there were any.
func assistantBlocks(st *state, req *Request, i int, list []block, prefix string, forgiven bool) (bool, *refusal) {
	m := Message{Role: "assistant"}
	seen := map[string]bool{}
	for j, b := range list {
		switch b.Type {
		case "text":
			m.Text += b.Text
		case "thinking":
			s, ok := st.sealed[b.Signature]
			if !ok || b.Thinking != "" && s.text != b.Thinking { // if the text is omitted, the signature contains it
				return true, bad("messages.%d.content.%d: Invalid `signature` in `thinking` block", i, j)
			}
			if s.prefix != prefix {
				st.forgive = true
				return true, bad("messages.%d.content.%d: Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block.", i, j)
			}
			seen[b.Signature] = true
		case "tool_use":
			if !plainID.MatchString(b.ID) || b.Name == "" || !objectText(string(b.Input)) {
				return false, bad("messages.%d.content.%d: tool_use needs id, name and an input object", i, j)
			}
			if want := st.sealOf[b.ID]; want != "" && !forgiven && (!seen[want] || len(b.Caller) == 0) {
				return false, bad("messages.%d.content.%d: the `thinking` blocks of this turn cannot be modified. These blocks must remain as they were in the original response.", i, j)
			}
			m.Calls = append(m.Calls, Call{ID: b.ID, Name: b.Name, Input: string(b.Input)})
		default:
			return false, bad("messages.%d.content.%d: block type %q is not allowed here", i, j, b.Type)
		}
	}
	req.Messages = append(req.Messages, m)
	return len(seen) > 0, nil
}

func writeMessages(st *state, req Request, reply Reply) []event {
	u := reply.Usage
	var list []event
	add := func(name string, data object) {
		data["type"] = name
		list = append(list, event{name, data})
	}
	add("message_start", object{"message": object{
		"id": st.id("msg"), "type": "message", "role": "assistant", "model": req.Model, "content": []any{},
		"stop_reason": nil, "stop_sequence": nil,
		"usage": object{
			"input_tokens": u.Input - u.CachedInput - u.CacheWrite, "cache_read_input_tokens": u.CachedInput,
			"cache_creation_input_tokens": u.CacheWrite, "output_tokens": 1,
		},
	}})
	add("ping", object{})
	index := 0
	content := func(start object, kind, field string, texts []string) {
		add("content_block_start", object{"index": index, "content_block": start})
		for _, text := range texts {
			add("content_block_delta", object{"index": index, "delta": object{"type": kind, field: text}})
		}
	}
	stop := func() {
		add("content_block_stop", object{"index": index})
		index++
	}
	signature := st.seal(seal{text: reply.Thinking, prefix: st.prefix})
	content(object{"type": "thinking", "thinking": "", "signature": ""}, "thinking_delta", "thinking", pieces(reply.Thinking))
	add("content_block_delta", object{"index": index, "delta": object{"type": "signature_delta", "signature": signature}})
	stop()
	if reply.Text != "" {
		content(object{"type": "text", "text": ""}, "text_delta", "text", pieces(reply.Text))
		stop()
	}
	for _, c := range reply.Calls {
		if c.ID == "" {
			c.ID = st.id("toolu")
		}
		st.sealOf[c.ID] = signature
		// Clients need not know the field caller, but have to send it back.
		content(object{"type": "tool_use", "id": c.ID, "name": c.Name, "input": object{}, "caller": object{"type": "direct"}},
			"input_json_delta", "partial_json", append([]string{""}, pieces(c.Input)...))
		stop()
	}
	reason := "end_turn"
	switch {
	case reply.Stop == "length":
		reason = "max_tokens"
	case reply.Stop != "":
		reason = "refusal"
	case len(reply.Calls) > 0:
		reason = "tool_use"
	}
	add("message_delta", object{
		"delta": object{"stop_reason": reason, "stop_sequence": nil},
		"usage": object{"output_tokens": u.Output, "output_tokens_details": object{"thinking_tokens": u.Reasoning}},
	})
	add("message_stop", object{})
	return list
}

var messagesTypes = map[int]string{
	400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error", 404: "not_found_error",
	413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error",
}

func failMessages(status int, code, message string) any {
	if code == "" {
		code = messagesTypes[status]
	}
	if code == "" {
		code = "api_error"
	}
	return object{"type": "error", "error": object{"type": code, "message": message}, "request_id": "req_" + fmt.Sprint(status)}
}

func brokenMessages(code string) event {
	return event{"error", object{"type": "error", "error": object{"type": code, "message": code + " within the stream"}}}
}
