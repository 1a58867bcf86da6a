package task

import (
	"context"
	"encoding/json"
	"iter"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// backlog is the maximum number of events in a watcher's queue. A watcher that is further behind reads the events from the store.
	backlog = 1024
	// lookAgain is the interval at which a watcher reads the store, because another process may work on the task.
	lookAgain = time.Second
	// page is the number of events that are read at once.
	page = 500
	// maxFollowed is the maximum number of watchers that get pieces of answers from other processes.
	maxFollowed = 64
)

// hub passes events on to the watchers in this process. The zero value is ready.
type hub struct {
	mu   sync.Mutex
	subs map[string]map[*subscriber]bool
}

// subscriber is the queue of a watcher.
type subscriber struct {
	mu     sync.Mutex
	queue  []Event       // stored events, and pieces of answers between them
	behind bool          // whether events were left out and have to be read from the store; the queue is then empty
	some   chan struct{} // holds a token while there is something to take
}

func (h *hub) subscribe(task string) (sub *subscriber, leave func()) {
	sub = &subscriber{some: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.subs == nil {
		h.subs = map[string]map[*subscriber]bool{}
	}
	if h.subs[task] == nil {
		h.subs[task] = map[*subscriber]bool{}
	}
	h.subs[task][sub] = true
	return sub, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.subs[task], sub)
		if len(h.subs[task]) == 0 {
			delete(h.subs, task)
		}
	}
}

// publish passes events on to the watchers of a task; no events means that the store has new ones.
func (h *hub) publish(task string, events []Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for sub := range h.subs[task] {
		sub.add(events)
	}
}

// publish passes events on to the watchers in this process and in others.
func (s *Service) publish(task string, events []Event) {
	s.hub.publish(task, events)
	if s.opt.Bus != nil {
		s.opt.Bus.Publish(task, events)
	}
}

func (s *subscriber) add(events []Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.behind:
	case len(events) == 0 || len(s.queue)+len(events) > backlog:
		s.queue, s.behind = nil, true
	default:
		s.queue = append(s.queue, events...)
	}
	wake(s.some)
}

func (s *subscriber) take() (events []Event, behind bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	events, behind = s.queue, s.behind
	s.queue, s.behind = nil, false
	return events, behind
}

// Events yields the events of a task after the event whose ID is the argument after: stored events exactly once and in order, and between them pieces
// of answers as they come. A watcher that resumes (after is above 0) first gets {reset: true}, because it may have missed pieces, or the process that
// sent them may have died. The sequence ends after the event that ended the task, or with an error. If ctx ends, the error is its cause.
func (s *Service) Events(ctx context.Context, id string, after int64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		sub, leave := s.hub.subscribe(id)
		defer leave()
		again := time.NewTicker(lookAgain)
		defer again.Stop()
		w := &watch{s: s, task: id, after: after, yield: yield, sub: sub}
		defer w.unfollow()
		more := w.read(ctx)
		if more && after > 0 {
			more = w.next(s.delta(json.RawMessage(`{"reset":true}`)))
		}
		for more {
			tick := false
			select {
			case <-sub.some:
			case <-again.C:
				tick = !s.worksOn(id) // the hub has all events of a task that this process works
			case <-ctx.Done():
				yield(Event{}, context.Cause(ctx))
				return
			}
			events, behind := sub.take() // passed on before read: the pieces of a turn come before the stored turn, which read may yield
			if more = w.pass(ctx, events); more && (behind || tick) {
				more = w.read(ctx)
			}
		}
	}
}

// Past returns a page of stored events of a task with IDs above after, in order. The page is empty if there are no more events.
func (s *Service) Past(ctx context.Context, id string, after int64) ([]Event, error) {
	return s.opt.Store.Events(ctx, id, after, page)
}

// watch is the state of a watcher.
type watch struct {
	s     *Service
	task  string
	after int64
	yield func(Event, error) bool
	sub   *subscriber
	stop  func() // stops following the task in another process; nil if it is not followed
}

// follow makes the watcher receive the pieces of answers of a task that another process works.
func (w *watch) follow(ctx context.Context, t Task) {
	s := w.s
	if w.stop != nil || s.opt.Bus == nil || t.Status != Running || s.worksOn(t.ID) {
		return
	}
	if s.following.Add(1) > maxFollowed {
		s.following.Add(-1)
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer s.following.Add(-1)
		err := s.opt.Bus.Follow(ctx, t.ID, func(events []Event) {
			if !s.worksOn(t.ID) { // the hub has all events of a task that this process works
				w.sub.add(events)
			}
		})
		if err != nil && ctx.Err() == nil {
			s.opt.Logger.Warn("follow a task of another process", "task", t.ID, "error", err)
		}
	})
	w.stop = func() { cancel(); wg.Wait() }
}

func (w *watch) unfollow() {
	if w.stop != nil {
		w.stop()
	}
}

// read passes on the new events in the store; it returns false if the watch has ended.
func (w *watch) read(ctx context.Context) bool {
	// The task is read before its events: if it has ended, all its events are stored.
	t, err := w.s.opt.Store.Task(ctx, w.task)
	w.follow(ctx, t)
	for err == nil {
		var events []Event
		if events, err = w.s.opt.Store.Events(ctx, w.task, w.after, page); err != nil {
			break
		}
		for _, e := range events {
			if !w.next(e) {
				return false
			}
		}
		if len(events) < page {
			return !t.Status.Ended() // an ended task has no further events
		}
	}
	w.yield(Event{}, err)
	return false
}

// pass passes on the events that came over the hub or the bus; it returns false if the watch has ended.
func (w *watch) pass(ctx context.Context, events []Event) bool {
	events = w.newer(events)
	for len(events) > 0 {
		e := events[0]
		events = events[1:]
		if e.Type == "" && (e.ID == 0 || e.ID > w.after) || e.ID > w.after+1 || e.After > w.after {
			if !w.read(ctx) {
				return false
			}
			events = w.newer(events)
		}
		switch {
		case e.Type == "", e.ID > 0 && e.ID <= w.after, e.ID == 0 && e.After > 0 && e.After < w.after: // read already passed on this event, or the turn of this piece
		case !w.next(e):
			return false
		}
	}
	return true
}

// newer drops the stored events that were already read from the store, and all pieces before them.
func (w *watch) newer(events []Event) []Event {
	for i := len(events) - 1; i >= 0; i-- {
		if id := events[i].ID; id > 0 && id <= w.after {
			return events[i+1:]
		}
	}
	return events
}

// next passes an event on; it returns false if the watch has ended.
func (w *watch) next(e Event) bool {
	if e.ID > 0 {
		w.after = e.ID
	}
	return w.yield(e, nil) && e.Type != EventEnded
}

// taskLog records what a worker does to one task.
type taskLog struct {
	s     *Service
	task  string
	fence int64
	last  atomic.Int64 // id of the last event that it stored
	mu    sync.Mutex   // makes events reach watchers in the order of their ids
}

var _ Log = (*taskLog)(nil)

func (l *taskLog) Commit(ctx context.Context, c Change) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	events, err := l.s.opt.Store.Commit(ctx, l.task, l.fence, c)
	if err == nil && len(events) > 0 {
		l.last.Store(events[len(events)-1].ID)
		l.s.publish(l.task, events)
	}
	return err
}

func (l *taskLog) Stream(data json.RawMessage) { l.tell(EventDelta, data) }

func (l *taskLog) Report(data json.RawMessage) { l.tell(EventProgress, data) }

// tell publishes an event that is not stored.
func (l *taskLog) tell(kind string, data json.RawMessage) {
	l.s.publish(l.task, []Event{{Type: kind, Time: l.s.opt.Now(), Data: data, After: l.last.Load()}})
}

func (s *Service) delta(data json.RawMessage) Event {
	return Event{Type: EventDelta, Time: s.opt.Now(), Data: data}
}
