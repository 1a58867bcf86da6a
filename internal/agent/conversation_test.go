package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

// told returns a conversation in short form: role and text, calls, results.
func told(messages []model.Message) []string {
	var all []string
	for _, m := range messages {
		line := string(m.Role) + ": " + m.Text
		if m.Turn != nil {
			line += m.Turn.Text
			for _, c := range m.Turn.Calls {
				line += " <" + c.Name + ">"
			}
		}
		for _, r := range m.Results {
			line += " (" + r.Text + ")"
		}
		all = append(all, line)
	}
	return all
}

// earlier carries out a task and returns it with its steps, as an earlier task of a session.
func earlier(t *testing.T, text string, turns ...*model.Turn) task.Past {
	t.Helper()
	w := newWorld(t, turns...)
	w.programs["good"] = succeeds("1")
	w.search = func(context.Context, string) (string, error) { return "found", nil }
	nt := newTask()
	nt.Task = text
	ended, err := w.agent().Do(t.Context(), nt, nil, nil, w)
	if err != nil {
		t.Fatal(err)
	}
	return task.Past{Task: ended, Steps: w.steps}
}

// TestMovedTurns: turns of earlier tasks keep their provider's form, whose signatures may be bound to the messages before them, only while these messages
// are the same.
func TestMovedTurns(t *testing.T) {
	t.Parallel()
	raw := json.RawMessage(`[{"type":"thinking","thinking":"x","signature":"s"}]`)
	turn := func() []task.Step { return []task.Step{{Turn: &task.Turn{Turn: model.Turn{Text: "one", Raw: raw}}}} }
	history := []task.Past{{Task: task.Task{Task: "a", Text: "one", Status: task.Succeeded}, Steps: turn()}, {Task: task.Task{Task: "b", Text: "one", Status: task.Succeeded}, Steps: turn()}}
	for name, c := range map[string]struct {
		cut  task.Compact
		want int // number of earlier turns in their provider's form
	}{
		"all":               {task.Compact{}, 2},
		"all of two":        {task.Compact{Of: 2}, 2},
		"older ones exist":  {task.Compact{Of: 5}, 0},
		"one dropped":       {task.Compact{Dropped: 1}, 0},
		"one in short form": {task.Compact{History: 1}, 0},
	} {
		kept, own := 0, turn()
		for _, m := range conversation(history, task.Task{Task: "c"}, own, &c.cut) {
			if m.Turn != nil && m.Turn.Raw != nil {
				kept++
			}
		}
		if kept-1 != c.want || history[1].Steps[0].Turn.Raw == nil {
			t.Errorf("%s: %d turns are in their provider's form, want %d and the task's own", name, kept, c.want)
		}
	}
}

// TestHistory: a conversation contains the earlier tasks of the session, however they ended.
func TestHistory(t *testing.T) {
	t.Parallel()
	search := calls(searchTools, `{"query":"x"}`)
	cancelled := earlier(t, "third", runs("good"), says("x"))
	cancelled.Task.Status, cancelled.Task.Message = task.Cancelled, "Cancelled by the user."
	for i, s := range cancelled.Steps { // the task was cancelled before its run had a result
		if s.Run != nil {
			cancelled.Steps = cancelled.Steps[:i+1]
		}
	}
	cached := task.Past{Task: task.Task{Task: "fourth", Status: task.Succeeded, Text: "as before"}}
	never := task.Past{Task: task.Task{Task: "fifth", Status: task.Cancelled, Message: "Cancelled before it began."}}
	refused := earlier(t, "sixth", &model.Turn{Text: "no", Stop: model.StopRefusal})
	w := newWorld(t, says("ok"))
	w.do(earlier(t, "first", search, says("one")), earlier(t, "second", says(""), says("two")), cancelled, cached, never, refused)
	want := []string{
		"user: first", "assistant:  <search_tools>", "tool:  (found)", "assistant: one",
		"user: second\n\n" + sayMore, "assistant: two",
		"user: third", "assistant:  <execute_code>", "tool:  (Not done: the task ended before.)",
		"user: (The task ended here: Cancelled by the user.)\n\nfourth", "assistant: as before",
		"user: fifth", "assistant: (Cancelled before it began.)",
		"user: sixth\n\n(The task ended here: The model refused: no.)\n\ncount the rows",
	}
	if diff := cmp.Diff(want, told(w.requests[0].Messages)); diff != "" {
		t.Errorf("conversation (-want +got):\n%s", diff)
	}
}

// TestShortened: a conversation that becomes too large is cut, first in the earlier tasks and then in older results. Between two cuts messages are only
// appended, so that a provider's cache stays valid.
func TestShortened(t *testing.T) {
	t.Parallel()
	var history []task.Past
	for i := range 6 {
		p := earlier(t, fmt.Sprintf("task %d", i), runs("good"), says(fmt.Sprintf("answer %d", i)))
		for j := range p.Steps {
			if r := p.Steps[j].Result; r != nil {
				r.Text = strings.Repeat("old ", 500)
			}
		}
		history = append(history, p)
	}
	const turns = 12
	script := make([]*model.Turn, turns)
	for i := range script {
		script[i] = runs("long")
	}
	w := newWorld(t, append(script, says("done"))...)
	w.window, w.programs["long"] = 10_000, succeeds(`"`+strings.Repeat("new ", 500)+`"`)
	w.generate = func(_ context.Context, n int, req *model.Request) (*model.Turn, error) {
		turn := stamped(w.turns[n])
		turn.Usage = model.Usage{Input: sizeOf(req.System, req.Messages) / 4, Output: 10} // counts as a provider would
		if turn.Usage.Input > w.window*3/4 {
			t.Errorf("request %d has %d tokens", n, turn.Usage.Input)
		}
		return turn, nil
	}
	if ended := w.do(history...); ended.Status != task.Succeeded {
		t.Fatal(ended.Message)
	}
	var cuts []task.Compact
	cutBefore := map[int]bool{} // numbers of the requests before which the conversation was cut
	turn := 0
	for _, s := range w.steps {
		switch {
		case s.Compact != nil:
			cuts = append(cuts, *s.Compact)
			cutBefore[turn] = true
		case s.Turn != nil:
			turn++
		}
	}
	if len(cuts) < 2 || len(cuts) > 5 || cuts[0].History == 0 || cuts[0].Before != 0 || cuts[0].Dropped != 0 || cuts[len(cuts)-1].Before == 0 {
		t.Errorf("cuts: %+v", cuts)
	}
	for n := 1; n <= turns; n++ {
		before, after := told(w.requests[n-1].Messages), told(w.requests[n].Messages)
		same := len(before) < len(after) && cmp.Equal(before, after[:len(before)])
		if same == cutBefore[n] {
			t.Errorf("request %d begins as the one before: %v", n, same)
		}
	}
	last := told(w.requests[turns].Messages)
	if last[0] != "user: task 0" || last[1] != "assistant: answer 0" {
		t.Errorf("an earlier task is shown as %q", last[:2])
	}
	whole := strings.Join(last, "\n")
	if !strings.Contains(whole, "(Result cut; it is kept in /workspace/results/task_1/turn-1-call-1.txt)") || !strings.Contains(w.files["/workspace/results/task_1/turn-1-call-1.txt"], "new new") {
		t.Errorf("a result is shown as %s", whole)
	}
	if !strings.HasSuffix(last[len(last)-1], "new \"\n)") {
		t.Error("the last result is not shown as it was")
	}
}

// TestTooLong: if the provider reports that the conversation is too long, it is cut once. If this does not help, the task fails.
func TestTooLong(t *testing.T) {
	t.Parallel()
	tooLong := &model.Error{Kind: model.KindContextLength, Provider: "test", Model: "scripted", Message: "too many tokens", Remedy: "start a new session"}
	past := earlier(t, "before", runs("good"), says(strings.Repeat("answer ", 500)))
	for _, c := range []struct {
		name    string
		history []task.Past
		helps   bool
		steps   string
		status  task.Status
	}{
		{"it helps", []task.Past{past}, true, "note ask unanswered compact ask turn", task.Succeeded},
		{"it does not help", []task.Past{past}, false, "note ask unanswered compact ask unanswered", task.Failed},
		{"nothing to cut", nil, false, "note ask unanswered", task.Failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			asked := 0
			w.generate = func(context.Context, int, *model.Request) (*model.Turn, error) {
				if asked++; asked == 1 || !c.helps {
					return nil, tooLong
				}
				return stamped(says("ok")), nil
			}
			ended := w.do(c.history...)
			if got := stepKinds(w.steps); got != c.steps || ended.Status != c.status {
				t.Errorf("%s: %s, %s", got, ended.Status, ended.Message)
			}
			if c.status == task.Failed && (ended.Error.Kind != task.KindModel || !strings.Contains(ended.Message, "start a new session")) {
				t.Errorf("got %+v", ended.Error)
			}
		})
	}
}

// TestShortResult: the short form of a result keeps its status and writes.
func TestShortResult(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1000)
	failed := task.Result{
		ToolResult: model.ToolResult{Text: long}, RunID: "run_1", RunStatus: run.Failed,
		Effects: []task.Effect{{Call: 1, Name: "a__b", State: "done"}, {Call: 2, Name: "c__d", State: "in_doubt"}, {Call: 3, Name: "e__f", State: "failed"}},
	}
	for _, c := range []struct {
		r    task.Result
		kept string
		want string
	}{
		{task.Result{ToolResult: model.ToolResult{Text: "short"}}, "", "short"},
		{task.Result{ToolResult: model.ToolResult{Text: long}}, "", "(Result cut)"},
		{task.Result{ToolResult: model.ToolResult{Text: long}, RunID: "r", RunStatus: run.Succeeded}, "/w/x", "(Result cut; it is kept in /w/x)"},
		{failed, "", "(Result cut; the program failed; writes done before: a__b (call 1); writes in doubt: c__d (call 2))"},
	} {
		if got := shortResult(&c.r, c.kept); got != c.want {
			t.Errorf("got %s", got)
		}
	}
}

// TestManyTasks: the conversation of a session stays small, however many tasks it had.
func TestManyTasks(t *testing.T) {
	t.Parallel()
	history := make([]task.Past, 2000)
	for i := range history {
		history[i].Task = task.Task{Task: "do it", Text: strings.Repeat("done ", 100), Status: task.Succeeded}
	}
	w := newWorld(t, says("ok"))
	w.window = 20_000
	w.do(history...)
	cut := w.steps[1].Compact
	if cut == nil || cut.Dropped < 1000 || cut.Dropped >= 2000 {
		t.Fatalf("steps: %s, %+v", stepKinds(w.steps), cut)
	}
	if got := w.requests[0].Messages[0].Text; got != fmt.Sprintf("(%d earlier tasks of this conversation are left out here.)\n\ndo it", cut.Dropped) {
		t.Errorf("it begins with %s", got)
	}
	if n := sizeOf("", w.requests[0].Messages); n > 20_000*4 {
		t.Errorf("%d bytes", n)
	}
	if _, err := json.Marshal(w.steps); err != nil {
		t.Error(err)
	}
}

// TestSessionInBlocks: in a session of many short tasks, the conversation begins like that of the previous task, except once per block of tasks, so that a
// provider's cache stays valid.
func TestSessionInBlocks(t *testing.T) {
	t.Parallel()
	const tasks, given = 230, 100
	var history []task.Past
	var before []string
	changed := 0
	for i := range tasks {
		w := newWorld(t, says(fmt.Sprintf("answer %d", i)))
		nt := newTask()
		nt.Task = fmt.Sprintf("task %d", i)
		ended, err := w.agent().Do(t.Context(), nt, history[max(len(history)-given, 0):], nil, w)
		if err != nil {
			t.Fatal(err)
		}
		history = append(history, task.Past{Task: ended, Steps: w.steps})
		after := told(w.requests[0].Messages)
		if !slices.Equal(before, after[:min(len(before), len(after))]) {
			changed++
			if want := fmt.Sprintf("(%d earlier tasks of this conversation are left out here.)\n\ntask %d", earlierBlock, i-earlierBlock); after[0] != "user: "+want {
				t.Errorf("task %d begins with %q", i, after[0])
			}
		}
		before = after
	}
	if changed != (tasks-given+earlierBlock-1)/earlierBlock {
		t.Errorf("the beginning changed %d times in %d tasks", changed, tasks)
	}
}
