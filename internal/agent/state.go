package agent

import (
	"encoding/json"
	"maps"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

// state is derived from the steps of a task. It says what the loop does next, and what the task has used so far.
type state struct {
	asks     int        // number of requests sent, including those whose process died before the answer came
	open     *task.Ask  // the last request, while it has no answer
	outages  int        // number of requests in a row that got no answer because the provider was unavailable
	turn     *task.Turn // the last turn; nil before the first
	results  int        // number of results of the turn's calls
	runID    string     // run id of the pending call, if its program has begun
	answered bool       // whether the last turn has no calls, and neither a note nor a request followed the turn

	text  string // the answer so far: the text of the last turn, after the texts of the cut-off turns that it continues
	said  string // the last text that was not empty
	cuts  int    // number of cut-off turns since the last call
	empty int    // number of empty turns in a row up to the last turn

	compact   task.Compact // current cut of the conversation
	tooLong   bool         // whether the provider refused the last request as too long
	shortened bool         // whether the conversation was shortened because a request was too long

	runs    []string // ids of all runs
	lastRun string   // status of the last run
	output  json.RawMessage
	logs    tail
	writes  writes // writes of all runs
	calls   int
	direct  task.Direct

	worked time.Duration // working time of the steps
	turns  int           // number of turns, not counting requests without an answer
	model  string
	tokens model.Usage
	cost   float64
	priced int // number of turns whose cost is known
}

// take updates the state with a step.
func (s *state) take(step task.Step) {
	s.worked += time.Duration(step.Took)
	switch {
	case step.Ask != nil:
		s.interrupted()
		s.asks++
		s.open, s.answered = step.Ask, false
	case step.Unanswered != nil:
		s.takeUnanswered(step.Unanswered)
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
		s.shortened = s.tooLong
	}
}

func (s *state) takeUnanswered(u *task.Unanswered) {
	s.asks--
	s.open = nil
	s.charge(u.Lost, u.LostUSD)
	s.tooLong = u.Kind == string(model.KindContextLength)
	if model.Kind(u.Kind).Passing() {
		s.outages++
	}
}

// interrupted charges a request whose process died before the answer arrived.
func (s *state) interrupted() {
	if s.open != nil {
		s.charge(model.Usage{Input: s.open.Input, Estimated: s.open.Input > 0}, s.open.CostUSD)
		s.open = nil
	}
}

// charge adds a usage, and its cost if that is known.
func (s *state) charge(u model.Usage, usd *float64) {
	s.tokens = s.tokens.Add(u)
	if usd != nil {
		s.cost += *usd
	}
}

// callsOf returns the calls in a turn; nil if the turn was refused or filtered, because the calls of such a turn are never executed.
func callsOf(t *task.Turn) []model.ToolCall {
	if t.Stop == model.StopRefusal {
		return nil
	}
	return t.Calls
}

// goesOn reports whether the next turn continues the answer of the last turn. It does if the last turn has no calls.
func (s *state) goesOn() bool { return s.turn != nil && len(callsOf(s.turn)) == 0 }

// answering returns the answer so far if the next turn continues it, or else "".
func (s *state) answering() string {
	if s.goesOn() {
		return s.text
	}
	return ""
}

func (s *state) takeTurn(t *task.Turn) {
	if !s.goesOn() {
		s.text, s.cuts, s.empty = "", 0, 0
	}
	s.turn, s.results, s.runID, s.open, s.shortened = t, 0, "", nil, false
	s.outages, s.tooLong = 0, false
	s.answered = len(callsOf(t)) == 0
	s.text += t.Text
	if t.Whole != "" {
		s.text = t.Whole
	}
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
	s.charge(t.Usage, t.CostUSD)
	s.charge(t.Lost, t.LostUSD)
	if t.CostUSD != nil {
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
		s.writes.add(e, r.RunID)
	}
	s.direct = addRun(s.direct, r)
	s.calls += r.Calls
}

// pending returns the next call to execute, nil if there is none. Results belong to calls by order, because models repeat the ids of calls.
func (s *state) pending() *model.ToolCall {
	if s.turn == nil || s.results >= len(callsOf(s.turn)) {
		return nil
	}
	return &s.turn.Calls[s.results]
}
