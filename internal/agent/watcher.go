package agent

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

const (
	// flushEvery is the time that events of a run wait before they are committed, so that one commit stores several.
	flushEvery = 25 * time.Millisecond
	// Bounds of the events of one run; its journal has all details.
	maxRunEvents = 5000
	maxRunBytes  = 4 << 20

	maxAbout = 120 // maximum size in bytes of the arguments that follow the name of a call in an effect

	// reportEvery is the minimum interval between two progress reports of a call.
	reportEvery = 200 * time.Millisecond
)

// watcher turns the events of a run into events of the task, and adds up the sizes of tool calls. The run never waits for a commit.
type watcher struct {
	run     string
	now     func() time.Time
	commit  func([]task.Event) error
	stream  func(data json.RawMessage) // passes on reports, which are not stored
	flushes sync.WaitGroup             // counts the scheduled flush; at most one is scheduled

	mu      sync.Mutex
	timer   *time.Timer // starts the scheduled flush; nil if none is scheduled
	ended   bool
	lost    error // error of the last commit of events
	events  []task.Event
	reports []json.RawMessage // progress of calls in flight
	made    int               // number of events so far
	bytes   int               // size in bytes of the data of the events
	logs    int
	about   map[int]string    // path of a file call or arguments of a tool call, by number of the call
	told    map[int]time.Time // time of the last report, by number of the call
	tools   map[int]exchange
}

// newWatcher returns a watcher. The caller must call end.
func newWatcher(runID string, now func() time.Time, commit func([]task.Event) error) *watcher {
	return &watcher{run: runID, now: now, commit: commit, about: map[int]string{}, told: map[int]time.Time{}, tools: map[int]exchange{}}
}

// observe receives an event of the run, in the run's goroutine.
func (w *watcher) observe(e run.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case e.Call != nil:
		c := e.Call
		w.event(task.EventCall, fmt.Sprintf("call/%d", c.N), task.CallData{
			RunID: w.run, N: c.N, Kind: c.Kind, Name: c.Name, Args: bounded(c.Args, maxEventValue),
		})
		switch frame.Kind(c.Kind) {
		case frame.Tool:
			w.tools[c.N] = exchange{written: len(c.Name) + len(c.Args)}
			w.about[c.N] = clip.Counted(string(c.Args), maxAbout)
		case frame.FS:
			w.about[c.N] = pathOf(c.Args)
		}
	case e.Answer != nil:
		a := e.Answer
		data := task.AnswerData{RunID: w.run, N: a.N, OK: a.Error == nil}
		value := a.Value
		if a.Error != nil {
			data.Error, value = bounded(a.Error, maxEventValue), a.Error
		}
		data.Bytes = len(value)
		w.event(task.EventAnswer, fmt.Sprintf("answer/%d", a.N), data)
		if call, ok := w.tools[a.N]; ok {
			call.read = len(value)
			w.tools[a.N] = call
		}
	case e.Log != nil:
		w.logs++
		w.event(task.EventLog, fmt.Sprintf("log/%d", w.logs), task.LogData{RunID: w.run, Level: e.Log.Level, Text: clip.Counted(e.Log.Text, maxEventValue)})
	}
	w.schedule()
}

// report passes on the progress of a call; the event of the call is committed first. report leaves out the server's text, because personal data
// in that text is not hidden.
func (w *watcher) report(n int, p mcpclient.Progress) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	if now.Sub(w.told[n]) < reportEvery {
		return
	}
	w.told[n] = now
	w.reports = append(w.reports, encode(task.ProgressData{RunID: w.run, N: n, Progress: p.Progress, Total: p.Total}))
	w.schedule()
}

// event adds an event, unless there are too many.
func (w *watcher) event(kind, key string, data any) {
	w.made++
	switch {
	case w.made > maxRunEvents || w.bytes > maxRunBytes:
		return
	case w.made == maxRunEvents:
		kind, key = task.EventLog, "full"
		data = task.LogData{
			RunID: w.run, Level: "warn",
			Text: fmt.Sprintf("the run does more than %d events tell of; `harness runs show %s` has everything", maxRunEvents, w.run),
		}
	}
	e := task.Event{Type: kind, Key: w.run + "/" + key, Time: w.now(), Data: encode(data)}
	w.bytes += len(e.Data)
	w.events = append(w.events, e)
}

// schedule schedules a commit of the waiting events and reports. The caller holds mu.
func (w *watcher) schedule() {
	if w.timer == nil && len(w.events)+len(w.reports) > 0 && w.lost == nil && !w.ended {
		w.flushes.Add(1)
		w.timer = time.AfterFunc(flushEvery, w.flush)
	}
}

func (w *watcher) flush() {
	defer w.flushes.Done()
	events, reports := w.take()
	var err error
	if len(events) > 0 {
		err = w.commit(events)
	}
	for _, r := range reports {
		w.stream(r)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost, w.timer = err, nil
	w.schedule()
}

// take removes and returns the waiting events, which are to be committed, and the waiting reports.
func (w *watcher) take() (events []task.Event, reports []json.RawMessage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	events, reports = w.events, w.reports
	w.events, w.reports = nil, nil
	return events, reports
}

// end ends the watch after the run has returned. It returns the events that are not committed yet.
func (w *watcher) end() ([]task.Event, error) {
	w.mu.Lock()
	w.ended = true
	if w.timer != nil && w.timer.Stop() {
		w.flushes.Done()
	}
	w.mu.Unlock()
	w.flushes.Wait()
	events, _ := w.take()
	return events, w.lost
}

// effects returns the effects of an outcome. It appends the path to the name of each file call. If args is true, it appends the arguments to
// the name of each tool call.
func (w *watcher) effects(out *run.Outcome, args bool) []run.Effect {
	effects := append([]run.Effect(nil), out.Effects...)
	for i, e := range effects {
		if what := w.about[e.Call]; what != "" && (args || e.Kind == string(frame.FS)) {
			effects[i].Name = e.Name + " " + what
		}
	}
	return effects
}

// pathOf returns the path or paths in the arguments of a file call.
func pathOf(args json.RawMessage) string {
	var a struct{ Path, From, To string }
	if json.Unmarshal(args, &a) != nil {
		return ""
	}
	if a.From != "" {
		a.Path = a.From + " to " + a.To
	}
	return strings.Join(strings.Fields(clip.Counted(a.Path, 300)), " ")
}
