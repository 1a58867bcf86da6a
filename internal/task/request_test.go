package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcp-code-exec-harness/internal/task"
)

func TestInvalid(t *testing.T) {
	t.Parallel()
	p := newPlace(t).open(succeed, func(o *task.Options) { o.Webhooks.AllowPrivate = false })
	for want, change := range map[string]func(*task.Request){
		"userId and task":       func(r *task.Request) { r.UserID = "" },
		"required":              func(r *task.Request) { r.Task = "" },
		"longer than 100":       func(r *task.Request) { r.UserID = strings.Repeat("ä", 101) },
		"U+000A":                func(r *task.Request) { r.UserID = "a\nb" },
		"U+202E":                func(r *task.Request) { r.UserID = "a\u202eb" }, // package auth refuses this character too
		"U+2028":                func(r *task.Request) { r.UserID = "a\u2028b" },
		"10000":                 func(r *task.Request) { r.Task = strings.Repeat("ä", 10_001) },
		"model has":             func(r *task.Request) { r.Model = strings.Repeat("m", 201) },
		"1048576":               func(r *task.Request) { r.Context = data(strings.Repeat("x", 1<<20)) },
		"not JSON":              func(r *task.Request) { r.Context = json.RawMessage("{") },
		"session id has letter": func(r *task.Request) { r.SessionID = "../x" },
		"session id has 1":      func(r *task.Request) { r.SessionID = strings.Repeat("s", 101) },
		"callbackUrl: loopback": func(r *task.Request) { r.Callback = "http://127.0.0.1/x" },
		"negative":              func(r *task.Request) { r.Budget.Turns = -1 },
		"366 days ahead":        func(r *task.Request) { r.RunAt = new(time.Now().Add(367 * 24 * time.Hour)) },
	} {
		r := task.Request{UserID: "ann", Task: "x"}
		change(&r)
		if _, _, err := p.Submit(t.Context(), r); !errors.Is(err, task.ErrInvalidInput) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if _, err := p.CreateSchedule(t.Context(), task.NewSchedule{Request: r, Cron: "@daily"}); !errors.Is(err, task.ErrInvalidInput) {
			t.Errorf("schedule: got %v, want %q", err, want)
		}
	}
	r := task.Request{
		UserID: strings.Repeat("ä", 100), Task: strings.Repeat("ä", 10_000), SessionID: "A-z_0.9", Context: data(strings.Repeat("x", 1<<20-2)),
	}
	if _, _, err := p.Submit(t.Context(), r); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"a/b", ".", "..", strings.Repeat("s", 101)} {
		if _, err := p.CreateSession(t.Context(), "ann", name); !errors.Is(err, task.ErrInvalidInput) {
			t.Errorf("session %q: %v", name, err)
		}
	}
	if _, err := p.CreateSession(t.Context(), "", "s"); !errors.Is(err, task.ErrInvalidInput) {
		t.Errorf("session of nobody: %v", err)
	}
}

// A request that is repeated with its idempotency key, even at the same time, creates one task. A different request with the same key is refused.
func TestIdempotency(t *testing.T) {
	t.Parallel()
	p := newPlace(t).open(succeed, nil)
	p.work()
	r := task.Request{UserID: "ann", Task: "x", IdempotencyKey: "k", BodyHash: "1"}
	var mu sync.Mutex
	var ids []string
	var created int
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			got, is, err := p.Submit(t.Context(), r)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			ids = append(ids, got.ID)
			if is {
				created++
			}
		})
	}
	wg.Wait()
	if slices.Sort(ids); ids[0] != ids[len(ids)-1] || created != 1 {
		t.Errorf("%d tasks were created: %q", created, slices.Compact(ids))
	}
	p.wait(ids[0])
	if got, is, err := p.Submit(t.Context(), r); err != nil || is || got.Status != task.Succeeded {
		t.Errorf("after its end: %+v, created %t, %v", got, is, err)
	}
	r.BodyHash = "2"
	if _, _, err := p.Submit(t.Context(), r); !errors.Is(err, task.ErrIdempotency) {
		t.Errorf("another request: %v", err)
	}
	r.UserID = "bob"
	if _, is, err := p.Submit(t.Context(), r); err != nil || !is {
		t.Errorf("another user: created %t, %v", is, err)
	}
}

// If a request allows it, its task gets the answer of an earlier equal task without any work, unless the answer is too old.
func TestCached(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		p := newPlace(t).open(func(ctx context.Context, tk task.Task, h []task.Past, steps []task.Step, log task.Log) (task.Task, error) {
			calls++
			tk.Output = data(calls)
			return succeed(ctx, tk, h, steps, log)
		}, nil)
		p.work()
		r := task.Request{UserID: "ann", Task: "x", Context: data(1), CacheFor: time.Minute}
		ask := func(r task.Request) task.Task {
			t.Helper()
			in, _, err := p.Submit(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			return p.wait(in.ID)
		}
		first := ask(r)
		time.Sleep(time.Second)
		again := ask(r)
		if !again.Cached || again.Text != first.Text || string(again.Output) != "1" || calls != 1 || again.ID == first.ID ||
			!strings.Contains(again.Message, first.ID) {
			t.Errorf("%d calls, the second answer is %+v", calls, again)
		}
		events, err := p.Past(t.Context(), again.ID, 0)
		if err != nil || !slices.Equal(kinds(events), []string{task.EventQueued, task.EventEnded}) {
			t.Errorf("its events are %q, %v", kinds(events), err)
		}
		for name, change := range map[string]func(*task.Request){
			"another user":    func(r *task.Request) { r.UserID = "bob" },
			"another text":    func(r *task.Request) { r.Task = "y" },
			"another context": func(r *task.Request) { r.Context = data(2) },
			"another model":   func(r *task.Request) { r.Model = "m" },
			"not allowed":     func(r *task.Request) { r.CacheFor = 0 },
			"of a session":    func(r *task.Request) { r.SessionID = first.SessionID },
		} {
			other, before := r, calls
			change(&other)
			if got := ask(other); got.Cached || calls != before+1 {
				t.Errorf("%s: answered from the cache", name)
			}
		}
		later, before := time.Now().Add(time.Hour), calls
		r.RunAt = &later
		planned, _, err := p.Submit(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		until(later)
		if got := p.wait(planned.ID); got.Cached || calls != before+1 || got.StartedAt.Before(later) {
			t.Error("planned for later: answered now, or from the cache")
		}
		r.RunAt = nil
		if got := ask(r); !got.Cached {
			t.Error("the answer is new, and was not given again")
		}
		time.Sleep(time.Minute) // Both the answer and its copy are older than a minute by then.
		if got := ask(r); got.Cached {
			t.Error("the answer is too old")
		}
	})
}

// A task with a start time is begun at that time, by any process that works the queue then.
func TestRunAt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at := newPlace(t)
		p := at.open(succeed, nil)
		stop := p.work()
		plan := func(after time.Duration) task.Task {
			then := time.Now().Add(after)
			return p.submit(task.Request{RunAt: &then})
		}
		soon, late, missed := plan(time.Hour), plan(5*time.Hour), plan(3*time.Hour)
		check := func(in task.Task, want time.Time) {
			t.Helper()
			if got := p.wait(in.ID); got.StartedAt.Before(want) || got.StartedAt.After(want.Add(time.Second)) {
				t.Errorf("it began at %s, not at %s", got.StartedAt, want)
			}
		}
		time.Sleep(2 * time.Hour)
		check(soon, *soon.RunAt)
		stop()
		p.close()
		time.Sleep(2 * time.Hour)
		p = at.open(succeed, nil)
		began := time.Now()
		p.work()
		time.Sleep(time.Minute)
		check(missed, began)
		time.Sleep(2 * time.Hour)
		check(late, *late.RunAt)
	})
}

// A request whose caller has gone before the task was created leaves no task.
func TestSubmitAndGo(t *testing.T) {
	t.Parallel()
	p := newPlace(t).open(succeed, nil)
	p.work()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := p.Submit(ctx, task.Request{UserID: "ann", Task: "x"}); !errors.Is(err, context.Canceled) {
		t.Errorf("submitted: %v", err)
	}
	if all, _, err := p.Tasks(t.Context(), task.Filter{}); err != nil || len(all) != 0 {
		t.Errorf("there is %v, %v", all, err)
	}
}

// A budget is written in the same form in which it is requested.
func TestBudgetJSON(t *testing.T) {
	t.Parallel()
	was := task.Budget{Turns: 2, Wall: task.Duration(90 * time.Second)}
	text, err := json.Marshal(was)
	if err != nil || string(text) != `{"turns":2,"wall":"1m30s"}` {
		t.Errorf("%s, %v", text, err)
	}
	var is task.Budget
	if err := json.Unmarshal(text, &is); err != nil || is != was {
		t.Errorf("%+v, %v", is, err)
	}
	if text, err := json.Marshal(task.Budget{}); err != nil || string(text) != "{}" {
		t.Errorf("%s, %v", text, err)
	}
}
