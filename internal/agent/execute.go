package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/modelview"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

// execute runs a program, or goes on with it where it has begun.
func (w *work) execute(ctx context.Context, c model.ToolCall, code string) (*ending, error) {
	id := w.state.runID
	fresh := id == ""
	if fresh {
		if over := w.bounds.noRun(&w.state); over != "" {
			return w.usedUp(over), nil
		}
		id = w.a.opt.NewID()
		w.add(task.Step{Run: &task.Run{CallID: c.ID, RunID: id}}, w.startedEvent(id, code))
	}
	if err := w.save(ctx); err != nil {
		return nil, err
	}
	return w.carryOut(ctx, c, Program{RunID: id, New: fresh, Code: code}, w.a.opt.Runs.Execute)
}

// abandon ends the run that a dead process left, where its task ends: its effects are told of.
func (w *work) abandon(ctx context.Context) error {
	c := w.state.pending()
	if w.state.runID == "" || c == nil {
		return nil
	}
	code, _ := codeOf(c.Input)
	failed, err := w.carryOut(context.WithoutCancel(ctx), *c, Program{RunID: w.state.runID, Code: code}, w.a.opt.Runs.Abandon)
	if failed != nil {
		return errors.New(failed.message) // somebody tries again, or gives up
	}
	return err
}

// carryOut has a program executed, or ended, and records how it ended.
func (w *work) carryOut(
	ctx context.Context, c model.ToolCall, p Program, do func(context.Context, Program) (*run.Outcome, error),
) (*ending, error) {
	id, code := p.RunID, p.Code
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	seen := newWatcher(id, w.a.opt.Now, func(events []task.Event) error {
		err := w.log.Commit(context.WithoutCancel(ctx), task.Change{Events: events})
		if err != nil {
			cancel(fmt.Errorf("%w: %w", run.ErrParked, err)) // what cannot be recorded is to be continued by somebody else
		}
		return err
	})
	p.User, p.Session, p.Observe = w.task.UserID, w.task.SessionID, seen.observe
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
			return internal(err), nil
		}
		return nil, err // the store or the sandbox is away: the run is continued later
	}
	if out == nil {
		return nil, nil
	}
	told := *out
	told.Effects = seen.effects(out, true)
	text, err := w.resultText(ctx, &told, code)
	if err != nil {
		return internal(err), nil
	}
	r := task.Result{
		ToolResult: model.ToolResult{Text: text, IsError: out.Status != run.Succeeded},
		RunID:      id, RunStatus: out.Status, Logs: lines(out.Logs), Calls: out.Calls,
		Direct: seen.direct(),
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

// resultText is what the model is told of a run.
func (w *work) resultText(ctx context.Context, out *run.Outcome, code string) (string, error) {
	text, err := modelview.View(out, w.a.opt.ResultTokens, func(name string, data []byte) (string, error) {
		return w.keep(ctx, out.RunID+"/"+name, data)
	})
	if err != nil {
		return "", fmt.Errorf("show the result of run %s: %w", out.RunID, err)
	}
	switch {
	case out.Error != nil:
		failure := failureOf(out, code)
		advice, err := w.a.opt.Prompts.recovery(failure)
		if err != nil { // what the run did must be recorded
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

// keep stores a file in the workspace of the session. A task that is being cancelled keeps its files.
func (w *work) keep(ctx context.Context, name string, data []byte) (string, error) {
	return w.a.opt.Runs.Keep(context.WithoutCancel(ctx), w.task.UserID, w.task.SessionID, name, data)
}

// resultFile names the file that keeps the result of a turn's call. It does not depend on requests that were cut off.
func (w *work) resultFile(turn, call int) string {
	return fmt.Sprintf("%s/turn-%d-call-%d.txt", w.task.ID, turn, call+1)
}

// fit is a text that fits into a result; the whole of a longer one is kept under name.
func (w *work) fit(ctx context.Context, name, text string) (string, error) {
	text, err := w.privacy.Hide(ctx, text)
	if err != nil {
		return "", err
	}
	return modelview.Fit(text, w.a.opt.ResultTokens, name, func(name string, data []byte) (string, error) { return w.keep(ctx, name, data) })
}
