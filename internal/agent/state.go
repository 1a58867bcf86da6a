package agent

import (
	"encoding/json"
	"maps"
	"strings"

	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

// state is what the steps of a task say of it: where its loop stands, and what it has taken so far.
type state struct {
	asks     int        // requests that were sent, cut-off ones included
	open     bool       // the last of them has no turn
	turn     *task.Turn // the last one; nil before the first
	results  int        // of its calls
	runID    string     // of its next call, where that is a program that has begun
	answered bool       // the turn has no calls, and nothing was said to it yet

	text  string // the answer so far: of the last turn, and of the cut-off ones that it goes on from
	said  string // the last text that was not empty
	cuts  int    // turns since the last call that were cut off in their text
	empty int    // turns up to the last one that were empty

	compact   task.Compact // in force
	shortened bool         // since the request that was open

	runs    []string // ids
	lastRun string   // status of the last run
	output  json.RawMessage
	logs    tail
	effects []effectOf
	calls   int
	direct  task.Direct

	turns  int // with known usage
	model  string
	tokens model.Usage
	cost   float64
	priced int // turns whose cost is known
}

// effectOf is a write of a run.
type effectOf struct {
	run string
	task.Effect
}

// take adds a step.
func (s *state) take(step task.Step) {
	switch {
	case step.Ask != nil:
		s.asks++
		s.open, s.answered = true, false
	case step.Turn != nil:
		s.takeTurn(step.Turn)
	case step.Run != nil:
		s.runID = step.Run.RunID
		s.runs = append(s.runs, step.Run.RunID)
	case step.Result != nil:
		s.results++
		s.runID = ""
		s.takeResult(step.Result)
	case step.Note != nil:
		s.answered = false
	case step.Compact != nil:
		kept := maps.Clone(s.compact.Kept)
		s.compact = *step.Compact
		if kept != nil {
			maps.Copy(kept, s.compact.Kept)
			s.compact.Kept = kept
		}
		s.shortened = s.open
	}
}

func (s *state) takeTurn(t *task.Turn) {
	goesOn := s.turn != nil && len(s.turn.Calls) == 0
	if !goesOn {
		s.text, s.cuts, s.empty = "", 0, 0
	}
	s.turn, s.results, s.runID, s.open, s.shortened = t, 0, "", false, false
	s.answered = len(t.Calls) == 0
	s.text += t.Text
	if strings.TrimSpace(s.text) != "" {
		s.said = s.text
	}
	switch {
	case !s.answered:
	case t.Stop == model.StopLength:
		s.cuts++
	case strings.TrimSpace(t.Text) == "":
		s.empty++
	default:
		s.empty = 0
	}
	s.turns++
	s.model = t.Model
	s.tokens = s.tokens.Add(t.Usage)
	if t.CostUSD != nil {
		s.cost += *t.CostUSD
		s.priced++
	}
}

func (s *state) takeResult(r *task.Result) {
	if r.RunID == "" {
		return
	}
	s.lastRun = r.RunStatus
	if r.RunStatus == run.Succeeded {
		s.output = r.Output
	}
	s.logs.add(r.Logs)
	for _, e := range r.Effects {
		s.effects = append(s.effects, effectOf{r.RunID, e})
	}
	s.direct = addRun(s.direct, r)
	s.calls += r.Calls
}

// pending is the call that is due, nil if none is. Calls and results belong together by their order: ids of calls are the
// providers', and may come again.
func (s *state) pending() *model.ToolCall {
	if s.turn == nil || s.results >= len(s.turn.Calls) {
		return nil
	}
	return &s.turn.Calls[s.results]
}
