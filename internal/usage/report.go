package usage

import (
	"cmp"
	"slices"
	"time"
)

// By says what each row of a report is about: a user, a tool, a server or a model.
type By string

// The subjects of rows.
const (
	ByUser   By = "user"
	ByTool   By = "tool"
	ByServer By = "server"
	ByModel  By = "model"
)

// Query selects the contents of a report.
type Query struct {
	User  string    // user of the report; "" means all users
	Since time.Time // start of the window, rounded down to the beginning of a Step; zero means a day ago
	By    By        // subject of the rows; "" means ByTool
}

// Row is a row of figures in the store.
type Row struct {
	Slot                int64 // seconds since the Unix epoch
	Kind                Kind
	Owner, Server, Name string
	Sum
}

// Report has the usage in a window of time.
type Report struct {
	Since time.Time `json:"since" doc:"The beginning of the window: that of ten minutes, or of a day in UTC where the window is longer than two days."`
	Until time.Time `json:"until"`
	By    By        `json:"by" enum:"user,tool,server,model"`
	Total Figures   `json:"total"`
	Rows  []Line    `json:"rows" doc:"The 100 with the most, the most first. One without a name is all others."`
	Steps []Step    `json:"steps" doc:"The window in equal parts, the oldest first; the last one goes on."`

	span, step time.Duration
	total      folded
	lines      map[string]*folded
	steps      []folded
}

// Line has the figures of one name.
type Line struct {
	Name string `json:"name,omitempty"`
	Figures
}

// Step has the figures of one part of the window.
type Step struct {
	At time.Time `json:"at"`
	Figures
}

// folded has the sums of rows, one for each kind.
type folded struct{ run, call, task Sum }

func (f *folded) add(r *Row) {
	switch r.Kind {
	case Run:
		f.run.Add(&r.Sum)
	case Call:
		f.call.Add(&r.Sum)
	case Task:
		f.task.Add(&r.Sum)
	}
}

// weight returns the numbers that order rows: cost, tokens, calls, then runs and tasks.
func (f *folded) weight() [4]int64 {
	return [4]int64{f.task.Cost, f.task.Input + f.task.Output, f.call.N + f.run.Calls, f.run.N + f.task.N}
}

func (f *folded) figures() Figures {
	return Figures{
		Runs: f.run.N, RunsFailed: f.run.Failed, Calls: max(f.call.N, f.run.Calls), CallsFailed: f.call.Failed, Tasks: f.task.N, TasksFailed: f.task.Failed,
		Input: f.task.Input, Output: f.task.Output, Saved: f.task.Saved, CostUSD: float64(f.task.Cost) / 1e9, Unpriced: f.task.Unpriced,
		RunTimes: times(&f.run.Spans), CallTimes: times(&f.call.Spans), TaskTimes: times(&f.task.Spans),
	}
}

// NewReport returns an empty report. Add fills it, and Close completes it.
func NewReport(q Query, now time.Time) *Report {
	now = now.UTC()
	if q.Since.IsZero() {
		q.Since = now.Add(-Day)
	}
	r := &Report{Until: now, By: cmp.Or(q.By, ByTool), lines: map[string]*folded{}, span: Fine, step: Fine}
	switch window := now.Sub(q.Since); {
	case window > 2*Day:
		r.span, r.step = Day, Day
	case window > 3*time.Hour:
		r.step = time.Hour
	}
	r.Since = q.Since.UTC().Truncate(r.step)
	if r.span == Day {
		r.Since = later(r.Since, now.Add(-KeepDays).Truncate(Day))
	}
	if r.Since.After(now) {
		r.Since = now.Truncate(r.step)
	}
	r.steps = make([]folded, now.Sub(r.Since)/r.step+1)
	return r
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Span returns the length of the slots that the report reads.
func (r *Report) Span() time.Duration { return r.span }

// Slots returns the beginnings of the slots that the report reads, in seconds since the Unix epoch.
func (r *Report) Slots() (all []int64) {
	for at := r.Since; !at.After(r.Until); at = at.Add(r.span) {
		all = append(all, at.Unix())
	}
	return all
}

// Add adds a row. If whole is true, the row also counts in the total. A report of all users by user reads the rows of all users together, which count
// in the total, and also the rows of each user, which must not count again.
func (r *Report) Add(row *Row, whole bool) {
	if whole {
		r.total.add(row)
		if at := time.Unix(row.Slot, 0).Sub(r.Since) / r.step; at >= 0 && int(at) < len(r.steps) {
			r.steps[at].add(row)
		}
	}
	name, has := "", false
	switch r.By {
	case ByUser:
		name, has = row.Owner, row.Owner != ""
	case ByTool:
		if name, has = row.Name, row.Kind == Call; row.Server != "" {
			name = row.Server + "__" + name
		}
	case ByServer:
		name, has = row.Server, row.Kind == Call
	case ByModel:
		name, has = row.Name, row.Kind == Task
	}
	if !has {
		return
	}
	if r.lines[name] == nil {
		r.lines[name] = &folded{}
	}
	r.lines[name].add(row)
}

// Close calculates the figures from the rows that were added.
func (r *Report) Close() *Report {
	r.Total = r.total.figures()
	for i := range r.steps {
		f := r.steps[i].figures()
		f.RunTimes, f.CallTimes, f.TaskTimes = nil, nil, nil
		r.Steps = append(r.Steps, Step{r.Since.Add(time.Duration(i) * r.step), f})
	}
	var names []string
	others := r.lines[Others]
	for name := range r.lines {
		if name != Others {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		x, y := r.lines[a].weight(), r.lines[b].weight()
		return cmp.Or(slices.Compare(y[:], x[:]), cmp.Compare(a, b))
	})
	r.Rows = []Line{}
	for i, name := range names {
		if i < MaxNames {
			r.Rows = append(r.Rows, Line{name, r.lines[name].figures()})
			continue
		}
		if others == nil {
			others = &folded{}
		}
		for of, sum := range map[*Sum]*Sum{&others.run: &r.lines[name].run, &others.call: &r.lines[name].call, &others.task: &r.lines[name].task} {
			of.Add(sum)
		}
	}
	if others != nil {
		r.Rows = append(r.Rows, Line{Others, others.figures()})
	}
	return r
}
