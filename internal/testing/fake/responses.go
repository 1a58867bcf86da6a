package fake

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// item is an input or output item of OpenAI's Responses.
type item struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	Encrypted *string         `json:"encrypted_content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments *string         `json:"arguments"`
	Output    json.RawMessage `json:"output"`
}

func readResponses(st *state, r *http.Request, body []byte) (Request, *refusal) {
	forgiven := st.forgive
	st.forgive = false
	key := r.Header.Get("Authorization")
	if strings.HasPrefix(r.URL.Path, "/openai/") {
		key = r.Header.Get("Api-Key")
	}
	if key == "" {
		return Request{}, &refusal{http.StatusUnauthorized, "", "You didn't provide an API key."}
	}
	var in struct {
		Model     string   `json:"model"`
		System    string   `json:"instructions"`
		MaxTokens int      `json:"max_output_tokens"`
		Store     *bool    `json:"store"`
		Stream    bool     `json:"stream"`
		Include   []string `json:"include"`
		Tools     []struct {
			Type       string          `json:"type"`
			Name       string          `json:"name"`
			Parameters json.RawMessage `json:"parameters"`
			Strict     *bool           `json:"strict"`
		} `json:"tools"`
		Input []item `json:"input"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return Request{}, bad("We could not parse the JSON body of your request: %v", err)
	}
	switch {
	case in.Model == "":
		return Request{}, bad("Missing required parameter: 'model'.")
	case len(in.Input) == 0:
		return Request{}, bad("Missing required parameter: 'input'.")
	case !in.Stream:
		return Request{}, bad("this server only streams")
	}
	stored := in.Store == nil || *in.Store
	st.encrypted = !stored && slices.Contains(in.Include, "reasoning.encrypted_content")
	req := Request{Model: in.Model, System: in.System, MaxTokens: in.MaxTokens}
	for i, t := range in.Tools {
		if t.Type != "function" || !plainID.MatchString(t.Name) || len(t.Parameters) == 0 {
			return Request{}, bad("Invalid 'tools[%d]'.", i)
		}
		if t.Strict == nil || *t.Strict {
			return Request{}, bad("Invalid schema for function '%s': in strict mode, 'required' has to include every key in properties.", t.Name)
		}
		req.Tools = append(req.Tools, t.Name)
	}
	open, reasoned, reasoning := map[string]bool{}, map[string]bool{}, ""
	for i, it := range in.Input {
		if reasoning != "" && it.Type != "function_call" && (it.Type != "message" || it.Role != "assistant") && it.Type != "reasoning" {
			return Request{}, bad("Item '%s' of type 'reasoning' was provided without its required following item.", reasoning)
		}
		if it.Type != "reasoning" {
			reasoning = ""
		}
		switch it.Type {
		case "", "message":
			if it.Role == "" {
				return Request{}, bad("Missing required parameter: 'input[%d].role'.", i)
			}
			req.say(Message{Role: it.Role, Text: partsText(it.Content)})
		case "reasoning":
			reasoning = it.ID
			switch {
			case it.Encrypted == nil && !stored:
				return Request{}, &refusal{http.StatusNotFound, "", "Item with id '" + it.ID + "' not found. Items are not persisted when `store` is set to false."}
			case it.Encrypted != nil && st.sealed[*it.Encrypted].id != it.ID:
				st.forgive = true
				return Request{}, &refusal{http.StatusBadRequest, "invalid_encrypted_content", "The encrypted content for item " + it.ID + " could not be verified."}
			case it.Encrypted != nil:
				reasoned[*it.Encrypted] = true
			}
		case "function_call":
			if it.Name == "" || it.CallID == "" || len(it.CallID) > 64 || it.Arguments == nil {
				return Request{}, bad("Invalid 'input[%d]': a function_call needs name, call_id and arguments.", i)
			}
			if want := st.sealOf[it.CallID]; want != "" && !reasoned[want] && !forgiven {
				return Request{}, bad("Item '%s' of type 'function_call' was provided without its required 'reasoning' item: '%s'.", it.ID, st.sealed[want].id)
			}
			open[it.CallID] = true
			req.say(Message{Role: "assistant", Calls: []Call{{ID: it.CallID, Name: it.Name, Input: *it.Arguments}}})
		case "function_call_output":
			if !open[it.CallID] {
				return Request{}, bad("No tool call found for function call output with call_id %s.", it.CallID)
			}
			delete(open, it.CallID)
			req.say(Message{Role: "tool", Results: []Result{{CallID: it.CallID, Text: partsText(it.Output)}}})
		default:
			return Request{}, bad("Invalid value: '%s' of 'input[%d].type'.", it.Type, i)
		}
	}
	for id := range open {
		return Request{}, bad("No tool output found for function call %s.", id)
	}
	st.forgive = forgiven && len(reasoned) == 0
	return req, nil
}

// say appends a message. It merges items of one turn, and results of one turn, into one message.
func (r *Request) say(m Message) {
	if n := len(r.Messages); n > 0 && m.Role != "user" && r.Messages[n-1].Role == m.Role {
		last := &r.Messages[n-1]
		last.Text += m.Text
		last.Calls = append(last.Calls, m.Calls...)
		last.Results = append(last.Results, m.Results...)
		return
	}
	r.Messages = append(r.Messages, m)
}

// partsText returns the text of content that is a string or a list of parts.
func partsText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var parts []struct {
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return ""
	}
	for _, p := range parts {
		text += p.Text + p.Refusal
	}
	return text
}

func writeResponses(st *state, req Request, reply Reply) []event {
	var list []event
	add := func(name string, data object) {
		data["type"], data["sequence_number"] = name, len(list)
		list = append(list, event{name, data})
	}
	response := object{
		"id": st.id("resp"), "object": "response", "created_at": 1700000000, "status": "in_progress", "error": nil,
		"incomplete_details": nil, "instructions": req.System, "model": req.Model, "output": []any{}, "parallel_tool_calls": true,
		"tool_choice": "auto", "tools": []any{}, "store": false, "usage": nil,
	}
	add("response.created", object{"response": clone(response)})
	add("response.in_progress", object{"response": clone(response)})
	var output []any
	status := "completed"
	if reply.Stop == "length" || reply.Stop == "content_filter" {
		status = "incomplete"
	}
	// item sends the events of one output item: its beginning, those in between, and the complete item.
	item := func(begun, whole object, between func(index int, id string)) {
		index := len(output)
		add("response.output_item.added", object{"output_index": index, "item": begun})
		if between != nil {
			between(index, begun["id"].(string))
		}
		add("response.output_item.done", object{"output_index": index, "item": whole})
		output = append(output, whole)
	}
	signature := ""
	if st.encrypted {
		id := st.id("rs")
		signature = st.seal(seal{id: id, text: reply.Thinking})
		summary := []any{}
		if reply.Thinking != "" {
			summary = append(summary, object{"type": "summary_text", "text": reply.Thinking})
		}
		item(object{"id": id, "type": "reasoning", "summary": []any{}, "encrypted_content": ""},
			object{"id": id, "type": "reasoning", "summary": summary, "encrypted_content": signature}, nil)
	}
	if reply.Text != "" {
		id, kind, field := st.id("msg"), "output_text", "text"
		if reply.Stop == "refusal" {
			kind, field = "refusal", "refusal"
		}
		part := object{"type": kind, field: reply.Text}
		if kind == "output_text" {
			part["annotations"], part["logprobs"] = []any{}, []any{}
		}
		item(object{"id": id, "type": "message", "status": "in_progress", "role": "assistant", "content": []any{}},
			object{"id": id, "type": "message", "status": "completed", "role": "assistant", "content": []any{part}},
			func(index int, id string) {
				at := object{"item_id": id, "output_index": index, "content_index": 0}
				add("response.content_part.added", with(at, "part", object{"type": kind, field: "", "annotations": []any{}}))
				for _, text := range pieces(reply.Text) {
					add("response."+kind+".delta", with(at, "delta", text))
				}
				add("response."+kind+".done", with(at, field, reply.Text))
				add("response.content_part.done", with(at, "part", part))
			})
	}
	for _, c := range reply.Calls {
		if c.ID == "" {
			c.ID = st.id("call")
		}
		if signature != "" {
			st.sealOf[c.ID] = signature
		}
		id := st.id("fc")
		item(object{"id": id, "type": "function_call", "status": "in_progress", "call_id": c.ID, "name": c.Name, "arguments": ""},
			object{"id": id, "type": "function_call", "status": status, "call_id": c.ID, "name": c.Name, "arguments": c.Input},
			func(index int, id string) {
				at := object{"item_id": id, "output_index": index}
				for _, text := range pieces(c.Input) {
					add("response.function_call_arguments.delta", with(at, "delta", text))
				}
				add("response.function_call_arguments.done", with(at, "arguments", c.Input))
			})
	}
	u := reply.Usage
	response["output"], response["status"] = output, status
	if status == "incomplete" {
		response["incomplete_details"] = object{"reason": "max_output_tokens"}
		if reply.Stop == "content_filter" {
			response["incomplete_details"] = object{"reason": reply.Stop}
		}
	}
	response["usage"] = object{
		"input_tokens": u.Input, "input_tokens_details": object{"cached_tokens": u.CachedInput, "cache_write_tokens": u.CacheWrite},
		"output_tokens": u.Output, "output_tokens_details": object{"reasoning_tokens": u.Reasoning}, "total_tokens": u.Input + u.Output,
	}
	add("response."+status, object{"response": response})
	return list
}

func clone(o object) object {
	c := object{}
	for k, v := range o {
		c[k] = v
	}
	return c
}

func with(o object, key string, v any) object {
	c := clone(o)
	c[key] = v
	return c
}

func brokenResponses(code string) event {
	return event{"error", object{"type": "error", "code": code, "message": code + " within the stream", "param": nil}}
}
