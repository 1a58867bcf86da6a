package journal

import (
	"bytes"
	"encoding/json"
	"slices"
)

// maxDepth is encoding/json's limit on nesting; whatever it would refuse is refused here too.
const maxDepth = 10000

// Canonical rewrites a JSON text so that equal values have equal bytes: keys sorted by their bytes, the last of equal
// keys kept, no insignificant whitespace, one spelling for every string, nothing escaped for HTML. Numbers keep their
// text: 1 and 1.0 differ. A text that is canonical already is returned itself, without allocating; so is one that is no
// JSON. It takes time linear in the text's length, whatever its nesting.
func Canonical(raw json.RawMessage) json.RawMessage {
	s := scanner{b: raw}
	if s.canonical(0) && s.i == len(raw) {
		return raw
	}
	n, ok := parse(raw)
	if !ok {
		return raw
	}
	return n.append(make([]byte, 0, len(raw)))
}

// node is a parsed JSON value. Exactly one of text, members and elems counts, by kind.
type node struct {
	kind    byte   // '{', '[', '"', '0' (number), 't', 'f', 'n'
	text    []byte // canonical text of a string or a literal
	members []member
	elems   []node
}

// member is one key of an object; members are sorted and distinct.
type member struct {
	key   []byte // canonical text with quotes
	value node
}

// parse returns false unless b is exactly one JSON value.
func parse(b []byte) (node, bool) {
	s := scanner{b: b}
	s.space()
	n, ok := s.value(0)
	s.space()
	return n, ok && s.i == len(b)
}

func (n *node) append(b []byte) []byte {
	switch n.kind {
	case '{':
		b = append(b, '{')
		for i := range n.members {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, n.members[i].key...)
			b = append(b, ':')
			b = n.members[i].value.append(b)
		}
		return append(b, '}')
	case '[':
		b = append(b, '[')
		for i := range n.elems {
			if i > 0 {
				b = append(b, ',')
			}
			b = n.elems[i].append(b)
		}
		return append(b, ']')
	default:
		return append(b, n.text...)
	}
}

// scanner reads one JSON text.
type scanner struct {
	b []byte
	i int
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

func (s *scanner) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

// take consumes c if it is next.
func (s *scanner) take(c byte) bool {
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

// canonical consumes one value and says whether it is JSON in canonical form.
func (s *scanner) canonical(depth int) bool {
	if depth > maxDepth {
		return false
	}
	switch s.peek() {
	case '{':
		s.i++
		if s.take('}') {
			return true
		}
		var last []byte
		for {
			start := s.i
			if !s.canonicalString() {
				return false
			}
			key := s.b[start:s.i]
			if last != nil && compareKeys(last, key) >= 0 {
				return false
			}
			last = key
			if !s.take(':') || !s.canonical(depth+1) {
				return false
			}
			if !s.take(',') {
				return s.take('}')
			}
		}
	case '[':
		s.i++
		if s.take(']') {
			return true
		}
		for {
			if !s.canonical(depth + 1) {
				return false
			}
			if !s.take(',') {
				return s.take(']')
			}
		}
	case '"':
		return s.canonicalString()
	default:
		_, ok := s.literal()
		return ok
	}
}

func (s *scanner) canonicalString() bool {
	start := s.i
	plain, ok := s.quoted()
	return ok && (plain || bytes.Equal(requote(s.b[start:s.i]), s.b[start:s.i]))
}

// value consumes one value.
func (s *scanner) value(depth int) (node, bool) {
	if depth > maxDepth {
		return node{}, false
	}
	switch s.peek() {
	case '{':
		return s.object(depth)
	case '[':
		s.i++
		n := node{kind: '['}
		s.space()
		if s.take(']') {
			return n, true
		}
		for {
			s.space()
			v, ok := s.value(depth + 1)
			if !ok {
				return n, false
			}
			n.elems = append(n.elems, v)
			s.space()
			if !s.take(',') {
				return n, s.take(']')
			}
		}
	case '"':
		text, ok := s.text()
		return node{kind: '"', text: text}, ok
	default:
		return s.literal()
	}
}

func (s *scanner) object(depth int) (node, bool) {
	s.i++
	n := node{kind: '{'}
	s.space()
	if s.take('}') {
		return n, true
	}
	for {
		s.space()
		key, ok := s.text()
		if !ok {
			return n, false
		}
		s.space()
		if !s.take(':') {
			return n, false
		}
		s.space()
		v, ok := s.value(depth + 1)
		if !ok {
			return n, false
		}
		n.members = append(n.members, member{key: key, value: v})
		s.space()
		if s.take(',') {
			continue
		}
		if !s.take('}') {
			return n, false
		}
		n.members = distinct(n.members)
		return n, true
	}
}

// distinct sorts members by key and keeps the last of equal keys, as JSON.parse does.
func distinct(ms []member) []member {
	slices.SortStableFunc(ms, func(a, b member) int { return compareKeys(a.key, b.key) })
	out := ms[:0]
	for i := range ms {
		if i+1 < len(ms) && bytes.Equal(ms[i].key, ms[i+1].key) {
			continue
		}
		out = append(out, ms[i])
	}
	return out
}

// compareKeys orders quoted keys by what is between the quotes, so that "a" comes before "a b".
func compareKeys(a, b []byte) int { return bytes.Compare(a[1:len(a)-1], b[1:len(b)-1]) }

// literal consumes a number, true, false or null.
func (s *scanner) literal() (node, bool) {
	start := s.i
	kind := s.peek()
	for _, word := range [...]string{"true", "false", "null"} {
		if kind == word[0] {
			if !bytes.HasPrefix(s.b[s.i:], []byte(word)) {
				return node{}, false
			}
			s.i += len(word)
			return node{kind: kind, text: s.b[start:s.i]}, true
		}
	}
	s.take('-')
	if !s.take('0') && !s.digits() {
		return node{}, false
	}
	if s.take('.') && !s.digits() {
		return node{}, false
	}
	if s.take('e') || s.take('E') {
		if !s.take('+') {
			s.take('-')
		}
		if !s.digits() {
			return node{}, false
		}
	}
	return node{kind: '0', text: s.b[start:s.i]}, true
}

func (s *scanner) digits() bool {
	start := s.i
	for s.i < len(s.b) && '0' <= s.b[s.i] && s.b[s.i] <= '9' {
		s.i++
	}
	return s.i > start
}
