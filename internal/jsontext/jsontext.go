package jsontext

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// Traits are the differences between a JSON text and what a JavaScript program reads from it. Each is the path of the first such value,
// such as $.items[2].id, or "" if there is none.
type Traits struct {
	Big       string // an integer beyond 2^53-1
	Huge      string // a number beyond the range of a double
	Rounded   string // a number whose decimal value no double has
	Reordered string // an object whose integer keys do not come first, in ascending order
	Equal     string // a key that occurs twice in an object
}

// Look returns the traits of a valid JSON text, in one pass. For an invalid text the traits mean nothing.
func Look(text []byte) Traits {
	s := scanner{text: text}
	s.run()
	return s.traits
}

// Compact returns a valid JSON text without insignificant whitespace and without equal keys. Of the values of equal keys, the last one stays, at
// the place of the first one, as in JavaScript. The order of keys, the spelling of strings and every digit stay.
// An invalid text is returned unchanged.
func Compact(text json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	b.Grow(len(text))
	if json.Compact(&b, text) != nil {
		return text
	}
	text = b.Bytes()
	if Look(text).Equal == "" {
		return text
	}
	out, _ := unique(nil, text, 0)
	return out
}

// unique appends the value at an offset of a compact text to out, without equal keys. It returns out and the offset of the value's end.
func unique(out, text []byte, at int) ([]byte, int) {
	switch text[at] {
	case '[':
		out = append(out, '[')
		for at++; text[at] != ']'; {
			if text[at] == ',' {
				out = append(out, ',')
				at++
			}
			out, at = unique(out, text, at)
		}
		return append(out, ']'), at + 1
	case '{':
		type member struct{ key, value []byte }
		var members []member
		place := map[string]int{}
		for at++; text[at] != '}'; {
			if text[at] == ',' {
				at++
			}
			from := at
			at = endOfString(text, from)
			key := text[from:at]
			var value []byte
			value, at = unique(nil, text, at+1)
			if i, there := place[unquote(key)]; there {
				members[i].value = value
				continue
			}
			place[unquote(key)] = len(members)
			members = append(members, member{key, value})
		}
		out = append(out, '{')
		for i, m := range members {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(append(append(out, m.key...), ':'), m.value...)
		}
		return append(out, '}'), at + 1
	}
	end := End(text, at)
	return append(out, text[at:end]...), end
}

// scanner scans a JSON text once.
type scanner struct {
	text   []byte
	at     int
	open   []level
	keys   [][]byte // keys of the open objects, the outermost first
	inKey  bool     // whether the last string was a key whose colon has not been read
	traits Traits
}

// level is an open array or object.
type level struct {
	object bool
	named  bool  // whether the key of the current member has been read
	item   int   // index of the current item
	keys   int   // index of the object's first key in scanner.keys
	plain  bool  // whether a key that does not look like an index has been read
	index  int64 // the last key that looks like an index; -1 before the first
	seen   map[string]bool
}

// maxKeys is the number of keys of an object up to which keys are compared one by one.
const maxKeys = 16

func (s *scanner) run() {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; c {
		case '"':
			from := s.at
			s.at = endOfString(s.text, from)
			if l := s.top(); l != nil && l.object && !l.named {
				s.key(l, s.text[from:s.at])
			}
		case '{', '[':
			s.open = append(s.open, level{object: c == '{', keys: len(s.keys), index: -1})
			s.at++
		case '}', ']':
			s.at++
			if l := s.top(); l != nil {
				s.keys = s.keys[:l.keys]
				s.open = s.open[:len(s.open)-1]
			}
		case ':':
			s.at++
			s.inKey = false
		case ',':
			s.at++
			if l := s.top(); l != nil {
				l.item++
				l.named = false
			}
		case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			from := s.at
			for s.at++; s.at < len(s.text) && isNumeric(s.text[s.at]); s.at++ {
			}
			s.number(s.text[from:s.at])
		default:
			s.at++
		}
	}
}

func (s *scanner) top() *level {
	if len(s.open) == 0 {
		return nil
	}
	return &s.open[len(s.open)-1]
}

func isNumeric(c byte) bool {
	return c >= '0' && c <= '9' || c == '.' || c|0x20 == 'e' || c == '+' || c == '-'
}

// endOfString returns the offset of the end of the string that begins at from.
func endOfString(text []byte, from int) int {
	for i := from + 1; ; i++ {
		next := bytes.IndexByte(text[min(i, len(text)):], '"')
		if next < 0 {
			return len(text)
		}
		i += next
		slashes := 0
		for text[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i + 1
		}
	}
}

// unquote returns the decoded text of a JSON string.
func unquote(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 && len(quoted) > 1 {
		return string(quoted[1 : len(quoted)-1])
	}
	var text string
	_ = json.Unmarshal(quoted, &text) // quoted is a valid JSON string
	return text
}

// key notes the key of a member and its traits.
func (s *scanner) key(l *level, quoted []byte) {
	l.named, s.inKey = true, true
	name := quoted[1:max(1, len(quoted)-1)]
	if bytes.IndexByte(name, '\\') >= 0 {
		name = []byte(unquote(quoted))
	}
	equal := false
	if own := s.keys[l.keys:]; l.seen == nil && len(own) < maxKeys {
		for _, other := range own {
			equal = equal || bytes.Equal(other, name)
		}
	} else {
		if l.seen == nil {
			l.seen = make(map[string]bool, 2*maxKeys)
			for _, other := range own {
				l.seen[string(other)] = true
			}
		}
		equal = l.seen[string(name)]
		l.seen[string(name)] = true
	}
	s.keys = append(s.keys, name)
	if equal {
		s.note(&s.traits.Equal, len(s.open))
	}
	i, is := index(name)
	switch {
	case !is:
		l.plain = true
	case l.plain || i < l.index:
		s.note(&s.traits.Reordered, len(s.open)-1)
	}
	if is {
		l.index = i
	}
}

// index returns the number of a key that looks like an index. JavaScript puts such keys first, in ascending order.
func index(name []byte) (int64, bool) {
	if len(name) == 0 || len(name) > 10 || name[0] == '0' && len(name) > 1 {
		return 0, false
	}
	var n int64
	for _, c := range name {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, n < 1<<32-1
}

// number notes the traits of a number.
func (s *scanner) number(text []byte) {
	switch kindOf(text) {
	case beyond:
		s.note(&s.traits.Big, len(s.open))
	case huge:
		s.note(&s.traits.Huge, len(s.open))
	case halfway:
		s.note(&s.traits.Rounded, len(s.open))
	}
}

// note sets a trait to the path of the current value, unless the trait is set. The path leads through the given number of open arrays and objects.
func (s *scanner) note(trait *string, levels int) {
	if *trait == "" {
		*trait = s.path(levels, false)
	}
}

// Path returns the path of the value at an offset of a valid JSON text, with [*] for every item of an array: $.items[*].id.
func Path(text []byte, offset int) string {
	s := scanner{text: text[:offset]}
	s.run()
	levels := len(s.open)
	if s.inKey {
		levels--
	}
	return s.path(levels, true)
}

// path returns the path of the current value through the given number of open arrays and objects. If general is true, [*] stands for each index.
func (s *scanner) path(levels int, general bool) string {
	path := []byte("$")
	for i, l := range s.open[:levels] {
		if !l.object && general {
			path = append(path, "[*]"...)
			continue
		}
		if !l.object {
			path = append(strconv.AppendInt(append(path, '['), int64(l.item), 10), ']')
			continue
		}
		end := len(s.keys)
		if i+1 < len(s.open) {
			end = s.open[i+1].keys
		}
		name := s.keys[end-1]
		if isName(name) {
			path = append(append(path, '.'), name...)
			continue
		}
		quoted, _ := json.Marshal(string(name)) // a string can always be encoded
		path = append(append(append(path, '['), quoted...), ']')
	}
	const most = 100
	if len(path) > most {
		path = append(bytes.ToValidUTF8(path[:most/2], nil), append([]byte("..."), bytes.ToValidUTF8(path[len(path)-most/2:], nil)...)...)
	}
	return string(path)
}

func isName(name []byte) bool {
	for i, c := range name {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_' || c == '$'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return len(name) > 0
}

// Numbers reports how JavaScript represents the numbers of a valid JSON text. kept is false if a number is an integer beyond 2^53-1, or is beyond
// the range of a double. rounded is true if any other number has a decimal value that no double has.
func Numbers(text []byte) (kept, rounded bool) {
	kept = true
	for at := 0; at < len(text); {
		switch c := text[at]; {
		case c == '"':
			at = endOfString(text, at)
		case c >= '0' && c <= '9':
			from := at
			for at++; at < len(text) && isNumeric(text[at]); at++ {
			}
			switch kindOf(text[from:at]) {
			case beyond, huge:
				kept = false
			case halfway:
				rounded = true
			}
		default:
			at++
		}
	}
	return kept, rounded
}

// HasHalf reports whether a string of a valid JSON text has an unpaired half of a surrogate pair.
func HasHalf(text []byte) bool {
	for at := 0; at < len(text); at++ {
		if text[at] != '\\' {
			continue
		}
		at++
		switch unit(text, at) {
		case high:
			if at+5 >= len(text) || text[at+5] != '\\' || unit(text, at+6) != low {
				return true
			}
			at += 10
		case low:
			return true
		}
	}
	return false
}

// The halves of a surrogate pair.
const high, low = 1, 2

// unit returns which half of a surrogate pair a \u escape encodes, or 0. The offset is that of the letter u.
func unit(text []byte, at int) int {
	if at+4 >= len(text) || text[at] != 'u' || text[at+1]|0x20 != 'd' {
		return 0
	}
	switch c := text[at+2]; {
	case c == '8' || c == '9' || c|0x20 == 'a' || c|0x20 == 'b':
		return high
	case c|0x20 >= 'c' && c|0x20 <= 'f':
		return low
	}
	return 0
}

// End returns the offset of the end of the string, number or literal that begins at an offset of a valid and compact JSON text.
func End(text []byte, at int) int {
	if text[at] == '"' {
		return endOfString(text, at)
	}
	for at < len(text) && bytes.IndexByte([]byte(",]}"), text[at]) < 0 {
		at++
	}
	return at
}

// Depth returns the depth to which arrays and objects are nested in a valid JSON text.
func Depth(text []byte) (deepest int) {
	depth := 0
	for at := 0; at < len(text); at++ {
		switch text[at] {
		case '"':
			at = endOfString(text, at) - 1
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		}
	}
	return deepest
}
