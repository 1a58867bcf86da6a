package agent

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

const (
	// flushEvery is how long events of a run wait for others, so that a busy program shares commits.
	flushEvery = 25 * time.Millisecond
	// What one run may put into the events of its task; its journal has everything.
	maxRunEvents = 5000
	maxRunBytes  = 4 << 20

	maxAbout = 120 // bytes of a call's arguments beside its name
)

// watcher turns what a run does into events, and adds up what its calls would have put into a model's context. The run
// never waits for it: a goroutine commits events while the run goes on.
type watcher struct {
	run    string
	now    func() time.Time
	commit func([]task.Event) error
	some   chan struct{} // holds a token when there is something to do
	stop   chan struct{}
	done   chan struct{}

	mu     sync.Mutex
	events []task.Event
	made   int // events
	bytes  int // of their data
	logs   int
	about  map[int]string // what file calls and tool calls are about
	tools  map[int]exchange

	lost error // why events could not be committed
}

// newWatcher begins to watch; end must be called.
func newWatcher(runID string, now func() time.Time, commit func([]task.Event) error) *watcher {
	w := &watcher{
		run: runID, now: now, commit: commit, some: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
		about: map[int]string{}, tools: map[int]exchange{},
	}
	go w.work()
	return w
}

// observe takes what the run does, in its goroutine.
func (w *watcher) observe(e run.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case e.Call != nil:
		c := e.Call
		w.event(task.EventCall, fmt.Sprintf("call/%d", c.N), map[string]any{
			"runId": w.run, "n": c.N, "kind": c.Kind, "name": c.Name, "args": bounded(c.Args, maxEventValue),
		})
		switch frame.Kind(c.Kind) {
		case frame.Tool:
			w.tools[c.N] = exchange{written: len(c.Name) + len(c.Args)}
			w.about[c.N] = clip(string(c.Args), maxAbout)
		case frame.FS:
			w.about[c.N] = pathOf(c.Args)
		}
	case e.Answer != nil:
		a := e.Answer
		data := map[string]any{"runId": w.run, "n": a.N, "ok": a.Error == nil}
		value := a.Value
		if a.Error != nil {
			data["error"], value = bounded(a.Error, maxEventValue), a.Error
		}
		w.event(task.EventAnswer, fmt.Sprintf("answer/%d", a.N), data)
		if call, ok := w.tools[a.N]; ok {
			call.read = len(value)
			w.tools[a.N] = call
		}
	case e.Log != nil:
		w.logs++
		w.event(task.EventLog, fmt.Sprintf("log/%d", w.logs), map[string]any{
			"runId": w.run, "level": e.Log.Level, "text": clip(e.Log.Text, maxEventValue),
		})
	}
	select {
	case w.some <- struct{}{}:
	default:
	}
}

// event adds an event, unless there are too many.
func (w *watcher) event(kind, key string, data any) {
	w.made++
	switch {
	case w.made > maxRunEvents || w.bytes > maxRunBytes:
		return
	case w.made == maxRunEvents:
		kind, key = task.EventLog, "full"
		data = map[string]any{
			"runId": w.run, "level": "warn",
			"text": fmt.Sprintf("the run does more than %d events tell of; `harness runs show %s` has everything", maxRunEvents, w.run),
		}
	}
	e := task.Event{Type: kind, Key: w.run + "/" + key, Time: w.now(), Data: encode(data)}
	w.bytes += len(e.Data)
	w.events = append(w.events, e)
}

// take is what waits to be committed.
func (w *watcher) take() []task.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	events := w.events
	w.events = nil
	return events
}

// work commits until end.
func (w *watcher) work() {
	defer close(w.done)
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-w.some:
		case <-w.stop:
			return
		}
		pause.Reset(flushEvery)
		select {
		case <-pause.C:
		case <-w.stop:
			return
		}
		if events := w.take(); len(events) > 0 {
			if w.lost = w.commit(events); w.lost != nil {
				return
			}
		}
	}
}

// end ends the watch when the run has returned. It gives the events that are not committed yet.
func (w *watcher) end() ([]task.Event, error) {
	close(w.stop)
	<-w.done
	return w.take(), w.lost
}

// direct is the run's part of what direct tool calls would have taken; end was called.
func (w *watcher) direct() task.Direct { return directOfRun(w.tools) }

// effects are an outcome's, with names that say more: which file, and, with args, the beginning of a tool call's arguments.
func (w *watcher) effects(out *run.Outcome, args bool) []run.Effect {
	effects := append([]run.Effect(nil), out.Effects...)
	for i, e := range effects {
		if what := w.about[e.Call]; what != "" && (args || e.Kind == string(frame.FS)) {
			effects[i].Name = e.Name + " " + what
		}
	}
	return effects
}

// pathOf is the file that a file call is about.
func pathOf(args json.RawMessage) string {
	var a struct{ Path, From, To string }
	if json.Unmarshal(args, &a) != nil {
		return ""
	}
	if a.From != "" {
		a.Path = a.From + " to " + a.To
	}
	return strings.Join(strings.Fields(clip(a.Path, 300)), " ")
}
