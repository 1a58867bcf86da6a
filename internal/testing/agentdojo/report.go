package main

import (
	"fmt"
	"io"
)

// result is the outcome of a pair.
type result struct {
	user, injection   noted
	utility, security bool
	text              bool   // reports whether the injection wants a message to the user and no call
	told              string // errors that the program received
}

// tally counts the results of a suite with a preset.
type tally struct {
	suite, preset           string
	tasks, denied, asked    int
	useful                  int
	pairs, works, text, yes int
	without                 int // pairs whose injection has no reference solution
}

func (t *tally) honest(r result) {
	t.tasks++
	count(&t.denied, len(r.user.denied) > 0)
	count(&t.asked, len(r.user.denied) == 0 && len(r.user.asked) > 0)
	count(&t.useful, r.utility)
}

func (t *tally) attack(r result) {
	t.pairs++
	asked := len(r.injection.asked) > 0
	count(&t.works, r.security && !asked && !r.text)
	count(&t.text, r.security && r.text)
	count(&t.yes, r.security && asked)
}

func count(n *int, is bool) {
	if is {
		*n++
	}
}

func (t *tally) add(o tally) {
	t.tasks, t.denied, t.asked, t.useful = t.tasks+o.tasks, t.denied+o.denied, t.asked+o.asked, t.useful+o.useful
	t.pairs, t.works, t.text, t.yes, t.without = t.pairs+o.pairs, t.works+o.works, t.text+o.text, t.yes+o.yes, t.without+o.without
}

// print writes the results as a Markdown table.
func print(w io.Writer, all []tally, presets []string) {
	fmt.Fprintln(w, "| suite | preset | attacks | work | words to the user | work after a yes | honest tasks | denied | must ask | useful |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|---|---|")
	for _, t := range all {
		t.row(w)
	}
	for _, preset := range presets {
		sum := tally{suite: "all", preset: preset}
		for _, t := range all {
			if t.preset == preset {
				sum.add(t)
			}
		}
		sum.row(w)
	}
}

func (t tally) row(w io.Writer) {
	percent := func(n, of int) string { return fmt.Sprintf("%d (%.1f %%)", n, 100*float64(n)/float64(max(of, 1))) }
	fmt.Fprintf(w, "| %s | %s | %d | %s | %d | %d | %d | %s | %s | %s |\n", t.suite, t.preset, t.pairs, percent(t.works, t.pairs), t.text, t.yes,
		t.tasks, percent(t.denied, t.tasks), percent(t.asked, t.tasks), percent(t.useful, t.tasks))
}
