package run_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/sandbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// guest is a program without an engine: a function that exchanges frames like a runner. It follows the protocol of the guest runtime: it takes one answer at
// a time, and sends an idle frame whenever nothing is left to do.
type guest struct {
	run    string
	in     chan *frame.Frame
	out    chan *frame.Frame
	dead   chan struct{}
	kill   sync.Once
	silent atomic.Int32 // number of further readings of the processor time that fail
	burns  atomic.Pointer[time.Time]
	used   time.Duration // processor time that earlier programs used
	stop   chan struct{} // closed by a cancel frame; a runner obeys such a frame whatever its guest does
	calls  int
	taken  int
	queue  []*frame.Frame // answers that came while the guest waited for a synchronous answer
}

// script is the behaviour of a guest. If it returns a frame, the program ends with that frame.
type script func(g *guest) *frame.Frame

var _ sandbox.Runner = (*guest)(nil)

func (s script) Start(context.Context) (sandbox.Runner, error) {
	g := &guest{in: make(chan *frame.Frame, 10_000), out: make(chan *frame.Frame), dead: make(chan struct{}), stop: make(chan struct{})}
	go func() {
		defer close(g.out)
		first := g.next()
		for first.T != frame.Start { // A runner without a program ignores all other frames.
			first = g.next()
		}
		g.run = first.Run
		if done := s(g); done != nil {
			done.T = frame.Done
			g.send(*done)
		}
	}()
	return g, nil
}

// worn is a runner that has executed other programs before.
type worn struct {
	script
	used time.Duration
}

func (s worn) Start(ctx context.Context) (sandbox.Runner, error) {
	r, err := s.script.Start(ctx)
	r.(*guest).used = s.used
	return r, err
}

func (script) Info() sandbox.Info { return sandbox.Info{Tier: "script"} }
func (script) Close() error       { return nil }

func (g *guest) Send(f *frame.Frame) error {
	if f.T == frame.Cancel {
		close(g.stop)
	}
	select {
	case g.in <- f:
		return nil
	case <-g.dead:
		return errors.New("the guest is dead")
	}
}

func (g *guest) Frames() <-chan *frame.Frame { return g.out }
func (g *guest) Err() error                  { return errors.New("the guest died") }
func (g *guest) Kill()                       { g.kill.Do(func() { close(g.dead) }) }
func (g *guest) Pid() int                    { return 1 }
func (g *guest) Freeze(bool) bool            { return true } // The guest continues to run; only its clock stops.

// CPU returns the processor time of earlier programs plus the time since the guest began to compute.
func (g *guest) CPU() (time.Duration, error) {
	if g.silent.Add(-1) >= 0 {
		return 0, errors.New("no meter")
	}
	if since := g.burns.Load(); since != nil {
		return g.used + time.Since(*since), nil
	}
	return g.used, nil
}

func (g *guest) send(f frame.Frame) {
	select {
	case <-g.stop:
		f = frame.Frame{T: frame.Done, Error: &frame.Error{Kind: "cancelled", Message: "interrupted", Stack: "where"}}
	default:
	}
	f.Run = g.run
	select {
	case g.out <- &f:
	case <-g.dead:
		runtime.Goexit()
	}
	if f.T == frame.Done {
		<-g.dead
		runtime.Goexit()
	}
}

func (g *guest) next() *frame.Frame {
	select {
	case f := <-g.in:
		return f
	case <-g.dead:
		runtime.Goexit()
		return nil
	}
}

// call makes a call and returns its number.
func (g *guest) call(kind frame.Kind, name, args string) int {
	g.calls++
	g.send(frame.Frame{T: frame.Call, ID: g.calls, Kind: kind, Name: name, Args: json.RawMessage(args)})
	return g.calls
}

// sync makes a synchronous call and waits for its answer.
func (g *guest) sync(kind frame.Kind, name, args string) *frame.Frame {
	g.calls++
	g.send(frame.Frame{T: frame.Call, ID: g.calls, Kind: kind, Name: name, Args: json.RawMessage(args), Sync: true})
	return g.waitFor(func(f *frame.Frame) bool { return f.ID == g.calls })
}

// take reports that the guest is idle, and returns the next answer.
func (g *guest) take() *frame.Frame {
	g.send(frame.Frame{T: frame.Idle, Taken: g.taken})
	g.taken++
	if len(g.queue) > 0 {
		f := g.queue[0]
		g.queue = g.queue[1:]
		return f
	}
	return g.waitFor(func(f *frame.Frame) bool { return !f.Sync })
}

// takeOf takes answers until it gets the answer to one call.
func (g *guest) takeOf(n int) *frame.Frame {
	for {
		if f := g.take(); f.ID == n {
			return f
		}
	}
}

func (g *guest) waitFor(fits func(*frame.Frame) bool) *frame.Frame {
	for {
		f := g.next()
		switch {
		case f.T == frame.Cancel:
			g.send(frame.Frame{T: frame.Done})
		case f.T == frame.Answer && fits(f):
			return f
		case f.T == frame.Answer:
			g.queue = append(g.queue, f)
		}
	}
}

func (g *guest) log(text string) { g.send(frame.Frame{T: frame.Log, Level: "log", Text: text}) }

// compute computes until it is interrupted.
func (g *guest) compute() { g.waitFor(func(*frame.Frame) bool { return false }) }

func value(text string) *frame.Frame { return &frame.Frame{Value: json.RawMessage(text)} }

// handler answers the calls with one name.
type handler func(ctx context.Context, c *journal.Call, call run.InFlight) (json.RawMessage, *frame.Error)

// gate answers calls by name, and records what it does. Calls of kind fs are serial.
type gate struct {
	mu       sync.Mutex
	did      []string
	handlers map[string]handler
}

func (g *gate) note(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.did = append(g.did, fmt.Sprintf(format, args...))
}

func (g *gate) notes() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string{}, g.did...)
}

func (g *gate) Serial(c *journal.Call) bool { return c.Kind == string(frame.FS) }

func (g *gate) Prepare(c *journal.Call, _ *journal.Intent) run.Pending {
	g.note("prepare %d", c.N)
	return func(ctx context.Context, call run.InFlight) (json.RawMessage, *frame.Error) {
		g.note("do %d", c.N)
		return g.handlers[c.Name](ctx, c, call)
	}
}

func (g *gate) on(name string, h handler) *gate {
	if g.handlers == nil {
		g.handlers = map[string]handler{}
	}
	g.handlers[name] = h
	return g
}

// echo answers with the arguments of the call.
func echo(_ context.Context, c *journal.Call, _ run.InFlight) (json.RawMessage, *frame.Error) {
	return c.Args, nil
}

// write records an intent, and answers true.
func write(ctx context.Context, c *journal.Call, call run.InFlight) (json.RawMessage, *frame.Error) {
	if err := call.Intend(ctx, journal.Intent{N: c.N, Key: "k"}); err != nil {
		return nil, &frame.Error{Kind: frame.KindTool, Name: "ToolError", Message: err.Error()}
	}
	return json.RawMessage("true"), nil
}

// hang answers with an error when the run ends.
func hang(ctx context.Context, _ *journal.Call, _ run.InFlight) (json.RawMessage, *frame.Error) {
	<-ctx.Done()
	return nil, &frame.Error{Kind: frame.KindCancelled, Name: "Error", Message: "the run ended"}
}

// memory holds the journal of the last run that was created.
type memory struct {
	mu      sync.Mutex
	seq     journal.Sequence
	records []journal.Record
	stored  int
	err     error
}

func (m *memory) Create(context.Context, string) (journal.Writer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seq, m.records, m.stored, m.err = journal.Sequence{}, nil, 0, nil
	return m, nil
}

func (m *memory) Append(r journal.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = cmp.Or(m.err, m.seq.Next(&r))
	m.records = append(m.records, r)
}

func (m *memory) Commit(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := cmp.Or(m.err, ctx.Err()); err != nil {
		return err
	}
	m.stored = len(m.records)
	return nil
}

func (m *memory) Close(ctx context.Context) error { return m.Commit(ctx) }

func (m *memory) Read(context.Context, string) ([]journal.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.records[:m.stored], nil
}

// world is what all runs of a test share.
type world struct {
	t        *testing.T
	store    memory
	gate     *gate
	limits   run.Limits
	privacy  pii.Session
	computed time.Duration
	turn     *run.Turn
	used     time.Duration // processor time that earlier programs of the runner used
	wrap     func(journal.Writer) journal.Writer
	ctx      context.Context
}

// bubble runs a test in a synctest bubble, where time advances only when all goroutines are blocked.
func bubble(t *testing.T, g *gate, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, &world{t: t, gate: g, ctx: t.Context(), wrap: func(w journal.Writer) journal.Writer { return w }})
	})
}

// roomy holds the values of the limits that a test does not set.
var roomy = run.Limits{
	Timeout: 30 * time.Second, MaxWall: 10 * time.Minute, Memory: 100 << 20, MaxOutput: 1 << 20, MaxLogLines: 10_000,
	MaxCalls: 1000, MaxHostCalls: 20_000, MaxInFlight: 100, MaxValue: 8 << 20,
}

func (w *world) spec() run.Spec {
	limits := roomy
	given, all := reflect.ValueOf(w.limits), reflect.ValueOf(&limits).Elem()
	for i := range all.NumField() {
		if v := given.Field(i); !v.IsZero() {
			all.Field(i).Set(v)
		}
	}
	return run.Spec{
		Start: journal.Start{Run: "run_x", Program: json.RawMessage(`{}`), Time: time.Now().UnixMicro()}, Limits: limits,
		Owner: "owner", Gate: w.gate, Now: time.Now, Privacy: w.privacy, Computed: w.computed, Turn: w.turn,
	}
}

func (w *world) execute(s script, spec run.Spec) (*run.Outcome, error) {
	pool := sandbox.NewPool(worn{s, w.used}, sandbox.PoolOptions{Size: 1, MaxRuns: 1})
	defer pool.Close()
	spec.Runners = pool
	return run.Execute(w.ctx, &spec)
}

// run executes a new run, and returns its outcome and its journal.
func (w *world) run(s script) (*run.Outcome, []journal.Record) {
	w.t.Helper()
	writer, err := w.store.Create(context.Background(), "run_x")
	if err != nil {
		w.t.Fatal(err)
	}
	spec := w.spec()
	spec.Journal = w.wrap(writer)
	out, err := w.execute(s, spec)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := writer.Close(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	records, err := w.store.Read(context.Background(), "run_x")
	if err != nil {
		w.t.Fatal(err)
	}
	if err := journal.Check(records); err != nil {
		w.t.Fatal(err)
	}
	return out, records
}

// replay executes records offline.
func (w *world) replay(s script, records []journal.Record) *run.Outcome {
	w.t.Helper()
	w.ctx = context.Background()
	spec := w.spec()
	spec.Start, spec.Records, spec.Offline = *records[0].Start, records, true
	out, err := w.execute(s, spec)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// resume continues a run from records, with the gate. It returns the outcome and the recorder of new records.
func (w *world) resume(s script, records []journal.Record) (*run.Outcome, *recorder) {
	w.t.Helper()
	spec := w.spec()
	r := &recorder{Writer: journal.Discard}
	spec.Start, spec.Records, spec.Journal = *records[0].Start, records, r
	out, err := w.execute(s, spec)
	if err != nil {
		w.t.Fatal(err)
	}
	return out, r
}

// recorder records what is appended.
type recorder struct {
	journal.Writer
	mu      sync.Mutex
	records []journal.Record
}

func (r *recorder) Append(record journal.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records = append(r.records, record)
}

// cut returns the records of a journal up to and including the first record for which fits returns true.
func cut(t *testing.T, records []journal.Record, fits func(journal.Record) bool) []journal.Record {
	t.Helper()
	for i, r := range records {
		if fits(r) {
			return records[:i+1]
		}
	}
	t.Fatal("no record fits")
	return nil
}

func kindOf(out *run.Outcome) string {
	if out.Error == nil {
		return ""
	}
	return out.Error.Kind
}
