// Package usage records what users have used over time: runs, calls, tasks, tokens and money. The store adds figures to slots of time when a run
// or task ends, so a report never reads the runs.
package usage

import (
	"fmt"
	"time"

	"mcp-code-exec-harness/internal/clip"
)

// The lengths of slots. Slots of the length Fine cover the last two days. Slots of the length Day are days in UTC.
const (
	Fine = 10 * time.Minute
	Day  = 24 * time.Hour
	// KeepFine and KeepDays are the times for which slots are kept. If runs are kept for a shorter time, slots are kept only for that time.
	KeepFine = 2*Day + time.Hour
	KeepDays = 90 * Day
)

// The limits of rows. Names beyond MaxNames are counted together under the name Others. Names longer than maxName are cut.
const (
	MaxNames = 100 // maximum number of names of an owner in a slot, and of rows of a report
	maxName  = 128 // maximum number of bytes of a name
)

// Others is the name in rows for everything that has no name, or no row of its own.
const Others = ""

// Name shortens a name to the maximum length in rows.
func Name(s string) string { return clip.Head(s, maxName) }

// bounds are the upper bounds of the buckets of Spans. The last bucket has no bound. The columns of the store are in this order.
var bounds = [Buckets - 1]time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second,
	10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute,
}

// Buckets is the number of buckets of Spans.
const Buckets = 18

// Spans counts durations in buckets by their length.
type Spans [Buckets]int64

// Bucket returns the index of the bucket for a duration.
func Bucket(d time.Duration) int {
	for i, most := range bounds {
		if d <= most {
			return i
		}
	}
	return Buckets - 1
}

// Quantile estimates the duration below which the given share of all durations lies. It interpolates between the bounds of a bucket; for the
// last bucket it returns the lower bound. The second result is false if nothing was counted.
func (s *Spans) Quantile(share float64) (time.Duration, bool) {
	var all, below int64
	for _, n := range s {
		all += n
	}
	want := share * float64(all)
	for i, n := range s {
		if n == 0 || float64(below+n) < want {
			below += n
			continue
		}
		var from time.Duration
		if i > 0 {
			from = bounds[i-1]
		}
		if i == Buckets-1 {
			return from, true
		}
		return from + time.Duration(float64(bounds[i]-from)*(want-float64(below))/float64(n)), true
	}
	return 0, false
}

// Kind is the kind of thing that a row counts.
type Kind string

// The kinds of rows. Rows of calls have a server and a tool, and rows of tasks have a model.
const (
	Run  Kind = "run"
	Call Kind = "call"
	Task Kind = "task"
)

// Sum has the sums of a row.
type Sum struct {
	N, Failed     int64
	Calls         int64 // calls that the runs made
	Input, Output int64 // tokens of the tasks
	// Saved is the estimated number of tokens for calling the tools directly, minus the tokens that the tasks took.
	Saved int64
	// Cost is in 1e-9 US dollars. Unpriced is the number of tasks whose cost is not known.
	Cost, Unpriced int64
	Spans          Spans
}

// Add adds the sums of another row.
func (s *Sum) Add(o *Sum) {
	s.N += o.N
	s.Failed += o.Failed
	s.Calls += o.Calls
	s.Input += o.Input
	s.Output += o.Output
	s.Saved += o.Saved
	s.Cost += o.Cost
	s.Unpriced += o.Unpriced
	for i, n := range o.Spans {
		s.Spans[i] += n
	}
}

// Figures are the sums of a window, of a part of it or of a name.
type Figures struct {
	Runs        int64   `json:"runs" doc:"Programs that have ended."`
	RunsFailed  int64   `json:"runsFailed"`
	Calls       int64   `json:"calls" doc:"Calls of tools by these runs."`
	CallsFailed int64   `json:"callsFailed"`
	Tasks       int64   `json:"tasks" doc:"Tasks that have ended."`
	TasksFailed int64   `json:"tasksFailed"`
	Input       int64   `json:"inputTokens"`
	Output      int64   `json:"outputTokens"`
	Saved       int64   `json:"savedTokens" doc:"Estimated tokens of calling the tools directly, minus those that the tasks took."`
	CostUSD     float64 `json:"costUsd"`
	Unpriced    int64   `json:"unpricedTasks,omitempty" doc:"Tasks whose cost is not known; costUsd is without them."`
	RunTimes    *Times  `json:"runTimes,omitempty"`
	CallTimes   *Times  `json:"callTimes,omitempty"`
	TaskTimes   *Times  `json:"taskTimes,omitempty"`
}

// Price returns the cost as a text for people. The text shows whether the cost of any tasks is unknown.
func (f Figures) Price() string {
	switch {
	case f.Unpriced == 0:
		return fmt.Sprintf("$%.4f", f.CostUSD)
	case f.CostUSD == 0:
		return "not known"
	}
	return fmt.Sprintf("over $%.4f", f.CostUSD)
}

// Times are quantiles in milliseconds, estimated from counts in buckets.
type Times struct {
	P50 float64 `json:"p50Ms"`
	P99 float64 `json:"p99Ms"`
}

func times(s *Spans) *Times {
	half, ok := s.Quantile(0.5)
	if !ok {
		return nil
	}
	most, _ := s.Quantile(0.99)
	return &Times{float64(half.Microseconds()) / 1000, float64(most.Microseconds()) / 1000}
}
