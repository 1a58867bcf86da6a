package program

import (
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/startup"
)

// Explain returns the message to show for an error that a runner reported at a position, and advice, which may be empty. If the engine's message does
// not name the expression that caused the error, Explain adds the expression as the program writes it. Explain reads only the beginning of the
// program, in linear time.
func (c *Compiled) Explain(e frame.Error, at Position) (message, advice string) {
	const loading = "(while loading module "
	code, message := c.Source.Code, strings.Replace(e.Message, loading+LocalRoot, loading, 1)
	if at.thrown && at.File == c.Source.name() && e.Name == "TypeError" && len(code) <= maxHinted {
		if text := subject(code, offsetAt(code, at.Line, at.Column), message); text != "" {
			message = text
		}
	}
	if advice = contextual(e, message, code); advice == "" {
		advice = Hint(e.Kind, e.Name, message, code)
	}
	return message, advice
}

// maxSubject is the length limit of an expression in a message, in bytes.
const maxSubject = 80

// The messages of QuickJS and of V8 about a property of undefined or null.
var (
	ofNothing   = startup.Regexp(`^cannot (?:read|set) property '([\w$.]+)' of (undefined|null)$`)
	ofNothingV8 = startup.Regexp(`^Cannot (?:read|set) properties of (undefined|null) \((?:reading|setting) '([\w$.]+)'\)$`)
)

// subject adds the expression at an offset to an engine's message. It returns "" if it does not know the message or cannot tell the expression.
func subject(code string, offset int, message string) string {
	nothing := ofNothing().FindStringSubmatch(message)
	if v8 := ofNothingV8().FindStringSubmatch(message); v8 != nil {
		nothing = []string{message, v8[2], v8[1]}
	}
	if message != "not a function" && message != "not a constructor" && nothing == nil {
		return ""
	}
	s := tokenize(code)
	i, ok := slices.BinarySearchFunc(s.tokens, offset, func(t token, at int) int { return t.start - at })
	if ok && nothing != nil {
		i = s.propertyAt(i, message)
	}
	if ok && nothing != nil && s.is(i, "[") && i > 0 && s.tokens[i-1].operand { // V8 reports the bracket
		return about(code[s.tokens[s.operandStart(i-1)].start:s.tokens[i-1].end], message+": %s is "+nothing[2])
	}
	if !ok || !s.isKind(i, word) {
		return ""
	}
	if nothing == nil {
		return s.uncallable(i, message)
	}
	// The position is the beginning of the expression, or a name in it. The value that is iterated is the whole expression.
	first, base := s.chainStart(i), -1
	if !s.isKind(first, word) {
		if before := i - 2; s.isMember(i) && s.text(i) == nothing[1] && first < before { // V8 reports the property
			return about(code[s.tokens[first].start:s.tokens[before].end], message+": %s is "+nothing[2])
		}
		first = i
	}
	for j := first; ; {
		var property string
		next := j + 1
		switch {
		case s.is(next, ".") || s.is(next, "?."):
			property, next = s.text(next+1), next+1
		case s.is(next, "["):
			end := s.tokens[next].match
			if end <= next {
				return ""
			}
			property, next = strings.Trim(code[s.tokens[next].end:s.tokens[end].start], "'\"` "), end
		case s.is(next, "(") && s.tokens[next].match > next:
			next = s.tokens[next].match
		default:
			if nothing[1] == "Symbol.iterator" {
				return about(code[s.tokens[first].start:s.tokens[j].end], "%s is not iterable: it is "+nothing[2])
			}
			if base < 0 {
				return ""
			}
			return about(code[s.tokens[first].start:s.tokens[base].end], message+": %s is "+nothing[2])
		}
		if property == nothing[1] {
			if base >= 0 {
				return "" // the property occurs twice, so the message is ambiguous
			}
			base = j
		}
		j = next
	}
}

// uncallable adds the called expression to the engine's message about the call at token i. It returns "" if it cannot tell the expression. Token i
// is the last name before the arguments, or the first word in them.
func (s *scan) uncallable(i int, message string) string {
	first := s.chainStart(i)
	if s.is(first-1, "new") {
		for s.is(i+1, ".") && s.isName(i+2) {
			i += 2
		}
		if strings.HasSuffix(s.text(i), "Error") { // the message is the program's own
			return ""
		}
		return about(s.code[s.tokens[first].start:s.tokens[i].end], "%s is not a constructor")
	}
	if message != "not a function" {
		return ""
	}
	inner, outer := "", ""
	if called := s.is(i+1, "(") || s.is(i+1, "?.") || s.isKind(i+1, template); called && !s.is(i, "async") && !s.is(i, "function") {
		inner = s.code[s.tokens[first].start:s.tokens[i].end]
	}
	if s.is(i-1, "(") && s.isName(i-2) && s.tokens[i-2].operand {
		outer = s.code[s.tokens[s.chainStart(i-2)].start:s.tokens[i-2].end]
	}
	switch {
	case inner == "" && outer == "":
		return ""
	case outer == "":
		return about(inner, "%s is not a function")
	case inner == "" || s.isFunction(inner):
		return about(outer, "%s is not a function")
	case s.isFunction(outer):
		return about(inner, "%s is not a function")
	}
	return about(outer+" or "+inner, "%s is not a function")
}

// isFunction reports whether a function of the program or of the runtime has this name.
func (s *scan) isFunction(name string) bool {
	if slices.Contains(guestNames, name) {
		return true
	}
	for i := range s.tokens {
		if !s.is(i, name) {
			continue
		}
		if s.is(i-1, "function") || s.is(i-1, "class") {
			return true
		}
		next := i + 2
		if s.is(next, "async") {
			next++
		}
		if s.is(i+1, "=") && (s.is(next, "function") || s.is(next+1, "=>") || s.is(next, "(") && s.is(s.tokens[next].match+1, "=>")) {
			return true
		}
	}
	return false
}

// about returns format with an expression in place of %s, or "" if the expression is too long.
func about(expression, format string) string {
	expression = strings.Join(strings.Fields(expression), " ")
	if len(expression) > maxSubject {
		return ""
	}
	return strings.Replace(format, "%s", expression, 1)
}

// operandStart returns the first token of the operand whose last token is i.
func (s *scan) operandStart(i int) int {
	for s.is(i, ")") || s.is(i, "]") {
		open := s.tokens[i].match
		if open <= 0 || open >= i || !s.tokens[open-1].operand {
			return max(0, min(open, i))
		}
		i = open - 1
	}
	return max(0, s.chainStart(i))
}

// chainStart returns the first token of the chain of members and calls that token i belongs to.
func (s *scan) chainStart(i int) int {
	for s.isMember(i) {
		j := i - 2
		for s.is(j, ")") || s.is(j, "]") {
			open := s.tokens[j].match
			if open < 0 || open >= j {
				return i
			}
			if j = open; open == 0 || !s.tokens[open-1].operand {
				return j // the bracket begins an expression
			}
			j--
		}
		if j < 0 || !s.tokens[j].operand {
			return i
		}
		i = j
	}
	return i
}

// offsetAt returns the byte offset of a line and a column in UTF-16 units, both from 1.
func offsetAt(text string, line, column int) int {
	start := offsetOf(text, line, 0)
	rest, _, _ := cutLine(text[start:])
	units := 1
	for i, r := range rest {
		if units >= column {
			return start + i
		}
		if units++; r > 0xffff {
			units++
		}
	}
	return start + len(rest)
}
