package wiring_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
)

// ledger records which records of a journal are stored. fail reports whether a commit of the given records fails.
type ledger struct {
	journal.Writer
	fail    func(records []journal.Record) bool
	mu      sync.Mutex
	pending []journal.Record
	stored  []journal.Record
	answer  func(a *journal.Answer) // called with each answer before the answer is appended; may be nil
}

var errFull = errors.New("no space left on device")

func (l *ledger) Append(r journal.Record) {
	if r.Answer != nil && l.answer != nil {
		l.answer(r.Answer)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = append(l.pending, r)
	l.Writer.Append(r)
}

func (l *ledger) Commit(ctx context.Context) error {
	l.mu.Lock()
	fails := l.fail != nil && l.fail(l.pending)
	n := len(l.pending)
	l.mu.Unlock()
	if fails {
		return errFull
	}
	if err := l.Writer.Commit(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.stored) < n { // Another commit may have stored some of them at the same time.
		l.stored = append(l.stored, l.pending[len(l.stored)])
	}
	return nil
}

func (l *ledger) have() []journal.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.stored)
}

// keep puts a ledger in front of the journals of later runs.
func (f *fixture) keep(l *ledger) *ledger {
	f.WrapJournal(func(w journal.Writer) journal.Writer {
		l.Writer = w
		return l
	})
	return l
}

// Rule 7, writing: when a server gets a write, the intent of the write and all records before it are stored.
func TestRuleWritingIntents(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, "up")
	f := setup(t, nil, u.entry)
	l := f.keep(&ledger{})
	u.on = func(_ context.Context, tool, key string, args json.RawMessage) (string, error) {
		stored := l.have()
		i := slices.IndexFunc(stored, func(r journal.Record) bool { return r.Intent != nil && r.Intent.Key == key })
		switch {
		case tool == "read" && i >= 0:
			t.Error("a read has an intent")
		case tool != "read" && i < 0:
			t.Errorf("the server got %s %s before its intent was stored", tool, args)
		case tool != "read" && (stored[0].Start == nil || !slices.ContainsFunc(stored[:i], func(r journal.Record) bool {
			return r.Call != nil && r.Call.N == stored[i].Intent.N
		})):
			t.Errorf("start and call are not stored before the intent of %s", args)
		}
		return string(args), nil
	}
	f.value(`
await tools.up.send({ first: 1 })
await tools.up.read({})
await Promise.all(Array.from({ length: 20 }, (_, i) => i % 2 ? tools.up.send({ i }) : tools.up.put({ i })))
return 1`, nil)
	if n := len(u.called()); n != 22 {
		t.Errorf("%d calls", n)
	}
}

// An answer is stored before the observer sees the answer, or a call or line that may depend on it.
func TestRuleWritingAnswers(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, newUpstream(t, "up").entry)
	l := f.keep(&ledger{})
	calls, answers := 0, 0
	need := func(what string, n int) {
		if !slices.ContainsFunc(l.have(), func(r journal.Record) bool { return r.Answer != nil && r.Answer.N == n }) {
			t.Errorf("%s was shown before answer %d was stored", what, n)
		}
	}
	out := f.exec(runs.Request{
		Code: `
const line = (n) => console.log(n)
await tools.up.read({})
line(1); await tools.up.send({})
line(2); await fs.writeFile('/workspace/a', 'x')
line(3); await utils.sleep(1)
line(4); await list_mcp_tools()
line(5); try { await tools.up.nothing() } catch {}
line(6); try { require('/skills/none') } catch {}
await fs.exists('/workspace/a')
return 1`,
		Observe: func(e run.Event) {
			switch {
			case e.Call != nil:
				if calls++; e.Call.N > 1 {
					need(fmt.Sprintf("call %d", e.Call.N), e.Call.N-1)
				}
			case e.Answer != nil:
				answers++
				need(fmt.Sprintf("answer %d", e.Answer.N), e.Answer.N)
			case e.Log != nil:
				n, err := strconv.Atoi(e.Log.Text)
				if err != nil {
					t.Error(err)
				}
				need("line "+e.Log.Text, n)
			}
		},
	})
	if kind(out) != "" || calls != 8 || answers != calls {
		t.Errorf("%+v: %d calls and %d answers were shown", out.Error, calls, answers)
	}
}

// If the journal cannot be written, the run ends with an error, and nothing that depends on unstored records becomes visible.
func TestRuleWritingFails(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, "up")
	f := setup(t, nil, u.entry)
	for n := 1; n <= 6; n++ { // The records are intent, answer, intent, answer and end. A sixth is never written.
		f.keep(&ledger{fail: func(records []journal.Record) bool {
			written := 0
			for _, r := range records {
				if r.Intent != nil || r.Answer != nil || r.End != nil {
					written++
				}
			}
			return written >= n
		}})
		before := len(u.called())
		out, err := f.Runs().Execute(t.Context(), runs.Request{Code: `
await tools.up.send({ n: 1 })
await tools.up.send({ n: 2 })
return 1`})
		if n == 6 {
			if err != nil || out.Error != nil {
				t.Errorf("nothing failed: %+v, %v", out, err)
			}
			break
		}
		if !errors.Is(err, errFull) || out != nil {
			t.Errorf("record %d failed: %+v, %v", n, out, err)
		}
		// The server can have got only calls whose intents were stored.
		if got, want := len(u.called())-before, []int{0, 1, 1, 2, 2}[n-1]; got != want {
			t.Errorf("record %d failed: the server got %d calls, want %d", n, got, want)
		}
	}
}

// Every answer is recorded, including those of the gate itself, so a replay needs no server.
func TestRuleWritingEveryAnswer(t *testing.T) {
	t.Parallel()
	f := setup(t, map[string]string{"sandbox.maxCalls": "4"}, newUpstream(t, "up").entry)
	out := f.exec(code(`
const errors = []
const note = async (f) => { try { await f() } catch (e) { errors.push(e.name + ': ' + e.message) } }
await note(() => callMCPTool('up__nothing', {}))
await note(() => callMCPTool('nobody__nothing', {}))
await note(() => callMCPTool('up__read', { x: undefined }))
await note(() => tools.up.read(1, 2, 3))
await note(() => tools.up.read({}))
await note(() => fs.readFile('/etc/passwd'))
await note(() => get_mcp_tool_details('up__nothing'))
await note(() => read_mcp_resource('nobody', 'x'))
await note(async () => require('/skills/none'))
await note(async () => new Date(0).toLocaleString('en-US', { timeZone: 'Mars/Olympus' }))
return errors`))
	errs := decoded[[]string](t, out)
	if len(errs) != 9 || !strings.HasPrefix(errs[3], "LimitError") {
		t.Errorf("%d errors: %s", len(errs), strings.Join(errs, "\n"))
	}
	records := f.journalOf(out.RunID)
	// Another harness without these servers, skills and limits replays the run.
	other := setup(t, nil)
	again := other.replayed(records, "")
	if again.Error != nil || string(again.Output) != string(out.Output) {
		t.Errorf("elsewhere: %s, %+v", again.Output, again.Error)
	}
	calls, answers := 0, 0
	for _, r := range records {
		if r.Call != nil {
			calls++
		}
		if r.Answer != nil {
			answers++
		}
	}
	if calls != answers || calls < 10 {
		t.Errorf("%d calls, %d answers", calls, answers)
	}
}
