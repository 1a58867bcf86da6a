package cli

import (
	"strings"

	"github.com/charmbracelet/x/ansi"

	"mcp-code-exec-harness/internal/clip"
)

const (
	columnGap = 2
	// minLastColumn is how many columns of the terminal the last column of a table has at least. In a narrower terminal the cells of a
	// row stand below each other.
	minLastColumn = 24
)

// table writes rows of cells so that they fit into a terminal.
type table struct {
	to     *console
	labels []string // column titles; nil: none
	widths []int    // widths of all columns but the last
	short  bool     // a row has one line: what is too long is cut
}

// fits sets the widths of the columns that these rows need.
func (t *table) fits(rows ...[]string) {
	for _, row := range rows {
		for i, cell := range row[:max(len(row)-1, 0)] {
			if i == len(t.widths) {
				t.widths = append(t.widths, 0)
			}
			t.widths[i] = max(t.widths[i], ansi.StringWidth(clip.Visible(cell)))
		}
	}
}

// head writes the labels of the columns.
func (t *table) head() {
	if t.labels != nil && !t.stacked() {
		t.row(t.labels)
	}
}

// indent is where the last column begins.
func (t *table) indent() (n int) {
	for _, w := range t.widths {
		n += w + columnGap
	}
	return n
}

// stacked reports whether the cells of a row stand below each other.
func (t *table) stacked() bool {
	width := t.to.width()
	return width > 0 && width-1-t.indent() < minLastColumn
}

// row writes a row. A cell of tabs before a text continues the row above.
func (t *table) row(cells []string) {
	width := t.to.width()
	switch {
	case width == 0:
		t.to.put(t.aligned(cells, "\n"+strings.Repeat(" ", t.indent()), 0))
	case t.stacked():
		t.to.put(t.stack(cells, width-1))
	default:
		t.to.put(t.aligned(cells, "\n"+strings.Repeat(" ", t.indent()), width-1-t.indent()))
	}
}

// aligned has each cell in its column. The last one is wrapped, or cut; room 0 is without a bound.
func (t *table) aligned(cells []string, newline string, room int) string {
	var b strings.Builder
	for i, cell := range cells {
		cell = clip.Visible(cell)
		switch {
		case i < len(cells)-1:
			b.WriteString(cell + strings.Repeat(" ", max(0, t.widths[i]-ansi.StringWidth(cell))+columnGap))
		case room == 0:
			b.WriteString(cell)
		case t.short:
			b.WriteString(ansi.Truncate(cell, room, "…"))
		default:
			b.WriteString(strings.Join(wrapped(cell, room), newline))
		}
	}
	return strings.TrimRight(b.String(), " ") + "\n"
}

// stack has the first cell in a line, and below it the others, as many in a line as fit.
func (t *table) stack(cells []string, width int) string {
	const prefix = "  "
	var lines []string
	line := ""
	for i, cell := range cells {
		cell = strings.TrimSpace(clip.Visible(cell))
		if cell == "" {
			continue
		}
		if i > 0 && i < len(t.labels) && t.labels[i] != "" {
			cell = strings.ToLower(t.labels[i]) + " " + cell
		}
		switch {
		case i == 0:
			lines = append(lines, wrapped(cell, width)...)
			continue
		case line != "" && ansi.StringWidth(line)+columnGap+ansi.StringWidth(cell) <= width-len(prefix):
			line += strings.Repeat(" ", columnGap) + cell
			continue
		case line != "":
			lines = append(lines, prefix+line)
		}
		line = cell
		if ansi.StringWidth(line) <= width-len(prefix) {
			continue
		}
		if t.short {
			line = ansi.Truncate(line, width-len(prefix), "…")
			continue
		}
		parts := wrapped(line, width-len(prefix))
		for _, part := range parts[:len(parts)-1] {
			lines = append(lines, prefix+part)
		}
		line = parts[len(parts)-1]
	}
	if line != "" {
		lines = append(lines, prefix+line)
	}
	return strings.Join(lines, "\n") + "\n"
}

// answerList prints a list: v with --json, else a row for each element below the header, or the message none if there are no
// elements. The cells of a row are separated by tabs; a row may have further lines.
func answerList[T any](a *app, v any, all []T, none, header string, row func(T) string) error {
	return a.list(v, len(all), none, header, false, func(i int) string { return row(all[i]) })
}

// answerShort is answerList with one line for each row on a terminal: of the last cell the beginning.
func answerShort[T any](a *app, v any, all []T, none, header string, row func(T) string) error {
	return a.list(v, len(all), none, header, true, func(i int) string { return row(all[i]) })
}

func (a *app) list(v any, n int, none, header string, short bool, row func(int) string) error {
	if a.flags.JSON {
		return a.json(v)
	}
	if n == 0 {
		a.stderr.line(none, "")
		return nil
	}
	t := &table{to: a.stdout, short: short}
	var rows [][]string
	if header != "" {
		t.labels = strings.Split(header, "\t")
		t.fits(t.labels)
	}
	for i := range n {
		for line := range strings.SplitSeq(row(i), "\n") {
			rows = append(rows, strings.Split(line, "\t"))
		}
	}
	t.fits(rows...)
	t.head()
	for _, cells := range rows {
		t.row(cells)
	}
	return nil
}
