package task_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcp-code-exec-harness/internal/task"
)

// watch calls each with the events of a task until the task has ended.
func (s *process) watch(id string, after int64, each func(task.Event)) {
	for e, err := range s.Events(s.t.Context(), id, after) {
		if err != nil {
			s.t.Errorf("watch: %v", err)
			return
		}
		each(e)
	}
}

// Every watcher gets every stored event once and in order, wherever it begins, however slow it is, and in whichever process it runs, while several goroutines
// commit events.
func TestEvents(t *testing.T) {
	t.Parallel()
	const committers, commits = 4, 300 // more events than the backlog of a watcher
	at := newPlace(t)
	begin := make(chan struct{})
	p := at.open(func(ctx context.Context, tk task.Task, h []task.Past, steps []task.Step, log task.Log) (task.Task, error) {
		<-begin
		var wg sync.WaitGroup
		for c := range committers {
			wg.Go(func() {
				for i := range commits {
					log.Stream(data("piece"))
					if err := log.Commit(ctx, task.Change{Events: []task.Event{
						{Type: task.EventCall, Data: data(i), Key: fmt.Sprint(c, "/", i)},
						{Type: task.EventCall, Data: data(i), Key: fmt.Sprint(c, "/", i)}, // An event with a repeated key is not added.
					}}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		return succeed(ctx, tk, h, steps, log)
	}, nil)
	other := at.open(succeed, nil)
	p.work()
	in := p.submit(task.Request{})
	const last = committers*commits + 3 // events with a key, and the events queued, started and ended
	var wg sync.WaitGroup
	for name, c := range map[string]struct {
		by    *process
		after int64
		slow  bool
	}{
		"from the beginning": {p, 0, false}, "from the middle": {p, last / 2, false}, "slow": {p, 0, true}, "from before the end": {p, last - 1, false},
		"in another process": {other, 0, false}, "in another process, from the middle": {other, last / 2, false},
	} {
		wg.Go(func() {
			next := c.after + 1
			var kind string
			c.by.watch(in.ID, c.after, func(e task.Event) {
				if e.ID == 0 {
					return
				}
				if e.ID != next {
					t.Errorf("%s: event %d comes where %d is due", name, e.ID, next)
				}
				next, kind = e.ID+1, e.Type
				if c.slow {
					for range 50 {
						p.task(in.ID) // takes some time
					}
				}
			})
			if next != last+1 || kind != task.EventEnded {
				t.Errorf("%s: the last event was %d, %s", name, next-1, kind)
			}
		})
	}
	close(begin)
	wg.Wait()
}

// The pieces of an answer come before the turn that contains the whole answer, and never after it, at whatever moment the watcher reads the store.
func TestPieces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const turns = 300
		p := newPlace(t).open(func(ctx context.Context, tk task.Task, h []task.Past, steps []task.Step, log task.Log) (task.Task, error) {
			for n := range turns {
				time.Sleep(time.Second)
				log.Stream(data(n))
				log.Stream(data(n))
				if err := log.Commit(ctx, task.Change{Events: []task.Event{{Type: task.EventTurn, Data: data(n)}}}); err != nil {
					t.Error(err)
				}
			}
			return succeed(ctx, tk, h, steps, log)
		}, nil)
		p.work()
		in := p.submit(task.Request{})
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Minute)
				over, pieces := -1, 0
				p.watch(in.ID, 0, func(e task.Event) {
					switch e.Type {
					case task.EventDelta:
						pieces++
						if string(e.Data) != fmt.Sprint(over+1) {
							t.Errorf("a piece of turn %s comes behind turn %d", e.Data, over)
						}
					case task.EventTurn:
						over++
					}
				})
				if want := 2 * (turns - i*60); pieces < want-2 {
					t.Errorf("watcher %d got %d pieces, want %d", i, pieces, want)
				}
			})
		}
		wg.Wait()
	})
}

// Watchers in another process get the pieces of answers too, and none after the turn that contains the whole answer.
func TestPiecesOfAnotherProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const turns, later = 60, 30
		at := newPlace(t)
		p := at.open(func(ctx context.Context, tk task.Task, h []task.Past, steps []task.Step, log task.Log) (task.Task, error) {
			for n := range turns {
				time.Sleep(time.Second)
				log.Stream(data(n))
				time.Sleep(time.Second)
				log.Report(data(n))
				log.Stream(data(n))
				time.Sleep(time.Second)
				if err := log.Commit(ctx, task.Change{Events: []task.Event{{Type: task.EventTurn, Data: data(n)}}}); err != nil {
					t.Error(err)
				}
			}
			return succeed(ctx, tk, h, steps, log)
		}, nil)
		other := at.open(succeed, nil)
		p.work()
		in := p.submit(task.Request{})
		var wg sync.WaitGroup
		for _, begin := range []int{0, later} {
			wg.Go(func() {
				time.Sleep(time.Duration(begin) * 3 * time.Second)
				over, seen := -1, map[string]int{}
				other.watch(in.ID, 0, func(e task.Event) {
					seen[e.Type]++
					switch e.Type {
					case "":
						t.Error("an event without a type")
					case task.EventDelta, task.EventProgress:
						if string(e.Data) != fmt.Sprint(over+1) {
							t.Errorf("a piece of turn %s comes behind turn %d", e.Data, over)
						}
					case task.EventTurn:
						over++
					}
				})
				want := turns - begin - 2 // A watcher finds only once a second that another process works the task, so it may miss the pieces of two turns.
				if seen[task.EventDelta] < 2*want || seen[task.EventDelta] > 2*turns || seen[task.EventProgress] < want || seen[task.EventTurn] != turns {
					t.Errorf("the watcher of turn %d got %v", begin, seen)
				}
			})
		}
		wg.Wait()
		if left, err := filepath.Glob(strings.TrimPrefix(at.url, "sqlite:") + ".live-*"); err != nil || len(left) > 0 {
			t.Errorf("files of followers are left: %v, %v", left, err)
		}
	})
}

func TestEventsEnd(t *testing.T) {
	t.Parallel()
	g := newGated()
	p := newPlace(t).open(g.work, nil)
	p.work()
	in := p.submit(task.Request{})
	g.next(t)
	first := func(ctx context.Context, id string, after int64) (e task.Event, err error, yielded bool) {
		for e, err := range p.Events(ctx, id, after) {
			if e.Type != task.EventDelta { // skips the event that tells to discard pieces
				return e, err, true
			}
		}
		return e, nil, false
	}
	if _, err, _ := first(t.Context(), "task_x", 0); !errors.Is(err, task.ErrNotFound) {
		t.Errorf("of an unknown task: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the client has gone")
	cancel(why)
	if _, err, _ := first(ctx, in.ID, 2); !errors.Is(err, why) && !errors.Is(err, context.Canceled) {
		t.Errorf("of a watcher who has gone: %v", err)
	}
	if e, err, _ := first(t.Context(), in.ID, 0); err != nil || e.Type != task.EventQueued {
		t.Errorf("the first event is %+v, %v", e, err)
	}
	done := make(chan bool)
	go func() {
		_, err, yielded := first(t.Context(), in.ID, 1000) // 1000 is above the ids of all events of the task
		done <- yielded || err != nil
	}()
	close(g.let)
	if <-done {
		t.Error("a watcher of events that will not be got one")
	}
	p.wait(in.ID)
	if _, err, yielded := first(t.Context(), in.ID, 3); yielded {
		t.Errorf("behind the end comes something: %v", err)
	}
	events, err := p.Past(t.Context(), in.ID, 1)
	if err != nil || !slices.Equal(kinds(events), []string{task.EventStarted, task.EventEnded}) {
		t.Errorf("the past is %q, %v", kinds(events), err)
	}
}

// A watcher that reconnects while an answer is written is told to discard the pieces that it has.
func TestPiecesAfterReconnect(t *testing.T) {
	t.Parallel()
	streaming, end := make(chan struct{}), make(chan struct{})
	p := newPlace(t).open(func(ctx context.Context, tk task.Task, h []task.Past, steps []task.Step, log task.Log) (task.Task, error) {
		log.Stream(data("one"))
		close(streaming)
		<-end
		return succeed(ctx, tk, h, steps, log)
	}, nil)
	p.work()
	in := p.submit(task.Request{})
	<-streaming
	for _, after := range []int64{0, 2} {
		for e, err := range p.Events(t.Context(), in.ID, after) {
			if err != nil {
				t.Fatal(err)
			}
			if again := after > 0; again != (e.Type == task.EventDelta && string(e.Data) == `{"reset":true}`) {
				t.Errorf("behind event %d comes %s %s first", after, e.Type, e.Data)
			}
			break
		}
	}
	close(end)
	p.wait(in.ID)
}
