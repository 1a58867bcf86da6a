package program

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/frame"
)

// Explain returns what to say of an error that a runner reported, which was at a place: its message, with the expression as the program has it
// where the engine names none, and advice, which may be empty. It takes time in proportion to the beginning of the program, which it reads.
func (c *Compiled) Explain(e frame.Error, at Position) (message, advice string) {
	code, message := c.Source.Code, e.Message
	if at.thrown && at.File == c.Source.name() && e.Name == "TypeError" && len(code) <= maxHinted {
		if text := subject(code, offsetAt(code, at.Line, at.Column), message); text != "" {
			message = text
		}
	}
	return message, Hint(e.Kind, e.Name, message, code)
}

// maxSubject is the longest expression that is named, in bytes.
const maxSubject = 80

// ofNothing is the engine's message about a property of undefined or null.
var ofNothing = regexp.MustCompile(`^cannot (?:read|set) property '([\w$.]+)' of (undefined|null)$`)

// subject is an engine's message about the expression at an offset with the expression in it, or "".
func subject(code string, offset int, message string) string {
	nothing := ofNothing.FindStringSubmatch(message)
	if message != "not a function" && nothing == nil {
		return ""
	}
	s := tokenize(code)
	i, ok := slices.BinarySearchFunc(s.tokens, offset, func(t token, at int) int { return t.start - at })
	if !ok || !s.isKind(i, word) {
		return ""
	}
	if nothing == nil {
		// The place is the last name before the arguments.
		first := s.chainStart(i)
		if !(s.is(i+1, "(") || s.is(i+1, "?.") || s.isKind(i+1, template)) || s.is(first-1, "new") {
			return ""
		}
		return about(code[s.tokens[first].start:s.tokens[i].end], "%s is not a function")
	}
	// The place is the beginning of the expression, or a name in it. What is iterated is the whole of it.
	first, base := s.chainStart(i), -1
	for j := i; ; {
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
				return "" // it may be either
			}
			base = j
		}
		j = next
	}
}

// about is a format with an expression in place of %s, "" for one that is too long to be read.
func about(expression, format string) string {
	expression = strings.Join(strings.Fields(expression), " ")
	if len(expression) > maxSubject {
		return ""
	}
	return strings.Replace(format, "%s", expression, 1)
}

// chainStart is the first token of the chain of members and calls that the token i belongs to.
func (s *scan) chainStart(i int) int {
	for s.isMember(i) {
		j := i - 2
		for s.is(j, ")") || s.is(j, "]") {
			open := s.tokens[j].match
			if open < 0 || open >= j {
				return i
			}
			if j = open; open == 0 || !s.tokens[open-1].operand {
				return j // a bracket of its own
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

// offsetAt is the byte offset of a line and a column in UTF-16 units, both from 1.
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

// guestNames are names that programs have from the start and that may be misspelt.
var guestNames = []string{
	"callMCPTool", "search_mcp_tools", "list_mcp_tools", "get_mcp_tool_details", "introspect_servers", "tools", "fs", "utils", "pii", "env",
	"console", "require", "Buffer", "URL", "URLSearchParams", "TextEncoder", "TextDecoder", "AbortController", "structuredClone", "setTimeout",
	"setInterval", "queueMicrotask", "Object", "Array", "String", "Number", "Boolean", "Promise", "Math", "JSON", "Date", "Intl", "RegExp", "Symbol",
	"BigInt", "Error", "TypeError", "Uint8Array", "undefined", "parseInt", "parseFloat", "encodeURIComponent", "decodeURIComponent",
}

// misspelt is advice for a name that nothing defines: what is named like it in the program or in the sandbox.
func misspelt(name, source string) string {
	known := map[string]bool{}
	for _, text := range guestNames {
		known[text] = true
	}
	s := tokenize(source)
	for i := range s.tokens {
		if text := s.text(i); s.isName(i) && text != name && len(text) > 2 && !s.isMember(i) && len(known) < maxKnown {
			known[text] = true
		}
	}
	if closest := ident.Closest(name, slices.Collect(maps.Keys(known))); len(closest) > 0 && len(name) > 2 {
		return "did you mean " + clip.Head(strings.Join(closest, " or "), maxName) + "?"
	}
	return "if " + name + " was set by an earlier run: variables do not survive; save values with await " +
		"fs.writeFile('/workspace/" + name + ".json', JSON.stringify(" + name + ")) and read them back"
}

// maxKnown is how many names of a program are compared.
const maxKnown = 500
