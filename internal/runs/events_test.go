package runs

import (
	"context"
	"slices"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/journal"
)

// endingStore is a store with a run that ends while its journal is read: after the first page was read, and before the run's status is read.
type endingStore struct {
	Store
	records []journal.Record
	first   int // number of records of the first page
	info    journal.RunInfo
	told    chan struct{} // closed when the events of the first page have arrived
}

func (s endingStore) ReadPage(ctx context.Context, _ string, after int64, _, _ int) ([]journal.Record, error) {
	if after == 0 {
		return s.records[:s.first], nil
	}
	select {
	case <-s.told:
	case <-ctx.Done():
	}
	return s.records[after:], nil
}

func (s endingStore) Run(context.Context, string) (journal.RunInfo, error) { return s.info, nil }

// A watcher of a run that ends gets the end after all other events, and not with the status that is read before them.
func TestEventsOfEnd(t *testing.T) {
	t.Parallel()
	store := endingStore{told: make(chan struct{}), first: 2, info: journal.RunInfo{Status: "succeeded", Ended: time.Now()}, records: []journal.Record{
		{Seq: 1, Start: &journal.Start{}}, {Seq: 2, Log: &journal.Log{}}, {Seq: 3, Log: &journal.Log{}}, {Seq: 4, End: &journal.End{Status: "succeeded"}},
	}}
	s := New(Options{Store: func() (Store, error) { return store, nil }})
	var kinds []string
	for events, err := range s.Events(t.Context(), "run_1", 0) {
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if kinds = append(kinds, e.Type); len(kinds) == 1 {
				close(store.told)
			}
		}
	}
	if want := []string{EventLog, EventLog, EventEnded}; !slices.Equal(kinds, want) {
		t.Errorf("got %q, want %q", kinds, want)
	}
}
