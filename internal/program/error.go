package program

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"mcp-code-exec-harness/internal/frame"
)

// Error is an error in a program or a module, with its position.
type Error struct {
	Message    string
	File       string // name of the program as given, or the id of a module
	Line       int    // line from 1; 0 if there is no position
	Column     int    // column from 1, in UTF-16 units
	SourceLine string // line as written; of a long line, only the part around Column
	Hint       string // suggested remedy, possibly empty

	cause error
}

func (e *Error) Error() string {
	var b strings.Builder
	if e.Line > 0 {
		fmt.Fprintf(&b, "%s:%d:%d: ", e.File, e.Line, e.Column)
	} else if e.File != "" {
		fmt.Fprintf(&b, "%s: ", e.File)
	}
	b.WriteString(e.Message)
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.cause }

// errorf returns an error without a position. It formats like fmt.Errorf.
func errorf(hint, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Message: err.Error(), Hint: hint, cause: errors.Unwrap(err)}
}

// syntaxError returns a syntax error at a byte offset of the text of a file.
func syntaxError(file, text string, offset int, message string) *Error {
	e := &Error{Message: message, Hint: Hint(frame.KindSyntax, "SyntaxError", message, text)}
	return e.at(file, text, offset)
}

// at sets the position of an error to a byte offset of the text of a file.
func (e *Error) at(file, text string, offset int) *Error {
	e.File = file
	e.Line, e.Column = position(text, offset)
	e.SourceLine = sourceLine(text, e.Line, e.Column)
	return e
}

// cutLine cuts off the first line of a text. Lines end as in JavaScript: with \n, \r, \r\n, U+2028 or U+2029.
func cutLine(text string) (line, rest string, found bool) {
	i := strings.IndexAny(text, "\n\r\u2028\u2029")
	if i < 0 {
		return text, "", false
	}
	_, size := utf8.DecodeRuneInString(text[i:])
	if strings.HasPrefix(text[i:], "\r\n") {
		size = 2
	}
	return text[:i], text[i+size:], true
}

// position returns the line and column, both from 1, of a byte offset. Columns count UTF-16 units, as in engines and editors.
func position(text string, offset int) (line, column int) {
	offset = min(max(offset, 0), len(text))
	for line, start := 1, 0; ; line++ {
		_, rest, found := cutLine(text[start:])
		next := len(text) - len(rest)
		if !found || next > offset {
			return line, 1 + utf16Len(text[start:offset])
		}
		start = next
	}
}

// offsetOf returns the byte offset of a line (from 1) and a byte column (from 0).
func offsetOf(text string, line, column int) int {
	rest, found := text, true
	for ; line > 1 && found; line-- {
		_, rest, found = cutLine(rest)
	}
	return min(len(text)-len(rest)+column, len(text))
}

// sourceLine returns a line, from 1, of a text. Of a long line it returns the part around a column, with … where it was cut.
// If the beginning is cut off, the part is shorter than the column, so that the column cannot be taken for a position in the
// part.
func sourceLine(text string, line, column int) string {
	const around = 80 // UTF-16 units on each side
	found := true
	for ; line > 1 && found; line-- {
		_, text, found = cutLine(text)
	}
	text, _, _ = cutLine(text)
	column = min(column, 1+utf16Len(text))
	from, to, units := 0, len(text), 1
	for i, r := range text {
		if units <= column-around && column > 2*around+4 {
			from = i
		}
		if units >= column+around {
			to = i
			break
		}
		units += max(utf16.RuneLen(r), 1)
	}
	cut := text[from:to]
	if from > 0 {
		cut = "…" + cut
	}
	if to < len(text) {
		cut += "…"
	}
	return cut
}

func utf16Len(s string) int {
	n := 0
	for _, r := range s {
		n += max(utf16.RuneLen(r), 1)
	}
	return n
}
