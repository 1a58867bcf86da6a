package wiring_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/store/sqlstore"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/testing/fake"
	"mcp-code-exec-harness/internal/wiring"
)

// tasks opens the service of tasks with a model, and works its queue until the test ends.
func (f *fixture) tasks(model *fake.Server) *task.Service {
	f.t.Helper()
	f.useModel(model)
	s, stop := f.work(context.Background(), wiring.TaskOptions{})
	f.t.Cleanup(stop)
	return s
}

func (f *fixture) useModel(model *fake.Server) {
	f.cfg.Model.Provider, f.cfg.Model.Name, f.cfg.Model.APIKey, f.cfg.Model.BaseURL = "anthropic", "claude-test", "k", model.URL
}

// work works the queue until stop is called. A task that is in work then waits for the next process.
func (f *fixture) work(ctx context.Context, opt wiring.TaskOptions) (s *task.Service, stop func()) {
	f.t.Helper()
	s, err := f.Tasks(opt)
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- s.Work(ctx) }()
	return s, sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			f.t.Error(err)
		}
	})
}

// program returns a turn of the model that runs a program.
func program(code string) fake.Reply {
	input, err := json.Marshal(map[string]string{"code": code})
	if err != nil {
		panic(err)
	}
	return fake.Reply{Calls: []fake.Call{{Name: "execute_code", Input: string(input)}}, Usage: fake.Usage{Input: 100, Output: 10}}
}

// TestTaskCancel cancels a task in each of its states, from the process that works on it and from another process. The task ends soon, its work is cancelled,
// and the runner can be used again.
func TestTaskCancel(t *testing.T) {
	t.Parallel()
	never := make(chan struct{})
	const now = "console.log('now'); await utils.sleep(1); " // The log line is sent when the program waits.
	for name, c := range map[string]struct {
		reply fake.Reply
		until string // event at which the task is cancelled; if empty, the request to the model
		run   bool   // tells that a run must end as cancelled
	}{
		"in a call of the model":        {fake.Reply{Wait: never}, "", false},
		"while the model answers":       {fake.Reply{Text: strings.Repeat("word ", 3000), Pause: 200 * time.Millisecond}, task.EventDelta, false},
		"in a call of a tool":           {program("await callMCPTool('up__send', {})"), "tool", true},
		"in calls of tools":             {program("await Promise.all([1,2,3].map((n) => callMCPTool('up__send', {n})))"), "tool", true},
		"in a program that sleeps":      {program(now + "await utils.sleep(600000)"), task.EventLog, true},
		"in a program that computes":    {program(now + "for (;;) {}"), task.EventLog, true},
		"in a program that cannot stop": {program(now + "new Array(1e9) + ''"), task.EventLog, true},
	} {
		for _, who := range []string{"here", "in another process"} {
			t.Run(name+", "+who, func(t *testing.T) {
				t.Parallel()
				up := newUpstream(t, "up")
				called, ended := make(chan struct{}, 10), make(chan struct{}, 10)
				up.on = func(ctx context.Context, _, _ string, _ json.RawMessage) (string, error) {
					called <- struct{}{}
					<-ctx.Done()
					ended <- struct{}{}
					return "", ctx.Err()
				}
				asked := make(chan struct{}, 10)
				model := fake.Serve(func(r fake.Request) fake.Reply {
					if strings.Contains(r.Last().Text, "Answer.") {
						return fake.Reply{Text: "Yes."}
					}
					asked <- struct{}{}
					return c.reply
				})
				t.Cleanup(model.Close)
				f := setup(t, map[string]string{"sandbox.pool": "1", "sandbox.timeout": "5m"}, up.entry)
				s := f.tasks(model)
				cancel := s.Cancel
				if who != "here" {
					other, err := sqlstore.Open(t.Context(), storeURL(t, f.dir), sqlstore.Options{})
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { other.Close() })
					cancel = task.NewService(task.Options{Store: other, Now: time.Now}).Cancel
				}
				in, _, err := s.Submit(t.Context(), task.Request{UserID: "ann", Task: "Do it."})
				if err != nil {
					t.Fatal(err)
				}
				<-asked
				switch c.until {
				case "":
				case "tool":
					<-called
				default:
					for e, err := range s.Events(t.Context(), in.ID, 0) {
						if err != nil || e.Type == task.EventEnded {
							t.Fatalf("it has ended: %s, %v", e.Data, err)
						}
						if e.Type == c.until {
							break
						}
					}
				}
				began := time.Now()
				if _, err := cancel(t.Context(), in.ID); err != nil {
					t.Fatal(err)
				}
				got, err := s.Wait(t.Context(), in.ID)
				if err != nil || got.Status != task.Cancelled || got.Error == nil || got.Error.Kind != task.KindCancelled {
					t.Errorf("it ended as %s, %+v, %v", got.Status, got.Error, err)
				}
				if took := time.Since(began); took > patience { // The work would have taken much longer.
					t.Errorf("it took %s", took)
				}
				if c.until == "tool" {
					<-ended // The server got the cancellation.
				}
				if !c.run {
					<-model.Aborts() // The provider got the cancellation.
				}
				f.runsEnded(in.SessionID, c.run)
				// The only runner can be used again.
				next, _, err := s.Submit(t.Context(), task.Request{UserID: "ann", Task: "Answer."})
				if err != nil {
					t.Fatal(err)
				}
				if got, err = s.Wait(t.Context(), next.ID); err != nil || got.Status != task.Succeeded {
					t.Errorf("the next task ended as %s, %v", got.Status, err)
				}
				if out := f.exec(runs.Request{Code: "return 1", User: "ann"}); out.Error != nil {
					t.Errorf("the next run failed: %+v", out.Error)
				}
				eventually(t, "no task is worked", func() bool { return s.Running() == 0 })
			})
		}
	}
}

// runsEnded checks that the runs of a session have ended as cancelled. some tells whether there must be any.
func (f *fixture) runsEnded(session string, some bool) {
	f.t.Helper()
	keep, err := f.Store()
	if err != nil {
		f.t.Fatal(err)
	}
	runs, _, err := keep.Runs(f.t.Context(), journal.Filter{Session: session})
	if err != nil || some != (len(runs) == 1) {
		f.t.Errorf("its runs are %+v, %v", runs, err)
	}
	for _, r := range runs {
		if r.Status != "cancelled" {
			f.t.Errorf("its run is %s", r.Status)
		}
	}
}
