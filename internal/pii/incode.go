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

// InCode selects how a value is inserted into a longer string that is code.
type InCode string

// Modes for values in code.
const (
	EscapeInCode InCode = "escape" // Values are escaped for the language. A call is rejected if the language cannot express the value.
	RefuseInCode InCode = "refuse" // A call is rejected if a value would need escaping.
	KeepInCode   InCode = "keep"   // Values are inserted unchanged.
)

// Languages returns the language of a string in the arguments of a tool; a nil Languages means that all strings are text for people.
type Languages func(language.String) language.Language

// CodeError reports that a value cannot be inserted into code.
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
	Token    string // token as it is in the arguments, such as [NAME_1]
	Path     string // path of the string, such as $.query
	Embedded bool   // the string contains more than the token
	Value    string
	Written  string            // the value as inserted
	Language language.Language // language of the text around an embedded token
}

// maxReplaced is the maximum number of places that Replacements returns.
const maxReplaced = 100

// Replacements returns the places where RestoreArguments replaces tokens in a valid JSON text, in the order of the text. It lists equal
// replacements in one string once, and at most 100 places.
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

// needsLanguage reports whether a value in the text is only a part of a string and has characters that may be special in code.
func (r *restorer) needsLanguage(text string) bool {
	return slices.ContainsFunc(r.places(text), func(p place) bool {
		whole := p.start > 0 && text[p.start-1] == '"' && (p.start < 2 || text[p.start-2] != '\\') && strings.HasPrefix(text[p.end:], `"`)
		return !whole && !language.Plain(p.text)
	})
}

// argumentWriter restores the strings of arguments, each in the way that its language requires.
type argumentWriter struct {
	*restorer
	languages Languages
	note      bool // whether to collect the replacements in replaced
	replaced  []Replacement

	outer []string // path of the string that contains the text as JSON; nil if the text is the arguments themselves
	base  string   // outer as a string

	text  []byte
	stack []container
	file  fileOf
}

// container is an object or list that encloses the current position.
type container struct {
	from   int // offset of its opening bracket
	object bool
	index  int // index of the current item
	key    string
	isKey  bool // the next string is a key
}

// fileOf is the name of the file that an object refers to.
type fileOf struct {
	from int // offset of the object's bracket; -1 before any object was examined
	name string
}

var errEnough = errors.New("no more places are wanted")

// write restores the tokens in a valid JSON text.
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

// string restores the tokens in a string of the text, quotes included.
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

// code restores the tokens in a string of a programming language.
func (w *argumentWriter) code(l language.Language, text string, places []place) ([]byte, error) {
	in := make([]language.Place, len(places))
	asIs := func(p place) bool { // the program itself has already escaped the value for this place
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
			w.used[p.tok] = append(used, written[i]) // An answer may repeat the value in this form.
		}
		out.WriteString(text[done:p.start])
		out.WriteString(written[i])
		done = p.end
	}
	out.WriteString(text[done:])
	return journal.Encode(out.String())
}

// madeHere reports whether a value comes only from programs, which wrote it as a literal or composed it. So the program knew the value when it
// wrote the text around it. A value whose origins are not all known may come from outside.
func (w *argumentWriter) madeHere(tok *token) bool {
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	return len(tok.origins) < maxOrigins && !slices.ContainsFunc(tok.origins, func(from string) bool { return Origin(from).foreign() })
}

// add records a replacement if w.note is set.
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

// path returns the path of the current string.
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

// at returns path as a string.
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

// fileName returns the name of the file that the object around the string refers to.
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

// codeMarks are the texts that may end a string in code, and their names.
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

// Marks returns the names of the codeMarks in the value, if it was inserted unchanged into a longer text.
func (r Replacement) Marks() (names []string) {
	for _, m := range codeMarks {
		if r.Embedded && r.Written == r.Value && strings.Contains(r.Value, m.mark) && !slices.Contains(names, m.name) {
			names = append(names, m.name)
		}
	}
	return names
}
