package runs

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/journal"
)

// Types of events of a run.
const (
	EventCall   = "run.call"   // a call was made, sent or answered; its data are a CallLine
	EventLog    = "run.log"    // a console line; its data are a LogLine
	EventEnded  = "run.ended"  // the run has ended; its data are a StatusLine
	EventStatus = "run.status" // the run waits for a person, or continues; its data are a StatusLine
	EventBehind = "run.behind" // the watcher reads too slowly; its data are {"events": N}, and the events that it missed follow
)

// Event is something that happened in a run, without the values of calls.
type Event struct {
	ID   int64 // number of the event's record in the journal; 0 for EventStatus and EventBehind, which are not repeated
	Type string
	Data json.RawMessage // JSON without line breaks
}

// LogLine is a console line of a run.
type LogLine struct {
	N int `json:"line" doc:"Its number in the run, from 1."`
	journal.Log
}

// StatusLine is the status of a run.
type StatusLine struct {
	Status string `json:"status"`
	Error  string `json:"error,omitempty" doc:"The kind of its error."`
}

// BehindLine says that a watcher reads too slowly.
type BehindLine struct {
	Events int64 `json:"events" doc:"Number of events that it missed; they follow."`
}

// EventData has the type of each event's data.
var EventData = map[string]any{EventCall: CallLine{}, EventLog: LogLine{}, EventEnded: StatusLine{}, EventStatus: StatusLine{}, EventBehind: BehindLine{}}

const (
	feedEvents = 512                    // maximum number of events that a feed keeps for its watchers
	feedBytes  = 1 << 20                // maximum bytes of these events
	feedMost   = time.Second            // longest pause between two reads of the journal for a feed, while no records come
	feedLeast  = 200 * time.Millisecond // shortest pause, while records come
	// feedSpread, times the number of watchers, is the time over which a feed spreads what it has read, so that many watchers do not take all
	// processors at once.
	feedSpread = 5 * time.Millisecond
)

// feeds holds the feeds of watched runs. A run has one feed, which reads its journal once for all watchers. The zero value is ready.
type feeds struct {
	mu  sync.Mutex
	all map[string]*feed
}

// feed holds the newest events of a run. A watcher has a position in the feed and no queue of its own; a watcher that is behind the feed reads the
// journal itself.
type feed struct {
	watchers int // guarded by feeds.mu
	stop     context.CancelFunc

	mu      sync.Mutex
	events  []Event // never changed in place: watchers read parts of it
	bytes   int
	before  int64 // id of the last event that was dropped from events
	status  string
	err     error // error that ended the feed
	ended   bool
	changed chan struct{} // closed at the next change
}

// watch begins the use of the feed of a run; the caller calls leave to end it.
func (s *Service) watch(id string) (f *feed, leave func()) {
	s.feeds.mu.Lock()
	defer s.feeds.mu.Unlock()
	f = s.feeds.all[id]
	if f == nil {
		ctx, cancel := context.WithCancel(context.Background())
		f = &feed{stop: cancel, changed: make(chan struct{})}
		if s.feeds.all == nil {
			s.feeds.all = map[string]*feed{}
		}
		s.feeds.all[id] = f
		s.opening.Go(func() { s.read(ctx, id, f) })
	}
	f.watchers++
	return f, func() {
		s.feeds.mu.Lock()
		defer s.feeds.mu.Unlock()
		if f.watchers--; f.watchers == 0 {
			f.stop()
			delete(s.feeds.all, id)
		}
	}
}

// read fills a feed until the run has ended or has no watcher. It polls the store, because another process may execute the run, and polls more often
// while records come.
func (s *Service) read(ctx context.Context, id string, f *feed) {
	r := newEventReader()
	pause := time.NewTimer(0)
	defer pause.Stop()
	<-pause.C
	for wait := feedLeast; ; {
		page, err := s.JournalPage(ctx, id, r.after, MaxPage)
		var info journal.RunInfo
		if err == nil {
			info, err = stored(s, func(store Store) (journal.RunInfo, error) { return store.Run(ctx, id) })
		}
		events := r.records(page)
		if !info.Ended.IsZero() {
			info.Status = "" // The last event of the run reports its end.
		}
		if f.add(events, info.Status, err); err != nil || r.ended {
			return
		}
		switch {
		case len(page) > 0 && (len(page) >= MaxPage || !info.Ended.IsZero()): // The journal may have more records.
			continue
		case len(page) > 0:
			wait = feedLeast
		default:
			wait = min(wait*3/2, feedMost)
		}
		pause.Reset(wait)
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
	}
}

// add puts events at the end of a feed.
func (f *feed) add(events []Event, status string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(events) == 0 && status == f.status && err == nil {
		return
	}
	f.events = append(f.events, events...)
	for _, e := range events {
		f.bytes += len(e.Data)
		f.ended = f.ended || e.Type == EventEnded
	}
	for len(f.events) > feedEvents || f.bytes > feedBytes && len(f.events) > 1 {
		f.before = f.events[0].ID
		f.bytes -= len(f.events[0].Data)
		f.events = f.events[1:]
	}
	f.err = err
	if err == nil {
		f.status = status
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

// since returns the events of the feed with IDs above after, and the state of the feed. Events with IDs up to before have been dropped.
func (f *feed) since(after int64) (events []Event, before int64, status string, ended bool, changed <-chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, found := slices.BinarySearchFunc(f.events, after, func(e Event, id int64) int { return int(e.ID - id) })
	if found {
		i++
	}
	return f.events[i:len(f.events):len(f.events)], f.before, f.status, f.ended, f.changed, f.err
}

// Events yields the events of a run with IDs above after, exactly once and in order, several at a time. Between them it yields each new status of
// the run. The sequence ends after the end of the run, or with an error. If ctx ends, the error is its cause. Nothing is kept for a slow watcher.
func (s *Service) Events(ctx context.Context, id string, after int64) iter.Seq2[[]Event, error] {
	return func(yield func([]Event, error) bool) {
		f, leave := s.watch(id)
		defer leave()
		lately, live := "", false
		for {
			events, before, status, ended, changed, err := f.since(after)
			if before > after { // the feed has dropped events that the watcher has not received
				if live && !yield([]Event{{Type: EventBehind, Data: encode(BehindLine{before - after})}}, nil) {
					return
				}
				if after, err = s.catchUp(ctx, id, after, before, yield); err != nil {
					if !errors.Is(err, errStopped) {
						yield(nil, err)
					}
					return
				}
				continue
			}
			if len(events) > 0 {
				after = events[len(events)-1].ID
			}
			if status != lately && status != "" && !ended {
				lately = status
				events = append(events, Event{Type: EventStatus, Data: encode(StatusLine{Status: status})})
			}
			if len(events) > 0 && !yield(events, nil) {
				return
			}
			if err != nil {
				yield(nil, err)
			}
			if err != nil || ended {
				return
			}
			live = true
			select {
			case <-changed:
				s.spread(ctx, f)
			case <-ctx.Done():
				yield(nil, context.Cause(ctx))
				return
			}
		}
	}
}

// spread pauses a watcher of a feed for a random time, so that not all of its watchers continue at once.
func (s *Service) spread(ctx context.Context, f *feed) {
	s.feeds.mu.Lock()
	most := min(feedMost, time.Duration(f.watchers-1)*feedSpread)
	s.feeds.mu.Unlock()
	if most <= 0 {
		return
	}
	select {
	case <-time.After(rand.N(most)):
	case <-ctx.Done():
	}
}
