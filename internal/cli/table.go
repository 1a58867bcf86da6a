package cli

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/startup"
)

const (
	columnGap = 2
	// minLastColumn is the minimum width of the last column of a table, if its cells need that width. In a narrower terminal, times and middle
	// columns are shortened first, and the last column has at least minNarrowColumn. If the rows still do not fit, the cells of a row are written
	// below each other.
	minLastColumn, minNarrowColumn = 24, 12
	// minCutColumn is the minimum width of a middle column.
	minCutColumn = 8
	// minFirstColumn is the minimum width to which the first column is narrowed. A longer cell gets a line of its own. Ids fit into this width.
	minFirstColumn = 28
)

// table writes rows of cells so that they fit into a terminal.
type table struct {
	to     *console
	labels []string // column titles; nil: none
	widths []int    // widths of all columns but the last
	least  int      // minimum width of the last column; 0: minLastColumn
	short  bool     // each row takes one line; longer text is cut
}

// fits widens the columns so that these rows fit.
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

// indent returns the column at which the last column of the table begins.
func (t *table) indent() (n int) {
	for _, w := range t.widths {
		n += w + columnGap
	}
	return n
}

// stacked reports whether the cells of a row are written below each other.
func (t *table) stacked() bool {
	width := t.to.width()
	return width > 0 && width-1-t.indent() < cmp.Or(t.least, minLastColumn)
}

// whole matches cells that are never cut: ids of this harness, which people copy, and dates.
var whole = startup.Regexp(`^[a-z]+_[0-9a-f]{20}$|^\d{4}-\d\d-\d\d$`)

// narrow returns rows that fit into the terminal. It shortens times, to the minute and then to the day, and then cuts the middle columns, except ids
// and dates. It never cuts the first column: a cell that is too long gets a line of its own. If that is not enough, the rows stay as they are.
func (t *table) narrow(full [][]string, now time.Time) (rows [][]string) {
	rows = full
	for _, form := range []string{"", "Jan 02 15:04", "Jan 02"} {
		if form != "" {
			rows = shorten(full, now.Local(), form)
			t.widths = nil
			t.fits(t.labels)
			t.fits(rows...)
		}
		if t.least = min(t.last(rows), minLastColumn); !t.stacked() {
			return rows
		}
	}
	t.least = min(t.last(rows), minNarrowColumn)
	for t.stacked() {
		widest := 0
		for i := range t.widths {
			if t.cuttable(rows, i) && (widest == 0 || t.widths[i] > t.widths[widest]) {
				widest = i
			}
		}
		if widest == 0 {
			break
		}
		t.widths[widest]--
	}
	if !t.stacked() {
		return rows
	}
	t.least = min(t.last(rows), minLastColumn)
	over := t.least - (t.to.width() - 1 - t.indent())
	if len(t.widths) == 0 || t.widths[0]-over < minFirstColumn {
		return full
	}
	t.widths[0] -= over
	return rows
}

// last returns the width that the last column needs.
func (t *table) last(rows [][]string) int {
	widest := 1
	if len(t.labels) > 0 {
		widest = ansi.StringWidth(t.labels[len(t.labels)-1])
	}
	for _, row := range rows {
		widest = max(widest, ansi.StringWidth(clip.Visible(row[len(row)-1])))
	}
	return widest
}

// cuttable reports whether a column can be made narrower.
func (t *table) cuttable(rows [][]string, column int) bool {
	least := minCutColumn
	if column < len(t.labels) {
		least = max(least, ansi.StringWidth(t.labels[column]))
	}
	return column > 0 && t.widths[column] > least &&
		!slices.ContainsFunc(rows, func(row []string) bool { return column < len(row) && whole().MatchString(row[column]) })
}

// shorten returns rows with shorter times. Times of today have only hours and minutes, those of another year only the date, and others the given
// form.
func shorten(full [][]string, now time.Time, form string) [][]string {
	rows := make([][]string, len(full))
	for i, row := range full {
		rows[i] = slices.Clone(row)
		for j, cell := range row {
			at, err := time.ParseInLocation(time.DateTime, cell, time.Local)
			switch {
			case err != nil:
			case at.Year() != now.Year():
				rows[i][j] = at.Format(time.DateOnly)
			case at.YearDay() == now.YearDay():
				rows[i][j] = at.Format("15:04")
			default:
				rows[i][j] = at.Format(form)
			}
		}
	}
	return rows
}

// row writes a row. A row whose first cells are empty continues the row above.
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

// aligned returns a row with each cell in its column. The last cell is wrapped or cut; room is its width, and 0 means no limit.
func (t *table) aligned(cells []string, newline string, room int) string {
	var b strings.Builder
	for i, cell := range cells {
		cell = clip.Visible(cell)
		switch {
		case i < len(cells)-1 && i == 0 && ansi.StringWidth(cell) > t.widths[0]:
			b.WriteString(cell + "\n" + strings.Repeat(" ", t.widths[0]+columnGap))
		case i < len(cells)-1:
			cell = ansi.Truncate(cell, t.widths[i], "…")
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

// stack returns a row with the first cell on a line of its own. The other cells follow below it, as many on a line as fit.
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

// answerList prints a list: v with --json, otherwise a row for each element below the header, or the message none if there are no
// elements. The cells of a row are separated by tabs; a row may have further lines.
func answerList[T any](a *app, v any, all []T, none, header string, row func(T) string) error {
	return a.list(v, len(all), none, header, false, func(i int) string { return row(all[i]) })
}

// answerShort is answerList with one line for each row on a terminal, which shows only the beginning of the last cell.
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
	if a.stdout.width() > 0 {
		rows = t.narrow(rows, a.Now())
	}
	t.head()
	for _, cells := range rows {
		t.row(cells)
	}
	return nil
}
