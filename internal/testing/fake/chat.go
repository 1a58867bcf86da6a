package fake

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// chatMessage is a message of chat completions.
type chatMessage struct {
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	Reasoning string          `json:"reasoning_content"`
	CallID    string          `json:"tool_call_id"`
	Calls     []chatCall      `json:"tool_calls"`
}

type chatCall struct {
	ID       string          `json:"id"`
	Type     string          `json:"type"`
	Index    json.RawMessage `json:"index"`
	Function struct {
		Name      string  `json:"name"`
		Arguments *string `json:"arguments"`
	} `json:"function"`
	Extra struct {
		Google struct {
			Signature string `json:"thought_signature"`
		} `json:"google"`
	} `json:"extra_content"`
}

// foreign is the signature that Google requires for calls of other providers' models.
const foreign = "skip_thought_signature_validator"

func readChat(st *state, r *http.Request, body []byte) (Request, *refusal) {
	forgiven := st.forgive
	st.forgive = false
	google := strings.HasPrefix(r.URL.Path, "/v1beta/")
	if google && r.Header.Get("Authorization") == "" {
		return Request{}, &refusal{http.StatusUnauthorized, "", "Request is missing required authentication credential."}
	}
	var in struct {
		Model     string `json:"model"`
		MaxTokens int    `json:"max_tokens"`
		Limit     int    `json:"max_completion_tokens"`
		Stream    bool   `json:"stream"`
		Options   struct {
			Usage bool `json:"include_usage"`
		} `json:"stream_options"`
		Tools []struct {
			Type     string `json:"type"`
			Function struct {
				Name       string          `json:"name"`
				Parameters json.RawMessage `json:"parameters"`
			} `json:"function"`
		} `json:"tools"`
		Messages []chatMessage `json:"messages"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return Request{}, bad("We could not parse the JSON body of your request: %v", err)
	}
	switch {
	case in.Model == "":
		return Request{}, bad("you must provide a model parameter")
	case len(in.Messages) == 0:
		return Request{}, bad("messages: expected at least one")
	case !in.Stream:
		return Request{}, bad("this server only streams")
	}
	st.usage, st.google = in.Options.Usage, google
	req := Request{Model: in.Model, MaxTokens: in.MaxTokens + in.Limit}
	for i, t := range in.Tools {
		if t.Type != "function" || !plainID.MatchString(t.Function.Name) || len(t.Function.Parameters) == 0 {
			return Request{}, bad("Invalid 'tools[%d]'.", i)
		}
		req.Tools = append(req.Tools, t.Function.Name)
	}
	open, signed := map[string]bool{}, false
	for i, m := range in.Messages {
		if m.Role != "tool" {
			for id := range open {
				return Request{}, bad("An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: %s", id)
			}
		}
		text := partsText(m.Content)
		switch m.Role {
		case "system":
			req.System += text
		case "user":
			req.Messages = append(req.Messages, Message{Role: "user", Text: text})
		case "assistant":
			if len(m.Calls) == 0 && len(m.Content) == 0 {
				return Request{}, bad("messages[%d]: content or tool_calls must be set", i)
			}
			next := Message{Role: "assistant", Text: text}
			for j, c := range m.Calls {
				if c.ID == "" || c.Type != "function" || c.Function.Name == "" || len(c.Index) > 0 ||
					c.Function.Arguments == nil || !objectText(*c.Function.Arguments) {
					return Request{}, bad("messages[%d].tool_calls[%d]: id, type, name or arguments are not valid", i, j)
				}
				signature := c.Extra.Google.Signature
				switch want, issued := st.sealOf[c.ID]; {
				case google && j == 0 && issued && signature != want && (!forgiven || signature != foreign):
					if signature != "" && signature != foreign {
						st.forgive = true
						return Request{}, bad("Thought signature is not valid.")
					}
					return Request{}, bad("Function call is missing a thought_signature in functionCall parts. Additional data, function call `%s`, position %d.", c.Function.Name, i)
				case google && j == 0 && !issued && signature != foreign:
					return Request{}, bad("Function call is missing a thought_signature in functionCall parts. Additional data, function call `%s`, position %d.", c.Function.Name, i)
				case !google && issued && want != "" && m.Reasoning == "":
					return Request{}, bad("Missing `reasoning_content` field in the assistant message at message index %d.", i)
				}
				signed = signed || signature != "" && signature != foreign
				open[c.ID] = true
				next.Calls = append(next.Calls, Call{ID: c.ID, Name: c.Function.Name, Input: *c.Function.Arguments})
			}
			req.Messages = append(req.Messages, next)
		case "tool":
			if !open[m.CallID] {
				return Request{}, bad("messages with role 'tool' must be a response to a preceding message with 'tool_calls'.")
			}
			delete(open, m.CallID)
			req.say(Message{Role: "tool", Results: []Result{{CallID: m.CallID, Text: text}}})
		default:
			return Request{}, bad("Invalid value: '%s' of 'messages[%d].role'.", m.Role, i)
		}
	}
	for id := range open {
		return Request{}, bad("An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: %s", id)
	}
	st.forgive = forgiven && !signed
	return req, nil
}

func writeChat(st *state, req Request, reply Reply) []event {
	id := st.id("chatcmpl")
	var list []event
	chunk := func(choices []any, more object) {
		data := object{"id": id, "object": "chat.completion.chunk", "created": 1700000000, "model": req.Model, "choices": choices}
		for k, v := range more {
			data[k] = v
		}
		list = append(list, event{"", data})
	}
	delta := func(d object) { chunk([]any{object{"index": 0, "delta": d, "finish_reason": nil}}, nil) }
	delta(object{"role": "assistant", "content": ""})
	if !st.google {
		for _, text := range pieces(reply.Thinking) {
			delta(object{"reasoning_content": text})
		}
	}
	field := "content"
	if reply.Stop == "refusal" {
		field = "refusal"
	}
	for _, text := range pieces(reply.Text) {
		delta(object{field: text})
	}
	for i, c := range reply.Calls {
		if c.ID == "" {
			c.ID = st.id("call")
		}
		if st.google { // Google sends calls whole, all with the same index; only the first has a signature
			call := object{"index": 0, "id": c.ID, "type": "function", "function": object{"name": c.Name, "arguments": c.Input}}
			if i == 0 {
				st.sealOf[c.ID] = st.seal(seal{text: reply.Thinking})
				call["extra_content"] = object{"google": object{"thought_signature": st.sealOf[c.ID]}}
			}
			delta(object{"tool_calls": []any{call}})
			continue
		}
		st.sealOf[c.ID] = reply.Thinking
		delta(object{"tool_calls": []any{object{"index": i, "id": c.ID, "type": "function", "function": object{"name": c.Name, "arguments": ""}}}})
		for _, text := range pieces(c.Input) {
			delta(object{"tool_calls": []any{object{"index": i, "function": object{"arguments": text}}}})
		}
	}
	reason := "stop"
	switch {
	case reply.Stop == "length":
		reason = "length"
	case reply.Stop == "refusal":
	case reply.Stop != "":
		reason = reply.Stop
	case len(reply.Calls) > 0 && !st.google:
		reason = "tool_calls"
	}
	chunk([]any{object{"index": 0, "delta": object{}, "finish_reason": reason}}, nil)
	if st.usage {
		u := reply.Usage
		chunk([]any{}, object{"usage": object{
			"prompt_tokens": u.Input, "prompt_tokens_details": object{"cached_tokens": u.CachedInput},
			"completion_tokens": u.Output, "completion_tokens_details": object{"reasoning_tokens": u.Reasoning}, "total_tokens": u.Input + u.Output,
		}})
	}
	list = append(list, event{"", "[DONE]"})
	return list
}

var openAITypes = map[int]string{401: "authentication_error", 429: "requests"}

func failOpenAI(status int, code, message string) any {
	kind := openAITypes[status]
	switch {
	case kind != "":
	case status >= 500:
		kind = "server_error"
	default:
		kind = "invalid_request_error"
	}
	e := object{"message": message, "type": kind, "param": nil, "code": nil}
	if code != "" {
		e["code"] = code
	}
	return object{"error": e}
}

func failGemini(status int, code, message string) any {
	if code == "" {
		code = strings.ToUpper(strings.ReplaceAll(http.StatusText(status), " ", "_"))
	}
	return []any{object{"error": object{"code": status, "message": message, "status": code}}}
}

func brokenChat(code string) event {
	return event{"", object{"error": object{"message": fmt.Sprintf("%s within the stream", code), "type": "server_error", "code": code}}}
}
