package journal

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// Memory is a Store without a disk, for runs that nobody asks for later. It keeps every run as long as it lives. The
// zero value is ready to use.
type Memory struct {
	mu   sync.Mutex
	runs map[string]*memoryRun
}

type memoryRun struct {
	records []Record // committed
	writer  *memoryWriter
}

var _ Store = (*Memory)(nil)

// Create implements Store.
func (m *Memory) Create(ctx context.Context, run string) (Writer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.runs[run] != nil {
		return nil, fmt.Errorf("create journal of %q: %w", run, ErrExists)
	}
	if m.runs == nil {
		m.runs = make(map[string]*memoryRun)
	}
	w := &memoryWriter{store: m, id: run}
	m.runs[run] = &memoryRun{writer: w}
	return w, nil
}

// Resume implements Store.
func (m *Memory) Resume(ctx context.Context, run string) (Writer, []Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.runs[run]
	if r == nil {
		return nil, nil, fmt.Errorf("resume %q: %w", run, ErrNotFound)
	}
	if r.writer != nil {
		return nil, nil, fmt.Errorf("resume %q: %w", run, ErrBusy)
	}
	seq, err := Continue(r.records)
	if err != nil {
		return nil, nil, fmt.Errorf("resume %q: %w", run, err)
	}
	if seq.Ended() {
		return nil, nil, fmt.Errorf("resume %q: %w", run, ErrEnded)
	}
	w := &memoryWriter{store: m, id: run, seq: seq}
	r.writer = w
	return w, slices.Clone(r.records), nil
}

// Read implements Store.
func (m *Memory) Read(ctx context.Context, run string) ([]Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.runs[run]
	if r == nil || len(r.records) == 0 {
		return nil, fmt.Errorf("read journal of %q: %w", run, ErrNotFound)
	}
	return slices.Clone(r.records), nil
}

type memoryWriter struct {
	store *Memory
	id    string

	mu      sync.Mutex // locked before store.mu
	seq     Sequence
	pending []Record
	err     error
	closed  bool
}

func (w *memoryWriter) Append(r Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return
	}
	if w.closed {
		w.err = fmt.Errorf("journal of %q: %w", w.id, ErrClosed)
		return
	}
	if err := w.seq.Next(&r); err != nil {
		w.err = fmt.Errorf("journal of %q: %w", w.id, err)
		return
	}
	w.pending = append(w.pending, r.clone())
}

// clone copies what r points to, so that the caller's further use of it changes nothing that was appended. The bytes of
// JSON values are shared: nobody changes those in place.
func (r Record) clone() Record {
	return Record{
		Seq: r.Seq, Start: copied(r.Start), Call: copied(r.Call), Intent: copied(r.Intent), Answer: copied(r.Answer),
		Log: copied(r.Log), End: copied(r.End),
	}
}

func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	c := *p
	return &c
}

func (w *memoryWriter) Commit(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.commit(ctx)
}

func (w *memoryWriter) commit(ctx context.Context) error {
	if w.err != nil {
		return w.err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(w.pending) == 0 {
		return nil
	}
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	run := w.store.runs[w.id]
	run.records = append(run.records, w.pending...)
	w.pending = w.pending[:0]
	return nil
}

func (w *memoryWriter) Close(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	err := w.commit(ctx)
	w.closed = true
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	if run := w.store.runs[w.id]; len(run.records) == 0 {
		delete(w.store.runs, w.id) // never begun: the id is free
	} else {
		run.writer = nil
	}
	return err
}

// Discard is a Writer that keeps nothing, for replays.
var Discard Writer = discard{}

type discard struct{}

func (discard) Append(Record)                {}
func (discard) Commit(context.Context) error { return nil }
func (discard) Close(context.Context) error  { return nil }
