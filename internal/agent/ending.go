package agent

import (
	"fmt"
	"strings"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/modelview"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

const (
	maxLogLines = 1000
	maxLogBytes = 256 << 10
	maxListed   = 10 // writes in a message
)

// progress is the task with what its steps so far add.
func (w *work) progress() task.Task {
	t, s := w.task, &w.state
	t.Text, t.Output, t.Runs, t.Logs = s.said, s.output, append([]string{}, s.runs...), s.logs.all()
	t.Usage = task.Usage{Model: s.model, Turns: s.asks, Runs: len(s.runs), Calls: s.calls, Tokens: s.tokens}
	if s.turns > 0 && s.priced == s.turns {
		t.Usage.CostUSD = &s.cost
	}
	return t
}

// ended is the task as it ended.
func (w *work) ended(end *ending) task.Task {
	w.state.interrupted()
	t := w.progress()
	t.Status, t.Message = end.status, end.message
	t.Usage.Direct = directOf(w.state.direct, w.state.calls, w.a.opt.Catalog.Definitions(), t.Text)
	if end.kind != "" {
		// The effects of runs that succeeded are in their output.
		t.Message += listed(" Writes of runs that did not succeed", w.state.writes.done) +
			listed(" Writes in doubt, which may have happened", w.state.writes.doubt)
		t.Error = &task.Error{Kind: end.kind, Message: end.message}
	}
	return t
}

// effort is the turns and runs of the task, in words. A request that was not answered is no turn.
func (w *work) effort() string {
	turns := w.state.asks
	if w.state.open != nil {
		turns--
	}
	if turns <= 0 {
		return "before the first turn"
	}
	words := "after " + count(turns, "turn")
	if n := len(w.state.runs); n > 0 {
		words += " and " + count(n, "run")
	}
	return words
}

// sentence is a reason behind its label, with a full stop.
func sentence(label, reason string) string {
	reason = strings.TrimRight(strings.Join(strings.Fields(reason), " "), ".")
	if reason == "" {
		return label + "."
	}
	return label + ": " + clip.Counted(reason, 2000) + "."
}

// writes are effects of runs in words: those that were done, and those that may have been.
type writes struct{ done, doubt []string }

// add adds an effect, and returns it in words. run is the id of its run, or empty.
func (w *writes) add(e task.Effect, run string) string {
	line := fmt.Sprintf("%s (call %d)", e.Name, e.Call)
	if run != "" {
		line = fmt.Sprintf("%s (%s, call %d)", e.Name, run, e.Call)
	}
	switch e.State {
	case "done":
		w.done = append(w.done, line)
	case "in_doubt":
		w.doubt = append(w.doubt, line)
	}
	return line
}

// listed is a list behind its label; empty if there is nothing to list.
func listed(label string, items []string) string {
	if len(items) == 0 {
		return ""
	}
	more := ""
	if len(items) > maxListed {
		more = fmt.Sprintf(" and %d more", len(items)-maxListed)
		items = items[:maxListed]
	}
	return label + ": " + strings.Join(items, ", ") + more + "."
}

// lines are the console lines of a run, as texts.
func lines(logs []run.Log) []string {
	var t tail
	for _, l := range logs {
		t.lines = append(t.lines, modelview.Line(l))
	}
	t.trim()
	return t.all()
}

// tail is the last of many lines.
type tail struct {
	lines []string
	lost  int // lines before them
}

func (t *tail) add(lines []string) {
	t.lines = append(t.lines, lines...)
	t.trim()
}

// trim drops the lines before the last ones.
func (t *tail) trim() {
	bytes, from := 0, len(t.lines)
	for from > 0 && len(t.lines)-from < maxLogLines && bytes+len(t.lines[from-1]) <= maxLogBytes {
		from--
		bytes += len(t.lines[from])
	}
	t.lost += from
	t.lines = t.lines[from:]
}

// all is the lines, after one that says how many are missing.
func (t *tail) all() []string {
	if t.lost == 0 {
		return append([]string{}, t.lines...)
	}
	lost := fmt.Sprintf("[%s before this are left out; `harness runs show` has all of a run]", count(t.lost, "line"))
	return append([]string{lost}, t.lines...)
}
