package model

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
)

// part is a piece of a conversation: the user's text, an assistant's message or the result of one call.
type part struct {
	role   Role
	text   string
	calls  []ToolCall
	result *ToolResult     // result of a call; nil unless role is RoleTool
	raw    json.RawMessage // an assistant's message in its provider's form; nil if text and calls are sent
}

// conversation splits messages into parts for a wire format. In messages that are not sent in their provider's form, it
// replaces ids of calls by ids that all providers accept.
func (c *client) conversation(messages []Message, plain bool) []part {
	var parts []part
	ids := map[string]string{} // id of a call -> id on the wire
	for _, m := range messages {
		switch m.Role {
		case RoleAssistant:
			p := part{role: RoleAssistant, raw: c.raw(m.Turn, plain)}
			if p.raw == nil {
				p.text, p.calls = said(m)
				p.calls = slices.Clone(p.calls)
				for i, call := range p.calls {
					ids[call.ID] = wireID(call.ID)
					p.calls[i].ID = ids[call.ID]
				}
			}
			parts = append(parts, p)
		case RoleTool:
			for _, r := range m.Results {
				if id, ok := ids[r.CallID]; ok {
					r.CallID = id
				}
				parts = append(parts, part{role: RoleTool, result: &r})
			}
		default:
			parts = append(parts, part{role: RoleUser, text: m.Text})
		}
	}
	return parts
}

// raw returns a turn in its provider's form, or nil if it is not sent in that form.
func (c *client) raw(t *Turn, plain bool) json.RawMessage {
	if t == nil || plain || t.Format != c.wire.format() || t.Provider != c.cfg.Provider || t.Model != c.cfg.Name ||
		slices.ContainsFunc(t.Calls, isFenced) || len(t.Raw) == 0 {
		return nil
	}
	return t.Raw
}

// wireID returns an id for a call that all providers accept: letters, digits, - and _, at most 64.
func wireID(id string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
	if id != "" && len(id) <= 64 && strings.Trim(id, plain) == "" {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:12])
}

// newCall returns a call with the arguments that a model wrote. An empty text means no arguments.
func newCall(id, name, arguments string) ToolCall {
	call := ToolCall{ID: id, Name: name, Input: json.RawMessage(`{}`)}
	switch text := strings.TrimSpace(arguments); {
	case text == "":
	case text[0] == '{' && json.Valid([]byte(text)):
		call.Input = json.RawMessage(text)
	default:
		call.Malformed = arguments
	}
	return call
}

// said returns the text and the calls of a message.
func said(m Message) (string, []ToolCall) {
	if m.Turn == nil {
		return m.Text, nil
	}
	return m.Turn.Text, m.Turn.Calls
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }
