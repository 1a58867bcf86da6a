package eval

import (
	"fmt"
	"slices"
	"strings"
)

// Comparison says what differs from an earlier report.
type Comparison struct {
	Models     []ModelChange `json:"models"`
	Worse      []TaskChange  `json:"worse"`      // tasks with a lower share of successes, in the order of this report
	Better     []TaskChange  `json:"better"`     // tasks with a higher one
	Uncompared []string      `json:"uncompared"` // tasks that are not in both reports
}

// ModelChange compares the figures of a model. Each pair is the figure before and now; those of one trial are means.
type ModelChange struct {
	Name    string      `json:"name"`
	Before  string      `json:"before"` // name in the earlier report
	Success [2]float64  `json:"success"`
	CostUSD *[2]float64 `json:"costUsd,omitempty"`
	Tokens  [2]float64  `json:"tokens"` // input and output
	Calls   [2]float64  `json:"calls"`
	// Distinct reports that the intervals of the success do not overlap, so that chance is an unlikely reason of the change.
	Distinct bool `json:"distinct"`
}

// TaskChange is a task that does better or worse.
type TaskChange struct {
	Model  string `json:"model"`
	Task   string `json:"task"`
	Before string `json:"before"` // successes and trials
	Now    string `json:"now"`
	Kind   string `json:"kind,omitempty"` // kind of the first failure
	Reason string `json:"reason,omitempty"`
}

// scored is a task of a model.
type scored struct{ model, task string }

// score is the number of successes and trials.
type score struct {
	succeeded, trials int
	failure           *Trial // first failure, or nil
}

func (s score) String() string {
	if s.trials == 0 {
		return "-"
	}
	return fmt.Sprintf("%d/%d", s.succeeded, s.trials)
}

func scoresOf(trials []*Trial) map[scored]score {
	all := map[scored]score{}
	for _, t := range trials {
		s := all[scored{t.Model, t.Task}]
		s.trials++
		switch {
		case t.Succeeded:
			s.succeeded++
		case s.failure == nil:
			s.failure = t
		}
		all[scored{t.Model, t.Task}] = s
	}
	return all
}

// compare compares models of the same name. If both reports have one model, it compares these, whatever their names are.
func compare(before, now *Report) *Comparison {
	c := &Comparison{Models: []ModelChange{}, Worse: []TaskChange{}, Better: []TaskChange{}, Uncompared: []string{}}
	was, is := scoresOf(before.Results), scoresOf(now.Results)
	for _, m := range now.Models {
		i := slices.IndexFunc(before.Models, func(o ModelReport) bool { return o.Name == m.Name })
		if i < 0 && len(before.Models) == 1 && len(now.Models) == 1 {
			i = 0
		}
		if i < 0 {
			continue
		}
		o := before.Models[i]
		change := ModelChange{
			Name: m.Name, Before: o.Name, Success: [2]float64{o.Success.Mean, m.Success.Mean},
			Tokens: [2]float64{o.Input.Mean + o.Output.Mean, m.Input.Mean + m.Output.Mean},
			Calls:  [2]float64{o.Calls.Mean, m.Calls.Mean}, Distinct: o.Success.High < m.Success.Low || m.Success.High < o.Success.Low,
		}
		if o.CostUSD != nil && m.CostUSD != nil {
			change.CostUSD = &[2]float64{o.CostUSD.Mean, m.CostUSD.Mean}
		}
		c.Models = append(c.Models, change)
		for _, name := range tasksOf(now.Results) {
			a, b := was[scored{o.Name, name}], is[scored{m.Name, name}]
			if a.trials == 0 || b.trials == 0 {
				continue
			}
			change := TaskChange{Model: m.Name, Task: name, Before: a.String(), Now: b.String()}
			if b.failure != nil {
				change.Kind, change.Reason = b.failure.Kind, b.failure.Reason
			}
			switch x, y := b.succeeded*a.trials, a.succeeded*b.trials; {
			case x < y:
				c.Worse = append(c.Worse, change)
			case x > y:
				c.Better = append(c.Better, change)
			}
		}
	}
	old, current := tasksOf(before.Results), tasksOf(now.Results)
	for _, name := range tasksOf(slices.Concat(now.Results, before.Results)) {
		if !slices.Contains(old, name) || !slices.Contains(current, name) {
			c.Uncompared = append(c.Uncompared, name)
		}
	}
	return c
}

// tasksOf returns the tasks of trials, each once, in order.
func tasksOf(trials []*Trial) (names []string) {
	seen := map[string]bool{}
	for _, t := range trials {
		if !seen[t.Task] {
			names, seen[t.Task] = append(names, t.Task), true
		}
	}
	return names
}

func (c *Comparison) markdown(b *strings.Builder) {
	b.WriteString("\n## Compared with the earlier report\n")
	if len(c.Models) == 0 {
		b.WriteString("\nThe reports have no model in common.\n")
	} else {
		b.WriteString("\n| model | success | cost of a task | tokens | calls |\n|---|---|---|---|---|\n")
	}
	for _, m := range c.Models {
		cost := "unknown"
		if m.CostUSD != nil {
			cost = dollars(m.CostUSD[0]) + " → " + dollars(m.CostUSD[1])
		}
		success := percent(m.Success[0]) + " → " + percent(m.Success[1])
		if m.Distinct {
			success += ", intervals apart"
		}
		pair := func(p [2]float64, digits int) string { return fmt.Sprintf("%.*f → %.*f", digits, p[0], digits, p[1]) }
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", m.Name, success, cost, pair(m.Tokens, 0), pair(m.Calls, 1))
	}
	for _, list := range []struct {
		word string
		all  []TaskChange
	}{{"Worse", c.Worse}, {"Better", c.Better}} {
		if len(list.all) == 0 {
			fmt.Fprintf(b, "\n%s: no task.\n", list.word)
			continue
		}
		fmt.Fprintf(b, "\n%s:\n\n| model | task | before | now | kind | reason |\n|---|---|---|---|---|---|\n", list.word)
		for _, t := range list.all {
			fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s |\n", t.Model, t.Task, t.Before, t.Now, t.Kind, cell(t.Reason))
		}
	}
	if len(c.Uncompared) > 0 {
		fmt.Fprintf(b, "\nNot compared, because only one of the reports has them: %s.\n", strings.Join(c.Uncompared, ", "))
	}
}
