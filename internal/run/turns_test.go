package run_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/run"
)

// program is a program that computes without a pause.
type program struct {
	name     string
	turn     *run.Turn
	frozen   atomic.Bool
	stubborn bool // reports that the system cannot freeze the program
}

func (p *program) Freeze(stop bool) bool {
	p.frozen.Store(stop && !p.stubborn)
	return !p.stubborn
}

// computes reports whether the program has a processor.
func (p *program) computes() bool {
	synctest.Wait()
	if p.frozen.Load() { // A frozen program does not request a processor.
		return false
	}
	select {
	case <-p.turn.Granted():
		return true
	default:
		return p.turn.Compute()
	}
}

func computing(all ...*program) (names []string) {
	for _, p := range all {
		if p.computes() {
			names = append(names, p.name)
		}
	}
	return names
}

func turnsOf(t *testing.T, n int, f func(t *testing.T, join func(owner, name string) *program)) {
	synctest.Test(t, func(t *testing.T) {
		turns := run.NewTurns(n)
		f(t, func(owner, name string) *program {
			p := &program{name: name, turn: turns.Join(owner)}
			p.turn.Bind(p)
			p.turn.Compute()
			return p
		})
	})
}

func wantComputing(t *testing.T, when string, want []string, all ...*program) {
	t.Helper()
	if got := computing(all...); !slices.Equal(got, want) {
		t.Errorf("%s: %v compute, want %v", when, got, want)
	}
}

// The programs of one owner take all processors. When a program of another owner waits, one of them loses its processor at the end of its turn. For some time
// afterwards, the owner gets all processors but one.
func TestTurnsOfAGreedyOwner(t *testing.T) {
	t.Parallel()
	turnsOf(t, 2, func(t *testing.T, join func(owner, name string) *program) {
		a, b, c := join("greedy", "a"), join("greedy", "b"), join("greedy", "c")
		all := []*program{a, b, c}
		wantComputing(t, "alone", []string{"a", "b"}, all...)
		time.Sleep(10 * time.Millisecond)
		short := join("bob", "short")
		all = append(all, short)
		wantComputing(t, "when another comes", []string{"b", "short"}, all...)
		short.turn.Rest()
		wantComputing(t, "when the other rests", []string{"b"}, a, b, c)
		time.Sleep(45 * time.Millisecond)
		wantComputing(t, "after the turn of b", []string{"c"}, a, b, c)
		time.Sleep(45 * time.Millisecond)
		wantComputing(t, "after the turn of c", []string{"a"}, a, b, c)
		if lost := a.turn.Frozen(); lost != 90*time.Millisecond {
			t.Errorf("a was frozen for %s", lost)
		}
		time.Sleep(10 * time.Millisecond)
		wantComputing(t, "when the other has rested for long", []string{"a", "b"}, a, b, c)
		for _, p := range all {
			p.turn.Rest()
			if p.frozen.Load() {
				t.Errorf("%s is frozen at its end", p.name)
			}
		}
	})
}

// A program loses its processor after 5 ms to an owner that has none, and after 50 ms to any other owner.
func TestTurnsLength(t *testing.T) {
	t.Parallel()
	turnsOf(t, 2, func(t *testing.T, join func(owner, name string) *program) {
		a, b := join("greedy", "a"), join("greedy", "b")
		c := join("bob", "c")
		wantComputing(t, "at once", []string{"a", "b"}, a, b, c)
		time.Sleep(5 * time.Millisecond)
		wantComputing(t, "after 5 ms", []string{"b", "c"}, a, b, c)
		d := join("cid", "d")
		time.Sleep(40 * time.Millisecond)
		wantComputing(t, "after 45 ms", []string{"b", "c"}, a, b, c, d)
		time.Sleep(5 * time.Millisecond)
		wantComputing(t, "after 50 ms", []string{"c", "d"}, a, b, c, d)
	})
}

// A process that cannot be frozen continues to compute when its turn is over, and the next program begins.
func TestTurnsWithoutFreezing(t *testing.T) {
	t.Parallel()
	turnsOf(t, 1, func(t *testing.T, join func(owner, name string) *program) {
		a := join("ann", "a")
		a.stubborn = true
		b := join("ann", "b")
		wantComputing(t, "at once", nil, b)
		time.Sleep(50 * time.Millisecond)
		wantComputing(t, "after a turn", []string{"b"}, b)
		if a.frozen.Load() || a.turn.Frozen() != 0 {
			t.Error("a was frozen")
		}
		a.turn.Rest()
		b.turn.Rest()
	})
}

// When a program that waits for a processor rests, the processor goes to the next program.
func TestTurnsRest(t *testing.T) {
	t.Parallel()
	turnsOf(t, 1, func(t *testing.T, join func(owner, name string) *program) {
		a, b, c := join("ann", "a"), join("bob", "b"), join("cid", "c")
		wantComputing(t, "at once", []string{"a"}, a, b, c)
		b.turn.Rest()
		a.turn.Rest()
		wantComputing(t, "after the others", []string{"c"}, c)
	})
}

// The time in which a program is frozen or waits for a processor does not count as computing. Answers wait until the program has a processor.
func TestFrozenTime(t *testing.T) {
	t.Parallel()
	bubble(t, new(gate).on("echo", echo), func(t *testing.T, w *world) {
		w.limits.Timeout = 100 * time.Millisecond
		turns := run.NewTurns(1)
		w.turn = turns.Join("ann")
		other := &program{turn: turns.Join("bob")}
		other.turn.Bind(other)
		var waited time.Duration
		out, _ := w.run(func(g *guest) *frame.Frame {
			other.turn.Compute()
			time.Sleep(140 * time.Millisecond) // The program is frozen from 50 to 100 ms.
			other.turn.Rest()
			other.turn.Compute()
			began := time.Now()
			g.takeOf(g.call(frame.Tool, "echo", `{}`)) // The other program has its turn before the answer comes.
			waited = time.Since(began)
			other.turn.Rest()
			return value(`1`)
		})
		if out.Error != nil || waited != 50*time.Millisecond {
			t.Errorf("the answer came after %s; %+v", waited, out.Error)
		}
		if lost := w.turn.Frozen(); lost != 50*time.Millisecond {
			t.Errorf("it was frozen for %s", lost)
		}
	})
}

// A frozen program ends when it is cancelled, and when it has used up its computing time.
func TestFrozenProgramEnds(t *testing.T) {
	t.Parallel()
	bubble(t, new(gate), func(t *testing.T, w *world) {
		w.limits.Timeout = 100 * time.Millisecond
		turns := run.NewTurns(1)
		w.turn = turns.Join("ann")
		other := &program{turn: turns.Join("bob")}
		other.turn.Bind(other)
		began := time.Now()
		out, _ := w.run(func(g *guest) *frame.Frame {
			other.turn.Compute()
			g.compute()
			return nil
		})
		if kindOf(out) != frame.KindTimeout || time.Since(began) > 200*time.Millisecond {
			t.Errorf("after %s: %+v", time.Since(began), out.Error)
		}
		ctx, cancel := context.WithCancel(w.ctx)
		w.ctx = ctx
		out, _ = w.run(func(g *guest) *frame.Frame {
			time.Sleep(60 * time.Millisecond) // The program is frozen by then.
			cancel()
			g.compute()
			return nil
		})
		if kindOf(out) != frame.KindCancelled || w.turn.Frozen() > time.Second {
			t.Errorf("%+v", out.Error)
		}
	})
}

// Owners get equal shares of the processors, however many programs each of them has.
func TestTurnsOfOwnersAreEqual(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := run.NewTurns(2)
		var all []*program
		for _, owner := range []string{"ann", "bob", "cid", "two", "two"} {
			p := &program{name: owner, turn: turns.Join(owner)}
			p.turn.Bind(p)
			p.turn.Compute()
			all = append(all, p)
		}
		began, computed := map[*program]bool{}, map[string]time.Duration{}
		const step = 10 * time.Millisecond
		for range 1000 {
			time.Sleep(step)
			synctest.Wait()
			for i, p := range all {
				select {
				case <-p.turn.Granted():
					began[p] = true
				default:
				}
				if (began[p] || i < 2) && !p.frozen.Load() {
					computed[p.name] += step
				}
			}
		}
		for owner, time := range computed {
			if time.Round(500*step) != 500*step {
				t.Errorf("%s has computed for %s of 10 s", owner, time)
			}
		}
		for _, p := range all {
			p.turn.Rest()
		}
	})
}

// joined returns n programs of one owner that compute or wait for their turn.
func joined(turns *run.Turns, n int) (all []*program) {
	for range n {
		p := &program{turn: turns.Join("ann")}
		p.turn.Bind(p)
		p.turn.Compute()
		all = append(all, p)
	}
	return all
}

// A program that rests before its turn is over gets the rest of the turn before other programs of its owner get their turns.
func TestTurnsOfShortBursts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := run.NewTurns(1)
		all := joined(turns, 20)
		began := time.Now()
		turn := turns.Join("ann")
		for range 100 {
			if !turn.Compute() {
				<-turn.Granted()
			}
			time.Sleep(time.Millisecond)
			turn.Rest()
		}
		if took := time.Since(began); took > 10*time.Second { // If each burst waited for all other programs, this would take 100 s.
			t.Errorf("100 bursts of a millisecond took %s", took)
		}
		for _, p := range all {
			p.turn.Rest()
		}
	})
}

// A run that waits for its first processor for longer than its timeout has computed nothing, even if its runner has executed earlier programs.
func TestWaitIsNoComputing(t *testing.T) {
	t.Parallel()
	bubble(t, new(gate), func(t *testing.T, w *world) {
		w.limits.Timeout, w.used = 100*time.Millisecond, 10*time.Second
		turns := run.NewTurns(1)
		others := joined(turns, 6)
		w.turn = turns.Join("ann")
		if out, _ := w.run(func(*guest) *frame.Frame { return value(`1`) }); out.Error != nil {
			t.Errorf("%+v", out.Error)
		}
		for _, p := range others {
			p.turn.Rest()
		}
	})
}

// A run that is cancelled before its first turn leaves its runner unused.
func TestCancelBeforeTheFirstTurn(t *testing.T) {
	t.Parallel()
	bubble(t, new(gate), func(t *testing.T, w *world) {
		turns := run.NewTurns(1)
		other := turns.Join("ann")
		other.Compute()
		w.turn = turns.Join("ann")
		var cancel context.CancelFunc
		w.ctx, cancel = context.WithCancel(w.ctx)
		began := time.Now()
		time.AfterFunc(10*time.Millisecond, cancel)
		out, _ := w.run(func(g *guest) *frame.Frame { g.compute(); return nil })
		if took := time.Since(began); kindOf(out) != frame.KindCancelled || took != 10*time.Millisecond {
			t.Errorf("after %s: %+v", took, out.Error)
		}
		other.Rest()
	})
}

// A guest that waits for a synchronous answer does not compute, even if answers to other calls come.
func TestBlockedIsNoComputing(t *testing.T) {
	t.Parallel()
	slow := func(context.Context, *journal.Call, run.InFlight) (json.RawMessage, *frame.Error) {
		time.Sleep(10 * time.Second)
		return json.RawMessage(`1`), nil
	}
	bubble(t, new(gate).on("echo", echo).on("slow", slow), func(t *testing.T, w *world) {
		w.limits.Timeout = time.Second
		out, _ := w.run(func(g *guest) *frame.Frame {
			n := g.call(frame.Tool, "echo", `{}`)
			g.sync(frame.Load, "slow", `{}`)
			g.takeOf(n)
			return value(`1`)
		})
		if out.Error != nil {
			t.Errorf("%+v", out.Error)
		}
	})
}

// An owner counts as active while its programs compute, and for keptFor afterwards.
func TestTurnsOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := run.NewTurns(2)
		others := func(want bool) {
			t.Helper()
			if got := turns.Others("ann"); got != want {
				t.Errorf("others are active: %t", got)
			}
		}
		time.Sleep(time.Second)
		others(false)
		own := turns.Join("ann")
		own.Compute()
		others(false)
		other := turns.Join("bob")
		other.Compute()
		time.Sleep(time.Minute)
		others(true)
		other.Rest()
		own.Rest()
		others(true)
		time.Sleep(time.Second)
		others(false)
	})
}

// A hostile program makes synchronous calls while it waits for a processor. It gets every answer in order once it has a processor, and none before.
func TestCallsOfAQueuedProgram(t *testing.T) {
	t.Parallel()
	slow := func(_ context.Context, c *journal.Call, _ run.InFlight) (json.RawMessage, *frame.Error) {
		time.Sleep(100 * time.Millisecond)
		return c.Args, nil
	}
	bubble(t, new(gate).on("slow", slow).on("echo", echo), func(t *testing.T, w *world) {
		turns := run.NewTurns(1)
		w.turn = turns.Join("ann")
		other := &program{turn: turns.Join("bob")}
		other.turn.Bind(other)
		var got []int
		var waited time.Duration
		out, _ := w.run(func(g *guest) *frame.Frame {
			g.call(frame.Tool, "slow", `{}`)
			g.send(frame.Frame{T: frame.Idle})
			began := time.Now()
			time.Sleep(90 * time.Millisecond)
			other.turn.Compute()
			time.Sleep(20 * time.Millisecond) // The answer has come by then, and waits.
			for range 2 {
				g.calls++
				g.send(frame.Frame{T: frame.Call, ID: g.calls, Kind: frame.Tool, Name: "echo", Args: json.RawMessage(`{}`), Sync: true})
				time.Sleep(time.Millisecond) // The gate answers this call before the next.
			}
			for range 3 {
				got = append(got, g.next().ID)
			}
			waited = time.Since(began)
			other.turn.Rest()
			return value(`1`)
		})
		if out.Error != nil || !slices.Equal(got, []int{1, 2, 3}) || waited != 140*time.Millisecond {
			t.Errorf("answers %v after %s; %+v", got, waited, out.Error)
		}
	})
}
