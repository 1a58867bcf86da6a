package run_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/run"
)

// mortal is the journal of a process that dies at a write. What is not committed by then is lost.
type mortal struct {
	*memory
	mu     sync.Mutex
	at     int
	writes int
}

// dead counts a write, if write is true, and reports whether the process has died.
func (m *mortal) dead(write bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if write {
		m.writes++
	}
	return m.at > 0 && m.writes >= m.at
}

func (m *mortal) Append(r journal.Record) {
	if !m.dead(true) {
		m.memory.Append(r)
	}
}

func (m *mortal) Commit(ctx context.Context) error {
	if m.dead(true) {
		return errDisk
	}
	if err := m.memory.Commit(ctx); err != nil {
		return err
	}
	if m.dead(true) {
		return errDisk
	}
	return nil
}

// A process can die at any write to its journal, and servers give a different answer to each request. The resumed run repeats everything that was visible
// outside before: its events, the writes that were sent, and the outcome.
func TestCrashKeepsWhatWasSeen(t *testing.T) {
	t.Parallel()
	program := func(g *guest) *frame.Frame {
		read := func() string { return string(g.takeOf(g.call(frame.Tool, "read", `{}`)).Value) }
		first := read()
		second := read()
		g.log("second " + second)
		g.takeOf(g.call(frame.Tool, "write", second))
		g.takeOf(g.call(frame.Tool, "slow", first)) // Events are shown while this call is in flight.
		third := read()
		g.takeOf(g.call(frame.FS, "write", third))
		fourth := read()
		g.takeOf(g.call(frame.Tool, "read", fourth))
		g.takeOf(g.call(frame.Tool, "write", fourth))
		g.log("third " + third)
		return value(fmt.Sprintf(`[%s, %s, %s, %s]`, first, second, third, fourth))
	}
	for _, observed := range []bool{true, false} {
		points := 1
		for at := 0; at <= points; at++ { // 0 means that the process does not die.
			answers := 0
			type sight struct{ what, text string }
			bubble(t, new(gate), func(t *testing.T, w *world) {
				var mu sync.Mutex
				var seen []sight
				m := &mortal{memory: &w.store, at: at}
				see := func(what, text string) {
					mu.Lock()
					defer mu.Unlock()
					if !m.dead(false) {
						seen = append(seen, sight{what, text})
					}
				}
				read := func(context.Context, *journal.Call, run.InFlight) (json.RawMessage, *frame.Error) {
					mu.Lock()
					defer mu.Unlock()
					answers++
					return json.RawMessage(fmt.Sprint(answers)), nil
				}
				w.gate.on("read", read).on("slow", func(ctx context.Context, c *journal.Call, call run.InFlight) (json.RawMessage, *frame.Error) {
					time.Sleep(3 * time.Second)
					return read(ctx, c, call)
				}).on("write", func(ctx context.Context, c *journal.Call, call run.InFlight) (json.RawMessage, *frame.Error) {
					value, failed := write(ctx, c, call)
					if failed == nil {
						see("write", fmt.Sprintf("%d %s", c.N, c.Args))
					}
					return value, failed
				})
				observe := func(e run.Event) {
					switch {
					case e.Call != nil:
						see("call", fmt.Sprintf("%d %s %s", e.Call.N, e.Call.Name, e.Call.Args))
					case e.Answer != nil:
						see("answer", fmt.Sprintf("%d %s", e.Answer.N, e.Answer.Value))
					case e.Log != nil:
						see("log", e.Log.Text)
					}
				}
				if _, err := w.store.Create(t.Context(), "run_x"); err != nil {
					t.Fatal(err)
				}
				spec := w.spec()
				spec.Journal = m
				if observed {
					spec.Observe = observe
				}
				out, err := w.execute(program, spec)
				if at == 0 {
					if points = m.writes; err != nil || points < 30 {
						t.Fatalf("%+v, %v: %d points", out, err, points)
					}
				}
				records, err := w.store.Read(t.Context(), "run_x")
				if err != nil {
					t.Fatal(err)
				}
				records = slices.Clone(records)
				if len(records) > 0 && records[len(records)-1].End == nil {
					var added *recorder
					out, added = w.resume(program, records)
					records = append(records, added.records...)
				} else if len(records) > 0 {
					if out, err = run.Recorded(records); err != nil {
						t.Fatal(err)
					}
				} else if len(seen) > 1 || len(seen) == 1 && seen[0].what != "call" {
					t.Fatalf("killed at %d: %v was seen of a run that is not stored", at, seen)
				} else {
					return
				}
				if kindOf(out) != "" {
					t.Fatalf("killed at %d: ended as %+v", at, out.Error)
				}
				if again := w.replay(program, records); kindOf(again) != "" || string(again.Output) != string(out.Output) {
					t.Errorf("killed at %d: replayed as %+v", at, again)
				}
				has := map[sight]bool{}
				for _, r := range records {
					switch {
					case r.Call != nil:
						has[sight{"call", fmt.Sprintf("%d %s %s", r.Call.N, r.Call.Name, r.Call.Args)}] = true
						has[sight{"write", fmt.Sprintf("%d %s", r.Call.N, r.Call.Args)}] = true
					case r.Answer != nil:
						has[sight{"answer", fmt.Sprintf("%d %s", r.Answer.N, r.Answer.Value)}] = true
					case r.Log != nil:
						has[sight{"log", r.Log.Text}] = true
					}
				}
				for _, s := range seen {
					if !has[s] {
						t.Errorf("killed at %d: %v was seen, and the run did something else", at, s)
					}
				}
			})
		}
	}
}

// The answers of successive calls are committed together with the end of the run.
func TestReadsShareACommit(t *testing.T) {
	t.Parallel()
	bubble(t, new(gate).on("echo", echo), func(t *testing.T, w *world) {
		commits := 0
		w.wrap = func(inner journal.Writer) journal.Writer {
			return hooked{inner, func(journal.Record) {}, func() error { commits++; return nil }}
		}
		w.run(func(g *guest) *frame.Frame {
			for range 50 {
				g.takeOf(g.call(frame.Tool, "echo", `{}`))
			}
			return value(`1`)
		})
		if commits != 1 {
			t.Errorf("%d commits", commits)
		}
	})
}

// Stored is called when the start of the run is in the store, before the program begins. If the start cannot be stored, the program never begins.
func TestStored(t *testing.T) {
	t.Parallel()
	for at, want := range map[int]string{0: "stored program", 2: ""} { // The second write is the commit of the start.
		bubble(t, new(gate), func(t *testing.T, w *world) {
			var seen []string
			m := &mortal{memory: &w.store, at: at}
			if _, err := w.store.Create(t.Context(), "run_x"); err != nil {
				t.Fatal(err)
			}
			spec := w.spec()
			spec.Journal = m
			spec.Stored = func() {
				if records, err := w.store.Read(t.Context(), "run_x"); err != nil || len(records) != 1 || records[0].Start == nil {
					t.Errorf("%+v, %v", records, err)
				}
				seen = append(seen, "stored")
			}
			_, err := w.execute(func(*guest) *frame.Frame {
				seen = append(seen, "program")
				return value(`1`)
			}, spec)
			if got := strings.Join(seen, " "); got != want || (err == nil) != (at == 0) {
				t.Errorf("death at %d: %q, %v", at, got, err)
			}
		})
	}
}
