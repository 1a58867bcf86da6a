package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/sandbox"
	"mcp-code-exec-harness/internal/slots"
	"mcp-code-exec-harness/internal/testing/generated"
)

// detaching returns the configuration with which runs give up their runners after the given wait.
func (w *world) detaching(after time.Duration, places int) *run.Detach {
	return &run.Detach{
		After: after, Places: slots.New(slots.Limits{All: places, Each: places}, "calls", "answered"), Forget: func() {},
		Recall: func(ctx context.Context) ([]journal.Record, error) { return w.store.Read(ctx, "run_x") },
	}
}

// counted counts how often a program starts.
func counted(s script, starts *atomic.Int32) script {
	return func(g *guest) *frame.Frame {
		starts.Add(1)
		return s(g)
	}
}

// slow answers with the arguments of the call after the number of milliseconds in them.
func slow(ctx context.Context, c *journal.Call, _ run.InFlight) (json.RawMessage, *frame.Error) {
	var args struct{ MS float64 }
	if err := json.Unmarshal(c.Args, &args); err != nil {
		panic(err)
	}
	select {
	case <-time.After(time.Duration(args.MS * float64(time.Millisecond))):
		return c.Args, nil
	case <-ctx.Done():
		return nil, &frame.Error{Kind: frame.KindCancelled, Name: "Error", Message: "the run ended"}
	}
}

// wander is a program whose calls and output depend on the order of its answers, on their values and on the clock.
func wander(seed uint64, asks bool) script {
	return func(g *guest) *frame.Frame {
		rng := rand.New(rand.NewPCG(seed, 1))
		pending, hash := 0, uint64(0)
		more := func() {
			for range rng.IntN(3) {
				if g.calls > 25 {
					return
				}
				// No two calls are due at the same time, because their order would be random on any runner.
				ms := fmt.Sprintf(`{"ms":%g}`, rng.Float64()*100_000)
				switch kind := rng.IntN(8); {
				case kind < 3:
					g.call(frame.Timer, "", ms)
				case kind == 3:
					hash = hash*31 + uint64(g.sync(frame.Intl, "echo", ms).Now)
					continue
				case kind == 4 && asks:
					g.call(frame.Tool, "ask", ms)
				case kind == 5:
					g.call(frame.FS, "write", ms)
				default:
					g.call(frame.Tool, "slow", ms)
				}
				pending++
			}
		}
		for g.calls < 3 {
			more()
		}
		for pending > 0 {
			f := g.take()
			pending--
			hash = hash*31 + uint64(f.Now)*7 + uint64(f.ID)
			g.log(fmt.Sprintf("%d at %d", f.ID, f.Now))
			more()
		}
		return value(fmt.Sprint(hash))
	}
}

// A run that gives up its runner many times has the same journal, outcome and events as a run that keeps its runner.
func TestDetachChangesNothing(t *testing.T) {
	t.Parallel()
	first, detached := generated.Seed(t), 0
	for i := range uint64(generated.Count(200, 5000)) {
		seed := first + i
		execute := func(detach bool) (out *run.Outcome, records []journal.Record, seen []string, starts int32) {
			synctest.Test(t, func(t *testing.T) {
				ask := func(ctx context.Context, c *journal.Call, call run.InFlight) (json.RawMessage, *frame.Error) {
					_, _ = slow(ctx, c, nil)
					return nil, call.Ask(approval.Call{Tool: c.Name})
				}
				w := &world{
					t: t, ctx: t.Context(), wrap: func(w journal.Writer) journal.Writer { return w },
					gate: new(gate).on("slow", slow).on("ask", ask).on("echo", echo),
				}
				w.gate.on("write", func(ctx context.Context, c *journal.Call, call run.InFlight) (json.RawMessage, *frame.Error) {
					_, _ = slow(ctx, c, nil)
					return write(ctx, c, call)
				})
				w.limits.MaxWall = 24 * time.Hour
				writer, err := w.store.Create(t.Context(), "run_x")
				if err != nil {
					t.Fatal(err)
				}
				spec := w.spec()
				spec.Journal = writer
				spec.Observe = func(e run.Event) { seen = append(seen, fmt.Sprintf("%+v", flat(e))) }
				spec.Suspend = func(context.Context, run.Suspension) (*approval.Request, error) {
					return nil, &run.RefusedError{Answer: &frame.Error{Kind: frame.KindDenied, Name: "DeniedError", Message: "nobody is there"}}
				}
				if detach {
					spec.Detach = w.detaching(time.Millisecond, 100)
				}
				var n atomic.Int32
				if out, err = w.execute(counted(wander(seed, true), &n), spec); err != nil {
					t.Fatal(err)
				}
				records, starts = w.store.records, n.Load()
			})
			return out, records, seen, starts
		}
		out, records, seen, starts := execute(false)
		again, kept, seenAgain, startsAgain := execute(true)
		if starts != 1 {
			t.Fatalf("the program started %d times", starts)
		}
		if startsAgain > 2 {
			detached++
		}
		if !reflect.DeepEqual(out, again) || out.Error != nil {
			t.Errorf("outcomes differ: %+v (%+v) and %+v (%+v)", out, out.Error, again, again.Error)
		}
		if a, b := lines(records), lines(kept); a != b {
			t.Errorf("journals differ:\n%s\n%s", a, b)
		}
		if !slices.Equal(seen, seenAgain) {
			t.Errorf("events differ:\n%v\n%v", seen, seenAgain)
		}
		if err := journal.Check(kept); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Fatalf("with seed %d", seed)
		}
	}
	if detached == 0 {
		t.Error("no run gave up its runner twice")
	}
}

// flat returns the values that the fields of an event point to.
func flat(e run.Event) (all []any) {
	if e.Call != nil {
		all = append(all, *e.Call)
	}
	if e.Answer != nil {
		all = append(all, *e.Answer)
	}
	if e.Log != nil {
		all = append(all, *e.Log)
	}
	return all
}

// lines returns a journal as text.
func lines(records []journal.Record) string {
	var b strings.Builder
	for _, r := range records {
		text, _ := json.Marshal(r)
		b.Write(append(text, '\n'))
	}
	return b.String()
}

// detached executes a program that may give up its runner, and returns how often the program started.
func (w *world) detached(ctx context.Context, s script, change func(*run.Spec)) (out *run.Outcome, starts int32, err error) {
	w.t.Helper()
	writer, err := w.store.Create(ctx, "run_x")
	if err != nil {
		w.t.Fatal(err)
	}
	spec := w.spec()
	spec.Journal, spec.Detach = writer, w.detaching(time.Second, 100)
	if change != nil {
		change(&spec)
	}
	var n atomic.Int32
	w.ctx = ctx
	out, err = w.execute(counted(s, &n), spec)
	return out, n.Load(), err
}

// A run keeps its runner if a replay would take too long, or if its owner has no places left.
func TestDetachKeeps(t *testing.T) {
	t.Parallel()
	large := `{"ms":5000,"text":"` + strings.Repeat("x", 64<<10) + `"}`
	one := func(args string) script {
		return func(g *guest) *frame.Frame {
			g.takeOf(g.call(frame.Tool, "slow", args))
			return value(`1`)
		}
	}
	for name, c := range map[string]struct {
		program script
		change  func(*run.Spec)
		starts  int32
	}{
		"gives it up":    {one(`{"ms":5000}`), nil, 2},
		"quick answer":   {one(`{"ms":900}`), nil, 1},
		"large argument": {one(large), nil, 1},
		"no place":       {one(`{"ms":5000}`), func(s *run.Spec) { s.Detach.Places.TryAcquire(s.Owner, 100) }, 1},
		"has computed": {func(g *guest) *frame.Frame {
			time.Sleep(600 * time.Millisecond)
			return one(`{"ms":5000}`)(g)
		}, nil, 1},
		"has computed less": {func(g *guest) *frame.Frame {
			time.Sleep(400 * time.Millisecond)
			return one(`{"ms":5000}`)(g)
		}, nil, 2},
		"has made many calls": {func(g *guest) *frame.Frame {
			for range 5000 {
				g.sync(frame.Intl, "echo", `{}`)
			}
			return one(`{"ms":4900}`)(g)
		}, nil, 1},
		"many bytes": {func(g *guest) *frame.Frame {
			g.sync(frame.Intl, "echo", `"`+strings.Repeat("x", 3<<20)+`"`)
			return one(`{"ms":5000}`)(g)
		}, nil, 1},
		"file": {func(g *guest) *frame.Frame {
			g.call(frame.FS, "slow", `{"ms":5000}`)
			return one(`{"ms":4000}`)(g)
		}, nil, 1},
		"blocked": {func(g *guest) *frame.Frame {
			g.sync(frame.Intl, "slow", `{"ms":5000}`)
			return value(`1`)
		}, nil, 1},
		"timer": {func(g *guest) *frame.Frame {
			g.takeOf(g.call(frame.Timer, "", `{"ms":5000}`))
			return value(`1`)
		}, nil, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, new(gate).on("slow", slow).on("echo", echo), func(t *testing.T, w *world) {
				out, starts, err := w.detached(t.Context(), c.program, c.change)
				if err != nil || out.Error != nil || starts != c.starts {
					t.Errorf("%d starts, want %d; %+v, %v", starts, c.starts, out.Error, err)
				}
			})
		})
	}
}

// A run takes a place for each call in flight, and gives them back.
func TestDetachPlaces(t *testing.T) {
	t.Parallel()
	program := func(g *guest) *frame.Frame {
		g.call(frame.Timer, "", `{"ms":8500}`)
		g.call(frame.Tool, "slow", `{"ms":5000}`)
		g.takeOf(g.call(frame.Tool, "slow", `{"ms":8000}`))
		g.take()
		return value(`1`)
	}
	bubble(t, new(gate).on("slow", slow), func(t *testing.T, w *world) {
		detach := w.detaching(time.Second, 3)
		held := make(chan int, 2)
		for _, at := range []time.Duration{4, 7} {
			time.AfterFunc(at*time.Second, func() { held <- detach.Places.Held("owner") })
		}
		out, starts, err := w.detached(t.Context(), program, func(s *run.Spec) { s.Detach = detach })
		if err != nil || out.Error != nil || starts != 3 {
			t.Errorf("%d starts; %+v, %v", starts, out, err)
		}
		if a, b, c := <-held, <-held, detach.Places.Held("owner"); a != 2 || b != 1 || c != 0 {
			t.Errorf("held %d, %d, and %d in the end", a, b, c)
		}
	})
}

// A run without a runner ends like a run with one: its limits and its caller can end it, and the outcome has everything that it printed.
func TestDetachEndings(t *testing.T) {
	t.Parallel()
	program := func(g *guest) *frame.Frame {
		g.log("one")
		g.takeOf(g.call(frame.Tool, "echo", `{}`))
		g.log("two")
		g.takeOf(g.call(frame.Tool, "hang", `{}`))
		return value(`1`)
	}
	shutdown := fmt.Errorf("shutdown: %w", run.ErrHandedOver)
	for name, c := range map[string]struct {
		cause  error
		wall   time.Duration
		status string
		kind   string
	}{
		"cancelled":   {errors.New("cancelled"), time.Hour, run.Cancelled, frame.KindCancelled},
		"wall":        {nil, 10 * time.Second, run.Failed, frame.KindTimeout},
		"handed over": {shutdown, time.Hour, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, new(gate).on("hang", hang).on("echo", echo), func(t *testing.T, w *world) {
				w.limits = run.Limits{MaxWall: c.wall}
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if c.cause != nil {
					time.AfterFunc(10*time.Second, func() { cancel(c.cause) })
				}
				began := time.Now()
				out, starts, err := w.detached(ctx, program, nil)
				if took := time.Since(began); took != 10*time.Second || starts != 1 {
					t.Errorf("it ended after %s, %d starts", took, starts)
				}
				if c.status == "" {
					if last := w.store.records[len(w.store.records)-1]; !errors.Is(err, run.ErrHandedOver) || last.End != nil {
						t.Errorf("it ended as %+v, %v, with %+v", out, err, last)
					}
					return
				}
				if err != nil || out.Status != c.status || kindOf(out) != c.kind || out.Calls != 2 || len(out.Logs) != 2 {
					t.Fatalf("it ended as %+v, %+v, %v", out, out.Error, err)
				}
				again, err := run.Recorded(w.store.records)
				if err != nil || !reflect.DeepEqual(again, out) {
					t.Errorf("recorded is %+v, %v; want %+v", again, err, out)
				}
			})
		})
	}
}

// The time that a program computes during its replay is not charged again. The time that it computes afterwards is charged.
func TestDetachCharges(t *testing.T) {
	t.Parallel()
	program := func(last time.Duration) script {
		return func(g *guest) *frame.Frame {
			for range 4 {
				time.Sleep(200 * time.Millisecond)
				g.takeOf(g.call(frame.Tool, "slow", `{"ms":20000}`))
			}
			time.Sleep(last)
			return value(`1`)
		}
	}
	for last, kind := range map[time.Duration]string{100 * time.Millisecond: "", 300 * time.Millisecond: frame.KindTimeout} {
		bubble(t, new(gate).on("slow", slow), func(t *testing.T, w *world) {
			w.limits = run.Limits{Timeout: time.Second}
			out, starts, err := w.detached(t.Context(), program(last), nil)
			if err != nil || kindOf(out) != kind || starts != 5 {
				t.Errorf("with %s: %d starts, %+v, %v", last, starts, out.Error, err)
			}
		})
	}
}

// When several answers come together while the run has no runner, the program's computing after each of them is charged.
func TestDetachChargesEachAnswer(t *testing.T) {
	t.Parallel()
	program := func(g *guest) *frame.Frame {
		for range 3 {
			g.call(frame.Timer, "", `{"ms":20000}`)
		}
		for range 3 {
			g.take()
			time.Sleep(400 * time.Millisecond)
		}
		return value(`1`)
	}
	bubble(t, new(gate), func(t *testing.T, w *world) {
		w.limits = run.Limits{Timeout: time.Second}
		out, starts, err := w.detached(t.Context(), program, nil)
		if err != nil || kindOf(out) != frame.KindTimeout || starts != 2 {
			t.Errorf("%d starts, %+v, %v", starts, out.Error, err)
		}
	})
}

// A run that waits for an approval and for slow calls suspends once the slow calls are answered.
func TestDetachForApproval(t *testing.T) {
	t.Parallel()
	program := func(g *guest) *frame.Frame {
		g.call(frame.Timer, "", `{"ms":100000}`)
		g.call(frame.Tool, "ask", `{}`)
		g.call(frame.Tool, "slow", `{"ms":5000}`)
		g.take()
		g.log("answered")
		g.take()
		return value(`1`)
	}
	ask := func(ctx context.Context, c *journal.Call, call run.InFlight) (json.RawMessage, *frame.Error) {
		return nil, call.Ask(approval.Call{Tool: c.Name})
	}
	late := func(ctx context.Context, c *journal.Call, call run.InFlight) (json.RawMessage, *frame.Error) {
		_, _ = slow(ctx, c, nil)
		return nil, call.Ask(approval.Call{Tool: c.Name})
	}
	for name, h := range map[string]handler{"answered": slow, "asks, too": late} {
		bubble(t, new(gate).on("slow", h).on("ask", ask), func(t *testing.T, w *world) {
			var p run.Suspension
			out, starts, err := w.detached(t.Context(), program, func(s *run.Spec) {
				s.Suspend = func(_ context.Context, suspension run.Suspension) (*approval.Request, error) {
					p = suspension
					return &approval.Request{ID: "apr_x"}, nil
				}
			})
			if err != nil || out.Status != run.WaitingApproval || out.Approval.ID != "apr_x" || out.Calls != 2 || p.Made != 2 {
				t.Fatalf("%s: %+v, %v, %+v", name, out, err, p)
			}
			left := map[int]time.Duration{1: 95 * time.Second}
			if !reflect.DeepEqual(p.Resume.Timers, left) || p.Resume.Elapsed != 5*time.Second {
				t.Errorf("%s: it goes on from %+v", name, p.Resume)
			}
			if answered := name == "answered"; answered && (starts != 2 || len(p.Calls) != 1 || len(out.Logs) != 1) ||
				!answered && (starts != 1 || len(p.Calls) != 2) {
				t.Errorf("%s: %d starts, asks %+v, logs %v", name, starts, p.Calls, out.Logs)
			}
		})
	}
}

// flaky is a sandbox whose runners do not start between two times.
type flaky struct {
	script
	from, to time.Time
}

func (s flaky) Start(ctx context.Context) (sandbox.Runner, error) {
	if now := time.Now(); now.After(s.from) && now.Before(s.to) {
		return nil, errors.New("no memory for a runner")
	}
	return s.script.Start(ctx)
}

// A run without a runner survives a time in which no runner starts. Answers that come in that time are delivered in their order.
func TestDetachWithoutRunners(t *testing.T) {
	t.Parallel()
	program := func(g *guest) *frame.Frame {
		g.call(frame.Tool, "slow", `{"ms":7000}`)
		g.call(frame.Tool, "slow", `{"ms":5000}`)
		g.call(frame.Timer, "", `{"ms":6000}`)
		var order []int
		for range 3 {
			order = append(order, g.take().ID)
		}
		return value(fmt.Sprintf("%q", fmt.Sprint(order)))
	}
	bubble(t, new(gate).on("slow", slow), func(t *testing.T, w *world) {
		writer, err := w.store.Create(t.Context(), "run_x")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		pool := sandbox.NewPool(flaky{program, began.Add(time.Second), began.Add(10 * time.Second)}, sandbox.PoolOptions{Size: 1, MaxRuns: 1})
		defer pool.Close()
		spec := w.spec()
		spec.Journal, spec.Detach, spec.Runners = writer, w.detaching(time.Second, 100), pool
		out, err := run.Execute(t.Context(), &spec)
		if err != nil || string(out.Output) != `"[2 3 1]"` {
			t.Errorf("%+v, %v", out, err)
		}
		if took := time.Since(began); took < 10*time.Second || took > 12*time.Second {
			t.Errorf("it took %s", took)
		}
		for i, r := range w.store.records {
			if r.Answer != nil && r.Answer.N == 1 && time.UnixMicro(r.Answer.Now).Sub(began) != 7*time.Second {
				t.Errorf("record %d: %+v", i, r.Answer)
			}
		}
	})
}

// A run that gave up its runner fails with the reason if no runner starts for a minute. A run that has never had a runner fails at once.
func TestDetachNoRunnerStarts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from  time.Duration // time from which no runner starts
		only  *run.Only
		least time.Duration // minimum duration of the run
	}{
		"had one":       {time.Second, nil, 65 * time.Second},
		"never had one": {0, &run.Only{Name: "slow", Args: []byte(`{"ms":5000}`)}, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program := func(g *guest) *frame.Frame {
				g.takeOf(g.call(frame.Tool, "slow", `{"ms":5000}`))
				return value(`1`)
			}
			refused := func(ctx context.Context, c *journal.Call, call run.InFlight) (json.RawMessage, *frame.Error) {
				_, _ = slow(ctx, c, call)
				return nil, &frame.Error{Kind: frame.KindTool, Name: "ToolError", Message: "no"}
			}
			g := new(gate).on("slow", slow)
			if c.only != nil {
				g = new(gate).on("slow", refused)
			}
			bubble(t, g, func(t *testing.T, w *world) {
				writer, err := w.store.Create(t.Context(), "run_x")
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				pool := sandbox.NewPool(flaky{program, began.Add(c.from - 1), began.Add(time.Hour)}, sandbox.PoolOptions{Size: 1, MaxRuns: 1})
				defer pool.Close()
				spec := w.spec()
				spec.Journal, spec.Detach, spec.Runners, spec.Only = writer, w.detaching(time.Second, 100), pool, c.only
				out, err := run.Execute(t.Context(), &spec)
				if err == nil || !strings.Contains(err.Error(), "get a runner: ") || !strings.Contains(err.Error(), "no memory for a runner") {
					t.Errorf("%+v, %v", out, err)
				}
				if took := time.Since(began); took < c.least || took > c.least+5*time.Second {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

// A run that has a runner again but cannot read its journal fails with the reason.
func TestDetachJournalAway(t *testing.T) {
	t.Parallel()
	program := func(g *guest) *frame.Frame {
		g.takeOf(g.call(frame.Tool, "slow", `{"ms":5000}`))
		return value(`1`)
	}
	bubble(t, new(gate).on("slow", slow), func(t *testing.T, w *world) {
		away := errors.New("the database restarts")
		out, _, err := w.detached(t.Context(), program, func(s *run.Spec) {
			s.Detach.Recall = func(context.Context) ([]journal.Record, error) { return nil, away }
		})
		if !errors.Is(err, away) {
			t.Errorf("%+v, %v", out, err)
		}
	})
}
