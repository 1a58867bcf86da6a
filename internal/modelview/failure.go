package modelview

import (
	"cmp"
	"fmt"
	"strings"
	"unicode/utf16"

	"golang.org/x/text/width"

	"mcp-code-exec-harness/internal/run"
)

const (
	lineWidth   = 120 // maximum number of shown columns of a source line
	effectsMost = 20  // maximum number of effects that are listed individually: the first and the last
)

// Failure describes a failed run to the author of the program: the error and its position, how to fix it, and the effects of the run. The
// text ends with a line break.
func Failure(out *run.Outcome) string {
	e := out.Error
	var b strings.Builder
	if e.Name == "" || e.Name == e.Kind {
		fmt.Fprintf(&b, "%s: %s\n", e.Kind, indented(e.Message))
	} else {
		fmt.Fprintf(&b, "%s (%s): %s\n", e.Name, e.Kind, indented(e.Message))
	}
	if e.Line > 0 {
		fmt.Fprintf(&b, "  at %s:%d:%d\n", cmp.Or(e.File, "program"), e.Line, e.Column)
		if line, marker := excerpt(e.Source, e.Column); line != "" {
			fmt.Fprintf(&b, "    %s\n", line)
			if marker != "" {
				fmt.Fprintf(&b, "    %s\n", marker)
			}
		}
	}
	if e.Hint != "" {
		fmt.Fprintf(&b, "  hint: %s\n", indented(e.Hint))
	}
	first, doubt := effectsMost/2, 0
	last := first + len(out.Effects) - effectsMost // effects from first to last are counted but not listed
	for i, effect := range out.Effects {
		if i < first || i >= last {
			fmt.Fprintf(&b, "  effect: call %d, %s %s: %s\n", effect.Call, effect.Kind, effect.Name, state(effect.State))
			continue
		}
		if effect.State == "in_doubt" {
			doubt++
		}
		if i == last-1 {
			fmt.Fprintf(&b, "  effects: %d more here, %d of them in doubt; `harness runs show %s` lists all calls\n", last-first, doubt, out.RunID)
		}
	}
	fmt.Fprintf(&b, "  run: %s\n", out.RunID)
	return b.String()
}

// state describes the state of an effect in words.
func state(s string) string {
	if s == "in_doubt" {
		return "in doubt, it may have happened: look before repeating it"
	}
	return s
}

// indented indents all lines of a text except the first.
func indented(s string) string { return strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n  ") }

// excerpt returns the part of a line around a column (from 1, in UTF-16 units), and a line that marks the column. The marker is empty if
// the column is outside of the line.
func excerpt(source string, column int) (line, marker string) {
	runes := []rune(strings.TrimRight(source, " \t\r\n"))
	at, found := 0, column >= 1
	for units := 1; units < column; at++ { // moves at to the rune at the column
		if at == len(runes) {
			found = units == column
			break
		}
		units += max(utf16.RuneLen(runes[at]), 1)
	}
	from, to := 0, len(runes)
	before, after := "", ""
	if len(runes) > lineWidth {
		from = min(max(at-lineWidth/2, 0), len(runes)-lineWidth)
		to = from + lineWidth
	}
	if from > 0 {
		before = "…"
	}
	if to < len(runes) {
		after = "…"
	}
	line = before + string(runes[from:to]) + after
	if !found || at > len(runes) || strings.TrimSpace(line) == "" {
		return line, ""
	}
	var pad strings.Builder
	pad.WriteString(strings.Repeat(" ", len([]rune(before))))
	for _, r := range runes[from:min(at, to)] {
		switch kind := width.LookupRune(r).Kind(); {
		case r == '\t': // a tab keeps the alignment with the line above
			pad.WriteByte('\t')
		case kind == width.EastAsianWide || kind == width.EastAsianFullwidth:
			pad.WriteString("  ")
		default:
			pad.WriteByte(' ')
		}
	}
	return line, pad.String() + "^"
}
