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

// directOfRun is the part of a run, given its tool calls by number. Input is what the model reads of the run's own calls if
// each is a turn.
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

// addRun adds a run to those before it, whose calls stand in the context of each of its own.
func addRun(d task.Direct, r *task.Result) task.Direct {
	d.Input += r.Calls*d.Intermediate + r.Direct.Input
	d.Intermediate += r.Direct.Intermediate
	d.Output += r.Direct.Output
	return d
}

// directOf is what a task would have taken with direct tool calls: the definitions of all tools stand in the context of
// each turn, each call is a turn, and in a last one the model answers. System prompt and task are left out.
func directOf(d task.Direct, calls, definitions int, answer string) *task.Direct {
	d.Definitions, d.Estimated = definitions, true
	d.Context = definitions + d.Intermediate
	d.Input += calls*definitions + d.Context
	d.Output += tokensOf(len(answer))
	return &d
}
