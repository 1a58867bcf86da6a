package wiring_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
)

// answers holds back the slow calls of an upstream server until a test answers them.
type answers struct {
	mu    sync.Mutex
	names map[string]chan struct{} // channels by name, closed when the call has come
	free  map[string]chan struct{} // channels by name, closed when the call may be answered
}

func newAnswers(up *upstream) *answers {
	a := &answers{names: map[string]chan struct{}{}, free: map[string]chan struct{}{}}
	up.on = func(ctx context.Context, _, _ string, args json.RawMessage) (string, error) {
		var in struct{ Slow string }
		if err := json.Unmarshal(args, &in); err != nil {
			return "", err
		}
		if in.Slow != "" {
			close(a.of(a.names, in.Slow))
			select {
			case <-a.of(a.free, in.Slow):
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}
		return string(args), nil
	}
	return a
}

func (a *answers) of(all map[string]chan struct{}, name string) chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if all[name] == nil {
		all[name] = make(chan struct{})
	}
	return all[name]
}

// came waits until the call with a name has come.
func (a *answers) came(t testing.TB, name string) {
	t.Helper()
	select {
	case <-a.of(a.names, name):
	case <-time.After(patience):
		t.Fatalf("%s has not come", name)
	}
}

func (a *answers) answer(name string) { close(a.of(a.free, name)) }

// without waits until no program has a runner.
func (f *fixture) without() {
	f.t.Helper()
	pool, err := f.Tiers().Pool("")
	if err != nil {
		f.t.Fatal(err)
	}
	eventually(f.t, "the run has given up its runner", func() bool {
		started, idle := pool.Stats()
		return started == idle
	})
}

// slowCalls waits for slow calls, a timer and an approval at the same time, and returns their answers and the order.
const slowCalls = `
	const rolls = [], order = []
	const take = async (name, call) => {
	  await call
	  order.push(name)
	  rolls.push([Math.random(), Date.now(), crypto.randomUUID()])
	  await callMCPTool('up__read', {taken: name})
	  console.log(name)
	}
	await Promise.all([
	  take('timer', utils.sleep(20)),
	  ...['a', 'b', 'c', 'd'].map(name => take(name, callMCPTool('up__read', {slow: name}))),
	  take('approval', callMCPTool('up__send', {}).catch(e => { order.push(e.name) })),
	])
	return {order, rolls}`

// TestDetach: a run that gives up its runner for several calls, which are answered in any order, has the same journal as a run that keeps its runner, and can
// be replayed.
func TestDetach(t *testing.T) {
	t.Parallel()
	for _, order := range []string{"abcd", "dcba", "cadb"} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			execute := func(after string) (string, *run.Outcome) {
				up := newUpstream(t, "up")
				f := askingIn(t, t.TempDir(), map[string]string{"sandbox.parkAfter": after, "sandbox.pool": "1"}, up)
				calls := newAnswers(up)
				done := make(chan *run.Outcome, 1)
				var seen []string
				logs := make(chan string, 10)
				go func() {
					out, err := f.Runs().Execute(t.Context(), runs.Request{Code: slowCalls, Observe: func(e run.Event) {
						if e.Log != nil {
							seen = append(seen, e.Log.Text)
							logs <- e.Log.Text
						}
					}})
					if err != nil {
						t.Error(err)
					}
					done <- out
				}()
				taken := func(name string) {
					select {
					case got := <-logs:
						if got != name {
							t.Errorf("%s was taken, want %s", got, name)
						}
					case <-time.After(patience):
						t.Fatalf("%s was not taken", name)
					}
				}
				taken("timer")
				for _, name := range strings.Split(order, "") {
					calls.came(t, name)
					if after != "0s" {
						f.without()
					}
					calls.answer(name)
					taken(name)
				}
				out := <-done
				if out == nil {
					t.FailNow()
				}
				f.wantWaiting(out)
				if want := "timer" + order; strings.Join(seen, "") != want || len(out.Logs) != len(want)-4 {
					t.Errorf("seen %q, logs %v, want those of %s", seen, out.Logs, want)
				}
				out = f.decide(out, approve)
				f.replay(out)
				return summary(f.journalOf(out.RunID)), out
			}
			kept, out := execute("0s")
			left, again := execute("1ms")
			if kept != left {
				t.Errorf("the journals differ:\n%s\n%s", kept, left)
			}
			type result struct{ Order []string }
			if a, b := decoded[result](t, out), decoded[result](t, again); !slices.Equal(a.Order, b.Order) || len(a.Order) != 6 {
				t.Errorf("order %q, and %q", a.Order, b.Order)
			}
		})
	}
}

// summary returns the content of a journal as text, without times and random values.
func summary(records []journal.Record) string {
	var b strings.Builder
	for _, r := range records {
		switch {
		case r.Call != nil:
			fmt.Fprintf(&b, "call %d %s %s %s\n", r.Call.N, r.Call.Kind, r.Call.Name, r.Call.Args)
		case r.Answer != nil:
			fmt.Fprintf(&b, "answer %d as %d: %s %s\n", r.Answer.N, r.Answer.Delivery, r.Answer.Value, r.Answer.Error)
		case r.Intent != nil:
			fmt.Fprintf(&b, "intent %d\n", r.Intent.N)
		case r.Log != nil:
			fmt.Fprintf(&b, "log %s\n", r.Log.Text)
		case r.End != nil:
			fmt.Fprintf(&b, "end %s, %d calls\n", r.End.Status, r.End.Calls)
		}
	}
	return b.String()
}

// TestDetachStopped: a run without a runner whose process stops is resumed like any other run. Calls that were in flight are repeated or in doubt.
func TestDetachStopped(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, "up")
	f := setup(t, map[string]string{"sandbox.parkAfter": "1ms"}, up.entry)
	calls := newAnswers(up)
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	stopped := make(chan error, 1)
	id := "run_stopped"
	go func() {
		_, err := f.Runs().Execute(ctx, runs.Request{ID: id, Code: `
			await fs.promises.writeFile('/workspace/x', 'kept')
			const read = callMCPTool('up__read', {slow: 'read'}).then(v => v.slow)
			const send = callMCPTool('up__send', {slow: 'send'}).catch(e => e.name)
			return [await read, await send, await fs.promises.readFile('/workspace/x', 'utf8')]`})
		stopped <- err
	}()
	calls.came(t, "read")
	calls.came(t, "send")
	f.without()
	stop(run.ErrHandedOver)
	if err := <-stopped; !errors.Is(err, run.ErrHandedOver) {
		t.Fatal(err)
	}
	up.on = nil
	out := f.goOn(id)
	if got := strings.Join(decoded[[]string](t, out), " "); got != "read InDoubtError kept" {
		t.Errorf("it returned %s", got)
	}
	if n := len(up.sent()); n != 1 {
		t.Errorf("sent %d times", n)
	}
}
