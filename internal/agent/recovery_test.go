package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/modelview"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

// script is a task that can be repeated.
type script struct {
	name    string
	turns   []*model.Turn
	history []task.Past
	window  int
}

func scripts() []script {
	tooLong := &model.Turn{Text: "First half, ", Stop: model.StopLength, Usage: model.Usage{Input: 100, Output: 10}}
	cutCall := runs("good", "good")
	cutCall.Stop = model.StopLength
	long := runs("long")
	long.Raw = []byte(`{"raw":"` + strings.Repeat("x", 400) + `"}`)
	var past []task.Past
	for i := range 4 {
		w := newWorld(nil, runs("long"), says(fmt.Sprintf("answer %d", i)))
		w.programs["long"] = succeeds(`"` + strings.Repeat("old ", 400) + `"`)
		w.t = &testing.T{}
		ended := w.do()
		past = append(past, task.Past{Task: ended, Steps: w.steps})
	}
	search, bad := calls(searchTools, `{"query":"a"}`), runs("bad")
	for _, turn := range []*model.Turn{long, search, bad} {
		turn.Usage = model.Usage{} // without a usage, the size of the conversation is estimated
	}
	return []script{
		{name: "answer", turns: []*model.Turn{says("hello")}},
		{
			name: "all tools",
			turns: []*model.Turn{
				calls(searchTools, `{"query":"a"}`, getToolDetails, `{"names":["b"]}`), runs("good", "bad", "good"),
				calls(executeCode, `{}`, "nothing", `{}`), runs("bad"), says("done"),
			},
			history: past[:1],
		},
		{name: "cut and empty", turns: []*model.Turn{tooLong, says(""), tooLong, says("second half")}},
		{name: "cut call", turns: []*model.Turn{cutCall, runs("good"), says("done")}},
		{name: "refused", turns: []*model.Turn{runs("bad"), {Text: "no", Stop: model.StopRefusal}}},
		{
			name: "compacted", turns: []*model.Turn{long, long, search, bad, long, long, says("done")}, history: past,
			window: 6000,
		},
	}
}

// world returns a world in which the script can be carried out.
func (s script) world(t *testing.T) *world {
	w := newWorld(t, s.turns...)
	w.window, w.budget = s.window, task.Budget{Turns: 100}
	w.programs["good"] = succeeds(`{"a":1}`, "log")
	w.programs["bad"] = fails(run.Effect{Call: 1, Kind: "tool", Name: "mailer__send", State: "done"})
	w.programs["long"] = succeeds(`"` + strings.Repeat("word ", 400) + `"`)
	w.skills = []modelview.Skill{{Name: "/skills/a.js", Description: "Sums up."}}
	return w
}

// clone returns the world after a crash: it has the committed steps and the outcomes that runs had recorded.
func (w *world) clone(steps []task.Step) *world {
	next := newWorld(w.t, w.turns...)
	next.window, next.programs, next.steps = w.window, w.programs, slices.Clone(steps)
	for _, s := range steps {
		if s.Run != nil && w.ended[s.Run.RunID] != nil {
			next.ended[s.Run.RunID], next.observed[s.Run.RunID] = w.ended[s.Run.RunID], w.observed[s.Run.RunID]
		}
	}
	return next
}

// sameTask are options for comparing tasks. They ignore differences that come from requests without an answer.
var sameTask = []cmp.Option{
	cmpopts.IgnoreFields(task.Usage{}, "Turns", "Tokens"), cmpopts.IgnoreFields(task.Task{}, "Message"),
}

// TestEveryPrefix continues a task from every prefix of its steps, both with and without a recorded outcome of the current program. No answered request is
// sent again, no ended program runs again, and the conversation and the result are the same.
func TestEveryPrefix(t *testing.T) {
	t.Parallel()
	for _, s := range scripts() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			first := s.world(t)
			want := first.do(s.history...)
			if len(first.requests) != len(s.turns) {
				t.Fatalf("%d of %d turns were asked for", len(first.requests), len(s.turns))
			}
			if s.window > 0 && !strings.Contains(stepKinds(first.steps), "compact") {
				t.Fatalf("nothing was compacted: %s", stepKinds(first.steps))
			}
			for n := range len(first.steps) + 1 {
				for _, recorded := range []bool{true, false} {
					w := first.clone(first.steps[:n])
					var unfinished string
					turns := 0
					for _, step := range w.steps {
						switch {
						case step.Turn != nil:
							turns++
						case step.Run != nil:
							unfinished = step.Run.RunID
						case step.Result != nil:
							unfinished = ""
						}
					}
					if unfinished == "" && !recorded {
						continue
					}
					if !recorded {
						delete(w.ended, unfinished)
					}
					w.skills = []modelview.Skill{{Name: "/skills/new.js", Description: "Came later."}}
					if n == 0 {
						w.skills = first.skills
					}
					got := w.do(s.history...)
					at := fmt.Sprintf("after %q (recorded: %v)", stepKinds(w.steps[:n]), recorded)
					if diff := cmp.Diff(want, got, sameTask...); diff != "" {
						t.Errorf("%s: task (-want +got):\n%s", at, diff)
					}
					again := n > 0 && first.steps[n-1].Ask != nil
					if more := got.Usage.Tokens.Input - want.Usage.Tokens.Input; again != (more > 0) || got.Usage.Tokens.Output != want.Usage.Tokens.Output {
						t.Errorf("%s: it took %+v instead of %+v", at, got.Usage.Tokens, want.Usage.Tokens)
					}
					if len(w.requests) != len(s.turns)-turns {
						t.Errorf("%s: %d requests", at, len(w.requests))
					}
					for k, req := range w.requests {
						if diff := cmp.Diff(first.requests[k], req, cmpopts.IgnoreFields(model.Request{}, "OnDelta", "OnLost")); diff != "" {
							t.Errorf("%s: request %d (-want +got):\n%s", at, k, diff)
						}
					}
					for _, id := range w.asked {
						if slices.ContainsFunc(w.steps[:n], func(s task.Step) bool { return s.Result != nil && s.Result.RunID == id }) {
							t.Errorf("%s: run %s was told of and is asked for again", at, id)
						}
					}
					if recorded && unfinished != "" && slices.Contains(w.executed, unfinished) {
						t.Errorf("%s: run %s had ended and runs again", at, unfinished)
					}
					if unfinished != "" && w.asked[0] != unfinished {
						t.Errorf("%s: run %s goes on as %s", at, unfinished, w.asked[0])
					}
				}
			}
		})
	}
}

// TestEveryCommit: the process dies before or after a commit, again and again, until the task ends. Each event is recorded once and in order.
func TestEveryCommit(t *testing.T) {
	t.Parallel()
	for _, s := range scripts() {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", s.name, after), func(t *testing.T) {
				t.Parallel()
				calm := s.world(t)
				want := calm.do(s.history...)
				w := s.world(t)
				commits, next, step := 0, 1, 2
				w.fail = func(task.Change) error {
					if commits++; commits != next {
						return nil
					}
					next, step = next+step, step+1 // crashes at the commits 1, 3, 6, 10 and so on
					if after {
						return errAfter
					}
					return errors.New("the process died before a commit")
				}
				var got task.Task
				err := errAfter
				for range 200 {
					if got, err = w.agent().Do(t.Context(), newTask(), s.history, slices.Clone(w.steps), w); err == nil {
						break
					}
				}
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got, sameTask...); diff != "" {
					t.Errorf("task (-want +got):\n%s", diff)
				}
				executed := slices.Clone(w.executed)
				slices.Sort(executed)
				if len(slices.Compact(executed)) != len(w.executed) {
					t.Errorf("a program ran twice: %v", w.executed)
				}
				ignore := cmp.FilterPath(func(p cmp.Path) bool {
					return p.Last().String() == ".Time" || p.Last().String() == ".Data" || p.Last().String() == ".Key"
				}, cmp.Ignore())
				if diff := cmp.Diff(calm.events, w.events, ignore); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestResumedRunTellsOnce: events that a run caused before the process died are recorded once.
func TestResumedRunTellsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runs("slow"), says("done"))
	died := errors.New("died")
	w.programs["slow"] = func(ctx context.Context, p Program) (*run.Outcome, error) {
		for n := range 3 {
			p.Observe(run.Event{Call: &journal.Call{N: n + 1, Kind: "tool", Name: "a__b"}})
			p.Observe(run.Event{Log: &run.Log{Level: "log", Text: fmt.Sprint(n)}})
		}
		if len(w.asked) == 1 {
			return nil, died
		}
		return &run.Outcome{Status: run.Succeeded, Output: []byte("1")}, nil
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	slow := w.programs["slow"]
	w.programs["slow"] = func(ctx context.Context, p Program) (*run.Outcome, error) {
		out, err := slow(ctx, p)
		if err != nil {
			cancel(run.ErrHandedOver)
			<-ctx.Done()
			return nil, fmt.Errorf("handed over: %w", context.Cause(ctx))
		}
		return out, err
	}
	if _, err := w.agent().Do(ctx, newTask(), nil, nil, w); !errors.Is(err, run.ErrHandedOver) {
		t.Fatal(err)
	}
	before := len(w.kinds())
	if got := w.do(); got.Status != task.Succeeded || before == 0 {
		t.Errorf("%d events, then %+v", before, got)
	}
	want := []string{
		task.EventTurn, task.EventRunStarted, task.EventCall, task.EventLog, task.EventCall, task.EventLog, task.EventCall, task.EventLog,
		task.EventRunEnded, task.EventTurn,
	}
	if got := w.kinds(); !slices.Equal(got, want) {
		t.Errorf("events: %v", got)
	}
}
