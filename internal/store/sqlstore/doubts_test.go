package sqlstore

import (
	"encoding/json"
	"errors"
	"testing"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/testing/journaltest"
)

// A doubt is stored even if its transaction is rolled back, because another change fails, and repeated.
func TestDoubtOfARepeatedTransaction(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{})
	created, err := s.Create(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	w := created.(*runWriter)
	for _, r := range []journal.Record{startAt("a", 10), journaltest.Call(1), journaltest.Intent(1)} {
		w.Append(r)
	}
	if err := w.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	lost := journaltest.Answer(1)
	lost.Answer.Error = json.RawMessage(`{"kind":"in_doubt"}`)
	w.Append(lost)
	rows := w.pending
	w.pending = nil
	applied := 0
	if err := s.writer.ride(&change{done: make(chan struct{}), apply: func(c *conn) { // like the apply function of schedule
		before := w.progress
		c.undo = append(c.undo, func() { w.progress = before })
		applied++
		w.store(c, rows, 0, nil, nil, nil)
	}}); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("it fails")
	if err := s.write(t.Context(), 0, func(c *conn) { c.fail(refused) }); !errors.Is(err, refused) {
		t.Fatalf("the other change: %v", err)
	}
	doubts, _, err := s.Doubts(t.Context(), journal.DoubtFilter{})
	if err != nil || len(doubts) != 1 || applied != 2 {
		t.Errorf("applied %d times, in doubt: %+v, %v", applied, doubts, err)
	}
}
