package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/modelview"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

// execute executes a program or continues its run.
func (w *work) execute(ctx context.Context, c model.ToolCall, code string) (*ending, error) {
	id := w.state.runID
	fresh := id == ""
	if fresh {
		if over := w.bounds.runs.reachedBy(len(w.state.runs), count(w.bounds.runs.most, "run")); over != "" {
			return w.usedUp(over), nil
		}
		id = w.a.opt.NewID()
		w.add(task.Step{Run: &task.Run{CallID: c.ID, RunID: id}},
			w.event(task.EventRunStarted, id+"/started", task.RunStartedData{RunID: id, Code: clip.Counted(code, maxEventText)}))
	}
	if err := w.save(ctx); err != nil {
		return nil, err
	}
	return w.carryOut(ctx, c, Program{RunID: id, New: fresh, Code: code}, w.a.opt.Runs.Execute)
}

// said returns the texts of the user in the session, of this task and of earlier ones. It leaves out texts that a client's model wrote.
func (w *work) said() (all []string) {
	for _, past := range w.history {
		all = append(all, wordsOf(past.Task)...)
	}
	return append(all, wordsOf(w.task)...)
}

func wordsOf(t task.Task) []string {
	if t.From != "" && t.From != pii.FromTask {
		return nil
	}
	return []string{t.Task, string(t.Context)}
}

// abandon ends the pending run, which a dead process may have left, and records the effects of that run. It is called when the task is
// cancelled or its time is used up.
func (w *work) abandon(ctx context.Context) error {
	c := w.state.pending()
	if w.state.runID == "" || c == nil {
		return nil
	}
	failed, err := w.carryOut(context.WithoutCancel(ctx), *c, Program{RunID: w.state.runID, Code: inputOf(*c).Code}, w.a.opt.Runs.Abandon)
	if failed != nil {
		return errors.New(failed.message) // the task is tried again later
	}
	return err
}

// carryOut calls do, which executes or abandons a program, and records the outcome.
func (w *work) carryOut(
	ctx context.Context, c model.ToolCall, p Program, do func(context.Context, Program) (*run.Outcome, error),
) (*ending, error) {
	id, code := p.RunID, p.Code
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	seen := newWatcher(id, w.a.opt.Now, func(events []task.Event) error {
		err := w.log.Commit(context.WithoutCancel(ctx), task.Change{Events: events})
		if err != nil {
			cancel(fmt.Errorf("%w: %w", run.ErrHandedOver, err)) // the run continues later, because its events could not be recorded
		}
		return err
	})
	seen.stream = w.log.Report
	p.User, p.Session, p.Observe, p.Progress, p.Task = w.task.UserID, w.task.SessionID, seen.observe, seen.report, w.task.ID
	p.Principal, p.Roles, p.Said, p.Asked = w.task.Principal, w.task.Roles, w.said(), w.task.Task
	if w.task.StartedAt != nil {
		p.Began = *w.task.StartedAt
	}
	out, err := do(ctx, p)
	events, lost := seen.end()
	if lost != nil {
		return nil, fmt.Errorf("record the events of run %s: %w", id, lost)
	}
	if err != nil {
		w.unsaved.Events = append(w.unsaved.Events, events...)
		if ctx.Err() != nil {
			return nil, nil
		}
		err = fmt.Errorf("run %s: %w", id, err)
		if errors.Is(err, task.ErrLasting) {
			return internal(err)
		}
		return nil, err // the store or the sandbox is not available; the run is continued later
	}
	if out == nil {
		return nil, nil
	}
	if out.Status == run.WaitingApproval {
		return nil, w.wait(out, events)
	}
	shown := *out
	shown.Effects = seen.effects(out, true)
	text, err := w.resultText(ctx, &shown, code)
	if err != nil {
		return internal(err)
	}
	r := task.Result{
		ToolResult: model.ToolResult{Text: text, IsError: out.Status != run.Succeeded},
		RunID:      id, RunStatus: out.Status, Logs: lines(out.Logs), Calls: out.Calls,
		Direct: directOfRun(seen.tools),
	}
	if out.Status == run.Succeeded {
		r.Output = out.Output
	}
	for _, e := range seen.effects(out, false) {
		r.Effects = append(r.Effects, task.Effect(e))
	}
	w.result(c, r, append(events, w.endedEvent(out))...)
	return nil, nil
}

// resultText returns the text about a run that the model reads.
func (w *work) resultText(ctx context.Context, out *run.Outcome, code string) (string, error) {
	text := modelview.View(out, w.a.opt.ResultTokens, func(name string, data []byte) (string, error) {
		return w.saveFile(ctx, out.RunID+"/"+name, data)
	})
	switch {
	case out.Error != nil:
		failure := failureOf(out, code)
		advice, err := w.a.opt.Prompts.recovery(failure)
		if err != nil { // a faulty prompt must not keep the run's effects from being recorded
			if advice, err = builtin().recovery(failure); err != nil {
				return "", err
			}
		}
		return strings.TrimRight(text, "\n") + "\n\n" + advice, nil
	case string(out.Output) == "null" && len(out.Logs) == 0:
		return text + "\nThe program returned and printed nothing. End it with return and a value if you need one.\n", nil
	}
	return text, nil
}

// saveFile writes a file of the session's workspace, even if the task is being cancelled.
func (w *work) saveFile(ctx context.Context, name string, data []byte) (string, error) {
	return w.a.opt.Runs.SaveFile(context.WithoutCancel(ctx), w.task.UserID, w.task.SessionID, name, data)
}

// resultFile returns the name of the file for the result of a call. turn is the number of the turn, which does not count requests without
// an answer; call is the index of the call in the turn.
func (w *work) resultFile(turn, call int) string {
	return fmt.Sprintf("%s/turn-%d-call-%d.txt", w.task.ID, turn, call+1)
}

// fit hides personal data in a text and shortens the text to the size of a result. If it shortens the text, it saves the whole text under name.
func (w *work) fit(ctx context.Context, name, text string) (string, error) {
	text, err := w.privacy.Hide(ctx, pii.FromProgram, text)
	if err != nil {
		return "", err
	}
	return modelview.Fit(text, w.a.opt.ResultTokens, name, func(name string, data []byte) (string, error) {
		return w.saveFile(ctx, name, data)
	}), nil
}
