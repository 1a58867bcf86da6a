package agent

import (
	"maps"
	"math"
	"slices"

	"mcp-code-exec-harness/internal/task"
)

// tokensOf is about how many model tokens a text of so many bytes has.
func tokensOf(bytes int) int { return int(math.Ceil(float64(bytes) / bytesPerToken)) }

// exchange is the bytes of one tool call: what a model would have written, and what it would have read.
type exchange struct{ written, read int }

// directOfRun is the part of a run, given its tool calls by number. Its Input counts the run's own calls only.
func directOfRun(calls map[int]exchange) task.Direct {
	var d task.Direct
	for _, n := range slices.Sorted(maps.Keys(calls)) {
		written, read := tokensOf(calls[n].written), tokensOf(calls[n].read)
		d.Input += d.Intermediate
		d.Intermediate += written + read
		d.Output += written
	}
	return d
}

// addRun adds a run to earlier ones, whose calls are in the context of each of its own.
func addRun(d task.Direct, r *task.Result) task.Direct {
	d.Input += r.Calls*d.Intermediate + r.Direct.Input
	d.Intermediate += r.Direct.Intermediate
	d.Output += r.Direct.Output
	return d
}

// directOf is the estimate for direct tool calls: each turn has the definitions of all tools in its context, each call is a
// turn, and the model answers in a last one. System prompt and task do not count.
func directOf(d task.Direct, calls, definitions int, answer string) *task.Direct {
	d.Definitions, d.Estimated = definitions, true
	d.Context = definitions + d.Intermediate
	d.Input += calls*definitions + d.Context
	d.Output += tokensOf(len(answer))
	return &d
}
