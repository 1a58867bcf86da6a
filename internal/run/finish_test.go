package run_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/testing/piitest"
)

// stuck is a guest that exceeds its output limit and ignores a cancel frame.
func stuck(g *guest) *frame.Frame {
	g.call(frame.Tool, "late", `{}`)
	g.call(frame.Tool, "echo", `{}`)
	g.out <- &frame.Frame{T: frame.Log, Run: g.run, Text: strings.Repeat("x", 200)}
	<-g.dead
	return nil
}

// A call that has not recorded its intent when the host ends the run cannot record it afterwards, although the runner lives on for the grace period. No
// answer that comes in that period is stored before the end.
func TestNothingIsSentAfterTheEnd(t *testing.T) {
	t.Parallel()
	var refused error
	late := func(_ context.Context, c *journal.Call, call run.InFlight) (json.RawMessage, *frame.Error) {
		time.Sleep(100 * time.Millisecond) // The run has ended by then, and the runner has not.
		if refused = call.Intend(context.Background(), journal.Intent{N: c.N, Key: "k"}); refused != nil {
			return nil, &frame.Error{Kind: frame.KindTool, Name: "ToolError", Message: refused.Error()}
		}
		return json.RawMessage("true"), nil
	}
	bubble(t, new(gate).on("late", late).on("echo", hang), func(t *testing.T, w *world) {
		w.limits.MaxOutput = 100
		stored := &stored{}
		w.wrap = func(writer journal.Writer) journal.Writer { stored.Writer = writer; return stored }
		out, records := w.run(stuck)
		if kindOf(out) != frame.KindOutputLimit || refused == nil {
			t.Fatalf("ended as %+v; the late call was refused with %v", out.Error, refused)
		}
		for _, r := range records {
			if r.Intent != nil {
				t.Error("an intent was recorded after the end")
			}
			if r.Answer != nil && !r.Answer.Undelivered() {
				t.Errorf("an answer was numbered after the end: %+v", r.Answer)
			}
		}
		for _, batch := range stored.commits {
			late := slices.ContainsFunc(batch, func(r journal.Record) bool { return r.Answer != nil && r.Answer.Undelivered() })
			if ended := slices.ContainsFunc(batch, func(r journal.Record) bool { return r.End != nil }); late && !ended {
				t.Error("a late answer was stored before the end")
			}
		}
	})
}

// stored records what each commit stored.
type stored struct {
	journal.Writer
	mu      sync.Mutex
	pending []journal.Record
	commits [][]journal.Record
}

func (s *stored) Append(r journal.Record) {
	s.mu.Lock()
	s.pending = append(s.pending, r)
	s.mu.Unlock()
	s.Writer.Append(r)
}

func (s *stored) Commit(ctx context.Context) error {
	s.mu.Lock()
	s.commits = append(s.commits, s.pending)
	s.pending = nil
	s.mu.Unlock()
	return s.Writer.Commit(ctx)
}

// A process that died while it ended a run can leave answers that the program never got. The resumed run ends at once.
func TestResumeOfAnEndingRun(t *testing.T) {
	t.Parallel()
	program := func(g *guest) *frame.Frame {
		g.takeOf(g.call(frame.Tool, "late", `{}`))
		return value(`1`)
	}
	bubble(t, new(gate).on("late", echo), func(t *testing.T, w *world) {
		_, records := w.run(program)
		records = cut(t, records, func(r journal.Record) bool { return r.Answer != nil })
		undelivered := *records[len(records)-1].Answer
		undelivered.Delivery = journal.Undelivered
		records[len(records)-1].Answer = &undelivered
		began := time.Now()
		out, _ := w.resume(program, records)
		if kindOf(out) != frame.KindCrash || time.Since(began) > time.Second {
			t.Errorf("ended as %+v after %s", out.Error, time.Since(began))
		}
	})
}

// A call that does not return when its context ends delays the end of its run only for a limited time. If the call is a write, it stays in doubt.
func TestCallThatNeverReturns(t *testing.T) {
	t.Parallel()
	bubble(t, new(gate), func(t *testing.T, w *world) {
		release := make(chan struct{})
		w.gate.on("late", func(ctx context.Context, c *journal.Call, call run.InFlight) (json.RawMessage, *frame.Error) {
			if err := call.Intend(ctx, journal.Intent{N: c.N, Key: "k"}); err != nil {
				t.Error(err)
			}
			<-release
			return json.RawMessage("true"), nil
		})
		w.limits.MaxWall = time.Minute
		began := time.Now()
		out, records := w.run(func(g *guest) *frame.Frame {
			g.takeOf(g.call(frame.Tool, "late", `{}`))
			return value(`1`)
		})
		if took := time.Since(began); kindOf(out) != frame.KindTimeout || took > 70*time.Second {
			t.Fatalf("ended as %+v after %s", out.Error, took)
		}
		want := []run.Effect{{Call: 1, Kind: "tool", Name: "late", State: "in_doubt"}}
		if !slices.Equal(out.Effects, want) {
			t.Errorf("effects %+v", out.Effects)
		}
		if again, err := run.Recorded(records); err != nil || !slices.Equal(again.Effects, want) {
			t.Errorf("recorded %+v, %v", again, err)
		}
		close(release)
		synctest.Wait() // waits until the call's goroutine has ended, because goleak would report it
	})
}

// The records of a run that waits for its first call are stored while it waits, so that other processes can list the run.
func TestLongRunsAreStored(t *testing.T) {
	t.Parallel()
	bubble(t, new(gate).on("hang", hang), func(t *testing.T, w *world) {
		w.limits.MaxWall = time.Minute
		seen := 0
		w.run(func(g *guest) *frame.Frame {
			g.call(frame.Tool, "hang", `{}`)
			time.Sleep(2 * time.Second)
			records, err := w.store.Read(context.Background(), "run_x")
			if err != nil {
				t.Error(err)
			}
			seen = len(records)
			return value(`1`)
		})
		if seen != 2 { // records of its start and its call
			t.Errorf("%d records", seen)
		}
	})
}

// A replay does not use the filter of personal data, not even for a program that composes personal data that was redacted in the recorded run. The replay
// reports what was recorded.
func TestReplayAsksNoFilter(t *testing.T) {
	t.Parallel()
	const secret = "ada@example.com"
	for name, end := range map[string]*frame.Frame{
		"value": value(`{"` + secret + `":["` + secret + `"]}`),
		"error": {Error: &frame.Error{
			Kind: frame.KindRuntime, Name: "Error", Message: "no " + secret, Stack: secret, Data: json.RawMessage(`"` + secret + `"`),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program := func(g *guest) *frame.Frame {
				g.log("log " + secret)
				g.takeOf(g.call(frame.Tool, "echo", `{"to":"`+secret+`"}`))
				f := *end
				if end.Error != nil {
					e := *end.Error
					f.Error = &e
				}
				return &f
			}
			bubble(t, new(gate).on("echo", echo), func(t *testing.T, w *world) {
				f := piitest.New(t)
				w.privacy = f.In("u", "s")
				out, records := w.run(program)
				first, _ := json.Marshal(out)
				if text, _ := json.Marshal(records); strings.Contains(string(text), secret) || !strings.Contains(string(text), "[EMAIL_1]") {
					t.Fatalf("recorded: %s", text)
				}
				f.Asked.Store(0)
				again := w.replay(program, records)
				if second, _ := json.Marshal(again); f.Asked.Load() != 0 || string(first) != string(second) {
					t.Errorf("the filter was asked %d times\nwas %s\nis  %s", f.Asked.Load(), first, second)
				}
			})
		})
	}
}

// Time that the host computes for a call counts as computing time of the program.
func TestCharge(t *testing.T) {
	t.Parallel()
	costly := func(ctx context.Context, _ *journal.Call, call run.InFlight) (json.RawMessage, *frame.Error) {
		if err := call.Charge(40 * time.Second); err != nil {
			return nil, &frame.Error{Kind: frame.KindRuntime, Name: "Error", Message: err.Error()}
		}
		return json.RawMessage("1"), nil
	}
	program := func(g *guest) *frame.Frame {
		for range 4 {
			g.takeOf(g.call(frame.Load, "costly", `{}`))
		}
		return value(`1`)
	}
	bubble(t, new(gate).on("costly", costly), func(t *testing.T, w *world) {
		w.limits.Timeout = 100 * time.Second
		out, records := w.run(program)
		if kindOf(out) != frame.KindTimeout || len(w.gate.notes()) != 2*3 {
			t.Errorf("ended as %+v, the gate saw %v", out.Error, w.gate.notes())
		}
		if again := w.replay(program, records); kindOf(again) != frame.KindTimeout {
			t.Errorf("the replay ended as %+v", again.Error)
		}
	})
	bubble(t, new(gate).on("costly", costly), func(t *testing.T, w *world) {
		w.limits.Timeout, w.computed = 100*time.Second, 90*time.Second
		if out, _ := w.run(program); kindOf(out) != frame.KindTimeout || len(w.gate.notes()) != 2 {
			t.Errorf("ended as %+v, the gate saw %v", out.Error, w.gate.notes())
		}
	})
}
