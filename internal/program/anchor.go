package program

import (
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/startup"
)

// missingName matches the engines' messages about a name without a value. The name is the first or the second group.
var missingName = startup.Regexp(`^(?:'?([\w$]+)'? is not (?:defined|initialized)|Cannot access '([\w$]+)' before initialization)`)

// maxAnchor is the number of tokens after an engine's position that are searched for a name.
const maxAnchor = 200

// Anchor returns the position at which an error of the program is shown, the same for every engine. Engines report the beginning of an expression, a
// part of it, or the statement. Anchor returns the position of the name without a value, of the expression before a missing property, or of the word
// new. Explain needs the engine's own position.
func (c *Compiled) Anchor(e frame.Error, at Position) Position {
	if at.File != c.Source.name() || len(c.Source.Code) > maxHinted {
		return at
	}
	code, wrong := unfence(strings.ToValidUTF8(c.Source.Code, "?"))
	if wrong != nil {
		return at
	}
	s := tokenize(code)
	i, ok := slices.BinarySearchFunc(s.tokens, offsetAt(code, at.Line, at.Column), func(t token, at int) int { return t.start - at })
	if !ok {
		return at
	}
	if i = s.anchor(i, e.Message, at.thrown); i < 0 {
		return at
	}
	at.Line, at.Column = position(c.Source.Code, s.tokens[i].start)
	at.SourceLine = sourceLine(c.Source.Code, at.Line, at.Column)
	return at
}

// anchor returns the token at which to show an error, or -1 to keep the engine's position. i is the token at that position; thrown reports whether the error
// was thrown there.
func (s *scan) anchor(i int, message string, thrown bool) int {
	var start int
	noValue := thrown && (ofNothing().MatchString(message) || ofNothingV8().MatchString(message))
	if thrown {
		i = s.propertyAt(i, message)
	}
	switch name := missingName().FindStringSubmatch(message); {
	case thrown && name != nil:
		for j := i; j < min(len(s.tokens), i+maxAnchor); j++ {
			if s.is(j, name[1]+name[2]) && s.isName(j) && !s.isMember(j) {
				return j
			}
		}
		return -1
	case noValue && s.is(i, "[") && i > 0 && s.tokens[i-1].operand:
		start = s.operandStart(i - 1)
	case s.isKind(i, word) && (noValue || s.is(s.chainStart(i)-1, "new")):
		start = s.chainStart(i)
	default:
		return -1
	}
	if s.is(start-1, "new") {
		start--
	}
	return start
}

// propertyAt returns the token of the property that a message of V8 is about, or the bracket if the property is in brackets. i is the token that V8
// reports, which may be a token beside the property.
func (s *scan) propertyAt(i int, message string) int {
	switch {
	case !ofNothingV8().MatchString(message):
	case s.is(i, "."), s.is(i, "?."):
		return i + 1
	case s.is(i, "=") && s.isMember(i-1):
		return i - 1
	case s.is(i, "=") && s.is(i-1, "]"):
		return s.tokens[i-1].match
	}
	return i
}
