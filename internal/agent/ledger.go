package agent

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/task"
)

const (
	// maxSample is how many bytes of a text are counted; what it has in all is extrapolated.
	maxSample = 2 << 10
	// maxCounted is how many bytes of one run are counted, which takes a millisecond. Beyond, texts are taken to be like
	// those before.
	maxCounted = 4 << 10
)

// sample stands for the arguments or the answer of a call.
type sample struct {
	call    int
	written bool   // by the model, that is: arguments
	text    string // empty: what is said of its bytes is taken from the other texts
	bytes   int    // of the whole
}

// sampleOf copies at most maxSample bytes, from four places of a longer text.
func sampleOf(call int, written bool, name string, value json.RawMessage) sample {
	s := sample{call: call, written: written, bytes: len(name) + len(value)}
	var b strings.Builder
	b.WriteString(name)
	if len(value) <= maxSample {
		b.Write(value)
	} else {
		const parts = 4
		for i := range parts {
			from := i * (len(value) - maxSample/parts) / (parts - 1)
			b.Write(value[from : from+maxSample/parts])
		}
	}
	s.text = strings.ToValidUTF8(b.String(), "")
	return s
}

// estimate is about how many tokens a text has, in a millisecond at most.
func estimate(text string) int {
	return tokensOf(sampleOf(0, false, "", json.RawMessage(text)))
}

func tokensOf(s sample) int {
	if len(s.text) == 0 {
		return 0
	}
	return (model.Estimate(s.text)*s.bytes + len(s.text) - 1) / len(s.text)
}

// ledger counts what the calls of a run would have put into a model's context.
type ledger struct {
	calls         map[int]*exchange
	bytes, tokens int // of the texts that were counted
}

// exchange is the tokens of one call.
type exchange struct{ written, read int }

func (l *ledger) count(texts []sample) {
	for _, s := range texts {
		var n int
		if s.text != "" {
			n = tokensOf(s)
			l.bytes += s.bytes
			l.tokens += n
		} else {
			n = s.bytes * l.tokens / max(l.bytes, 1)
		}
		if l.calls == nil {
			l.calls = map[int]*exchange{}
		}
		if l.calls[s.call] == nil {
			l.calls[s.call] = &exchange{}
		}
		if s.written {
			l.calls[s.call].written = n
		} else {
			l.calls[s.call].read = n
		}
	}
}

// direct sums the calls up. Input is what the model reads of the run's own calls if each is a turn.
func (l *ledger) direct() task.Direct {
	var d task.Direct
	for _, n := range slices.Sorted(maps.Keys(l.calls)) {
		c := l.calls[n]
		d.Input += d.Intermediate
		d.Intermediate += c.written + c.read
		d.Output += c.written
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
	d.Output += estimate(answer)
	return &d
}
