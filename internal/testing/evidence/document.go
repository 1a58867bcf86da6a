package main

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// documentNames are the documents with figures, in the root of the repository. Texts between the markers <!-- evidence: NAME --> and <!-- /evidence --> are
// written by this program.
var documentNames = []string{"docs/EVIDENCE.md", "docs/PHILOSOPHY.md", "docs/COMPARISON.md"}

var marked = regexp.MustCompile(`(?s)(<!-- evidence: ([a-z0-9-]+) -->).*?(<!-- /evidence -->)`)

// writeDocuments writes the figures into the documents below root.
func writeDocuments(root string, set *claims, all files) error {
	for _, name := range documentNames {
		path := filepath.Join(root, filepath.FromSlash(name))
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		filled, err := fill(string(text), set, all)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(path, []byte(filled), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// fill returns a document with the texts between its markers replaced.
func fill(document string, set *claims, all files) (string, error) {
	var failure error
	filled := marked.ReplaceAllStringFunc(document, func(part string) string {
		m := marked.FindStringSubmatch(part)
		text, err := all.part(m[2], set)
		if err != nil && failure == nil {
			failure = err
		}
		return m[1] + text + m[3]
	})
	return filled, failure
}

// part returns the text of a marker: a block with line breaks around it, or words within a line.
func (fs files) part(name string, set *claims) (string, error) {
	area, kind, _ := strings.Cut(name, "-")
	if slices.Contains(areas, area) && fs[area] == nil {
		return "", fmt.Errorf("no file of figures for %s: run make evidence", area)
	}
	var lines []string
	switch {
	case name == "machine":
		return fs.machine()
	case name == "compute-range":
		low, high := math.Inf(1), math.Inf(-1)
		for _, f := range fs.computing(set) {
			low, high = min(low, f.Value), max(high, f.Value)
		}
		return fmt.Sprintf("%.0f to %.0f", low, high), nil
	case name == "compute":
		lines = fs.computeTable(set)
	case name == "tokens":
		lines = fs.tokensTable()
	case name == "answers":
		lines = fs.answersTable()
	case name == "costs":
		lines = fs.costsTable()
	case name == "load":
		m := fs["performance"].Machine
		return fmt.Sprintf("%d cores (%s, %s), load %s before and %s after, %s", m.Cores, m.CPU, m.System, m.LoadBefore, m.LoadAfter, m.Date), nil
	case name == "saving":
		f := fs.figure("demo-less")
		if f == nil || f.Missing != "" {
			return "", fmt.Errorf("no figure demo-less")
		}
		return round(f.Value) + " %", nil
	case !slices.Contains(areas, area):
		return "", fmt.Errorf("unknown marker %q", name)
	case kind == "commands":
		lines = commands(set.byArea(area))
	case kind == "limits":
		lines = limits(set.byArea(area))
	case area == "performance":
		lines = fs.figuresTable(set, area)
	case kind == "":
		lines = fs.testsTable(set, area)
	default:
		return "", fmt.Errorf("unknown marker %q", name)
	}
	return "\n" + strings.Join(lines, "\n") + "\n", nil
}

// machine describes the machine of each file: those of one run are the same.
func (fs files) machine() (string, error) {
	by := map[machine][]string{}
	for _, area := range areas {
		if fs[area] == nil {
			return "", fmt.Errorf("no file of figures for %s: run make evidence", area)
		}
		by[fs[area].Machine] = append(by[fs[area].Machine], area)
	}
	lines := []string{"| areas | processor | cores, memory | system | Go, Node.js | commit | date | load before, after |", "|---|---|---|---|---|---|---|---|"}
	for _, m := range slices.SortedFunc(maps.Keys(by), func(a, b machine) int { return strings.Compare(by[a][0], by[b][0]) }) {
		lines = append(lines, row(strings.Join(by[m], ", "), m.CPU, fmt.Sprintf("%d, %s", m.Cores, m.Memory), m.System, m.Go+", "+m.Node, m.Commit, m.Date, m.LoadBefore+", "+m.LoadAfter))
	}
	return "\n" + strings.Join(lines, "\n") + "\n", nil
}

func row(cells ...string) string { return "| " + strings.Join(cells, " | ") + " |" }

// computing returns the figures beside plain Node.js that were measured.
func (fs files) computing(set *claims) (all []figure) {
	for _, c := range set.byArea("performance") {
		if f := fs.figure(c.ID); strings.HasPrefix(c.ID, "compute-") && f != nil && f.Missing == "" {
			all = append(all, *f)
		}
	}
	return all
}

func (fs files) figuresTable(set *claims, area string) []string {
	lines := []string{"| claim | | median | least to largest | budget | |", "|---|---|---|---|---|---|"}
	for _, c := range set.byArea(area) {
		if f := fs.figure(c.ID); f != nil && !strings.HasPrefix(c.ID, "compute-") {
			lines = append(lines, row("`"+c.ID+"`", c.Claim, f.amount(f.Value), round(f.Low)+" to "+round(f.High), f.amount(f.Budget), f.verdict()))
		}
	}
	return lines
}

func (fs files) computeTable(set *claims) []string {
	lines := []string{"| claim | program | times plain Node.js | least to largest | |", "|---|---|---|---|---|"}
	for _, f := range fs.computing(set) {
		lines = append(lines, row("`"+f.ID+"`", strings.TrimPrefix(f.ID, "compute-"), round(f.Value), round(f.Low)+" to "+round(f.High), f.verdict()))
	}
	return lines
}

// toolCounts are the numbers of tools for which the tokens are counted.
var toolCounts = []int{10, 100, 500, 1000, 5000}

func (fs files) tokensTable() []string {
	lines := []string{"| tools | direct | code mode |", "|---|---|---|"}
	for _, n := range toolCounts {
		lines = append(lines, row(thousands(float64(n)), fs.cell(fmt.Sprintf("tools-%d-direct", n), thousands), fs.cell(fmt.Sprintf("tools-%d-code", n), thousands)))
	}
	return lines
}

func (fs files) answersTable() []string {
	lines := []string{"| | direct calls | code |", "|---|---|---|"}
	for _, r := range [][2]string{{"results", "results that the model reads"}, {"last", "context in the last turn"}, {"turns", "turns"}, {"input", "input over all turns"}} {
		lines = append(lines, row(r[1], fs.cell("demo-"+r[0]+"-direct", about), fs.cell("demo-"+r[0]+"-code", about)))
	}
	return lines
}

// costsTable has what code costs, in milliseconds.
func (fs files) costsTable() []string {
	lines := []string{"| figure | median, ms |", "|---|---|"}
	for _, r := range [][2]string{
		{"run-compiled", "a program that was compiled before, warm runner, journal on disk"},
		{"run-new", "a program never seen, TypeScript"},
		{"call", "added to a call of a tool: gate, policy, journal"},
		{"call-private", "hiding personal data in a call of 1 KiB"},
		{"search", "search in 5,000 tools"},
		{"worker", "start of a runner"},
	} {
		f := fs.figure(r[0])
		scale := 1.0
		if f != nil && f.Unit == "µs" {
			scale = 1000
		}
		lines = append(lines, row(r[1], fs.cell(r[0], func(v float64) string { return strconv.FormatFloat(v/scale, 'g', 2, 64) })))
	}
	return lines
}

// cell returns a figure as a cell of a table.
func (fs files) cell(id string, print func(float64) string) string {
	f := fs.figure(id)
	if f == nil || f.Missing != "" {
		return "not shown"
	}
	return print(f.Value)
}

func (fs files) testsTable(set *claims, area string) []string {
	lines := []string{"| claim | | tier | tests | passed | failed | skipped |", "|---|---|---|---|---|---|---|"}
	for _, c := range set.byArea(area) {
		f := fs.figure(c.ID)
		switch {
		case f == nil:
		case f.Missing != "":
			lines = append(lines, row("`"+c.ID+"`", c.Claim, c.Tier, f.Missing, "", "", ""))
		case len(f.Tests) == 0:
			lines = append(lines, row("`"+c.ID+"`", c.Claim+" "+f.amount(f.Value)+".", c.Tier, "", "", "", ""))
		default:
			var names []string
			failed, skipped := 0, 0
			for _, t := range f.Tests {
				names = append(names, fmt.Sprintf("`%s` (%d)", t.Name, t.Passed+t.Failed+len(t.Skipped)))
				failed, skipped = failed+t.Failed, skipped+len(t.Skipped)
			}
			lines = append(lines, row("`"+c.ID+"`", c.Claim, c.Tier, strings.Join(names, ", "), round(f.Value), strconv.Itoa(failed), strconv.Itoa(skipped)))
		}
	}
	return lines
}

// commands returns a block with the commands of claims.
func commands(all []claim) []string {
	lines := []string{"```"}
	ids := map[string][]string{}
	for _, c := range all {
		ids[c.Command] = append(ids[c.Command], c.ID)
	}
	for _, c := range all {
		if of := ids[c.Command]; of[0] == c.ID {
			names := of[0]
			if len(of) > 1 {
				names += " to " + of[len(of)-1]
			}
			lines = append(lines, "# "+names, c.Command)
		}
	}
	return append(lines, "```")
}

// limits returns a list of what the commands do not show.
func limits(all []claim) []string {
	var lines []string
	said := map[string]bool{}
	for _, c := range all {
		if !said[c.NotShown] {
			lines = append(lines, "- `"+c.ID+"`: "+c.NotShown)
		}
		said[c.NotShown] = true
	}
	return lines
}

// text returns the figure on a line.
func (f *figure) text() string {
	if f.Missing != "" {
		return f.Missing
	}
	if len(f.Tests) > 0 {
		failed, skipped, names := 0, 0, ""
		for _, t := range f.Tests {
			failed, skipped = failed+t.Failed, skipped+len(t.Skipped)
			if t.Failed > 0 {
				names += " " + t.Name
			}
		}
		text := fmt.Sprintf("%.0f passed, %d failed, %d skipped", f.Value, failed, skipped)
		if names != "" {
			text += ": failed, or not executed to the end:" + names
		}
		return text
	}
	text := f.amount(f.Value)
	if len(f.Values) > 1 {
		text += fmt.Sprintf(" (%s to %s)", round(f.Low), round(f.High))
	}
	if f.Budget != 0 {
		text += ", budget " + f.amount(f.Budget) + ": " + f.verdict()
	}
	return text
}

// verdict says whether the figure is within its budget, and whether it differs from the figure that it replaced.
func (f *figure) verdict() string {
	var words []string
	switch {
	case f.Missing != "":
		return f.Missing
	case f.Budget == 0:
	case f.holds():
		words = append(words, "within")
	default:
		words = append(words, "**over**")
	}
	if f.Earlier != "" {
		words = append(words, "differs: "+f.Earlier)
	}
	return strings.Join(words, ", ")
}

func (f *figure) amount(v float64) string {
	if v == 0 && f.Budget == 0 && len(f.Values) == 0 {
		return ""
	}
	return round(v) + " " + f.Unit
}

// round prints a figure with three digits, and all digits of larger numbers.
func round(v float64) string {
	if math.Abs(v) >= 100 {
		return thousands(math.Round(v))
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// about prints a number of tokens with two digits, and with three from 100,000 on.
func about(v float64) string {
	digits := 2
	if v >= 1e5 {
		digits = 3
	}
	scale := math.Pow(10, math.Max(0, math.Floor(math.Log10(math.Max(v, 1)))+1-float64(digits)))
	return thousands(math.Round(v/scale) * scale)
}

// thousands prints a whole number with commas.
func thousands(v float64) string {
	text := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
