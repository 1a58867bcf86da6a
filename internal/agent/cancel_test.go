package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

// stage is a point at which a task waits for another component.
type stage struct {
	name string
	// open returns a world whose task waits at this point, and which then closes the channel reached.
	open func(t *testing.T, reached chan struct{}) *world
	// steps are the steps of a task that stopped at this point.
	steps string
	// cancelled reports whether the task has a run that is cancelled at this point.
	cancelled bool
}

func stages() []stage {
	return []stage{
		{
			name: "model", steps: "note ask",
			open: func(t *testing.T, reached chan struct{}) *world {
				w := newWorld(t)
				w.generate = func(ctx context.Context, _ int, _ *model.Request) (*model.Turn, error) {
					close(reached)
					<-ctx.Done()
					return nil, fmt.Errorf("ask model: %w", context.Cause(ctx))
				}
				return w
			},
		},
		{
			name: "search", steps: "note ask turn",
			open: func(t *testing.T, reached chan struct{}) *world {
				w := newWorld(t, calls(searchTools, `{"query":"x"}`), says("x"))
				w.search = func(ctx context.Context, _ string) (string, error) {
					close(reached)
					<-ctx.Done()
					return "", ctx.Err()
				}
				return w
			},
		},
		{
			name: "run", steps: "note ask turn run", cancelled: true,
			open: func(t *testing.T, reached chan struct{}) *world {
				w := newWorld(t, runs("slow"), says("x"))
				w.programs["slow"] = waiting(reached)
				return w
			},
		},
		{
			name: "runner", steps: "note ask turn run",
			open: func(t *testing.T, reached chan struct{}) *world {
				w := newWorld(t, runs("slow"), says("x"))
				w.programs["slow"] = func(ctx context.Context, _ Program) (*run.Outcome, error) {
					close(reached)
					<-ctx.Done()
					return nil, fmt.Errorf("get a runner: %w", context.Cause(ctx))
				}
				return w
			},
		},
	}
}

// waiting returns a program that waits for its context, and then ends like run.Execute.
func waiting(reached chan struct{}) program {
	return func(ctx context.Context, p Program) (*run.Outcome, error) {
		p.Observe(run.Event{Call: &journal.Call{N: 1, Kind: "tool", Name: "mailer__send", Args: json.RawMessage(`{}`)}})
		close(reached)
		<-ctx.Done()
		if errors.Is(context.Cause(ctx), run.ErrHandedOver) {
			return nil, run.ErrHandedOver
		}
		return &run.Outcome{
			Status: run.Cancelled, Output: json.RawMessage("null"), Error: &run.Error{Kind: frame.KindCancelled, Message: "the run was cancelled"},
			Effects: []run.Effect{{Call: 1, Kind: "tool", Name: "mailer__send", State: "in_doubt"}},
		}, nil
	}
}

// TestCancelled: cancelling ends a task at once at any point, and the message lists writes that may have happened.
func TestCancelled(t *testing.T) {
	t.Parallel()
	for _, s := range stages() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				reached := make(chan struct{})
				w := s.open(t, reached)
				ctx, cancel := context.WithCancelCause(t.Context())
				go func() {
					<-reached
					cancel(task.ErrCancelled)
				}()
				began := time.Now()
				ended, err := w.agent().Do(ctx, newTask(), nil, nil, w)
				if err != nil || time.Since(began) > time.Second {
					t.Fatalf("after %s: %v", time.Since(began), err)
				}
				steps, message := s.steps, "Cancelled by the user after 1 turn."
				if s.name == "model" { // the model has not answered
					message = "Cancelled by the user before the first turn."
				}
				if strings.Contains(steps, "run") {
					message = "Cancelled by the user after 1 turn and 1 run."
				}
				if s.cancelled {
					steps += " result"
					message += " Writes in doubt, which may have happened: mailer__send (run_1, call 1)."
				}
				if got := stepKinds(w.steps); got != steps {
					t.Errorf("steps: %s", got)
				}
				if ended.Status != task.Cancelled || ended.Message != message || ended.Error == nil || ended.Error.Kind != task.KindCancelled {
					t.Errorf("task: %s %q %v", ended.Status, ended.Message, ended.Error)
				}
			})
		})
	}
}

// TestCancelledBefore: a task that is cancelled before it begins sends no request.
func TestCancelledBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, says("x"))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(task.ErrCancelled)
	ended, err := w.agent().Do(ctx, newTask(), nil, nil, w)
	if err != nil || ended.Status != task.Cancelled || len(w.requests) > 0 {
		t.Errorf("got %+v, %v, %d requests", ended, err, len(w.requests))
	}
}

// TestHandedOver: if the context ends for any reason other than cancellation, the task stays as it is and can be continued.
func TestHandedOver(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{fmt.Errorf("shutdown: %w", run.ErrHandedOver), errors.New("the client has gone")} {
		for _, s := range stages() {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					reached := make(chan struct{})
					w := s.open(t, reached)
					ctx, cancel := context.WithCancelCause(t.Context())
					go func() {
						<-reached
						cancel(cause)
					}()
					if _, err := w.agent().Do(ctx, newTask(), nil, nil, w); !errors.Is(err, cause) || !errors.Is(err, run.ErrHandedOver) {
						t.Errorf("error %v", err)
					}
					if got := stepKinds(w.steps); got != s.steps {
						t.Errorf("steps: %s", got)
					}
					w.turns = append(w.turns, says("x"))
					w.generate, w.search = nil, nil
					w.programs["slow"] = succeeds("1")
					if ended := w.do(); ended.Status != task.Succeeded || len(w.asked) > 2 {
						t.Errorf("then: %+v", ended)
					}
				})
			})
		}
	}
}

// TestLogFails: if a commit fails, the work stops, and the current run is handed over.
func TestLogFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lost := errors.New("another process works on it")
		w := newWorld(t, runs("slow"))
		var cause error
		w.programs["slow"] = func(ctx context.Context, p Program) (*run.Outcome, error) {
			w.fail = func(task.Change) error { return lost }
			p.Observe(run.Event{Log: &run.Log{Level: "log", Text: "x"}})
			<-ctx.Done()
			cause = context.Cause(ctx)
			return nil, cause
		}
		_, err := w.agent().Do(t.Context(), newTask(), nil, nil, w)
		if !errors.Is(err, lost) || !errors.Is(cause, run.ErrHandedOver) {
			t.Errorf("error %v, the run's cause %v", err, cause)
		}
	})
}

// TestBudgets: a task whose budget is used up ends with a message that names the bound, and keeps its results so far.
func TestBudgets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		configured task.Budget
		asked      task.Budget
		message    string
		steps      string
	}{
		{
			"turns",
			task.Budget{Turns: 2},
			task.Budget{Turns: 5},
			"Stopped after 2 turns and 2 runs: the budget of 2 turns (model.maxTurns) is used up.", "note ask turn run result ask turn run result",
		},
		{
			"turns asked for",
			task.Budget{Turns: 2},
			task.Budget{Turns: 1},
			"Stopped after 1 turn and 1 run: the budget of 1 turn (budget.turns, --max-turns) is used up.", "note ask turn run result",
		},
		{
			"runs",
			task.Budget{Runs: 1},
			task.Budget{},
			"Stopped after 2 turns and 1 run: the budget of 1 run (model.maxRuns) is used up.", "note ask turn run result ask turn",
		},
		{
			"tokens",
			task.Budget{},
			task.Budget{Tokens: 200},
			"Stopped after 2 turns and 2 runs: the budget of 200 model tokens (budget.tokens) is used up.", "note ask turn run result ask turn run result",
		},
		{
			"cost",
			task.Budget{Cost: 0.0003},
			task.Budget{},
			"Stopped after 1 turn and 1 run: the budget of $0.0003 (model.maxCost) is used up.", "note ask turn run result",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			turn := runs("a")
			turn.Text = "looking"
			w := newWorld(t, turn, turn, turn, turn, turn)
			w.budget, w.prices = c.configured, model.Prices{"test/*": {Input: 1, Output: 10}}
			w.programs["a"] = succeeds(`{"so":"far"}`)
			nt := newTask()
			nt.Budget = c.asked
			ended, err := w.agent().Do(t.Context(), nt, nil, nil, w)
			if err != nil {
				t.Fatal(err)
			}
			if ended.Status != task.Failed || ended.Message != c.message || ended.Error.Kind != task.KindBudget || ended.Text != "looking" ||
				string(ended.Output) != `{"so":"far"}` {
				t.Errorf("got %+v", ended)
			}
			if got := stepKinds(w.steps); got != c.steps {
				t.Errorf("steps: %s", got)
			}
		})
	}
}

// TestAnswerWithinBudget: the answer may be the last turn that the budget allows.
func TestAnswerWithinBudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runs("a"), says("done"))
	w.budget = task.Budget{Turns: 2, Runs: 1, Tokens: 200}
	w.programs["a"] = succeeds("1")
	if ended := w.do(); ended.Status != task.Succeeded {
		t.Errorf("got %+v", ended)
	}
}

// TestWall: the time budget ends the work at any point. Time in which no process worked on the task does not count.
func TestWall(t *testing.T) {
	t.Parallel()
	for _, s := range stages() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := s.open(t, make(chan struct{}))
				w.budget = task.Budget{Wall: task.Duration(time.Minute)}
				nt := newTask()
				began, long := time.Now(), time.Now().Add(-24*time.Hour)
				nt.StartedAt = &long
				w.steps = []task.Step{{Seq: 1, Time: long, Took: task.Duration(20 * time.Second), Note: &task.Note{Text: "count the rows"}}}
				ended, err := w.agent().Do(t.Context(), nt, nil, w.steps, w)
				if err != nil || time.Since(began) != 40*time.Second {
					t.Fatalf("after %s: %v", time.Since(began), err)
				}
				if ended.Status != task.Failed || ended.Error.Kind != task.KindBudget || !strings.Contains(ended.Message, "the budget of 1m0s (model.maxTaskTime) is used up.") {
					t.Errorf("got %+v", ended)
				}
				if s.cancelled && !strings.HasSuffix(ended.Message, "which may have happened: mailer__send (run_1, call 1).") {
					t.Errorf("message %s", ended.Message)
				}
			})
		})
	}
}
