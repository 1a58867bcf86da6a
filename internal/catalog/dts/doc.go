package dts

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/catalog/schema"
)

// Maximum lengths of texts in comments, in runes. Descriptions go into a model's context and should be short.
const (
	maxDescription = 600
	maxToolText    = 3000
	maxValueText   = 80
)

// docLines returns the lines of the comment for a schema: its description and the rules that types cannot express.
func docLines(v *schema.Value) []string {
	if !v.Is(schema.Object) {
		return nil
	}
	text := cmp.Or(v.Get("description").String(), v.Get("title").String())
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

// rules returns the constraints of a schema in a few words: "integer, 1 to 100, default 10".
func rules(v *schema.Value) string {
	var out []string
	say := func(label, text string) {
		if text = strings.Join(Clean(text, maxValueText), " "); text != "" {
			out = append(out, label+text)
		}
	}
	add := func(label, key string) {
		if value := v.Get(key); value != nil {
			say(label, value.JSON())
		}
	}
	if slices.Contains(v.Get("type").Strings(), "integer") {
		out = append(out, "integer")
	}
	say("", v.Get("format").String())
	say("", v.Get("contentEncoding").String())
	if low, high := v.Get("minimum"), v.Get("maximum"); low.Is(schema.Number) && high.Is(schema.Number) {
		out = append(out, low.Text+" to "+high.Text)
	} else {
		add("at least ", "minimum")
		add("at most ", "maximum")
	}
	if v.Get("exclusiveMinimum").Is(schema.Number) { // a boolean until draft 6
		add("more than ", "exclusiveMinimum")
	}
	if v.Get("exclusiveMaximum").Is(schema.Number) {
		add("less than ", "exclusiveMaximum")
	}
	add("multiple of ", "multipleOf")
	add("min length ", "minLength")
	add("max length ", "maxLength")
	add("min items ", "minItems")
	add("max items ", "maxItems")
	if v.Get("uniqueItems").IsTrue() {
		out = append(out, "unique items")
	}
	say("pattern ", v.Get("pattern").String())
	if enum := v.Get("enum"); enum.Is(schema.Array) && len(enum.Items) > maxLiterals {
		add("one of ", "enum")
	}
	add("default ", "default")
	return strings.Join(out, ", ")
}

// Clean makes text safe and short for a comment: it returns lines without trailing space, comment ends, control characters and characters that
// reorder text on a screen, with at most limit runes.
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
