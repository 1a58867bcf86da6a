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
	maxListed   = 10 // maximum number of writes in a message
)

// progress returns the task with the results of its steps so far.
func (w *work) progress() task.Task {
	t, s := w.task, &w.state
	t.Text, t.Output, t.Runs, t.Logs = s.said, s.output, append([]string{}, s.runs...), s.logs.all()
	t.Usage = task.Usage{Model: s.model, Turns: s.asks, Runs: len(s.runs), Calls: s.calls, Tokens: s.tokens}
	if s.turns > 0 && s.priced == s.turns {
		t.Usage.CostUSD = &s.cost
	}
	return t
}

// ended returns the task with the status, message, error and usage that it ends with.
func (w *work) ended(end *ending) task.Task {
	w.state.interrupted()
	t := w.progress()
	t.Status, t.Message = end.status, end.message
	t.Usage.Direct = directOf(w.state.direct, w.state.calls, w.a.opt.Catalog.Definitions(), t.Text)
	if end.kind != "" {
		// Effects of successful runs are in their output.
		t.Message += listed(" Writes of runs that did not succeed", w.state.writes.done) +
			listed(" Writes in doubt, which may have happened", w.state.writes.doubt)
		t.Error = &task.Error{Kind: end.kind, Message: end.message}
	}
	return t
}

// effort describes the number of turns and runs of the task. A request without an answer is not a turn.
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

// sentence joins a label and a reason into a sentence.
func sentence(label, reason string) string {
	reason = strings.TrimRight(strings.Join(strings.Fields(reason), " "), ".")
	if reason == "" {
		return label + "."
	}
	return label + ": " + clip.Counted(reason, 2000) + "."
}

// writes describes effects of runs: done has the effects that happened, doubt the effects that may have happened.
type writes struct{ done, doubt []string }

// add adds an effect and returns the description of the effect. If run is not empty, the description contains this run id.
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

// listed returns a label followed by a list; "" if the list is empty.
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

// lines returns the console lines of a run as texts.
func lines(logs []run.Log) []string {
	var t tail
	for _, l := range logs {
		t.lines = append(t.lines, modelview.Line(l))
	}
	t.trim()
	return t.all()
}

// tail holds the last lines of a log.
type tail struct {
	lines []string
	lost  int // number of dropped lines before lines
}

func (t *tail) add(lines []string) {
	t.lines = append(t.lines, lines...)
	t.trim()
}

// trim drops the first lines until the bounds are kept.
func (t *tail) trim() {
	bytes, from := 0, len(t.lines)
	for from > 0 && len(t.lines)-from < maxLogLines && bytes+len(t.lines[from-1]) <= maxLogBytes {
		from--
		bytes += len(t.lines[from])
	}
	t.lost += from
	t.lines = t.lines[from:]
}

// all returns the lines. If lines were dropped, it first returns a line that says how many.
func (t *tail) all() []string {
	if t.lost == 0 {
		return append([]string{}, t.lines...)
	}
	lost := fmt.Sprintf("[%s before this are left out; `harness runs show` has all of a run]", count(t.lost, "line"))
	return append([]string{lost}, t.lines...)
}
