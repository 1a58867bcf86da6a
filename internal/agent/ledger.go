package agent

import (
	"maps"
	"math"
	"slices"

	"mcp-code-exec-harness/internal/task"
)

// tokensOf estimates the number of model tokens in a text, given its size in bytes.
func tokensOf(bytes int) int { return int(math.Ceil(float64(bytes) / bytesPerToken)) }

// exchange holds two sizes in bytes for one tool call: of the text that the model would have written, and of the text that it would have read.
type exchange struct{ written, read int }

// directOfRun estimates the tokens that the tool calls of one run would take if the model made them directly. calls are the tool calls by number.
// Input of the result counts only the run's own calls.
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

// addRun adds a run to d, the estimate for the earlier runs. If the model made the calls directly, the context of each call would contain the
// calls of the earlier runs.
func addRun(d task.Direct, r *task.Result) task.Direct {
	d.Input += r.Calls*d.Intermediate + r.Direct.Input
	d.Intermediate += r.Direct.Intermediate
	d.Output += r.Direct.Output
	return d
}

// directOf estimates the tokens that a task would take if the model made the tool calls directly. Each call takes one turn, and the model answers
// in a last turn. The context of each turn contains the definitions of all tools. System prompt and task do not count.
func directOf(d task.Direct, calls, definitions int, answer string) *task.Direct {
	d.Definitions, d.Estimated = definitions, true
	d.Context = definitions + d.Intermediate
	d.Input += calls*definitions + d.Context
	d.Output += tokensOf(len(answer))
	return &d
}
