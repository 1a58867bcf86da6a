package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/run"
)

func TestRunAndReplay(t *testing.T) {
	t.Parallel()
	program := func(g *guest) *frame.Frame {
		first, second := g.call(frame.Tool, "echo", `{"b":1,"a":2}`), g.call(frame.Tool, "echo", `{"n":2}`)
		g.log("calling")
		got := g.sync(frame.Load, "echo", `{"s":1}`)
		order := []int{g.take().ID, g.take().ID}
		return value(fmt.Sprintf(`{"order":[%d,%d],"of":[%d,%d],"sync":%s}`, order[0], order[1], first, second, got.Value))
	}
	bubble(t, new(gate).on("echo", echo), func(t *testing.T, w *world) {
		out, records := w.run(program)
		if out.Status != run.Succeeded || out.Calls != 2 || len(out.Logs) != 1 {
			t.Fatalf("got %+v, error %+v", out, out.Error)
		}
		calls := len(w.gate.notes())
		again := w.replay(program, records)
		if string(again.Output) != string(out.Output) || again.Error != nil || !slices.Equal(again.Logs, out.Logs) || again.Duration != out.Duration {
			t.Errorf("replay: %+v, error %+v", again, again.Error)
		}
		if n := len(w.gate.notes()); n != calls {
			t.Error("a replay reached the gate")
		}
	})
}

// Answers are numbered in the order in which they are delivered. A replay delivers them in that order, even if another answer comes first.
func TestOrderOfAnswers(t *testing.T) {
	t.Parallel()
	release := [3]chan struct{}{}
	slow := func(ctx context.Context, c *journal.Call, _ run.InFlight) (json.RawMessage, *frame.Error) {
		<-release[c.N-1]
		return json.RawMessage(`1`), nil
	}
	bubble(t, new(gate).on("slow", slow), func(t *testing.T, w *world) {
		for i := range release {
			release[i] = make(chan struct{})
		}
		program := func(g *guest) *frame.Frame {
			for range 3 {
				g.call(frame.Tool, "slow", `{}`)
			}
			return value(fmt.Sprint("[", g.take().ID, ",", g.take().ID, ",", g.take().ID, "]"))
		}
		go func() {
			for _, n := range []int{3, 1, 2} {
				synctest.Wait()
				close(release[n-1])
			}
		}()
		out, records := w.run(program)
		if string(out.Output) != "[3,1,2]" {
			t.Fatalf("got %s", out.Output)
		}
		if again := w.replay(program, records); string(again.Output) != "[3,1,2]" || again.Error != nil {
			t.Errorf("replay: %s, %+v", again.Output, again.Error)
		}
	})
}

// A guest that reads no frames delays neither its limits nor its host, even if many answers wait for it.
func TestGuestThatTakesNothing(t *testing.T) {
	t.Parallel()
	bubble(t, new(gate).on("echo", echo), func(t *testing.T, w *world) {
		w.limits.Timeout, w.limits.MaxInFlight = time.Second, 5000
		out, _ := w.run(func(g *guest) *frame.Frame {
			for range 5000 {
				g.call(frame.Timer, "sleep", `{"ms":0}`)
			}
			<-g.dead // reads no frames, not even the cancel frame
			return nil
		})
		if kindOf(out) != frame.KindTimeout {
			t.Errorf("ended as %+v", out.Error)
		}
	})
}

// Serial calls go one after another in call order, and the answer of each is stored before the next begins.
func TestSerialCalls(t *testing.T) {
	t.Parallel()
	g := new(gate)
	g.on("write", func(ctx context.Context, c *journal.Call, call run.InFlight) (json.RawMessage, *frame.Error) {
		value, err := write(ctx, c, call)
		time.Sleep(time.Duration(10-c.N) * time.Millisecond) // A later call would be answered first, on the bubble's clock.
		g.note("done %d", c.N)
		return value, err
	})
	bubble(t, g, func(t *testing.T, w *world) {
		w.wrap = func(inner journal.Writer) journal.Writer {
			return hooked{inner, func(r journal.Record) {
				if r.Answer != nil {
					g.note("answer %d", r.Answer.N)
				}
			}, func() error { g.note("commit"); return nil }}
		}
		program := func(g *guest) *frame.Frame {
			for range 3 {
				g.call(frame.FS, "write", `{}`)
			}
			for range 3 {
				g.take()
			}
			return value(`1`)
		}
		w.run(program)
		want := []string{
			"prepare 1", "do 1", "prepare 2", "prepare 3", "commit", "done 1", "answer 1", "commit", "do 2", "commit", "done 2",
			"answer 2", "commit", "do 3", "commit", "done 3", "answer 3", "commit", "commit",
		}
		got := g.notes()
		// Notes of the run's goroutine and of the first call's goroutine may come in either order.
		slices.Sort(got[:5])
		slices.Sort(want[:5])
		if !slices.Equal(got, want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
	})
}

// hooked calls before for each record that is appended, and commit at each commit. If commit returns an error, nothing is committed.
type hooked struct {
	journal.Writer
	before func(journal.Record)
	commit func() error
}

func (h hooked) Append(r journal.Record) {
	h.before(r)
	h.Writer.Append(r)
}

func (h hooked) Commit(ctx context.Context) error {
	if err := h.commit(); err != nil {
		return err
	}
	return h.Writer.Commit(ctx)
}

// A resumed run performs the calls that were unanswered when its process died in the order in which they were made, and before any later call.
func TestResumeKeepsTheOrderOfCalls(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]func(g *guest, first int){
		"asynchronous": func(g *guest, first int) {
			g.takeOf(first)
			g.call(frame.FS, "write", `{}`)
			g.take()
		},
		"synchronous": func(g *guest, first int) {
			g.takeOf(first)
			g.sync(frame.FS, "write", `{}`)
		},
		"synchronous, before a recorded answer": func(g *guest, first int) {
			g.sync(frame.FS, "write", `{}`)
			g.takeOf(first)
		},
	} {
		t.Run(name, func(t *testing.T) { testResumeOrder(t, last) })
	}
}

func testResumeOrder(t *testing.T, last func(g *guest, first int)) {
	program := func(g *guest) *frame.Frame {
		first := g.call(frame.Tool, "echo", `{}`)
		g.call(frame.FS, "write", `{}`)
		last(g, first)
		g.take()
		return value(`1`)
	}
	bubble(t, new(gate).on("echo", echo).on("write", write), func(t *testing.T, w *world) {
		_, records := w.run(program)
		// The process died after it sent the write and before the write was answered. The first call may have been answered before or after the write.
		var died, answered []journal.Record
		for _, r := range records {
			switch {
			case r.Start != nil || r.Call != nil && r.Call.N <= 2:
				died = append(died, r)
			case r.Answer != nil && r.Answer.N == 1:
				r.Answer.Delivery = 1
				answered = append(answered, r)
			}
		}
		died = append(died, answered...)
		for i := range died {
			died[i].Seq = int64(i + 1)
		}
		w.gate.did = nil
		out, _ := w.resume(program, died)
		if out.Error != nil {
			t.Fatalf("%+v", out.Error)
		}
		got := w.gate.notes()
		slices.SortStableFunc(got, func(a, b string) int { return strings.Compare(a[:2], b[:2]) }) // sorts the notes of performed calls before those of prepared calls
		if want := []string{"do 2", "do 3", "prepare 2", "prepare 3"}; !slices.Equal(got, want) {
			t.Errorf("the gate did %v, want %v", got, want)
		}
	})
}

// A resumed run prints all its lines again, but records only the new ones.
func TestResumeRecordsOnlyWhatIsNew(t *testing.T) {
	t.Parallel()
	program := func(g *guest) *frame.Frame {
		g.log("one")
		g.call(frame.Tool, "echo", `{}`)
		g.take()
		g.log("two")
		g.call(frame.Tool, "echo", `{}`)
		g.take()
		g.log("three")
		return value(`1`)
	}
	bubble(t, new(gate).on("echo", echo), func(t *testing.T, w *world) {
		whole, records := w.run(program)
		died := cut(t, records, func(r journal.Record) bool { return r.Answer != nil })
		out, added := w.resume(program, died)
		if out.Error != nil || !slices.Equal(out.Logs, whole.Logs) {
			t.Errorf("got %+v, error %+v", out, out.Error)
		}
		var logs, calls []string
		for _, r := range added.records {
			switch {
			case r.Start != nil:
				t.Error("a second start was recorded")
			case r.Log != nil:
				logs = append(logs, r.Log.Text)
			case r.Call != nil:
				calls = append(calls, fmt.Sprint(r.Call.N))
			}
		}
		if fmt.Sprint(logs, calls) != "[two three] [2]" {
			t.Errorf("recorded again: %v %v", logs, calls)
		}
	})
}

// The timeout ends a run whose runner computes although it reported that it was idle. Such a run does not last until maxWall.
func TestForgedIdle(t *testing.T) {
	t.Parallel()
	bubble(t, new(gate).on("hang", hang), func(t *testing.T, w *world) {
		w.limits = run.Limits{Timeout: time.Second, MaxWall: time.Hour}
		began := time.Now()
		out, _ := w.run(func(g *guest) *frame.Frame {
			g.call(frame.Tool, "hang", `{}`)
			now := time.Now()
			g.burns.Store(&now)
			g.take()
			return value(`1`)
		})
		if took := time.Since(began); kindOf(out) != frame.KindTimeout || took > 5*time.Second {
			t.Errorf("ended as %q after %s", kindOf(out), took)
		}
	})
}

// TestSilentMeter uses a runner that executed earlier programs. Its processor time cannot be read for a while. The run continues meanwhile, and the time of
// the earlier programs is not charged to it.
func TestSilentMeter(t *testing.T) {
	t.Parallel()
	for silent, want := range map[int32]string{3: "", 4: frame.KindCrash} {
		bubble(t, new(gate).on("slow", slow), func(t *testing.T, w *world) {
			w.limits, w.used = run.Limits{Timeout: time.Second, MaxWall: time.Hour}, time.Minute
			out, _ := w.run(func(g *guest) *frame.Frame {
				g.silent.Store(silent)
				g.takeOf(g.call(frame.Tool, "slow", `{"ms":10000}`))
				return value(`1`)
			})
			if kindOf(out) != want {
				t.Errorf("silent %d times, it ended as %q", silent, kindOf(out))
			}
		})
	}
}

// A limit of 0 allows nothing.
func TestLimitOfZero(t *testing.T) {
	t.Parallel()
	bubble(t, new(gate).on("echo", echo), func(t *testing.T, w *world) {
		calls, lines := w.spec(), w.spec()
		calls.Limits.MaxHostCalls, lines.Limits.MaxLogLines = 0, 0
		for kind, spec := range map[string]run.Spec{frame.KindCallLimit: calls, frame.KindOutputLimit: lines} {
			out, err := w.execute(func(g *guest) *frame.Frame {
				g.log("x")
				g.take2("echo")
				return value(`1`)
			}, spec)
			if err != nil || kindOf(out) != kind {
				t.Errorf("ended as %+v, %v, want %s", out, err, kind)
			}
		}
	})
}

// A replay reports each ending that the host decides.
func TestEndings(t *testing.T) {
	t.Parallel()
	forever := func(g *guest) *frame.Frame { g.compute(); return nil }
	for _, c := range []struct {
		kind   string
		limits run.Limits
		script script
	}{
		{frame.KindTimeout, run.Limits{Timeout: time.Hour}, forever},
		{frame.KindTimeout, run.Limits{MaxWall: time.Hour}, func(g *guest) *frame.Frame {
			g.call(frame.Tool, "hang", `{}`)
			g.take()
			return value(`1`)
		}},
		{frame.KindOutputLimit, run.Limits{MaxLogLines: 3}, func(g *guest) *frame.Frame {
			for {
				g.log("x")
			}
		}},
		{frame.KindOutputLimit, run.Limits{MaxLogLines: 3}, func(g *guest) *frame.Frame { // takes longer than a replay waits
			for {
				time.Sleep(600 * time.Millisecond)
				g.log("x")
			}
		}},
		{frame.KindOutputLimit, run.Limits{MaxOutput: 100}, func(g *guest) *frame.Frame {
			for {
				g.log(strings.Repeat("x", 30))
			}
		}},
		{frame.KindOutputLimit, run.Limits{MaxOutput: 100}, func(*guest) *frame.Frame {
			return value(`"` + strings.Repeat("x", 100) + `"`)
		}},
		{frame.KindCallLimit, run.Limits{MaxHostCalls: 5}, func(g *guest) *frame.Frame {
			for {
				g.take2("echo")
			}
		}},
		{frame.KindCrash, run.Limits{}, func(g *guest) *frame.Frame {
			g.take2("echo")
			return nil // ends without a done frame
		}},
		{frame.KindCrash, run.Limits{}, func(g *guest) *frame.Frame {
			g.calls = 7 // starts with a wrong call number
			g.take2("echo")
			return value(`1`)
		}},
		{frame.KindMemory, run.Limits{}, func(*guest) *frame.Frame {
			return &frame.Frame{Refused: true, Error: &frame.Error{Kind: "runtime", Name: "InternalError", Message: "out of memory"}}
		}},
		{frame.KindNeverSettles, run.Limits{}, func(*guest) *frame.Frame {
			return &frame.Frame{Error: &frame.Error{Kind: "never_settles", Message: "waits"}}
		}},
		{frame.KindRuntime, run.Limits{}, func(*guest) *frame.Frame { // an error kind that a guest cannot have
			return &frame.Frame{Error: &frame.Error{Kind: "cancelled", Message: "x"}}
		}},
		{frame.KindRuntime, run.Limits{}, func(g *guest) *frame.Frame { // the kind of an answer's error, although no answer had this error
			g.take2("echo")
			return &frame.Frame{Error: &frame.Error{Kind: "denied", Name: "DeniedError", Message: "x"}}
		}},
		{frame.KindRuntime, run.Limits{}, func(*guest) *frame.Frame { // a memory error, although the guest was not refused memory
			return &frame.Frame{Error: &frame.Error{Kind: "memory", Message: "x"}}
		}},
		{frame.KindCrash, run.Limits{MaxWall: time.Hour}, func(g *guest) *frame.Frame { // a flood of idle frames
			g.call(frame.Tool, "hang", `{}`)
			for {
				g.send(frame.Frame{T: frame.Idle})
			}
		}},
	} {
		bubble(t, new(gate).on("echo", echo).on("hang", hang), func(t *testing.T, w *world) {
			w.limits = c.limits
			out, records := w.run(c.script)
			if kindOf(out) != c.kind || out.Status != run.Failed || string(out.Output) != "null" {
				t.Errorf("ended as %q (%+v), want %q", kindOf(out), out.Error, c.kind)
				return
			}
			began := time.Now()
			again := w.replay(c.script, records)
			if again.Error == nil || again.Error.Kind != out.Error.Kind || again.Error.Message != out.Error.Message {
				t.Errorf("%s: replay ended as %+v, recorded is %+v", c.kind, again.Error, out.Error)
			}
			if !slices.Equal(again.Logs, out.Logs) {
				t.Errorf("%s: replay printed %v", c.kind, again.Logs)
			}
			if took := time.Since(began); took > 2*time.Second { // measured on the bubble's clock
				t.Errorf("%s: replay took %s", c.kind, took)
			}
		})
	}
}

// take2 makes a call and takes the answer.
func (g *guest) take2(name string) *frame.Frame {
	g.call(frame.Load, name, `{}`)
	return g.take()
}

// Cancelling a run ends its calls in flight. Their answers are recorded and not delivered, so that a replayed program does not continue with them.
func TestCancel(t *testing.T) {
	t.Parallel()
	program := func(g *guest) *frame.Frame {
		g.call(frame.Tool, "hang", `{}`)
		g.take() // not reached, because the run has ended
		g.call(frame.Tool, "after", `{}`)
		g.take()
		return value(`1`)
	}
	bubble(t, new(gate).on("hang", hang), func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(t.Context())
		w.ctx = ctx
		go func() {
			synctest.Wait() // the call is in flight
			cancel()
		}()
		out, records := w.run(program)
		if out.Status != run.Cancelled || kindOf(out) != frame.KindCancelled {
			t.Fatalf("ended %s, %+v", out.Status, out.Error)
		}
		var answers int
		for _, r := range records {
			if r.Answer != nil {
				answers++
				if !r.Answer.Undelivered() {
					t.Errorf("the answer of call %d has delivery %d", r.Answer.N, r.Answer.Delivery)
				}
			}
		}
		if answers != 1 {
			t.Errorf("%d answers are recorded", answers)
		}
		if again := w.replay(program, records); again.Status != run.Cancelled || kindOf(again) != frame.KindCancelled {
			t.Errorf("replay ended %s, %+v", again.Status, again.Error)
		}
	})
}

// The replay of a run that was ended from outside while it computed may get further than the run: to the program's end, to a call or to a log line. The
// replay reports the recorded ending in each case.
func TestReplayComesFurther(t *testing.T) {
	t.Parallel()
	var further func(g *guest) *frame.Frame
	recorded := func(g *guest) *frame.Frame {
		g.log("first")
		g.take2("echo")
		g.compute()
		return nil
	}
	for name, end := range map[string]func(g *guest) *frame.Frame{
		"value": func(*guest) *frame.Frame { return value(`1`) },
		"error": func(*guest) *frame.Frame { return &frame.Frame{Error: &frame.Error{Kind: "runtime", Message: "x"}} },
		"call":  func(g *guest) *frame.Frame { g.take2("echo"); return value(`1`) },
		"sync":  func(g *guest) *frame.Frame { g.sync(frame.Load, "echo", `{}`); return value(`1`) },
		"log":   func(g *guest) *frame.Frame { g.log("second"); g.compute(); return nil },
		"death": func(*guest) *frame.Frame { return nil },
	} {
		bubble(t, new(gate).on("echo", echo), func(t *testing.T, w *world) {
			w.limits.Timeout = 100 * time.Millisecond
			further = func(g *guest) *frame.Frame {
				g.log("first")
				g.take2("echo")
				return end(g)
			}
			out, records := w.run(recorded)
			again := w.replay(further, records)
			if kindOf(again) != frame.KindTimeout || again.Error.Message != out.Error.Message || len(again.Logs) != 1 {
				t.Errorf("%s: replay ended as %+v with %v, recorded is %+v", name, again.Error, again.Logs, out.Error)
			}
			// The replay still detects a different program.
			other := w.replay(func(*guest) *frame.Frame { return value(`1`) }, records)
			if kindOf(other) != frame.KindDiverged || !strings.Contains(other.Error.Message, "call 1") {
				t.Errorf("%s: another program ended as %+v", name, other.Error)
			}
			other = w.replay(func(g *guest) *frame.Frame { g.log("else"); g.take2("echo"); return end(g) }, records)
			if name != "death" && kindOf(other) != frame.KindDiverged {
				t.Errorf("%s: a program that prints something else ended as %+v", name, other.Error)
			}
		})
	}
}

// A program may end after it has cleared a timer whose answer is already under way.
func TestReplayOfUntakenAnswers(t *testing.T) {
	t.Parallel()
	program := func(g *guest) *frame.Frame {
		g.call(frame.Timer, "sleep", `{"ms":1}`)
		g.takeOf(g.call(frame.Tool, "echo", `{}`))
		time.Sleep(2 * time.Millisecond) // By then the timer's answer has come.
		return value(`1`)
	}
	bubble(t, new(gate).on("echo", echo), func(t *testing.T, w *world) {
		out, records := w.run(program)
		if out.Error != nil || !slices.ContainsFunc(records, func(r journal.Record) bool { return r.Answer != nil && r.Answer.Delivery == 2 }) {
			t.Fatalf("%+v; the answer was not delivered before the end", out.Error)
		}
		if again := w.replay(program, records); again.Error != nil {
			t.Errorf("replay: %+v", again.Error)
		}
	})
}

// The replay of a program whose calls were never answered ends without waiting for their answers.
func TestReplayOfUnansweredCalls(t *testing.T) {
	t.Parallel()
	for name, program := range map[string]script{
		"asynchronous": func(g *guest) *frame.Frame { g.call(frame.Tool, "hang", `{}`); g.take(); return value(`1`) },
		"synchronous":  func(g *guest) *frame.Frame { g.sync(frame.Load, "hang", `{}`); return value(`1`) },
	} {
		bubble(t, new(gate).on("hang", hang), func(t *testing.T, w *world) {
			w.limits.MaxWall = time.Minute
			_, records := w.run(program)
			began := time.Now()
			if again := w.replay(program, records); kindOf(again) != frame.KindTimeout {
				t.Errorf("%s: replay ended as %+v", name, again.Error)
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("%s: replay took %s of the bubble's time", name, took)
			}
			dropped := w.replay(func(*guest) *frame.Frame { return value(`1`) }, records)
			if kindOf(dropped) != frame.KindDiverged {
				t.Errorf("%s: a program without the call ended as %+v", name, dropped.Error)
			}
		})
	}
}

func TestDiverged(t *testing.T) {
	t.Parallel()
	program := func(names ...string) script {
		return func(g *guest) *frame.Frame {
			for _, name := range names {
				name, args, _ := strings.Cut(name, " ")
				g.call(frame.Tool, name, `{"x":`+args+`}`)
				g.take()
			}
			g.log("done")
			return value(`1`)
		}
	}
	g := new(gate).on("a", echo).on("b", echo).on("c", echo)
	bubble(t, g, func(t *testing.T, w *world) {
		_, records := w.run(program("a 1", "b 2", "c 3"))
		for _, c := range []struct {
			name string
			s    script
			want string
		}{
			{"same", program("a 1", "b 2", "c 3"), ""},
			{"another tool", program("a 1", "c 2", "b 3"), "call 2"},
			{"other arguments", program("a 1", "b 9", "c 3"), "call 2"},
			{"a dropped call", program("a 1", "b 2"), "call 3"},
			{"no call", program(), "call 1"},
			{"one more", program("a 1", "b 2", "c 3", "a 4"), "call 4"},
			{"other output", func(g *guest) *frame.Frame { program("a 1", "b 2", "c 3")(g); return value(`2`) }, "output differs"},
			{"one more line", func(g *guest) *frame.Frame { f := program("a 1", "b 2", "c 3")(g); g.log("x"); return f }, "console lines"},
			{"waits", func(g *guest) *frame.Frame { program("a 1", "b 2", "c 3")(g); g.take(); return nil }, "waits"},
			{"waits for what it does not ask", func(g *guest) *frame.Frame { g.take(); return nil }, "call 1"},
		} {
			out := w.replay(c.s, records)
			switch {
			case c.want == "" && out.Error != nil:
				t.Errorf("%s: %+v", c.name, out.Error)
			case c.want != "" && (kindOf(out) != frame.KindDiverged || !strings.Contains(out.Error.Message, c.want)):
				t.Errorf("%s: ended as %+v, want %q", c.name, out.Error, c.want)
			}
		}
	})
}

var errDisk = errors.New("no space left on device")

// If a commit fails, the run ends with an error, and the guest gets no answer that was not stored.
func TestFailingJournal(t *testing.T) {
	t.Parallel()
	for fail := 1; fail <= 2; fail++ {
		bubble(t, new(gate).on("echo", echo), func(t *testing.T, w *world) {
			w.gate.on("write", func(ctx context.Context, c *journal.Call, call run.InFlight) (json.RawMessage, *frame.Error) {
				value, failed := write(ctx, c, call)
				if failed == nil {
					w.gate.note("sent")
				}
				return value, failed
			})
			program := func(g *guest) *frame.Frame {
				for _, name := range []string{"echo", "write", "echo"} {
					g.call(frame.Tool, name, `{}`)
					g.take()
				}
				return value(`1`)
			}
			commits := 0
			writer, err := w.store.Create(t.Context(), "run_x")
			if err != nil {
				t.Fatal(err)
			}
			spec := w.spec()
			spec.Journal = hooked{writer, func(journal.Record) {}, func() error {
				if commits++; commits >= fail {
					return errDisk
				}
				return nil
			}}
			out, err := w.execute(program, spec)
			if !errors.Is(err, errDisk) || out != nil {
				t.Errorf("commit %d failed: the run ended %+v, %v", fail, out, err)
			}
			// The first commit stores the intent, the second one the end.
			if sent := slices.Contains(w.gate.notes(), "sent"); sent != (fail > 1) {
				t.Errorf("commit %d failed, and the write was sent: %t", fail, sent)
			}
		})
	}
}

// A failed run reports the writes that it made.
func TestEffects(t *testing.T) {
	t.Parallel()
	g := new(gate).on("echo", echo).on("write", write)
	g.on("refused", func(ctx context.Context, c *journal.Call, call run.InFlight) (json.RawMessage, *frame.Error) {
		write(ctx, c, call)
		return nil, &frame.Error{Kind: frame.KindTool, Name: "ToolError", Message: "no"}
	})
	g.on("doubtful", func(ctx context.Context, c *journal.Call, call run.InFlight) (json.RawMessage, *frame.Error) {
		write(ctx, c, call)
		return nil, &frame.Error{Kind: frame.KindInDoubt, Name: "InDoubtError", Message: "?"}
	})
	program := func(g *guest) *frame.Frame {
		for _, name := range []string{"write", "refused", "doubtful", "echo"} {
			g.call(frame.Tool, name, `{}`)
			g.take()
		}
		g.call(frame.FS, "write", `{}`)
		g.take()
		return &frame.Frame{Error: &frame.Error{Kind: "runtime", Message: "x"}}
	}
	want := []run.Effect{
		{Call: 1, Kind: "tool", Name: "write", State: "done"},
		{Call: 2, Kind: "tool", Name: "refused", State: "failed"},
		{Call: 3, Kind: "tool", Name: "doubtful", State: "in_doubt"},
		{Call: 5, Kind: "fs", Name: "write", State: "done"},
	}
	bubble(t, g, func(t *testing.T, w *world) {
		out, records := w.run(program)
		if !slices.Equal(out.Effects, want) {
			t.Errorf("got %+v", out.Effects)
		}
		if again := w.replay(program, records); !slices.Equal(again.Effects, want) {
			t.Errorf("replay: %+v, error %+v", again.Effects, again.Error)
		}
		resumed, _ := w.resume(program, cut(t, records, func(r journal.Record) bool { return r.Answer != nil && r.Answer.N == 3 }))
		if !slices.Equal(resumed.Effects, want) {
			t.Errorf("resumed: %+v", resumed.Effects)
		}
	})
}

// Endings that the host decides come with advice, like errors of the program.
func TestHostEndingsAreExplained(t *testing.T) {
	t.Parallel()
	bubble(t, new(gate), func(t *testing.T, w *world) {
		w.limits.Timeout = time.Second
		writer, err := w.store.Create(t.Context(), "run_x")
		if err != nil {
			t.Fatal(err)
		}
		spec := w.spec()
		spec.Journal = writer
		spec.Locate = func(e *frame.Error) *run.Error {
			return &run.Error{Kind: e.Kind, Message: e.Message, Hint: "sleep", Stack: e.Stack}
		}
		out, err := w.execute(func(g *guest) *frame.Frame { g.compute(); return nil }, spec)
		if err != nil || kindOf(out) != frame.KindTimeout || out.Error.Hint != "sleep" || out.Error.Stack != "where" || strings.Contains(out.Error.Message, "interrupted") {
			t.Errorf("got %+v, %v", out.Error, err)
		}
	})
}

// Frames with the number of another run are dropped.
func TestStrayFrames(t *testing.T) {
	t.Parallel()
	bubble(t, new(gate).on("echo", echo), func(t *testing.T, w *world) {
		out, _ := w.run(func(g *guest) *frame.Frame {
			mine := g.run
			g.run = "run_y"
			g.out <- &frame.Frame{T: frame.Done, Run: "run_y", Value: json.RawMessage(`666`)}
			g.send(frame.Frame{T: frame.Log, Text: "forged"})
			g.run = mine
			return value(`1`)
		})
		if string(out.Output) != "1" || len(out.Logs) != 0 {
			t.Errorf("got %s, %v", out.Output, out.Logs)
		}
	})
}

// The host checks again the limits that the guest runtime enforces.
func TestBrokenRunners(t *testing.T) {
	t.Parallel()
	long := `"` + strings.Repeat("x", 2000) + `"`
	for name, test := range map[string]struct {
		guest script
		kind  string
	}{
		"name":           {func(g *guest) *frame.Frame { g.call(frame.Tool, long, `{}`); g.take(); return nil }, frame.KindCrash},
		"arguments":      {func(g *guest) *frame.Frame { g.call(frame.Tool, "echo", long); g.take(); return nil }, frame.KindCrash},
		"sync arguments": {func(g *guest) *frame.Frame { g.sync(frame.Load, "echo", long); return nil }, frame.KindCallLimit},
		"in flight": {func(g *guest) *frame.Frame {
			for range 4 {
				g.call(frame.Tool, "hang", `{}`)
			}
			g.take()
			return nil
		}, frame.KindCrash},
		"timers are not in flight": {func(g *guest) *frame.Frame {
			for range 4 {
				g.call(frame.Timer, "sleep", `{"ms":0}`)
			}
			g.takeOf(4)
			g.call(frame.Tool, "echo", `{}`)
			g.takeOf(5)
			return value(`1`)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, new(gate).on("echo", echo).on("hang", hang), func(t *testing.T, w *world) {
				w.limits.MaxValue, w.limits.MaxInFlight = 1000, 3
				if out, _ := w.run(test.guest); kindOf(out) != test.kind {
					t.Errorf("ended as %+v", out.Error)
				}
			})
		})
	}
}

// The arguments and answers of a run are limited in total, and a replay exceeds the limit at the same call.
func TestCrossed(t *testing.T) {
	t.Parallel()
	big := json.RawMessage(`"` + strings.Repeat("x", 8<<20-2) + `"`)
	g := new(gate).on("big", func(context.Context, *journal.Call, run.InFlight) (json.RawMessage, *frame.Error) {
		return big, nil
	})
	program := func(g *guest) *frame.Frame {
		for {
			g.takeOf(g.call(frame.Tool, "big", `{}`))
		}
	}
	bubble(t, g, func(t *testing.T, w *world) {
		out, records := w.run(program)
		if kindOf(out) != frame.KindCallLimit || out.Calls != 32 {
			t.Fatalf("ended after %d calls as %+v", out.Calls, out.Error)
		}
		if again := w.replay(program, records); kindOf(again) != frame.KindCallLimit || again.Calls != out.Calls {
			t.Errorf("the replay ended after %d calls as %+v", again.Calls, again.Error)
		}
	})
}

// Long errors of a program are clipped before anything else uses them.
func TestLongErrors(t *testing.T) {
	t.Parallel()
	bubble(t, new(gate), func(t *testing.T, w *world) {
		long := strings.Repeat("é", 1<<20)
		out, records := w.run(func(*guest) *frame.Frame {
			return &frame.Frame{Error: &frame.Error{Name: long, Message: long, Stack: long, Data: json.RawMessage(`"` + long + `"`)}}
		})
		text, err := json.Marshal(out.Error)
		if err != nil || len(text) > 100<<10 || !strings.HasSuffix(out.Error.Message, "… (2080768 bytes more)") || out.Error.Data != nil {
			t.Errorf("%d bytes, %v: %.100s", len(text), err, text)
		}
		if n := len(records[len(records)-1].End.Error); n > 100<<10 {
			t.Errorf("recorded with %d bytes", n)
		}
	})
}

// A run that is handed over has no end record. It is resumed later like a run whose process was killed.
func TestSuspend(t *testing.T) {
	t.Parallel()
	program := func(g *guest) *frame.Frame {
		g.call(frame.Tool, "hang", `{}`)
		g.take()
		return value(`1`)
	}
	bubble(t, new(gate).on("hang", hang), func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancelCause(t.Context())
		w.ctx = ctx
		go func() {
			synctest.Wait() // the call is in flight
			cancel(fmt.Errorf("shutdown: %w", run.ErrHandedOver))
		}()
		writer, err := w.store.Create(t.Context(), "run_x")
		if err != nil {
			t.Fatal(err)
		}
		spec := w.spec()
		spec.Journal = writer
		if out, err := w.execute(program, spec); !errors.Is(err, run.ErrHandedOver) {
			t.Fatalf("ended as %+v, %v", out, err)
		}
		if err := writer.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		records, err := w.store.Read(context.Background(), "run_x")
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			if r.End != nil || r.Answer != nil {
				t.Errorf("recorded: %+v", r)
			}
		}
		w.ctx = context.Background()
		w.gate.on("hang", echo)
		if out, _ := w.resume(program, records); out.Status != run.Succeeded {
			t.Errorf("the resumed run ended as %+v", out.Error)
		}
	})
}

// The outcome that is read from a journal equals the outcome of the run.
func TestRecorded(t *testing.T) {
	t.Parallel()
	bubble(t, new(gate).on("write", write).on("echo", echo), func(t *testing.T, w *world) {
		out, records := w.run(func(g *guest) *frame.Frame {
			g.log("hello")
			g.takeOf(g.call(frame.Tool, "write", `{}`))
			g.takeOf(g.call(frame.Tool, "echo", `{}`))
			return &frame.Frame{Error: &frame.Error{Kind: frame.KindRuntime, Name: "Error", Message: "x"}}
		})
		got, err := run.Recorded(records)
		if diff := cmp.Diff(out, got); err != nil || diff != "" || len(got.Effects) != 1 {
			t.Errorf("%v, %s", err, diff)
		}
		if got, err := run.Recorded(records[:len(records)-1]); got != nil || err != nil {
			t.Errorf("without an end: %+v, %v", got, err)
		}
	})
}
