package wiring_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/testing/misbehave"
)

// badServer returns the configuration entry of a server in a child process that misbehaves like real servers.
func badServer(t testing.TB, name, how string) *config.MCPServer {
	t.Helper()
	return &config.MCPServer{
		Name: name, Command: self(t), Env: misbehave.Env(how, filepath.Join(t.TempDir(), "pids")),
		StartupTimeout: patience, Timeout: patience,
	}
}

// Rule 8, in doubt: if a server dies in the middle of a write, the program gets an InDoubtError, which it can catch.
func TestRuleInDoubt(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, badServer(t, "bad", misbehave.Normal))
	out := f.exec(code(`
let caught
try { await callMCPTool('bad__exit', {}) } catch (e) { caught = e }
return [caught instanceof InDoubtError, caught instanceof ToolError, caught instanceof Error, caught.name, caught.kind, caught.tool, caught.message]`))
	got := decoded[[]any](t, out)
	if want := []any{true, true, true, "InDoubtError", "in_doubt", "bad__exit"}; !slices.Equal(got[:6], want) {
		t.Errorf("got %v", got)
	}
	if text, _ := got[6].(string); !strings.Contains(text, "unknown") || !strings.Contains(text, "bad__exit") {
		t.Errorf("message %q", text)
	}
	answers := 0
	for _, r := range f.journalOf(out.RunID) {
		if r.Answer != nil {
			answers++
			if !strings.Contains(string(r.Answer.Error), `"kind":"in_doubt"`) {
				t.Errorf("the answer is recorded as %s", r.Answer.Error)
			}
		}
	}
	if answers != 1 {
		t.Errorf("%d answers are recorded", answers)
	}
	// If the program does not catch the error, the run ends with it, and the outcome lists the write.
	eventually(t, "the backoff is over", func() bool {
		st := f.status("bad")
		return st.State == mcpclient.StateBackoff && time.Now().After(st.RetryAt)
	})
	out, err := f.Runs().Execute(t.Context(), code(`await callMCPTool('bad__half', {})`))
	if err != nil || kind(out) != frame.KindInDoubt || out.Error.Tool != "bad__half" {
		t.Fatalf("ended as %+v, %v", out.Error, err)
	}
	if want := []run.Effect{{Call: 1, Kind: "tool", Name: "bad__half", State: "in_doubt"}}; !slices.Equal(out.Effects, want) {
		t.Errorf("effects %+v", out.Effects)
	}
	if again := f.replayed(f.journalOf(out.RunID), ""); kind(again) != frame.KindInDoubt || again.Error.Message != out.Error.Message {
		t.Errorf("replay ended as %+v", again.Error)
	}
}

// A read that is interrupted fails with a ToolError. A write is in doubt, whether it is idempotent or not.
func TestRuleInDoubtByAnnotation(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, "up")
	u.on = func(context.Context, string, string, json.RawMessage) (string, error) {
		u.web.CloseClientConnections()
		return "", errors.New("nobody gets this")
	}
	f := setup(t, nil, u.entry)
	out := f.exec(code(`
const names = []
for (const tool of ['read', 'put', 'send']) try { await tools.up[tool]({}) } catch (e) { names.push(e.name + ' ' + e.kind + ' ' + (e instanceof ToolError)) }
return names`))
	want := []string{"ToolError tool true", "InDoubtError in_doubt true", "InDoubtError in_doubt true"}
	if got := decoded[[]string](t, out); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if calls := u.called(); len(calls) != 3 {
		t.Errorf("a call was repeated: %v", calls)
	}
}

// A resumed run repeats a read that was in flight, and an idempotent write that was sent recently. Other writes are in doubt.
func TestRuleInDoubtResumed(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, "up")
	f := setup(t, nil, u.entry)
	for _, c := range []struct {
		tool  string
		age   time.Duration
		again bool
	}{
		{"read", time.Hour, true}, {"put", 4 * time.Minute, true}, {"put", 6 * time.Minute, false}, {"send", 0, false},
	} {
		out := f.exec(code(`
let got
try { got = await tools.up.` + c.tool + `({ n: 1 }) } catch (e) { got = e.name }
return [got, await tools.up.read({ after: 1 })]`))
		died := until(t, f.journalOf(out.RunID), func(r journal.Record) bool {
			return r.Intent != nil || c.tool == "read" && r.Call != nil
		})
		died = edited(t, died, func(r *journal.Record) {
			if r.Intent != nil {
				r.Intent.Time -= c.age.Microseconds()
			}
		})
		before := len(u.called())
		resumed := f.resumed("run_"+c.tool+c.age.String(), died)
		want, calls := `["InDoubtError",{"after":1}]`, 1
		if c.again {
			want, calls = `[{"n":1},{"after":1}]`, 2
		}
		if string(resumed.Output) != want {
			t.Errorf("%s after %s: %s, %+v, want %s", c.tool, c.age, resumed.Output, resumed.Error, want)
		}
		if n := len(u.called()) - before; n != calls {
			t.Errorf("%s after %s: the server got %d calls, want %d", c.tool, c.age, n, calls)
		}
		f.replay(resumed)
	}
}

// A write is in doubt even if its server cannot be reached after the crash.
func TestRuleInDoubtResumedWithoutTheServer(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, newUpstream(t, "up").entry)
	out := f.exec(code(`try { return await tools.up.put({}) } catch (e) { return e.name }`))
	died := until(t, f.journalOf(out.RunID), func(r journal.Record) bool { return r.Intent != nil })
	alone := setup(t, nil, &config.MCPServer{Name: "up", URL: "http://127.0.0.1:1/mcp", StartupTimeout: time.Second})
	if resumed := alone.resumed("run_alone", died); string(resumed.Output) != `"InDoubtError"` {
		t.Errorf("got %s, %+v", resumed.Output, resumed.Error)
	}
}

// A run that used a stateful server gets one error when the server was restarted.
func TestRuleInDoubtStateful(t *testing.T) {
	t.Parallel()
	server := badServer(t, "bad", misbehave.Normal)
	server.Stateful = true
	uninstall, install := linked(t, server)
	f := setup(t, nil, server)
	f.keep(&ledger{answer: func(a *journal.Answer) {
		switch a.N {
		case 1:
			uninstall()
			kill(t, f.status("bad").PID)
			eventually(t, "the connection's end is noticed", func() bool { return f.status("bad").PID == 0 })
		case 2:
			install()
		}
	}})
	out := f.exec(runs.Request{
		Code: `
const before = await tools.bad.pid()
const names = []
for (let i = 0; i < 500; i++) {
  try { const after = await tools.bad.pid(); return { names, restarted: after !== before } }
  catch (e) { if (names.at(-1) !== e.name) names.push(e.name); await utils.sleep(20) }
}`,
		Session: "s",
	})
	got := decoded[struct {
		Names     []string
		Restarted bool
	}](t, out)
	// Calls fail while the server is down. The first call that could be made afterwards fails with a SessionLostError.
	if want := []string{"ToolError", "SessionLostError"}; !slices.Equal(got.Names, want) || !got.Restarted {
		t.Errorf("got %+v, want %v", got, want)
	}
	f.WrapJournal(func(w journal.Writer) journal.Writer { return w })
	// A resumed run gets the error too, because this harness has another connection than the dead harness.
	records := f.journalOf(out.RunID)
	died := until(t, records, func(r journal.Record) bool { return r.Answer != nil && r.Answer.N == 1 })
	resumed := f.resumed("run_stateful", died)
	if names := decoded[struct{ Names []string }](t, resumed).Names; !slices.Equal(names, []string{"SessionLostError"}) {
		t.Errorf("the resumed run was told %v", names)
	}
}

// A run that is cancelled after a write was sent leaves it in doubt.
func TestRuleInDoubtCancelled(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, "up")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	told := make(chan struct{})
	u.on = func(ctx context.Context, _, _ string, _ json.RawMessage) (string, error) {
		cancel() // The server has received the write.
		<-ctx.Done()
		close(told)
		return "", ctx.Err()
	}
	f := setup(t, nil, u.entry)
	out, err := f.Runs().Execute(ctx, code(`try { await tools.up.send({}) } catch {} await tools.up.send({ after: 1 })`))
	if err != nil || out.Status != run.Cancelled {
		t.Fatalf("ended %+v, %v", out, err)
	}
	select {
	case <-told:
	case <-time.After(patience):
		t.Error("the server was not told")
	}
	if want := []run.Effect{{Call: 1, Kind: "tool", Name: "send", State: "in_doubt"}}; !slices.Equal(out.Effects, want) {
		t.Errorf("effects %+v", out.Effects)
	}
	for _, r := range f.journalOf(out.RunID) {
		if r.Answer != nil && (!r.Answer.Undelivered() || !strings.Contains(string(r.Answer.Error), "in_doubt")) {
			t.Errorf("the answer is recorded as %+v", r.Answer)
		}
	}
	if again := f.replayed(f.journalOf(out.RunID), ""); again.Status != run.Cancelled {
		t.Errorf("replay ended %+v", again.Error)
	}
	if calls := u.called(); len(calls) != 1 {
		t.Errorf("the server got %v", calls)
	}
}
