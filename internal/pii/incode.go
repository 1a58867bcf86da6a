package pii

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/jsontext"
	"mcp-code-exec-harness/internal/pii/language"
)

// InCode is what becomes of a value that is put into a longer text which is code.
type InCode string

// What becomes of values in code.
const (
	EscapeInCode InCode = "escape" // Values are written as the language wants. A call is refused where the language has no way to write its value.
	RefuseInCode InCode = "refuse" // A call is refused where a value would have to be escaped.
	KeepInCode   InCode = "keep"   // Values are put there as they are.
)

// Languages says in which language a string in the arguments of a tool is read; nil: all are text for people.
type Languages func(language.String) language.Language

// CodeError says that a value cannot be put into code.
type CodeError struct {
	Token, Path string
	Language    language.Language
	Reason      string
}

func (e *CodeError) Error() string {
	return fmt.Sprintf("%s is in %s at %s, and its value has %s (pii.inCode)", e.Token, e.Language, e.Path, e.Reason)
}

// Replacement is a place in the arguments of a tool where a token is replaced by its value.
type Replacement struct {
	Token    string // [NAME_1], as the arguments have it
	Path     string // place of the string, such as $.query
	Embedded bool   // the string has more than the token
	Value    string
	Written  string            // the value as it is put there
	Language language.Language // language of the text around an embedded token
}

// maxReplaced is how many places Replacements returns.
const maxReplaced = 100

// Replacements says where RestoreArguments replaces tokens in a valid JSON text, in the order of the text: of several tokens alike in a string,
// and of more than 100 places, the first.
func (s Session) Replacements(ctx context.Context, raw json.RawMessage, languages Languages) ([]Replacement, error) {
	if s.filter == nil || !mayHaveToken(string(raw)) {
		return nil, nil
	}
	r, err := s.filter.restorer(ctx, s.scope, string(raw))
	if err != nil {
		return nil, fmt.Errorf("find tokens: %w", err)
	}
	if s.filter.opt.InCode == KeepInCode {
		languages = nil
	}
	w := argumentWriter{restorer: r, languages: languages, note: true, base: "$"}
	if _, err = w.write(raw); errors.Is(err, errEnough) {
		err = nil
	}
	return w.replaced, err
}

// needsLanguage reports whether a value of the text is a part of a string and has characters that may mean something in code.
func (r *restorer) needsLanguage(text string) bool {
	return slices.ContainsFunc(r.places(text), func(p place) bool {
		whole := p.start > 0 && text[p.start-1] == '"' && (p.start < 2 || text[p.start-2] != '\\') && strings.HasPrefix(text[p.end:], `"`)
		return !whole && !language.Plain(p.text)
	})
}

// argumentWriter restores the strings of arguments, each as the language wants in which it is read.
type argumentWriter struct {
	*restorer
	languages Languages
	note      bool // collect replaced
	replaced  []Replacement

	outer []string // path of the string that has the text as JSON; nil: the text is the arguments
	base  string   // outer as text

	text  []byte
	stack []container
	file  fileOf
}

// container is an object or a list around a place of the text.
type container struct {
	from   int // offset of its bracket
	object bool
	index  int // index of the item
	key    string
	isKey  bool // the next string is a key
}

// fileOf is the file that an object names.
type fileOf struct {
	from int // offset of the object's bracket; -1: none was looked at
	name string
}

var errEnough = errors.New("no more places are wanted")

// write restores in a valid JSON text.
func (w *argumentWriter) write(raw []byte) ([]byte, error) {
	w.text, w.file = raw, fileOf{from: -1}
	out, done := make([]byte, 0, len(raw)+len(raw)/4), 0
	for at := 0; at < len(raw); {
		last := len(w.stack) - 1
		switch raw[at] {
		case '{', '[':
			w.stack = append(w.stack, container{from: at, object: raw[at] == '{', isKey: raw[at] == '{'})
		case '}', ']':
			if last >= 0 {
				w.stack = w.stack[:last]
			}
		case ',':
			if last >= 0 {
				w.stack[last].index++
				w.stack[last].isKey = w.stack[last].object
			}
		case '"':
			end := jsontext.End(raw, at)
			written, err := w.string(raw[at:end])
			if err != nil {
				return nil, err
			}
			out, done = append(append(out, raw[done:at]...), written...), end
			if last >= 0 {
				w.stack[last].isKey = false
			}
			at = end
			continue
		}
		at++
	}
	return append(out, raw[done:]...), nil
}

// string restores in a string of the text, quotes included.
func (w *argumentWriter) string(raw []byte) ([]byte, error) {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return nil, fmt.Errorf("read a string: %w", err)
	}
	isKey := len(w.stack) > 0 && w.stack[len(w.stack)-1].isKey
	if isKey {
		w.stack[len(w.stack)-1].key = text
	}
	places := w.places(text)
	if len(places) == 0 {
		return raw, nil
	}
	if !isKey && w.languages != nil && !(len(places) == 1 && places[0].start == 0 && places[0].end == len(text)) {
		of := language.String{Path: w.path(), Text: text, File: w.fileName()}
		switch l := w.languages(of); l {
		case language.None:
		case language.JSON:
			if !json.Valid([]byte(text)) {
				return w.code(language.Code, text, places)
			}
			inner := argumentWriter{restorer: w.restorer, languages: w.languages, note: w.note, replaced: w.replaced, outer: of.Path, base: w.at() + " (JSON)"}
			written, err := inner.write([]byte(text))
			if w.replaced = inner.replaced; err != nil {
				return nil, err
			}
			return journal.Encode(string(written))
		default:
			return w.code(l, text, places)
		}
	}
	for _, p := range places {
		if err := w.add(text, p, p.text, language.None, isKey); err != nil {
			return nil, err
		}
	}
	return w.json(string(raw)), nil
}

// code restores in a text of a language.
func (w *argumentWriter) code(l language.Language, text string, places []place) ([]byte, error) {
	in := make([]language.Place, len(places))
	asIs := func(p place) bool { // the program has written it for its place
		return w.madeHere(p.tok) || l == language.URL && strings.Contains(text[p.start:p.end], "%")
	}
	for i, p := range places {
		if in[i] = (language.Place{Start: p.start, End: p.end, Value: p.text}); asIs(p) {
			in[i].Value = ""
		}
	}
	written, err := language.Put(l, text, in)
	refused, is := errors.AsType[*language.RefusedError](err)
	for i, p := range places {
		switch {
		case is:
		case asIs(p):
			written[i] = p.text
		case w.f.opt.InCode == RefuseInCode && written[i] != p.text:
			refused, is = &language.RefusedError{Place: i, Reason: "characters that mean something there"}, true
		}
	}
	if is {
		p := places[refused.Place]
		return nil, &CodeError{text[p.start:p.end], w.at(), l, refused.Reason}
	}
	var out strings.Builder
	done := 0
	for i, p := range places {
		if err := w.add(text, p, written[i], l, false); err != nil {
			return nil, err
		}
		if used := w.used[p.tok]; written[i] != p.text && !slices.Contains(used, written[i]) {
			w.used[p.tok] = append(used, written[i]) // an answer may have it so
		}
		out.WriteString(text[done:p.start])
		out.WriteString(written[i])
		done = p.end
	}
	out.WriteString(text[done:])
	return journal.Encode(out.String())
}

// madeHere reports whether a value is from programs alone, their literals or what they have put together: they saw it as they wrote the text around it.
func (w *argumentWriter) madeHere(tok *token) bool {
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	return !slices.ContainsFunc(tok.judged(), func(from string) bool { return Origin(from).foreign() })
}

// add notes a place.
func (w *argumentWriter) add(text string, p place, written string, l language.Language, isKey bool) error {
	if !w.note {
		return nil
	}
	at := w.at()
	if isKey {
		at += " (key)"
	}
	r := Replacement{text[p.start:p.end], at, p.end-p.start < len(text), p.text, written, l}
	if !slices.Contains(w.replaced, r) {
		w.replaced = append(w.replaced, r)
	}
	if len(w.replaced) >= maxReplaced {
		return errEnough
	}
	return nil
}

// path is where the string stands.
func (w *argumentWriter) path() []string {
	steps := slices.Clone(w.outer)
	for _, c := range w.stack {
		if c.object {
			steps = append(steps, c.key)
		} else {
			steps = append(steps, strconv.Itoa(c.index))
		}
	}
	return steps
}

// at is path as text.
func (w *argumentWriter) at() string {
	at := w.base
	for _, c := range w.stack {
		switch {
		case !c.object:
			at += "[" + strconv.Itoa(c.index) + "]"
		case c.key == "" || strings.ContainsFunc(c.key, func(r rune) bool { return r > 0x7F || !isWord(byte(r)) }):
			at += fmt.Sprintf("[%q]", c.key)
		default:
			at += "." + c.key
		}
	}
	return at
}

// fileName is the file that the object around the string names.
func (w *argumentWriter) fileName() string {
	last := len(w.stack) - 1
	if last < 0 || !w.stack[last].object {
		return ""
	}
	if of := w.stack[last].from; w.file.from != of {
		w.file = fileOf{from: of}
		for name, at := range jsontext.Members(w.text[of:]) {
			if text, ok := jsontext.String(w.text[of+at.From : of+at.End]); ok && slices.Contains(language.Files, name) {
				w.file.name = text
			}
		}
	}
	return w.file.name
}

// codeMarks are texts that may end a text in code, by what they are called.
var codeMarks = []struct{ mark, name string }{
	{"'", "a quote"},
	{`"`, "a quote"},
	{"`", "a backtick"},
	{`\`, "a backslash"},
	{";", "a semicolon"},
	{"\n", "a line break"},
	{"\r", "a line break"},
	{"${", "${"},
}

// Marks are the names of what may end a text in code, if the value has such and stands as it is within a longer text.
func (r Replacement) Marks() (names []string) {
	for _, m := range codeMarks {
		if r.Embedded && r.Written == r.Value && strings.Contains(r.Value, m.mark) && !slices.Contains(names, m.name) {
			names = append(names, m.name)
		}
	}
	return names
}
