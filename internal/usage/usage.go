// Package usage says what users have used: runs, calls, tasks, tokens and money, over time. The store adds the figures up when a run or task
// ends, in slots of time, and never looks through runs for them.
package usage

import (
	"fmt"
	"time"

	"mcp-code-exec-harness/internal/clip"
)

// Slots of figures: fine ones for the last two days, and days in UTC.
const (
	Fine = 10 * time.Minute
	Day  = 24 * time.Hour
	// KeepFine and KeepDays are how long slots are kept. A shorter retention of runs shortens KeepDays.
	KeepFine = 2*Day + time.Hour
	KeepDays = 90 * Day
)

// The bounds of rows. What is beyond them is counted under the name Others.
const (
	MaxNames = 100 // names of an owner in a slot, and rows of a report
	maxName  = 128 // bytes of a name
)

// Others is the name of what has none, or no row of its own.
const Others = ""

// Name is a name as rows have it.
func Name(s string) string { return clip.Head(s, maxName) }

// bounds are the upper bounds of the buckets of spans; the last bucket has none. The columns of the store are in this order.
var bounds = [Buckets - 1]time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second,
	10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute,
}

// Buckets is how many buckets a Spans has.
const Buckets = 18

// Spans counts spans of time by their length.
type Spans [Buckets]int64

// Bucket is the bucket of a span.
func Bucket(d time.Duration) int {
	for i, most := range bounds {
		if d <= most {
			return i
		}
	}
	return Buckets - 1
}

// Quantile estimates the span below which a share of the spans is: the share of its bucket, which lies between two bounds. In the last
// bucket it is the lower bound. The second result is false where there is no span.
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

// Kind is what a row counts.
type Kind string

// The kinds. Rows of calls have a server and a tool, rows of tasks a model.
const (
	Run  Kind = "run"
	Call Kind = "call"
	Task Kind = "task"
)

// Sum is what a row adds up.
type Sum struct {
	N, Failed     int64
	Calls         int64 // calls of the runs
	Input, Output int64 // tokens of the tasks
	// Saved is the tokens of calling the tools directly, by estimate, minus those that the tasks took.
	Saved int64
	// Cost is in 1e-9 US dollars. Unpriced is the tasks whose cost is not known.
	Cost, Unpriced int64
	Spans          Spans
}

// Add adds other figures.
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

// Figures are what a window, a part of it or a name adds up to.
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

// Price is the cost in words. It says where the cost of tasks is not known.
func (f Figures) Price() string {
	switch {
	case f.Unpriced == 0:
		return fmt.Sprintf("$%.4f", f.CostUSD)
	case f.CostUSD == 0:
		return "not known"
	}
	return fmt.Sprintf("over $%.4f", f.CostUSD)
}

// Times are milliseconds, estimated from counts of spans between fixed bounds.
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
