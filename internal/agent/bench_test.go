package agent

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

// BenchmarkLoop measures the time of the loop itself for a run, without the model, the program and the disk. Each run makes 20 tool calls with answers of 2
// kB and returns 3 kB.
func BenchmarkLoop(b *testing.B) {
	const runsInTask = 10
	answer := json.RawMessage(`{"rows":[` + strings.TrimSuffix(strings.Repeat(`{"id":12345,"name":"Acme Corporation","city":"Berlin"},`, 40), ",") + `]}`)
	busy := func(_ context.Context, p Program) (*run.Outcome, error) {
		for n := range 20 {
			p.Observe(run.Event{Call: &journal.Call{N: n + 1, Kind: "tool", Name: "crm__search", Args: json.RawMessage(`{"q":"acme","page":1}`)}})
			p.Observe(run.Event{Answer: &journal.Answer{N: n + 1, Value: answer}})
		}
		return &run.Outcome{RunID: p.RunID, Status: run.Succeeded, Output: answer, Calls: 20, Logs: []run.Log{{Level: "log", Text: "done"}}}, nil
	}
	model.Estimate("the vocabulary is loaded")
	b.ReportAllocs()
	for b.Loop() {
		w := newWorld(b)
		w.programs["busy"] = busy
		w.generate = func(_ context.Context, n int, _ *model.Request) (*model.Turn, error) {
			if n == runsInTask {
				return stamped(says("done")), nil
			}
			return stamped(runs("busy")), nil
		}
		if ended := w.do(); ended.Status != task.Succeeded {
			b.Fatal(ended.Message)
		}
	}
	b.ReportMetric(float64(b.Elapsed())/float64(time.Millisecond)/float64(b.N)/runsInTask, "ms/run")
}
