package skills

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// header is what the comments of a module say about it.
type header struct{ skill, description, version string }

// readHeader reads the comments before the code: the fields Skill:, Purpose:, Description: and Version:, also as tags
// of JSDoc. Without a description there, it is the first sentence of the first comment, else of the first JSDoc.
func readHeader(source string) header {
	lines := leadingComment(source)
	var h header
	var purpose string
	for i, line := range lines {
		name, value, ok := field(line)
		if !ok {
			continue
		}
		end := i + 1
		for ; end < len(lines); end++ {
			if _, _, ok := field(lines[end]); ok || lines[end] == "" || strings.HasPrefix(lines[end], "@") {
				break
			}
		}
		value += " " + strings.Join(lines[i+1:end], " ")
		var into *string
		switch name {
		case "skill", "name":
			into = &h.skill
		case "description":
			into = &h.description
		case "purpose":
			into = &purpose
		case "version":
			into = &h.version
		default:
			continue
		}
		if *into == "" {
			*into = clip(value)
		}
	}
	if h.description == "" {
		h.description = purpose
	}
	if h.description == "" {
		h.description = sentence(lines)
	}
	if at := strings.Index(source, "/**"); h.description == "" && at >= 0 {
		h.description = sentence(leadingComment(source[at:]))
	}
	return h
}

// leadingComment returns the lines of the comments a text begins with, bare of their marks.
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
			comment = "\n" + strings.TrimPrefix(comment, "*") + "\n" // apart from what surrounds it
		default:
			return lines
		}
		for line := range strings.Lines(comment) {
			lines = append(lines, strings.TrimSpace(strings.TrimLeft(strings.TrimSpace(line), "*")))
		}
	}
}

// field splits "Purpose: text" and "@description text".
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

// fields are those in use in headers of skills.
var fields = []string{
	"skill", "name", "created", "purpose", "description", "dependencies", "version", "changelog", "usage", "author",
	"tags", "parameters", "returns", "example", "examples", "category",
}

// sentence returns the first sentence of the first paragraph that is neither a field nor a rule of dashes.
func sentence(lines []string) string {
	var words []string
	inField := false // below a field without a text of its own, such as Usage:
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
				return clip(strings.Join(words, " "))
			}
		}
	}
	return clip(strings.Join(words, " "))
}

// maxText is the length of a description in bytes (the limit of SKILL.md's).
const maxText = 1024

// clip makes one line of a text that a model wrote: nothing in it can move a terminal's cursor or fill a screen.
func clip(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == utf8.RuneError
	}), " ")
	if len(s) <= maxText {
		return s
	}
	end := maxText
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}

// The forms of exports, in text without comments and strings.
var exportForms = sync.OnceValue(func() []*regexp.Regexp {
	return []*regexp.Regexp{
		regexp.MustCompile(`\bexport\s+(?:async\s+)?(?:function\b\s*\*?|class|abstract\s+class|const\s+enum|const|let|var|enum)\s*([\w$]+)`),
		regexp.MustCompile(`\bexport\s+(default)\b`),
		regexp.MustCompile(`(?:^|[^.\w$])(?:module\.)?exports\.([\w$]+)\s*=[^=]`),
	}
})

var (
	exportLists  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\bexport\s*\{([^}]*)\}`) })
	exportAssign = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\bmodule\.exports\s*=\s*(\{)?`) })
	exportAs     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:[\w$]+\s+as\s+)?([\w$]+)$`) })
	objectKey    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:async\s+)?\*?\s*([\w$]+)\s*(?:[:(].*)?$`) })
)

// maxAssigned is how many assignments to module.exports are looked at: each may hold all the others.
const maxAssigned = 16

// exports returns the names a module exports, sorted. It reads the text and does not execute or parse it: a name that
// is computed is missed.
func exports(source string) []string {
	code := blank(source)
	var names []string
	for _, form := range exportForms() {
		for _, m := range form.FindAllStringSubmatch(code, -1) {
			names = append(names, m[1])
		}
	}
	for _, m := range exportLists().FindAllStringSubmatch(code, -1) {
		for item := range strings.SplitSeq(m[1], ",") {
			if m := exportAs().FindStringSubmatch(strings.TrimSpace(item)); m != nil {
				names = append(names, m[1])
			}
		}
	}
	for _, m := range exportAssign().FindAllStringSubmatchIndex(code, maxAssigned) {
		switch {
		case m[2] >= 0:
			names = append(names, keys(code[m[3]:])...)
		case !strings.HasPrefix(code[m[1]:], "="): // a comparison
			names = append(names, "default")
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// keys returns the property names of an object literal, given the text behind its opening brace.
func keys(code string) []string {
	var names []string
	depth, start := 1, 0
	for i := 0; i < len(code) && depth > 0; i++ {
		switch code[i] {
		case '{', '(', '[':
			depth++
		case '}', ')', ']':
			depth--
		}
		if depth == 0 || depth == 1 && code[i] == ',' {
			item := strings.Join(strings.Fields(code[start:i]), " ")
			if m := objectKey().FindStringSubmatch(item); m != nil {
				names = append(names, m[1])
			}
			start = i + 1
		}
	}
	return names
}

// blank replaces comments and the inside of strings by spaces. A quote in a regular expression can hide the rest of
// its line, no more.
func blank(source string) string {
	out := []byte(source)
	wipe := func(from, to int) {
		for i := from; i < to; i++ {
			if out[i] != '\n' {
				out[i] = ' '
			}
		}
	}
	for i := 0; i < len(out); i++ {
		rest := source[i:]
		var end int
		switch {
		case strings.HasPrefix(rest, "//"):
			before, _, _ := strings.Cut(rest, "\n")
			end = len(before)
		case strings.HasPrefix(rest, "/*"):
			inside, _, _ := strings.Cut(rest[2:], "*/")
			end = min(len(inside)+4, len(rest))
		case rest[0] == '"' || rest[0] == '\'' || rest[0] == '`':
			end = 1
			for end < len(rest) && rest[end] != rest[0] && (rest[0] == '`' || rest[end] != '\n') {
				if rest[end] == '\\' {
					end++
				}
				end++
			}
			end = min(end+1, len(rest))
		default:
			continue
		}
		wipe(i, i+end)
		i += end - 1
	}
	return string(out)
}
