package detect

import "strings"

// surroundings is the context of a text.
type surroundings struct {
	key    name // meaning of the key, if the text is the value of a key
	parent mask // meanings of the keys further up
	number bool // the text is a JSON number
	inside bool // the text is a complete string or number of a JSON text
	nested int  // depth of nested JSON texts
}

// name is the meaning of a value's key.
type name struct {
	words  mask
	strong strength
	role   role
}

// json reads a text as JSON if it is an object or an array, and reports whether it is. If the text turns out not to be JSON, the values found in it
// are dropped.
func (f *finder) json(text string, around surroundings, depth int) bool {
	i := skipSpace(text, 0)
	if i == len(text) || text[i] != '{' && text[i] != '[' {
		return false
	}
	first := len(f.hits)
	w := walker{finder: f, text: text, depth: depth + 1, at: around, reached: f.fields}
	w.at.inside = true
	w.at.nested++
	if !w.walk(i) {
		f.drop(first)
		return false
	}
	if w.again { // the names of columns come after their values
		f.drop(first)
		late := map[int][]name{}
		for _, h := range w.found {
			late[h.at] = h.names
		}
		w = walker{finder: f, text: text, depth: depth + 1, at: around, reached: f.fields, late: late}
		w.at.inside = true
		w.at.nested++
		w.walk(i)
	}
	return true
}

func skipSpace(text string, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\n' || text[i] == '\t' || text[i] == '\r') {
		i++
	}
	return i
}

// walker reads a JSON text without recursion. It checks the structure of the text, but not the syntax of strings and numbers.
type walker struct {
	*finder
	text  string
	depth int
	at    surroundings // surroundings of the next value
	stack []container

	reached []Field // fields that contain the next value

	again bool           // names of columns were found after values
	found []heading      // headings found since again was set
	late  map[int][]name // names of columns by the offset of their object; set when a text is read again
}

// container is an object or an array that is being read.
type container struct {
	object bool
	parent mask // meanings of the keys above the container's key
	key    name

	fields   []Field // fields that contain the container
	elements int     // number of elements of a list for which enterElement was called
	columns  columns
}

// maxNesting is the limit of encoding/json.
const maxNesting = 10_000

// expectation is what may come next in a JSON text.
type expectation int

const (
	aValue expectation = iota
	aValueOrEnd
	aKey
	aKeyOrEnd
	aColon
	aCommaOrEnd
)

// walk reads the text from i to its end, and reports whether it is JSON.
func (w *walker) walk(i int) bool {
	next := aValue
	for {
		if i = skipSpace(w.text, i); i == len(w.text) {
			return next == aCommaOrEnd && len(w.stack) == 0
		}
		value := next == aValue || next == aValueOrEnd
		switch c := w.text[i]; {
		case next == aCommaOrEnd && len(w.stack) == 0:
			return false
		case (c == '{' || c == '[') && value:
			if len(w.stack) == maxNesting {
				return false
			}
			next = w.open(c, i)
			i++
		case (c == '}' || c == ']') && next != aValue && next != aKey && next != aColon:
			if len(w.stack) == 0 || !w.closed(c) {
				return false
			}
			next = aCommaOrEnd
			i++
		case c == ',' && next == aCommaOrEnd:
			next = aKey
			if !w.stack[len(w.stack)-1].object {
				next = aValue
				w.stack[len(w.stack)-1].columns.index++
				w.enterElement()
			}
			i++
		case c == ':' && next == aColon:
			next = aValue
			i++
		case c == '"' && next != aColon && next != aCommaOrEnd:
			end := endOfString(w.text, i)
			if end == 0 {
				return false
			}
			next = w.str(w.text[i+1:end-1], i+1, value)
			i = end
		case value:
			end := w.atom(i)
			if end == i {
				return false
			}
			next = aCommaOrEnd
			i = end
		default:
			return false
		}
	}
}

// top returns the innermost container, or nil outside of all containers.
func (w *walker) top() *container {
	if len(w.stack) == 0 {
		return nil
	}
	return &w.stack[len(w.stack)-1]
}

func (w *walker) open(c byte, i int) expectation {
	opened := container{object: c == '{', parent: w.at.parent, key: w.at.key, fields: w.reached}
	w.enterColumns(w.top(), &opened, i)
	w.stack = append(w.stack, opened)
	if c == '[' {
		w.enterElement()
		return aValueOrEnd
	}
	w.at.parent |= w.at.key.words
	w.at.key = name{}
	return aKeyOrEnd
}

func (w *walker) closed(c byte) bool {
	top := w.stack[len(w.stack)-1]
	w.stack = w.stack[:len(w.stack)-1]
	w.at.parent, w.at.key = top.parent, top.key
	w.leaveColumns(w.top(), &top)
	return top.object == (c == '}')
}

// str reads a string that is a value or a key.
func (w *walker) str(content string, offset int, value bool) expectation {
	if value {
		at := w.place(content, true)
		if !w.inner(content, offset, at) {
			w.literal(content, offset, at)
		}
		w.field(content, offset, 0)
		return aCommaOrEnd
	}
	w.literal(content, offset, surroundings{parent: w.at.parent, inside: true, nested: w.at.nested})
	w.at.key = w.names.name(content)
	if label := w.stack[len(w.stack)-1].columns.label.words; label != 0 && w.at.key.role&isNamed != 0 {
		w.at.key.words |= label
	}
	w.enterProperty(content)
	return aColon
}

// knownNames caches the meanings of keys that a finder has read, in this text or in earlier ones, because keys repeat.
type knownNames [64]struct {
	key string
	name
}

// name returns the meaning of a key.
func (k *knownNames) name(key string) name {
	if key == "" || len(key) > maxName {
		return name{words(key), strengthOf(key), roleOf(key)}
	}
	known := &k[(len(key)*5+int(key[0])*3+int(key[len(key)-1]))%len(k)]
	if known.key != key {
		known.key, known.name = strings.Clone(key), name{words(key), strengthOf(key), roleOf(key)} // With the clone, the text is not kept in memory.
	}
	return known.name
}

// atom reads a number, true, false or null, and returns its end, or i if there is none of them.
func (w *walker) atom(i int) int {
	end := i
	for end < len(w.text) && (classes[w.text[end]]&alnum != 0 || w.text[end] == '-' || w.text[end] == '+' || w.text[end] == '.') {
		end++
	}
	text := w.text[i:end]
	switch {
	case text == "true", text == "false", text == "null":
		w.place(text, false)
	case end == i || !isDigit(text[0]) && text[0] != '-':
		return i
	case len(text) >= shortest || w.on[zipCode] || w.dictionary != nil:
		number := w.place(text, false)
		number.number = true
		w.literal(text, i, number)
		w.field(text, i, w.at.nested)
	default:
		w.place(text, false)
		w.field(text, i, w.at.nested)
	}
	return end
}

// literal looks for values in a string or a number at an offset.
func (w *walker) literal(text string, offset int, around surroundings) {
	first := len(w.hits)
	w.find(text, around, w.depth)
	for i := first; i < len(w.hits); i++ {
		w.hits[i].start += offset
		w.hits[i].end += offset
	}
}

// endOfString returns the offset after the string that begins at from, or 0 if the string does not end.
func endOfString(text string, from int) int {
	quote := from
	for i := from + 1; i < len(text); {
		if quote < i {
			next := strings.IndexByte(text[i:], '"')
			if next < 0 {
				return 0
			}
			quote = i + next
		}
		slash := strings.IndexByte(text[i:quote], '\\')
		if slash < 0 {
			return quote + 1
		}
		i += slash + 2 // continues after the escape
	}
	return 0
}
