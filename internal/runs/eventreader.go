package runs

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"mcp-code-exec-harness/internal/journal"
)

// eventReader converts the records of a run into events.
type eventReader struct {
	calls calling
	lines int   // console lines so far
	after int64 // number of the last record that was read
	ended bool
}

func newEventReader() *eventReader {
	return &eventReader{calls: calling{lines: map[int]*Call{}, most: MaxCalls}}
}

// records returns the events of a page of records.
func (r *eventReader) records(page []journal.Record) (events []Event) {
	for _, one := range page {
		r.after = one.Seq
		r.calls.record(one)
		add := func(kind string, data any) { events = append(events, Event{one.Seq, kind, encode(data)}) }
		switch {
		case one.Call != nil:
			r.call(one.Call.N, add)
		case one.Intent != nil:
			r.call(one.Intent.N, add)
		case one.Answer != nil:
			r.call(one.Answer.N, add)
			delete(r.calls.lines, one.Answer.N) // no further event of the call follows
		case one.Log != nil:
			r.lines++
			add(EventLog, LogLine{r.lines, *one.Log})
		case one.End != nil:
			r.ended = true
			status := StatusLine{Status: one.End.Status}
			if one.End.Error != nil {
				status.Error, _ = errText(one.End.Error)
			}
			add(EventEnded, status)
		}
	}
	r.calls.order = r.calls.order[:0]
	return events
}

// call adds the event of a call.
func (r *eventReader) call(n int, add func(string, any)) {
	if line := r.calls.lines[n]; line != nil {
		line.Arguments, line.Result = nil, nil
		add(EventCall, line.CallLine)
	}
}

// encode returns data as JSON without line breaks. It panics if data cannot be encoded.
func encode(data any) json.RawMessage {
	text, err := journal.Encode(data)
	if err != nil {
		panic(err)
	}
	return text
}

// errStopped is the error of a watcher that wants no more events.
var errStopped = errors.New("stopped")

// catchUp yields the events from the journal with IDs above after, up to the ID to. It returns the ID up to which the watcher has the events. It reads
// the journal from the beginning, because only the first record of a call describes the call.
func (s *Service) catchUp(ctx context.Context, id string, after, to int64, yield func([]Event, error) bool) (int64, error) {
	for r := newEventReader(); r.after < to; {
		page, err := s.JournalPage(ctx, id, r.after, MaxPage)
		if err != nil {
			return after, err
		}
		if len(page) == 0 {
			return after, journal.ErrNotFound // the run was deleted meanwhile
		}
		events := slices.DeleteFunc(r.records(page), func(e Event) bool { return e.ID <= after || e.ID > to })
		if len(events) == 0 {
			continue
		}
		if !yield(events, nil) {
			return after, errStopped
		}
		after = events[len(events)-1].ID
	}
	return max(after, to), nil
}

// Console returns the console lines of a run so far.
func (s *Service) Console(ctx context.Context, id string) ([]journal.Log, error) {
	logs := []journal.Log{}
	for after := int64(0); ; {
		page, err := s.JournalPage(ctx, id, after, MaxPage)
		if err != nil || len(page) == 0 {
			return logs, err
		}
		for _, r := range page {
			if r.Log != nil {
				logs = append(logs, *r.Log)
			}
		}
		after = page[len(page)-1].Seq
	}
}
