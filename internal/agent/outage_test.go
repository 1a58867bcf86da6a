package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/testing/fake"
)

// away is the error of a model whose provider is unavailable.
var away = &model.Error{Kind: model.KindUnavailable, Provider: "test", Model: "scripted", Message: "connection refused"}

// TestOutage: while the provider is unavailable, Do returns a RetryError with growing pauses, and uses up neither turns nor time of the budget.
func TestOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, runs("good"), says("done"))
		w.programs["good"] = succeeds("1")
		w.budget = task.Budget{Turns: 2, Wall: task.Duration(2 * time.Minute)}
		back := time.Now().Add(time.Hour)
		w.generate = func(_ context.Context, n int, _ *model.Request) (*model.Turn, error) {
			time.Sleep(8 * time.Second) // stands for the time that attempts take
			if n == 1 && time.Now().Before(back) {
				return nil, away
			}
			return stamped(w.turns[n]), nil
		}
		var pauses []time.Duration
		for {
			ended, err := w.agent().Do(t.Context(), newTask(), nil, w.steps, w)
			var retry *task.RetryError
			if errors.As(err, &retry) {
				if !errors.Is(err, away) {
					t.Errorf("the error does not wrap its cause: %v", err)
				}
				pauses = append(pauses, retry.After)
				time.Sleep(retry.After)
				continue
			}
			if err != nil || ended.Status != task.Succeeded || ended.Usage.Turns != 2 || len(w.executed) != 1 {
				t.Fatalf("%v, %+v, executed %v", err, ended, w.executed)
			}
			break
		}
		if len(pauses) < 12 || len(pauses) > 25 || pauses[0] > firstPause || pauses[0] < firstPause*3/4 || pauses[len(pauses)-1] < maxPause*3/4 || pauses[len(pauses)-1] > maxPause {
			t.Errorf("pauses: %v", pauses)
		}
		if time.Since(back) > maxPause+time.Minute {
			t.Errorf("it went on %s after the provider was back", time.Since(back))
		}
	})
}

// TestOutagePause: the task waits as long as the provider asks for, up to an hour.
func TestOutagePause(t *testing.T) {
	t.Parallel()
	for asked, want := range map[time.Duration]time.Duration{10 * time.Minute: 10 * time.Minute, 24 * time.Hour: time.Hour} {
		w := newWorld(t)
		w.generate = func(context.Context, int, *model.Request) (*model.Turn, error) {
			return nil, &model.Error{Kind: model.KindRateLimited, RetryAfter: asked}
		}
		_, err := w.agent().Do(t.Context(), newTask(), nil, nil, w)
		var retry *task.RetryError
		if !errors.As(err, &retry) || retry.After != want {
			t.Errorf("asked for %s: %v", asked, err)
		}
		if last := w.deltas[len(w.deltas)-1]; !strings.Contains(last, `"notice":"rate_limited: ; the task waits and asks again in `) {
			t.Errorf("watchers are told %s", last)
		}
	}
}

// TestLostAttempts: the usage of broken attempts counts towards the budgets, whether or not an answer followed.
func TestLostAttempts(t *testing.T) {
	t.Parallel()
	lost := model.Usage{Input: 1000, Output: 10, Estimated: true}
	for _, c := range []struct {
		name   string
		err    error
		cost   float64 // cost budget in US dollars; one attempt costs 0.0011
		status task.Status
		tokens int
	}{
		{"answered", nil, 1, task.Succeeded, 2*1010 + 110},
		{"away", away, 1, task.Running, 2 * 1010},
		{"lasting", &model.Error{Kind: model.KindAuth}, 1, task.Failed, 2 * 1010},
		{"beyond the budget", away, 0.002, task.Failed, 2 * 1010},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.prices, w.budget.Cost = model.Prices{"test/*": {Input: 1, Output: 10}}, c.cost
			w.generate = func(_ context.Context, _ int, req *model.Request) (*model.Turn, error) {
				req.OnLost(lost)
				req.OnLost(lost)
				if c.err != nil {
					return nil, c.err
				}
				return stamped(says("ok")), nil
			}
			ended, err := w.agent().Do(t.Context(), newTask(), nil, nil, w)
			var retry *task.RetryError
			if errors.As(err, &retry) && c.status == task.Failed {
				ended, err = w.agent().Do(t.Context(), newTask(), nil, w.steps, w)
			}
			if (err != nil) != (c.status == task.Running) || ended.Status != c.status {
				t.Fatalf("%v, %+v", err, ended)
			}
			var s state
			for _, step := range w.steps {
				s.take(step)
			}
			if s.tokens.Input+s.tokens.Output != c.tokens || !s.tokens.Estimated || s.cost < 0.0022 || s.open != nil {
				t.Errorf("%+v, $%f", s.tokens, s.cost)
			}
			if c.status == task.Failed && errors.Is(c.err, away) && ended.Error.Kind != task.KindBudget {
				t.Errorf("ended with %+v", ended.Error)
			}
		})
	}
}

// TestUnpriced: a cost budget is refused if the price of the model is not known.
func TestUnpriced(t *testing.T) {
	t.Parallel()
	w := newWorld(t, says("ok"))
	w.prices = model.Prices{"test/other": {Input: 1, Output: 1}}
	for _, c := range []struct {
		configured, asked float64
		key               string
	}{{0, 0, ""}, {0.5, 0, "model.maxCost"}, {0, 0.5, "budget.costUsd, --max-cost"}, {0.5, 0.1, "budget.costUsd, --max-cost"}} {
		w.budget.Cost = c.configured
		err := w.agent().Admit("", task.Budget{Cost: c.asked})
		if c.key == "" {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "("+c.key+") cannot be kept because the price of test/scripted is not known: set model.prices") {
			t.Errorf("%+v: %v", c, err)
		}
		nt := newTask() // the price may have been removed after the task was admitted
		nt.Budget.Cost = c.asked
		ended, err := w.agent().Do(t.Context(), nt, nil, nil, w)
		if err != nil || ended.Status != task.Failed || ended.Error.Kind != task.KindBudget || len(w.requests) > 0 {
			t.Errorf("%v, %+v", err, ended)
		}
		w.steps, w.keys = nil, map[string]bool{}
	}
	a := w.agent()
	a.opt.Models = func(string) (model.Model, error) { return nil, errors.New("not allowed") }
	if a.Admit("", task.Budget{Cost: 1}) != nil || a.Admit("x", task.Budget{}) == nil {
		t.Error("a model that cannot be used is refused where it is named, and only there")
	}
}

// TestResetAfterCrash: deltas that a dead process streamed are reset before new ones.
func TestResetAfterCrash(t *testing.T) {
	t.Parallel()
	w := newWorld(t, says("done"))
	w.generate = func(_ context.Context, n int, req *model.Request) (*model.Turn, error) {
		req.OnDelta(model.Delta{Text: "do"})
		return stamped(w.turns[n]), nil
	}
	w.steps = []task.Step{{Seq: 1, Note: &task.Note{Text: "count the rows"}}, {Seq: 2, Ask: &task.Ask{Turn: 1}}}
	if ended, err := w.agent().Do(t.Context(), newTask(), nil, w.steps, w); err != nil || ended.Status != task.Succeeded {
		t.Fatal(ended, err)
	}
	if diff := cmp.Diff([]string{`{"reset":true}`, `{"text":"do"}`}, w.deltas); diff != "" {
		t.Errorf("deltas (-want +got):\n%s", diff)
	}
}

// TestRefusedTurn: calls of a refused or filtered turn are not executed, in any wire format, and the session continues.
func TestRefusedTurn(t *testing.T) {
	t.Parallel()
	for name, cfg := range providers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.programs["good"] = succeeds("1")
			refused := execution(name, "good")
			refused.Stop = "content_filter"
			a, srv := serve(t, w, cfg, refused, fake.Reply{Text: "I am here."})
			first, err := a.Do(t.Context(), newTask(), nil, nil, w)
			if err != nil || first.Status != task.Failed || first.Error.Kind != task.KindModel || len(w.executed) > 0 {
				t.Fatalf("%v, %+v, executed %v", err, first, w.executed)
			}
			history := []task.Past{{Task: first, Steps: w.steps}}
			w.steps, w.keys = nil, map[string]bool{}
			second, err := a.Do(t.Context(), newTask(), history, nil, w)
			if err != nil || second.Status != task.Succeeded || len(srv.Refused()) > 0 {
				t.Errorf("%v, %+v, refused: %v", err, second, srv.Refused())
			}
		})
	}
}

// TestRefusedTurnWithResults: a session in which an earlier version executed such a call continues too.
func TestRefusedTurnWithResults(t *testing.T) {
	t.Parallel()
	turn := stamped(runs("good"))
	turn.Stop = model.StopRefusal
	result := &task.Result{ToolResult: model.ToolResult{CallID: "call_0", Text: "1"}}
	past := task.Past{Task: task.Task{Status: task.Failed, Message: "Refused."}, Steps: []task.Step{
		{Seq: 1, Note: &task.Note{Text: "first"}}, {Seq: 2, Ask: &task.Ask{Turn: 1}}, {Seq: 3, Turn: &task.Turn{Turn: *turn}}, {Seq: 4, Result: result},
	}}
	w := newWorld(t, says("ok"))
	w.do(past)
	want := []string{"user: first\n\n(The task ended here: Refused.)\n\ncount the rows"}
	if diff := cmp.Diff(want, told(w.requests[0].Messages)); diff != "" {
		t.Errorf("conversation (-want +got):\n%s", diff)
	}
}

// prefix returns the share of the earlier request with which the later request begins, from 0 to 1.
func prefix(t *testing.T, before, after *model.Request) float64 {
	t.Helper()
	a, err := json.Marshal(before.Messages)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(after.Messages)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return float64(n+1) / float64(len(a))
}

// TestCacheOfSession: the conversation of a long session is rarely cut, and its beginning stays the same between two cuts.
func TestCacheOfSession(t *testing.T) {
	t.Parallel()
	var history []task.Past
	var last *model.Request
	changed, n := 0, 40
	for range n {
		w := newWorld(t, runs("good"), says("It is "+strings.Repeat("done ", 100)))
		w.window, w.programs["good"] = 10_000, succeeds(`"`+strings.Repeat("row ", 500)+`"`)
		ended := w.do(history...)
		for turn := range 2 {
			if req := w.requests[turn]; last != nil && prefix(t, last, req) < 0.99 {
				changed++
			}
			last = w.requests[turn]
		}
		history = append(history, task.Past{Task: ended, Steps: w.steps})
	}
	if changed == 0 || changed > n/4 {
		t.Errorf("the beginning of the conversation changed %d times in %d tasks", changed, n)
	}
}

// TestCacheOfPrograms: in a long task programs are shortened as well as results. This is rare, and the full texts are saved.
func TestCacheOfPrograms(t *testing.T) {
	t.Parallel()
	long := "return 1 //" + strings.Repeat(" long", 1200)
	var script []*model.Turn
	const turns = 40
	for range turns {
		turn := runs(long)
		turn.Raw, turn.Format, turn.Usage = encode(turn.Calls), model.FormatChat, model.Usage{}
		script = append(script, turn)
	}
	w := newWorld(t, append(script, says("done"))...)
	w.window, w.budget.Turns, w.programs[long] = 30_000, 100, succeeds(`1`)
	if ended := w.do(); ended.Status != task.Succeeded {
		t.Fatal(ended.Message)
	}
	changed := 0
	for n := 1; n <= turns; n++ {
		if prefix(t, w.requests[n-1], w.requests[n]) < 0.99 {
			changed++
		}
		if size := sizeOf("", w.requests[n].Messages); size > 30_000*7/2 {
			t.Errorf("request %d has %d bytes", n, size)
		}
	}
	if changed == 0 || changed > turns/5 {
		t.Errorf("the beginning of the conversation changed %d times in %d turns", changed, turns)
	}
	first := w.requests[turns].Messages[1].Turn
	const at = "/workspace/results/task_1/turn-1.js"
	if want := `{"code":"// A program of 6011 bytes, cut; it is kept in ` + at + `"}`; string(first.Calls[0].Input) != want || first.Raw != nil || w.files[at] != long {
		t.Errorf("the first program is shown as %s", first.Calls[0].Input)
	}
}

// TestRunAway: if a run cannot be executed at the moment, the task stays as it is and continues the same run later.
func TestRunAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runs("away"), says("ok"))
	w.programs["away"] = func(context.Context, Program) (*run.Outcome, error) { return nil, errors.New("the store is read-only") }
	if got, err := w.agent().Do(t.Context(), newTask(), nil, nil, w); err == nil || got.Status != task.Running {
		t.Fatalf("got %s, %v, want an error and a task that goes on", got.Status, err)
	}
	w.programs["away"] = succeeds("7")
	got, err := w.agent().Do(t.Context(), newTask(), nil, w.steps, w)
	if err != nil || got.Status != task.Succeeded || string(got.Output) != "7" {
		t.Fatalf("ended as %s with %s: %s, %v", got.Status, got.Output, got.Message, err)
	}
	if len(w.executed) != 2 || w.executed[0] != w.executed[1] {
		t.Errorf("executed %v, want one run twice", w.executed)
	}
}

// vault is a vault that can be made unavailable.
type vault struct {
	*pii.Memory
	away atomic.Bool
}

func (v *vault) Load(ctx context.Context, s pii.Scope) (pii.Loaded, error) {
	if v.away.Load() {
		return pii.Loaded{}, fmt.Errorf("%w: connection refused", pii.ErrUnavailable)
	}
	return v.Memory.Load(ctx, s)
}

// TestVaultOutage: while the vault is unavailable, the task neither ends nor continues.
func TestVaultOutage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, says("done"))
	v := &vault{Memory: pii.NewMemory(1)}
	v.away.Store(true)
	a := w.privateAgent(v)
	asked := newTask()
	asked.Task = "Write to ann@example.com."
	if ended, err := a.Do(t.Context(), asked, nil, w.steps, w); !errors.Is(err, pii.ErrUnavailable) || ended.Status.Ended() || len(w.steps) > 0 {
		t.Fatalf("the task is %s, %v, with %d steps", ended.Status, err, len(w.steps))
	}
	v.away.Store(false)
	if ended, err := a.Do(t.Context(), asked, nil, w.steps, w); err != nil || ended.Status != task.Succeeded {
		t.Errorf("the task is %s, %v", ended.Status, err)
	}
}
