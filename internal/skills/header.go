package skills

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"mcp-code-exec-harness/internal/clip"
)

// header is the description of a module, read from the module's comments.
type header struct{ skill, description, version, input string }

// readHeader reads the comments before the code. It takes the fields Skill:, Purpose:, Description:, Version: and Input:, also from tags of JSDoc. If they
// contain no description, it takes the first sentence of the first comment, or else of the first JSDoc comment.
func readHeader(source string) header {
	source = clip.Head(source, maxHeader)
	lines := leadingComment(source)
	var h header
	var purpose string
	into := map[string]*string{
		"skill": &h.skill, "name": &h.skill, "description": &h.description, "purpose": &purpose, "version": &h.version,
		"input": &h.input,
	}
	for i, line := range lines {
		name, value, _ := field(line)
		target := into[name]
		if target == nil || *target != "" {
			continue
		}
		end := i + 1
		for ; end < len(lines); end++ {
			if _, _, ok := field(lines[end]); ok || lines[end] == "" {
				break
			}
		}
		*target = oneLine(value + " " + strings.Join(lines[i+1:end], " "))
	}
	h.description = cmp.Or(h.description, purpose, sentence(lines))
	if at := strings.Index(source, "/**"); h.description == "" && at >= 0 {
		h.description = sentence(leadingComment(source[at:]))
	}
	return h
}

// leadingComment returns the lines of the comments at the beginning of a text, without the comment marks.
func leadingComment(source string) []string {
	rest := strings.TrimPrefix(source, "\ufeff")
	if strings.HasPrefix(rest, "#!") {
		_, rest, _ = strings.Cut(rest, "\n")
	}
	var lines []string
	for {
		rest = strings.TrimSpace(rest)
		for _, directive := range [...]string{`'use strict';`, `"use strict";`} {
			rest = strings.TrimSpace(strings.TrimPrefix(rest, directive))
		}
		var comment string
		switch {
		case strings.HasPrefix(rest, "//"):
			comment, rest, _ = strings.Cut(rest, "\n")
			comment = strings.TrimLeft(comment, "/")
		case strings.HasPrefix(rest, "/*"):
			comment, rest, _ = strings.Cut(rest[2:], "*/")
			comment = "\n" + strings.TrimPrefix(comment, "*") + "\n" // separates it from neighbouring comments
		default:
			return lines
		}
		for line := range strings.Lines(comment) {
			lines = append(lines, strings.TrimSpace(strings.TrimLeft(strings.TrimSpace(line), "*")))
		}
	}
}

// field splits "Purpose: text" and "@description text" into name and value.
func field(line string) (name, value string, ok bool) {
	if tag, isTag := strings.CutPrefix(line, "@"); isTag {
		name, value, _ = strings.Cut(tag, " ")
		return strings.ToLower(name), strings.TrimSpace(value), true
	}
	name, value, ok = strings.Cut(line, ":")
	if name = strings.ToLower(strings.TrimSpace(name)); !slices.Contains(fields, name) {
		return "", "", false
	}
	return name, strings.TrimSpace(value), ok
}

// fields lists the field names that headers of skills use.
var fields = []string{
	"skill", "name", "created", "purpose", "description", "dependencies", "version", "changelog", "usage", "author",
	"tags", "input", "parameters", "returns", "example", "examples", "category",
}

// sentence returns the first sentence of the first paragraph that is neither a field nor a rule of dashes.
func sentence(lines []string) string {
	var words []string
	inField := false // whether the line follows a field without a text of its own, such as Usage:
	for _, line := range lines {
		_, value, isField := field(line)
		empty := strings.Trim(line, "-=_* ") == ""
		if (isField || empty) && len(words) > 0 || strings.HasPrefix(line, "@") {
			break
		}
		if isField || empty {
			inField = isField && value == ""
		}
		if isField || empty || inField {
			continue
		}
		for _, word := range strings.Fields(line) {
			words = append(words, word)
			if strings.ContainsAny(word[len(word)-1:], ".!?") && word != "e.g." && word != "i.e." {
				return oneLine(strings.Join(words, " "))
			}
		}
	}
	return oneLine(strings.Join(words, " "))
}

// maxHeader is the maximum number of bytes of a source that are searched for its header.
const maxHeader = 64 << 10

// maxText is the maximum length of a description in bytes, as in SKILL.md.
const maxText = 1024

// oneLine converts a text that a model wrote into one line. The result cannot move a terminal's cursor or fill a screen.
func oneLine(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == utf8.RuneError
	}), " ")
	if len(s) > maxText {
		s = clip.Head(s, maxText) + "…"
	}
	return s
}
