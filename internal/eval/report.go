package eval

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
)

const reportVersion = 1

// Report is what models achieved in a suite. All figures but times are equal each time that recordings are played.
type Report struct {
	Version     int           `json:"version"`
	Suite       string        `json:"suite"`
	Tasks       int           `json:"tasks"`
	Repetitions int           `json:"repetitions"`
	Trials      int           `json:"trials"`            // trials that ended
	Planned     int           `json:"planned"`           // trials that should have ended
	Partial     bool          `json:"partial,omitempty"` // whether not all planned trials ended
	Models      []ModelReport `json:"models"`
	Verdicts    []Verdict     `json:"thresholds"`
	Comparison  *Comparison   `json:"comparison,omitempty"`
	Results     []*Trial      `json:"results"`
}

// ModelReport sums up the trials of a model.
type ModelReport struct {
	Name      string         `json:"name"`
	About     string         `json:"about,omitempty"`
	Recorded  bool           `json:"recorded"` // whether a recording was played, so that no model was asked
	Trials    int            `json:"trials"`
	Succeeded int            `json:"succeeded"`
	Success   Interval       `json:"success"`            // share of trials that succeeded
	Failures  map[string]int `json:"failures"`           // number of failures by kind
	TotalUSD  *float64       `json:"totalUsd,omitempty"` // cost of all trials; absent if a price is not known
	CostUSD   *Interval      `json:"costUsd,omitempty"`  // cost of one trial; the following figures are of one trial too
	Input     Interval       `json:"inputTokens"`
	Output    Interval       `json:"outputTokens"`
	Turns     Interval       `json:"turns"`
	Programs  Interval       `json:"programs"`
	Calls     Interval       `json:"calls"`
	TimeMS    Interval       `json:"timeMs"`
}

// Interval is a mean with its 95 % confidence interval. The interval treats trials as independent. It is absent, with N below 2, where there are too few.
type Interval struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	N    int     `json:"n"` // number of observations of the interval
}

// Verdict says whether a threshold is met.
type Verdict struct {
	Model     string  `json:"model"`
	Threshold string  `json:"threshold"`
	Wanted    float64 `json:"wanted"`
	Got       float64 `json:"got"`
	Met       bool    `json:"met"`
	Reason    string  `json:"reason,omitempty"`
}

// z is the quantile of the normal distribution for 95 %.
const z = 1.959964

// Wilson returns the score interval of Wilson (1927) for k successes in n trials. Unlike the usual interval, it holds for few trials and for shares near 0
// and 1.
func Wilson(k, n int) (low, high float64) {
	if n == 0 {
		return 0, 1
	}
	p, m := float64(k)/float64(n), float64(n)
	center, half := p+z*z/(2*m), z*math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	return max(0, (center-half)/(1+z*z/m)), min(1, (center+half)/(1+z*z/m))
}

// meanOf returns the mean of all values, and the interval of those that are observations: mean ± t·s/√n by Student's distribution.
func meanOf(all, observed []float64) Interval {
	average := func(values []float64) (sum float64) {
		for _, v := range values {
			sum += v
		}
		return sum / float64(max(len(values), 1))
	}
	i := Interval{Mean: average(all), N: len(observed)}
	i.Low, i.High = i.Mean, i.Mean
	if i.N < 2 {
		return i
	}
	center, squares := average(observed), 0.0
	for _, v := range observed {
		squares += (v - center) * (v - center)
	}
	half := student(i.N-1) * math.Sqrt(squares/float64(i.N-1)/float64(i.N))
	i.Low, i.High = max(0, center-half), center+half // no figure is negative
	return i
}

// student returns the quantile of Student's distribution for 95 %: exact for 1 and 2 degrees of freedom, otherwise by the expansion of Cornish and
// Fisher, whose error is below 1 % (3.160 in place of 3.182 for 3 degrees).
func student(degrees int) float64 {
	switch degrees {
	case 1:
		return 12.706
	case 2:
		return 4.303
	}
	v := float64(degrees)
	z3, z5, z7 := z*z*z, z*z*z*z*z, z*z*z*z*z*z*z
	return z + (z3+z)/(4*v) + (5*z5+16*z3+3*z)/(96*v*v) + (3*z7+19*z5+17*z3-15*z)/(384*v*v*v)
}

// NewReport sums up trials. baseline, if not nil, is an earlier report to compare with.
func NewReport(o Options, trials []*Trial, baseline *Report) *Report {
	r := &Report{
		Version: reportVersion, Suite: o.Suite.Name, Tasks: len(o.Tasks), Repetitions: o.Repetitions, Trials: len(trials),
		Planned: len(o.Tasks) * len(o.Models) * o.Repetitions, Results: trials, Verdicts: []Verdict{},
	}
	if r.Results == nil {
		r.Results = []*Trial{}
	}
	r.Partial = r.Trials < r.Planned
	for _, m := range o.Models {
		r.Models = append(r.Models, sumUp(m, trials))
	}
	if baseline != nil {
		r.Comparison = compare(baseline, r)
	}
	for i, m := range o.Models {
		r.judge(&r.Models[i], m.Thresholds.Or(o.Suite.Thresholds))
	}
	return r
}

func sumUp(m Model, trials []*Trial) ModelReport {
	r := ModelReport{Name: m.Name, About: m.About, Recorded: m.Played != nil, Failures: map[string]int{}}
	var all, observed []*Trial
	successes := 0 // among the observed
	for _, t := range trials {
		if t.Model != m.Name {
			continue
		}
		all = append(all, t)
		if t.Succeeded {
			r.Succeeded++
		} else {
			r.Failures[t.Kind]++
		}
		if !t.Again {
			observed = append(observed, t)
			if t.Succeeded {
				successes++
			}
		}
	}
	r.Trials = len(all)
	r.Success = Interval{N: len(observed)}
	if r.Trials > 0 {
		r.Success.Mean = float64(r.Succeeded) / float64(r.Trials)
	}
	r.Success.Low, r.Success.High = Wilson(successes, len(observed))
	figure := func(of func(*Trial) float64) Interval {
		values := func(trials []*Trial) (v []float64) {
			for _, t := range trials {
				v = append(v, of(t))
			}
			return v
		}
		return meanOf(values(all), values(observed))
	}
	r.Input = figure(func(t *Trial) float64 { return float64(t.Input) })
	r.Output = figure(func(t *Trial) float64 { return float64(t.Output) })
	r.Turns = figure(func(t *Trial) float64 { return float64(t.Turns) })
	r.Programs = figure(func(t *Trial) float64 { return float64(t.Programs) })
	r.Calls = figure(func(t *Trial) float64 { return float64(t.Calls) })
	r.TimeMS = figure(func(t *Trial) float64 { return t.TimeMS })
	if len(all) > 0 && !slices.ContainsFunc(all, func(t *Trial) bool { return t.CostUSD == nil && t.Turns > 0 }) {
		cost := figure(func(t *Trial) float64 {
			if t.CostUSD == nil {
				return 0 // the model was not asked
			}
			return *t.CostUSD
		})
		total := 0.0
		for _, t := range all {
			if t.CostUSD != nil {
				total += *t.CostUSD
			}
		}
		r.CostUSD, r.TotalUSD = &cost, &total
	}
	return r
}

// judge adds the verdicts about a model.
func (r *Report) judge(m *ModelReport, t Thresholds) {
	add := func(threshold string, wanted, got float64, met bool, reason string) {
		if met {
			reason = ""
		}
		r.Verdicts = append(r.Verdicts, Verdict{m.Name, threshold, wanted, got, met, reason})
	}
	if t.MinSuccess != nil {
		add("minSuccess", *t.MinSuccess, m.Success.Mean, m.Trials > 0 && m.Success.Mean >= *t.MinSuccess,
			fmt.Sprintf("%s succeeded in %s of trials, and %s are wanted", m.Name, percent(m.Success.Mean), percent(*t.MinSuccess)))
	}
	if t.MaxCost != nil {
		if m.TotalUSD == nil {
			add("maxCost", *t.MaxCost, 0, false, "the cost of "+m.Name+" is not known: set model.prices")
		} else {
			add("maxCost", *t.MaxCost, *m.TotalUSD, *m.TotalUSD <= *t.MaxCost,
				fmt.Sprintf("%s cost %s, and at most %s are wanted", m.Name, dollars(*m.TotalUSD), dollars(*t.MaxCost)))
		}
	}
	if t.MaxWorse != nil && r.Comparison != nil {
		worse := 0
		for _, c := range r.Comparison.Worse {
			if c.Model == m.Name {
				worse++
			}
		}
		add("maxWorse", float64(*t.MaxWorse), float64(worse), worse <= *t.MaxWorse,
			fmt.Sprintf("%d tasks of %s are worse than in the compared report, and at most %d may be", worse, m.Name, *t.MaxWorse))
	}
	if n := m.Failures[KindRecording]; n > 0 {
		add("recording", 0, float64(n), false, fmt.Sprintf("in %d trials the recording of %s does not match, so they say nothing about the model: "+
			"take the change back, or record again with harness eval --record", n, m.Name))
	}
}

// Met reports whether all thresholds are met.
func (r *Report) Met() bool {
	return !slices.ContainsFunc(r.Verdicts, func(v Verdict) bool { return !v.Met })
}

// Unrecorded returns the tasks whose dialogues could not be recorded.
func (r *Report) Unrecorded() (names []string) {
	for _, t := range r.Results {
		if t.Unrecorded {
			names = append(names, t.Task)
		}
	}
	return names
}

// DecodeReport reads a report in JSON.
func DecodeReport(rd io.Reader) (*Report, error) {
	r := new(Report)
	if err := json.NewDecoder(rd).Decode(r); err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	if r.Version != reportVersion || r.Models == nil || slices.Contains(r.Results, nil) {
		return nil, errors.New("read report: it is not one of harness eval --json in version 1")
	}
	return r, nil
}

func percent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }

func dollars(usd float64) string { return fmt.Sprintf("$%.4f", usd) }

// spread returns a mean with its interval.
func (i Interval) spread(unit string, digits int) string {
	if i.N < 2 {
		return fmt.Sprintf("%s%.*f", unit, digits, i.Mean)
	}
	return fmt.Sprintf("%s%.*f (%.*f to %.*f)", unit, digits, i.Mean, digits, i.Low, digits, i.High)
}

// cell makes a text a cell of a table in Markdown.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "\r", " ", "<", "&lt;").Replace(text)
}

// Markdown returns the report as a document. All that is measured in time is in its last section.
func (r *Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Evaluation of %s\n\n%d tasks, %d trials.\n", r.Suite, r.Tasks, r.Trials)
	if r.Partial {
		fmt.Fprintf(&b, "\n**Partial**: %d of %d trials ended. The figures are of those.\n", r.Trials, r.Planned)
	}
	b.WriteString("\n")
	for _, m := range r.Models {
		how := "asked"
		if m.Recorded {
			how = "recorded: no model was asked"
		}
		fmt.Fprintf(&b, "- `%s`: %s", m.Name, how)
		if m.About != "" {
			fmt.Fprintf(&b, ". %s", strings.TrimSuffix(m.About, "."))
		}
		b.WriteString(".\n")
	}
	b.WriteString("\n| model | success | 95 % | cost | cost of a task | input tokens | output tokens | turns | programs | calls | failures |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, m := range r.Models {
		cost, total := "unknown", "unknown"
		if m.CostUSD != nil {
			cost, total = m.CostUSD.spread("$", 4), dollars(*m.TotalUSD)
		}
		failures := []string{}
		for _, kind := range slices.Sorted(maps.Keys(m.Failures)) {
			failures = append(failures, fmt.Sprintf("%d %s", m.Failures[kind], kind))
		}
		fmt.Fprintf(&b, "| %s | %d of %d, %s | %s to %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", m.Name, m.Succeeded, m.Trials, percent(m.Success.Mean),
			percent(m.Success.Low), percent(m.Success.High), total, cost, m.Input.spread("", 0), m.Output.spread("", 0), m.Turns.spread("", 1),
			m.Programs.spread("", 1), m.Calls.spread("", 1), cmp.Or(strings.Join(failures, ", "), "none"))
	}
	b.WriteString("\nThe interval of the success is Wilson's score interval, the others are means with Student's t; both treat trials as independent.\n")
	r.matrix(&b)
	r.failures(&b)
	if r.Comparison != nil {
		r.Comparison.markdown(&b)
	}
	if len(r.Verdicts) > 0 {
		b.WriteString("\n## Thresholds\n\n| model | threshold | wanted | got | |\n|---|---|---|---|---|\n")
		for _, v := range r.Verdicts {
			met := "met"
			if !v.Met {
				met = "**not met**"
			}
			fmt.Fprintf(&b, "| %s | %s | %.3g | %.3g | %s |\n", v.Model, v.Threshold, v.Wanted, v.Got, met)
		}
	}
	b.WriteString("\n## Measured times\n\nThese differ from run to run, and of a recording they are the harness's alone.\n\n| model | ms of a task |\n|---|---|\n")
	for _, m := range r.Models {
		fmt.Fprintf(&b, "| %s | %s |\n", m.Name, m.TimeMS.spread("", 0))
	}
	return b.String()
}

// matrix writes which tasks succeeded with which model.
func (r *Report) matrix(b *strings.Builder) {
	b.WriteString("\n## Tasks\n\n| task |")
	for _, m := range r.Models {
		fmt.Fprintf(b, " %s |", m.Name)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(r.Models)) + "\n")
	scores := scoresOf(r.Results)
	for _, name := range tasksOf(r.Results) {
		fmt.Fprintf(b, "| %s |", name)
		for _, m := range r.Models {
			fmt.Fprintf(b, " %s |", scores[scored{m.Name, name}])
		}
		b.WriteString("\n")
	}
}

func (r *Report) failures(b *strings.Builder) {
	title := "\n## Failures\n\n| model | task | kind | reason |\n|---|---|---|---|\n"
	for _, t := range r.Results {
		if !t.Succeeded {
			fmt.Fprintf(b, "%s| %s | %s | %s | %s |\n", title, t.Model, t.Task, t.Kind, cell(t.Reason))
			title = ""
		}
	}
}
