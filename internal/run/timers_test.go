package run_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/run"
)

// Timers fire in the order of due time, then of creation, and a replay fires them in the same order.
func TestTimers(t *testing.T) {
	t.Parallel()
	var fired []time.Duration
	program := func(g *guest) *frame.Frame {
		began := time.Now()
		for _, ms := range []any{20, 5, 0, 5, 1, 20, 0.2, -3, 1e300} {
			g.call(frame.Timer, "sleep", fmt.Sprintf(`{"ms":%v}`, ms))
		}
		fired = nil
		var order []int
		for range 8 {
			order = append(order, g.take().ID)
			fired = append(fired, time.Since(began))
		}
		text, _ := json.Marshal(order)
		return value(string(text))
	}
	bubble(t, new(gate), func(t *testing.T, w *world) {
		w.limits.MaxWall = 365 * 24 * time.Hour
		out, records := w.run(program)
		if string(out.Output) != "[3,5,7,8,2,4,1,6]" {
			t.Fatalf("%s, %+v", out.Output, out.Error)
		}
		for i, ms := range []int{1, 1, 1, 1, 5, 5, 20, 20} {
			if want := time.Duration(ms) * time.Millisecond; fired[i] != want {
				t.Errorf("timer %d fired after %s, want %s", i, fired[i], want)
			}
		}
		if again := w.replay(program, records); again.Error != nil {
			t.Errorf("replay: %+v", again.Error)
		}
	})
}

// A timer does not fire before the step that started it has ended, however long the step takes, because the step may start a timer that is due earlier.
func TestTimersOfASlowStep(t *testing.T) {
	t.Parallel()
	bubble(t, new(gate), func(t *testing.T, w *world) {
		out, _ := w.run(func(g *guest) *frame.Frame {
			g.call(frame.Timer, "sleep", `{"ms":5}`)
			time.Sleep(time.Second)
			g.call(frame.Timer, "sleep", `{"ms":1}`)
			time.Sleep(time.Second)
			return value(fmt.Sprint(g.take().ID == 2 && g.take().ID == 1))
		})
		if string(out.Output) != "true" {
			t.Errorf("%s, %+v", out.Output, out.Error)
		}
	})
}

// The delays of all timers of one step count from the same time. The delays of the next step count from a later time, and so do delays after a synchronous
// call.
func TestTimersOfLaterSteps(t *testing.T) {
	t.Parallel()
	slow := func(_ context.Context, c *journal.Call, _ run.InFlight) (json.RawMessage, *frame.Error) {
		time.Sleep(time.Second)
		return json.RawMessage(`1`), nil
	}
	bubble(t, new(gate).on("slow", slow), func(t *testing.T, w *world) {
		out, _ := w.run(func(g *guest) *frame.Frame {
			g.call(frame.Timer, "sleep", `{"ms":1500}`) // due at 1.5 s
			g.sync(frame.Load, "slow", `{}`)
			g.call(frame.Timer, "sleep", `{"ms":1000}`) // due at 2 s
			g.takeOf(g.call(frame.Tool, "slow", `{}`))  // answered at 2 s
			last := g.call(frame.Timer, "sleep", `{"ms":500}`)
			return value(fmt.Sprint(g.takeOf(last).ID == last && g.taken == 4))
		})
		if string(out.Output) != "true" {
			t.Errorf("%s, %+v", out.Output, out.Error)
		}
	})
}

// Only a broken runner starts a timer without a delay.
func TestTimerWithoutDelay(t *testing.T) {
	t.Parallel()
	bubble(t, new(gate), func(t *testing.T, w *world) {
		out, _ := w.run(func(g *guest) *frame.Frame {
			g.takeOf(g.call(frame.Timer, "sleep", `{"ms":"soon"}`))
			return value(`1`)
		})
		if kindOf(out) != frame.KindCrash {
			t.Errorf("ended as %+v", out.Error)
		}
	})
}

// A resumed run starts the timers that were held until the recorded answers had been delivered.
func TestHeldTimer(t *testing.T) {
	t.Parallel()
	bubble(t, new(gate).on("echo", echo), func(t *testing.T, w *world) {
		program := func(g *guest) *frame.Frame {
			g.call(frame.Timer, "sleep", `{"ms":5000}`)
			g.takeOf(g.call(frame.Tool, "echo", `{}`))
			g.takeOf(1)
			return value(`1`)
		}
		_, records := w.run(program)
		records = cut(t, records, func(r journal.Record) bool { return r.Answer != nil })
		began := time.Now()
		if out, _ := w.resume(program, records); out.Error != nil || time.Since(began) != 5*time.Second {
			t.Errorf("after %s: %+v", time.Since(began), out.Error)
		}
	})
}
