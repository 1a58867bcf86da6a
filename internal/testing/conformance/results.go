package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
)

// Names of the files in the folder of results.
const (
	verdictsFile = "verdicts.ndjson"
	failuresFile = "failures.txt"
	skippedFile  = "skipped.txt"
)

// line is a verdict in verdictsFile.
type line struct {
	Test   string   `json:"test"`
	Group  string   `json:"group"`
	In     string   `json:"in"`
	Passed int      `json:"passed"`
	Failed int      `json:"failed"`
	Why    []string `json:"why,omitempty"`
}

// results collects verdicts. All methods except report and close are safe for concurrent use.
type results struct {
	dir    string
	places []string
	file   *os.File

	mu      sync.Mutex
	lines   map[[2]string]line // lines by test and place
	skipped map[string][]string
	err     error
}

// openResults opens the folder of results. With resume, it keeps the existing verdicts.
func openResults(dir string, places []string, resume bool) (*results, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	r := &results{dir: dir, places: places, lines: map[[2]string]line{}, skipped: map[string][]string{}}
	name := filepath.Join(dir, verdictsFile)
	mode := os.O_TRUNC
	if resume {
		mode = os.O_APPEND
		text, err := os.ReadFile(name)
		if err != nil && !os.IsNotExist(err) {
			return nil, err
		}
		whole := text[:bytes.LastIndexByte(text, '\n')+1] // the last line of an interrupted run may be incomplete
		for text := range bytes.Lines(whole) {
			var l line
			if err := json.Unmarshal(text, &l); err != nil {
				return nil, fmt.Errorf("read %s: %w", name, err)
			}
			r.lines[[2]string{l.Test, l.In}] = l
		}
		if len(whole) < len(text) {
			if err := os.Truncate(name, int64(len(whole))); err != nil {
				return nil, err
			}
		}
	}
	var err error
	r.file, err = os.OpenFile(name, os.O_CREATE|os.O_WRONLY|mode, 0o644)
	return r, err
}

func (r *results) close() { r.file.Close() }

func (r *results) has(t *test, place string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, has := r.lines[[2]string{t.path, place}]
	return has
}

func (r *results) add(t *test, place string, v verdict) {
	l := line{Test: t.path, Group: t.group, In: place, Passed: v.passed, Failed: v.failed, Why: v.why}
	text, err := json.Marshal(l)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		_, err = r.file.Write(append(text, '\n'))
	}
	if err != nil && r.err == nil {
		r.err = err
	}
	r.lines[[2]string{t.path, place}] = l
}

func (r *results) skip(t *test) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.skipped[t.skip] = append(r.skipped[t.skip], t.path)
}

// count is the number of passed tests, and of all tests.
type count struct{ passed, all int }

func (c count) String() string {
	if c.all == 0 {
		return "-"
	}
	return fmt.Sprintf("%d/%d %.1f %%", c.passed, c.all, 100*float64(c.passed)/float64(c.all))
}

// report prints the rates and writes the lists of what failed and what was skipped.
func (r *results) report(w io.Writer) error {
	if r.err != nil {
		return fmt.Errorf("write %s: %w", verdictsFile, r.err)
	}
	counts := map[string]map[string]*count{} // counts by group and place
	most := map[string]int{}                 // number of subtests of a file; a place where the file fails early reports fewer
	for _, l := range r.lines {
		most[l.Test] = max(most[l.Test], l.Passed+l.Failed)
	}
	for _, l := range r.lines {
		suite, _, _ := strings.Cut(l.Group, "/")
		for _, group := range []string{l.Group, suite + "/ in all"} {
			if counts[group] == nil {
				counts[group] = map[string]*count{}
			}
			c := counts[group][l.In]
			if c == nil {
				c = &count{}
				counts[group][l.In] = c
			}
			c.passed += l.Passed
			c.all += most[l.Test]
		}
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "directory\t"+strings.Join(r.places, "\t"))
	for _, group := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprint(table, group)
		for _, p := range r.places {
			c := count{}
			if got := counts[group][p]; got != nil {
				c = *got
			}
			fmt.Fprintf(table, "\t%s", c)
		}
		fmt.Fprintln(table)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if err := r.listSkipped(w); err != nil {
		return err
	}
	return r.listFailures(w)
}

func (r *results) listSkipped(w io.Writer) error {
	return r.list(skippedFile, func(file io.Writer) {
		for _, reason := range slices.Sorted(maps.Keys(r.skipped)) {
			paths := r.skipped[reason]
			fmt.Fprintf(w, "skipped %d: %s\n", len(paths), reason)
			for _, path := range paths {
				fmt.Fprintf(file, "%s\t%s\n", path, reason)
			}
		}
	})
}

// listFailures lists the tests that fail in the first place, with their results in the others.
func (r *results) listFailures(w io.Writer) error {
	var failed []line
	for _, l := range r.lines {
		if l.In == r.places[0] && l.Failed > 0 {
			failed = append(failed, l)
		}
	}
	slices.SortFunc(failed, func(a, b line) int { return strings.Compare(a.Test, b.Test) })
	fmt.Fprintf(w, "%d files with failures in %s, listed in %s\n", len(failed), r.places[0], filepath.Join(r.dir, failuresFile))
	return r.list(failuresFile, func(file io.Writer) {
		for _, l := range failed {
			fmt.Fprintf(file, "%s\t%d of %d", l.Test, l.Failed, l.Passed+l.Failed)
			for _, other := range r.places[1:] {
				if o, has := r.lines[[2]string{l.Test, other}]; has {
					fmt.Fprintf(file, "\t%s %d", other, o.Failed)
				}
			}
			for _, why := range l.Why {
				fmt.Fprintf(file, "\n\t%s", strings.ReplaceAll(why, "\n", " "))
			}
			fmt.Fprintln(file)
		}
	})
}

// list writes a file in the folder of results.
func (r *results) list(name string, write func(io.Writer)) error {
	file, err := os.Create(filepath.Join(r.dir, name))
	if err != nil {
		return err
	}
	defer file.Close()
	buffered := bufio.NewWriter(file)
	write(buffered)
	return buffered.Flush()
}
