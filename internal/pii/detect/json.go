package detect

import (
	"encoding/json"
)

// surroundings is what is known of a text from outside of it.
type surroundings struct {
	key    mask     // words of the key whose value the text is
	parent mask     // words of the keys further up
	strong strength // the key says that the text is a secret
	number bool     // the text is a JSON number
	inside bool     // the text is a whole string or number of a JSON text
}

// json reads a text as JSON if it is an object or an array, and reports whether it is.
func (f *finder) json(text string, around surroundings, depth int) bool {
	i := 0
	for i < len(text) && (text[i] == ' ' || text[i] == '\n' || text[i] == '\t' || text[i] == '\r') {
		i++
	}
	if i == len(text) || text[i] != '{' && text[i] != '[' || !json.Valid([]byte(text)) {
		return false
	}
	w := walker{f, text, depth + 1}
	w.value(i, around.key|around.parent, around.key)
	return true
}

// walker reads a valid JSON text.
type walker struct {
	*finder
	text  string
	depth int
}

// value reads the value at i and returns where it ends. Objects and arrays are read without recursion: the words of their keys
// are on a stack.
func (w *walker) value(i int, parent, key mask) int {
	type level struct {
		object      bool
		parent, key mask // of the container's values
		strong      strength
	}
	var stack []level
	at := surroundings{key: key, parent: parent, inside: true}
	expectKey := false
	for i < len(w.text) {
		switch c := w.text[i]; c {
		case '{', '[':
			stack = append(stack, level{c == '{', at.parent, at.key, at.strong})
			if c == '{' {
				at.parent |= at.key
				at.key, at.strong = 0, plain
			}
			expectKey = c == '{'
			i++
		case '}', ']':
			top := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			at.parent, at.key, at.strong = top.parent, top.key, top.strong
			expectKey = false
			i++
		case ',':
			expectKey = len(stack) > 0 && stack[len(stack)-1].object
			i++
		case ':', ' ', '\n', '\t', '\r':
			i++
		case '"':
			end := endOfString(w.text, i)
			content := w.text[i+1 : end-1]
			if expectKey {
				w.literal(content, i+1, surroundings{parent: at.parent, inside: true})
				at.key, at.strong = words(content), strengthOf(content)
				expectKey = false
			} else {
				w.literal(content, i+1, at)
			}
			i = end
		default:
			end := i
			for end < len(w.text) && classes[w.text[end]]&alnum != 0 || end < len(w.text) && (w.text[end] == '-' || w.text[end] == '+' || w.text[end] == '.') {
				end++
			}
			if c == '-' || isDigit(c) {
				number := at
				number.number = true
				w.literal(w.text[i:end], i, number)
			}
			i = max(end, i+1)
		}
	}
	return i
}

// literal looks into a string or a number at an offset.
func (w *walker) literal(text string, offset int, around surroundings) {
	first := len(w.hits)
	w.find(text, around, w.depth)
	for i := first; i < len(w.hits); i++ {
		w.hits[i].start += offset
		w.hits[i].end += offset
	}
}

// endOfString is the offset behind the string that begins at from.
func endOfString(text string, from int) int {
	i := from + 1
	for text[i] != '"' {
		if text[i] == '\\' {
			i++
		}
		i++
	}
	return i + 1
}
