package dts

import (
	"strings"
	"unicode/utf8"

	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/catalog/schema"
)

// What a comment may cost, in runes: a description is for a model's context, where a manual is not wanted.
const (
	maxDescription = 600
	maxToolText    = 3000
	maxValueText   = 80
)

// docLines are the lines of the comment of a schema: its description and the rules that types cannot express.
func docLines(v *schema.Value) []string {
	if !v.Is(schema.Object) {
		return nil
	}
	text := v.Get("description").String()
	if text == "" {
		text = v.Get("title").String()
	}
	lines := Clean(text, maxDescription)
	if r := rules(v); r != "" {
		if len(lines) == 1 && len(lines[0])+len(r) < 100 {
			lines[0] += " (" + r + ")"
		} else {
			lines = append(lines, r)
		}
	}
	if v.Get("deprecated").IsTrue() {
		lines = append(lines, "@deprecated")
	}
	return lines
}

// rules are the constraints of a schema in a few words: "integer, 1 to 100, default 10".
func rules(v *schema.Value) string {
	var out []string
	add := func(label string, value *schema.Value) {
		if value == nil {
			return
		}
		if text := strings.Join(Clean(value.JSON(), maxValueText), " "); text != "" {
			out = append(out, label+text)
		}
	}
	for _, t := range v.Get("type").Strings() {
		if t == "integer" {
			out = append(out, t)
		}
	}
	if format := v.Get("format").String(); format != "" {
		out = append(out, strings.Join(Clean(format, maxValueText), " "))
	}
	if encoding := v.Get("contentEncoding").String(); encoding != "" {
		out = append(out, strings.Join(Clean(encoding, maxValueText), " "))
	}
	low, high := v.Get("minimum"), v.Get("maximum")
	if low.Is(schema.Number) && high.Is(schema.Number) {
		out = append(out, low.Text+" to "+high.Text)
	} else {
		add("at least ", low)
		add("at most ", high)
	}
	if exclusive := v.Get("exclusiveMinimum"); exclusive.Is(schema.Number) {
		add("more than ", exclusive)
	}
	if exclusive := v.Get("exclusiveMaximum"); exclusive.Is(schema.Number) {
		add("less than ", exclusive)
	}
	add("multiple of ", v.Get("multipleOf"))
	add("min length ", v.Get("minLength"))
	add("max length ", v.Get("maxLength"))
	add("min items ", v.Get("minItems"))
	add("max items ", v.Get("maxItems"))
	if v.Get("uniqueItems").IsTrue() {
		out = append(out, "unique items")
	}
	if pattern := v.Get("pattern").String(); pattern != "" {
		out = append(out, "pattern "+strings.Join(Clean(pattern, maxValueText), " "))
	}
	if enum := v.Get("enum"); enum.Is(schema.Array) && len(enum.Items) > maxLiterals {
		add("one of ", enum)
	}
	add("default ", v.Get("default"))
	return strings.Join(out, ", ")
}

// Clean makes text safe and short for a comment: lines without trailing space, no comment end, no control characters or
// those that reorder text on a screen, at most limit runes.
func Clean(text string, limit int) []string {
	text = strings.TrimSpace(ident.Printable(text))
	if utf8.RuneCountInString(text) > limit {
		runes := []rune(text)
		text = strings.TrimSpace(string(runes[:limit])) + "..."
	}
	text = strings.ReplaceAll(text, "*/", `*\/`)
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " \t")
	}
	return lines
}

// comment writes lines as a JSDoc comment.
func comment(b *strings.Builder, lines []string, prefix string) {
	switch len(lines) {
	case 0:
	case 1:
		b.WriteString(prefix + "/** " + lines[0] + " */\n")
	default:
		b.WriteString(prefix + "/**\n")
		for _, line := range lines {
			b.WriteString(strings.TrimRight(prefix+" * "+line, " ") + "\n")
		}
		b.WriteString(prefix + " */\n")
	}
}
