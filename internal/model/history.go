package model

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
)

// callIDs gives the calls of turns that are told anew the ids they have on the wire. Providers differ in what they take;
// all take letters, digits, - and _, up to 64.
type callIDs map[string]string

// call is the id of a call within a turn that is told anew.
func (ids callIDs) call(id string) string {
	wire := id
	if !plainID(id) {
		sum := sha256.Sum256([]byte(id))
		wire = "call_" + hex.EncodeToString(sum[:12])
	}
	ids[id] = wire
	return wire
}

// result is the id for the result of a call.
func (ids callIDs) result(id string) string {
	if wire, ok := ids[id]; ok {
		return wire
	}
	return id
}

func plainID(id string) bool {
	for _, r := range id {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-' {
			return false
		}
	}
	return id != "" && len(id) <= 64
}

// newCall makes a call of what a model wrote as its arguments. No text at all is no arguments.
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

// said is the text of an assistant's message that has to be told anew, and its calls.
func said(m Message) (string, []ToolCall) {
	if m.Turn == nil {
		return m.Text, nil
	}
	return m.Turn.Text, m.Turn.Calls
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }

// encode is JSON without the escapes that are for HTML only; models are charged for them.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// stopOf is why a turn ended that has calls if calls is true.
func stopOf(stop Stop, calls bool) Stop {
	if stop == StopEnd && calls {
		return StopTools
	}
	return stop
}
