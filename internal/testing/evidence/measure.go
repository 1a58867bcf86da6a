package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// file has the figures of an area.
type file struct {
	Machine machine  `json:"machine"`
	Figures []figure `json:"figures"`
}

// files are the figures by area.
type files map[string]*file

// figure is what a run has shown of a claim.
type figure struct {
	ID      string `json:"id"`
	Command string `json:"command"`
	Unit    string `json:"unit"`
	Better  string `json:"better"`
	// Value is the median of Values, and Low and High their least and largest. Of tests, it is the number of those that passed.
	Value  float64   `json:"value"`
	Low    float64   `json:"low"`
	High   float64   `json:"high"`
	Values []float64 `json:"values,omitempty"`
	// Yardsticks are the times of the fixed work before each value, in milliseconds.
	Yardsticks []float64 `json:"yardsticks,omitempty"`
	Budget     float64   `json:"budget,omitempty"`
	Tests      []counts  `json:"tests,omitempty"`
	// Missing says why the claim was not shown. The figure then has no values.
	Missing string `json:"missing,omitempty"`
	// Earlier says by how much the figure differs from the one that it replaces, if their intervals do not overlap.
	Earlier string `json:"earlier,omitempty"`
}

// maxOutput bounds the output of a command that is read.
const maxOutput = 256 << 20

// measureAll runs the commands of the claims, in rounds.
func measureAll(ctx context.Context, all []claim, out io.Writer) (files, error) {
	here := thisMachine(ctx)
	figures := make([]figure, len(all))
	rounds := 0
	for i, c := range all {
		figures[i] = figure{ID: c.ID, Command: c.Command, Unit: c.Unit, Better: c.Better, Budget: c.Budget}
		if c.Needs != "" && os.Getenv(c.Needs) == "" {
			figures[i].Missing = "not shown here: needs " + c.Needs + "="
			continue
		}
		rounds = max(rounds, c.Repeat)
	}
	for round := range rounds {
		began := map[string]bool{}
		for _, c := range all {
			if began[c.Command] {
				continue
			}
			began[c.Command] = true
			if err := measure(ctx, c, round, all, figures, out); err != nil {
				return nil, err
			}
		}
	}
	here.LoadAfter = load1()
	results := files{}
	for i, c := range all {
		figures[i].sum()
		if results[c.Area] == nil {
			results[c.Area] = &file{Machine: here}
		}
		results[c.Area].Figures = append(results[c.Area].Figures, figures[i])
	}
	return results, nil
}

// measure runs a command once, and reads the figures of all claims that share it.
func measure(ctx context.Context, c claim, round int, all []claim, figures []figure, out io.Writer) error {
	var sharing []int
	for i, other := range all {
		if other.Command == c.Command && round < other.Repeat && figures[i].Missing == "" {
			sharing = append(sharing, i)
		}
	}
	if len(sharing) == 0 {
		return nil
	}
	fmt.Fprintf(out, "running: %s\n", c.Command)
	var pace float64
	if timed(c.Unit) {
		var err error
		if pace, err = yardstick(ctx); err != nil {
			return fmt.Errorf("measure the yardstick: %w", err)
		}
	}
	output, failure := execute(ctx, c)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for _, i := range sharing {
		f := &figures[i]
		if len(all[i].Tests) > 0 {
			tests, err := readTests(all[i].Tests, output)
			if err != nil {
				return err
			}
			f.Tests = tests
			continue
		}
		value, err := all[i].readNumber(output)
		if err = cmp.Or(failure, err); err != nil {
			f.Missing, f.Values, f.Yardsticks = "failed: "+err.Error(), nil, nil
			continue
		}
		f.Values = append(f.Values, value)
		if timed(f.Unit) {
			f.Yardsticks = append(f.Yardsticks, pace)
		}
	}
	return nil
}

// execute runs a command in a shell and returns what it printed. The error has the end of what it said.
func execute(ctx context.Context, c claim) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout+time.Minute) // go test ends itself at its timeout, with the names of the tests
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", c.Command)
	var printed, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &limited{to: &printed}, &limited{to: &said}
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	if err != nil {
		text := strings.TrimSpace(said.String())
		err = fmt.Errorf("%w: %s", err, text[max(0, len(text)-300):])
	}
	return printed.Bytes(), err
}

// limited is a writer that drops what exceeds maxOutput.
type limited struct{ to *bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	l.to.Write(p[:min(len(p), maxOutput-l.to.Len())])
	return len(p), nil
}

// sum computes the value and the interval.
func (f *figure) sum() {
	if len(f.Tests) > 0 {
		for _, t := range f.Tests {
			f.Value += float64(t.Passed)
		}
		f.Low, f.High = f.Value, f.Value
		return
	}
	if len(f.Values) > 0 {
		f.Value, f.Low, f.High = middle(f.Values)
	}
}

// middle returns the median, the least and the largest of values.
func middle(values []float64) (median, low, high float64) {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2, sorted[0], sorted[n-1]
}

// timed reports whether a unit is one of time.
func timed(unit string) bool { return unit == "ms" || unit == "µs" || unit == "runs/s" }

// relative returns the values in proportion to their yardsticks: times divided, rates multiplied. Others are returned as they are.
func (f *figure) relative() []float64 {
	all := slices.Clone(f.Values)
	if len(f.Yardsticks) != len(all) {
		return all
	}
	for i := range all {
		if f.Better == "higher" {
			all[i] *= f.Yardsticks[i]
		} else {
			all[i] /= f.Yardsticks[i]
		}
	}
	return all
}

// compare notes whether the interval of a figure and of the one that it replaces do not overlap.
func (f *figure) compare(old *figure, date string) {
	f.Earlier = ""
	if old == nil || old.Missing != "" || f.Missing != "" || f.Low <= old.High && old.Low <= f.High {
		return
	}
	f.Earlier = fmt.Sprintf("%s %s on %s", round(old.Value), old.Unit, date)
}

// worse returns by how much a figure is worse than a committed one, or "". Figures of time are compared in proportion to the yardstick. The tolerance is the width
// of the committed interval times factor, and at least 2 % for figures with several values.
func (f *figure) worse(old figure, factor float64) string {
	if old.Missing != "" {
		return ""
	}
	if f.Missing != "" {
		return f.Missing
	}
	if len(f.Tests) > 0 {
		if f.Value < old.Value {
			return fmt.Sprintf("%.0f tests passed, %.0f of the committed figures", f.Value, old.Value)
		}
		return ""
	}
	if len(f.Values) == 0 || len(old.Values) == 0 {
		return ""
	}
	now, _, _ := middle(f.relative())
	was, low, high := middle(old.relative())
	by, tolerance := now-was, factor*(high-low)
	if len(old.Values) > 1 {
		tolerance = max(tolerance, 0.02*was)
	}
	if f.Better == "higher" {
		by = -by
	}
	if by <= tolerance {
		return ""
	}
	return fmt.Sprintf("%s %s after %s %s: in proportion to the machine %.2f times, allowed %.2f", round(f.Value), f.Unit, round(old.Value), old.Unit,
		now/was, 1+map[bool]float64{false: 1, true: -1}[f.Better == "higher"]*tolerance/was)
}

// holds reports whether the claim was shown to hold.
func (f *figure) holds() bool {
	if f.Missing != "" {
		return false
	}
	if len(f.Tests) > 0 {
		passed := 0
		for _, t := range f.Tests {
			if t.Failed > 0 {
				return false
			}
			passed += t.Passed
		}
		return passed > 0
	}
	if f.Budget == 0 {
		return true
	}
	if f.Better == "higher" {
		return f.Value >= f.Budget
	}
	return f.Value <= f.Budget
}

// report prints the figure on a line. It reports false for tests that failed, and for commands that did. A missed budget is printed, and not an error: it is one of
// a stated machine.
func (f *figure) report(out io.Writer) bool {
	fmt.Fprintf(out, "%-28s %s\n", f.ID, f.text())
	if f.Earlier != "" {
		fmt.Fprintf(out, "  DIFFERS by more than the intervals: %s\n", f.Earlier)
	}
	return f.holds() || len(f.Values) > 0 || strings.HasPrefix(f.Missing, "not shown")
}

func (fs files) figure(id string) *figure {
	for _, file := range fs {
		for i := range file.Figures {
			if file.Figures[i].ID == id {
				return &file.Figures[i]
			}
		}
	}
	return nil
}

func (fs files) dateOf(id string) string {
	for _, file := range fs {
		if slices.ContainsFunc(file.Figures, func(f figure) bool { return f.ID == id }) {
			return file.Machine.Date
		}
	}
	return ""
}

// readFolder reads the files of figures in a folder. A file that does not exist is left out.
func readFolder(dir string) (files, error) {
	all := files{}
	for _, area := range areas {
		text, err := os.ReadFile(filepath.Join(dir, area+".json"))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all[area] = &file{}
		if err := json.Unmarshal(text, all[area]); err != nil {
			return nil, fmt.Errorf("read %s.json in %s: %w", area, dir, err)
		}
	}
	return all, nil
}

func (fs files) write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for area, f := range fs {
		var text bytes.Buffer
		e := json.NewEncoder(&text)
		e.SetEscapeHTML(false)
		e.SetIndent("", " ")
		if err := e.Encode(f); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, area+".json"), text.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}
