package modelview

import (
	"fmt"
	"strings"
	"unicode/utf16"

	"golang.org/x/text/width"

	"mcp-code-exec-harness/internal/run"
)

const (
	lineWidth   = 120 // columns of an offending line that are shown
	effectsMost = 20  // effects that are listed one by one: the first and the last
)

// Failure explains a failed run to the author of the program: what went wrong and where, what to do about it, and what
// the run did to the world before. It ends with a line break.
func Failure(out *run.Outcome) string {
	e := out.Error
	var b strings.Builder
	if e.Name == "" || e.Name == e.Kind {
		fmt.Fprintf(&b, "%s: %s\n", e.Kind, indented(e.Message))
	} else {
		fmt.Fprintf(&b, "%s (%s): %s\n", e.Name, e.Kind, indented(e.Message))
	}
	if e.Line > 0 {
		file := e.File
		if file == "" {
			file = "program"
		}
		fmt.Fprintf(&b, "  at %s:%d:%d\n", file, e.Line, e.Column)
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
	head, left := out.Effects, []run.Effect(nil)
	var last []run.Effect
	if n := len(out.Effects); n > effectsMost {
		head, left, last = out.Effects[:effectsMost/2], out.Effects[effectsMost/2:n-effectsMost/2], out.Effects[n-effectsMost/2:]
	}
	list(&b, head)
	if len(left) > 0 {
		doubt := 0
		for _, effect := range left {
			if effect.State == "in_doubt" {
				doubt++
			}
		}
		fmt.Fprintf(&b, "  effects: %d more here, %d of them in doubt; `harness runs show %s` lists all calls\n", len(left), doubt, out.RunID)
	}
	list(&b, last)
	fmt.Fprintf(&b, "  run: %s\n", out.RunID)
	return b.String()
}

func list(b *strings.Builder, effects []run.Effect) {
	for _, e := range effects {
		fmt.Fprintf(b, "  effect: call %d, %s %s: %s\n", e.Call, e.Kind, e.Name, state(e.State))
	}
}

// state is an effect's state in words.
func state(s string) string {
	if s == "in_doubt" {
		return "in doubt, it may have happened: look before repeating it"
	}
	return s
}

// indented keeps the lines of a text below its first.
func indented(s string) string { return strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n  ") }

// excerpt is the part of a line around a column (from 1, in UTF-16 units) and the line that marks the column. There is
// no marker if the column is not in the line.
func excerpt(source string, column int) (line, marker string) {
	runes := []rune(strings.TrimRight(source, " \t\r\n"))
	at, found := 0, column >= 1
	for units := 1; units < column; at++ { // rune at, that the column means
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
		case r == '\t': // as wide as in the line above
			pad.WriteByte('\t')
		case kind == width.EastAsianWide || kind == width.EastAsianFullwidth:
			pad.WriteString("  ")
		default:
			pad.WriteByte(' ')
		}
	}
	return line, pad.String() + "^"
}
