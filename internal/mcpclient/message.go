package mcpclient

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// byteOrderMark is the UTF-8 byte order mark, with which some servers on Windows begin their output.
const byteOrderMark = "\xef\xbb\xbf"

// decodeMessages decodes a message of a server, or a batch of messages, which protocol version 2025-03-26 allows. The error is a *fault.
func decodeMessages(data []byte) ([]jsonrpc.Message, error) {
	data = bytes.TrimSpace(bytes.TrimPrefix(data, []byte(byteOrderMark)))
	parts := []json.RawMessage{data}
	if len(data) > 0 && data[0] == '[' {
		if err := json.Unmarshal(data, &parts); err != nil {
			return nil, invalidMessage(data, err.Error())
		}
	}
	msgs := make([]jsonrpc.Message, len(parts))
	for i, part := range parts {
		var err error
		if msgs[i], err = decodeMessage(part); err != nil {
			return nil, err
		}
	}
	return msgs, nil
}

// decodeMessage decodes a message of a server as tolerantly as the official clients do: the id of an answer may be a string.
func decodeMessage(data []byte) (jsonrpc.Message, error) {
	msg, err := jsonrpc.DecodeMessage(data)
	if err != nil {
		if answer, ok := decodeAnswer(data); ok && !strings.Contains(err.Error(), "nesting depth") {
			return answer, nil
		}
		return nil, invalidMessage(data, whyInvalid(data, err))
	}
	if answer, ok := msg.(*jsonrpc.Response); ok {
		answer.ID = asNumber(answer.ID)
	}
	return msg, nil
}

// decodeAnswer decodes an answer whose error has members of other types than JSON-RPC defines. ok is false if data is not an answer.
func decodeAnswer(data []byte) (_ *jsonrpc.Response, ok bool) {
	var m struct {
		Version json.RawMessage `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Method  json.RawMessage `json:"method"`
		Result  json.RawMessage `json:"result"`
		Error   json.RawMessage `json:"error"`
	}
	if json.Unmarshal(data, &m) != nil || m.Method != nil || m.Result == nil && m.Error == nil {
		return nil, false
	}
	if version := asText(m.Version); version != "2.0" && version != "2" { // a log line in JSON may also have an id and an error
		return nil, false
	}
	id, ok := answeredID(m.ID)
	answer := &jsonrpc.Response{ID: id, Result: m.Result}
	if present(m.Error) {
		answer.Result, answer.Error = nil, decodeError(m.Error)
	}
	return answer, ok
}

// decodeError decodes the error of an answer, whatever its JSON type.
func decodeError(raw json.RawMessage) *jsonrpc.Error {
	var e struct {
		Code    json.RawMessage `json:"code"`
		Message json.RawMessage `json:"message"`
		Data    json.RawMessage `json:"data"`
	}
	if json.Unmarshal(raw, &e) != nil || !present(e.Message) {
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: asText(raw)}
	}
	code, err := strconv.ParseFloat(asText(e.Code), 64)
	if err != nil {
		code = jsonrpc.CodeInternalError
	}
	return &jsonrpc.Error{Code: int64(code), Message: asText(e.Message), Data: e.Data}
}

// asText returns the value of a JSON string, and any other JSON value as it is written.
func asText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return string(bytes.TrimSpace(raw))
	}
	return text
}

// answeredID decodes the id in an answer. ok is false if the value cannot be an id.
func answeredID(raw json.RawMessage) (id jsonrpc.ID, ok bool) {
	var v any
	if json.Unmarshal(raw, &v) != nil || v == nil {
		return jsonrpc.ID{}, false
	}
	id, err := jsonrpc.MakeID(v)
	return asNumber(id), err == nil
}

// asNumber converts an id that came back as a string to a number, because the SDK uses numbers.
func asNumber(id jsonrpc.ID) jsonrpc.ID {
	text, ok := id.Raw().(string)
	if !ok {
		return id
	}
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return id
	}
	number, _ := jsonrpc.MakeID(float64(n)) // a number is always a valid id
	return number
}

// errorWithoutID returns the error of an answer that names no request.
func errorWithoutID(data []byte) *jsonrpc.Error {
	var m struct {
		Version json.RawMessage `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   json.RawMessage `json:"error"`
	}
	data = bytes.TrimPrefix(data, []byte(byteOrderMark))
	if json.Unmarshal(data, &m) != nil || asText(m.Version) != "2.0" || present(m.ID) || !present(m.Error) {
		return nil
	}
	return decodeError(m.Error)
}

// whyInvalid returns in plain words why a message cannot be decoded.
func whyInvalid(data []byte, err error) string {
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "unmarshaling jsonrpc message: "), "json: ")
	switch {
	case strings.Contains(text, "nesting depth"):
		return text
	case !json.Valid(data):
		return "it is not JSON: " + text
	case !isObject(data):
		return "it is not a JSON object"
	}
	return "it is neither a request nor an answer of JSON-RPC 2.0"
}
