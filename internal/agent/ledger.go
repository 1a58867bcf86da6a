package agent

import (
	"maps"
	"math"
	"slices"

	"mcp-code-exec-harness/internal/task"
)

// tokensOf estimates the number of model tokens in a text, given its size in bytes.
func tokensOf(bytes int) int { return int(math.Ceil(float64(bytes) / bytesPerToken)) }

// exchange is the size in bytes of one tool call: the text that a model would have written and the text that it would have read.
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

// addRun adds a run to the estimate d for earlier runs. Each call of the run has the calls of the earlier runs in its context.
func addRun(d task.Direct, r *task.Result) task.Direct {
	d.Input += r.Calls*d.Intermediate + r.Direct.Input
	d.Intermediate += r.Direct.Intermediate
	d.Output += r.Direct.Output
	return d
}

// directOf returns the estimate for a task whose tool calls the model makes directly. Each turn has the definitions of all tools in its context,
// each call takes one turn, and the model answers in a last turn. System prompt and task do not count.
func directOf(d task.Direct, calls, definitions int, answer string) *task.Direct {
	d.Definitions, d.Estimated = definitions, true
	d.Context = definitions + d.Intermediate
	d.Input += calls*definitions + d.Context
	d.Output += tokensOf(len(answer))
	return &d
}
