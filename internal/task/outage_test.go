package task_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcp-code-exec-harness/internal/agent"
	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/modelview"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

// flaky is a model whose provider is unavailable between two times. It is also the sandbox of the tasks' programs. It answers the first two requests of a
// task with programs, and the third with text.
type flaky struct {
	agent.Catalog // No method of the catalog is called.
	from, to      time.Time

	mu       sync.Mutex
	answered map[string]int // number of answers, by task and turn
	executed map[string]int // number of executions, by program
	refused  int
}

func (f *flaky) Info() model.Info { return model.Info{Provider: "test", Name: "flaky"} }

func (f *flaky) Definitions() int { return 0 }

func (f *flaky) Generate(ctx context.Context, req *model.Request) (*model.Turn, error) {
	select {
	case <-time.After(10 * time.Second):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	turns := 0
	for _, m := range req.Messages {
		if m.Turn != nil {
			turns++
		}
	}
	key := fmt.Sprintf("%s, turn %d", req.Messages[0].Text, turns)
	if now := time.Now(); now.After(f.from) && now.Before(f.to) {
		f.refused++
		if f.refused%2 == 0 { // Every second refused request fails in the middle of an answer.
			req.OnLost(model.Usage{Input: 100, Output: 1})
		}
		return nil, &model.Error{Kind: model.KindUnavailable, Provider: "test", Model: "flaky"}
	}
	f.answered[key]++
	turn := &model.Turn{Provider: "test", Model: "flaky", Text: "done", Stop: model.StopEnd, Usage: model.Usage{Input: 100, Output: 10}}
	if turns < 2 {
		input, err := json.Marshal(map[string]string{"code": key})
		if err != nil {
			return nil, err
		}
		turn.Text, turn.Stop, turn.Calls = "", model.StopTools, []model.ToolCall{{ID: "c", Name: "execute_code", Input: input}}
	}
	return turn, nil
}

func (f *flaky) Execute(_ context.Context, p agent.Program) (*run.Outcome, error) {
	time.Sleep(5 * time.Second)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.executed[p.Code]++
	return &run.Outcome{RunID: p.RunID, Status: run.Succeeded, Output: json.RawMessage("1")}, nil
}

func (f *flaky) Abandon(context.Context, agent.Program) (*run.Outcome, error) { return nil, nil }

func (f *flaky) SaveFile(context.Context, string, string, string, []byte) (string, error) {
	return "", nil
}

func (f *flaky) Skills(context.Context, string, string) ([]modelview.Skill, int, error) {
	return nil, 0, nil
}

// Twenty tasks are in work when the provider becomes unavailable for an hour. All of them succeed afterwards, within a time budget of a few minutes and
// within exactly the turns that they need. No answered request is sent again, no program runs twice, and the usage of interrupted answers is counted.
func TestProviderAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &flaky{answered: map[string]int{}, executed: map[string]int{}}
		f.from = time.Now().Add(12 * time.Second)
		f.to = f.from.Add(time.Hour)
		ids := 0
		a := agent.New(agent.Options{
			Models: func(string) (model.Model, error) { return f, nil }, Runs: f, Catalog: f, Now: time.Now,
			Budget: task.Budget{Turns: 3, Wall: task.Duration(3 * time.Minute)},
			NewID: func() string {
				f.mu.Lock()
				defer f.mu.Unlock()
				ids++
				return fmt.Sprintf("run_%d", ids)
			},
		})
		p := newPlace(t).open(a.Do, func(o *task.Options) { o.Workers = 20 })
		p.work()
		const n = 20
		var tasks []task.Task
		for i := range n {
			tasks = append(tasks, p.submit(task.Request{Task: fmt.Sprintf("task %d", i)}))
		}
		time.Sleep(2 * time.Hour)
		tokens := 0
		for _, in := range tasks {
			got, err := p.Task(t.Context(), in.ID)
			if err != nil {
				t.Fatal(err)
			}
			if got.Status != task.Succeeded || got.Usage.Turns != 3 || got.Usage.Runs != 2 {
				t.Errorf("%s: %s, %+v", got.Status, got.Message, got.Usage)
			}
			tokens += got.Usage.Tokens.Input + got.Usage.Tokens.Output
			if took := got.EndedAt.Sub(f.to); took < 0 || took > 6*time.Minute {
				t.Errorf("a task ended %s after the provider was back", took)
			}
		}
		if len(f.answered) != 3*n || len(f.executed) != 2*n || f.refused < n {
			t.Errorf("%d requests were answered, %d programs run, %d requests refused", len(f.answered), len(f.executed), f.refused)
		}
		for what, times := range f.answered {
			if times != 1 {
				t.Errorf("%s was answered %d times", what, times)
			}
		}
		for what, times := range f.executed {
			if times != 1 {
				t.Errorf("%s ran %d times", what, times)
			}
		}
		if want := 3*n*110 + f.refused/2*101; tokens != want {
			t.Errorf("%d tokens are counted, want %d", tokens, want)
		}
	})
}
