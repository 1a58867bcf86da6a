package mcpclient

import (
	"bytes"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// idScanner finds the id of a JSON-RPC answer that is too large to keep, wherever in the object it stands (some
// servers write it behind the result). It keeps only the key and value it is looking at.
type idScanner struct {
	depth    int
	inString bool
	escaped  bool
	inValue  bool // behind the colon, at depth 1
	key      []byte
	value    []byte
	found    []byte
	method   bool // it is a request or notification
}

// maxToken is how much of a key or of a value at depth 1 is kept; an id is shorter.
const maxToken = 256

func (s *idScanner) write(data []byte) {
	for _, c := range data {
		s.step(c)
	}
}

func (s *idScanner) step(c byte) {
	if s.inString {
		switch {
		case s.escaped:
			s.escaped = false
		case c == '\\':
			s.escaped = true
		case c == '"':
			s.inString = false
		}
		s.keep(c)
		return
	}
	switch c {
	case '"':
		s.inString = true
		s.keep(c)
	case '{', '[':
		s.depth++
	case '}', ']':
		if s.depth == 1 {
			s.endPair()
		}
		s.depth--
	case ':':
		if s.depth == 1 {
			s.inValue = true
		}
	case ',':
		if s.depth == 1 {
			s.endPair()
		}
	case ' ', '\t', '\r', '\n':
	default:
		s.keep(c)
	}
}

func (s *idScanner) keep(c byte) {
	if s.depth != 1 {
		return
	}
	token := &s.key
	if s.inValue {
		token = &s.value
	}
	if len(*token) < maxToken {
		*token = append(*token, c)
	}
}

func (s *idScanner) endPair() {
	switch {
	case bytes.Equal(s.key, []byte(`"id"`)):
		s.found = bytes.Clone(s.value)
	case bytes.Equal(s.key, []byte(`"method"`)):
		s.method = true
	}
	s.key, s.value, s.inValue = s.key[:0], s.value[:0], false
}

// id returns the id of the answer, if that is what was written.
func (s *idScanner) id() (jsonrpc.ID, bool) {
	var v any
	if s.method || json.Unmarshal(s.found, &v) != nil || v == nil {
		return jsonrpc.ID{}, false
	}
	id, err := jsonrpc.MakeID(v)
	return id, err == nil
}

// decodeBatch reads a JSON-RPC batch.
func decodeBatch(line []byte) ([]jsonrpc.Message, error) {
	var parts []json.RawMessage
	if err := json.Unmarshal(line, &parts); err != nil {
		return nil, err
	}
	msgs := make([]jsonrpc.Message, 0, len(parts))
	for _, part := range parts {
		msg, err := jsonrpc.DecodeMessage(part)
		if err != nil {
			return nil, err
		}
		msgs = append(msgs, msg)
	}
	return msgs, nil
}
