package wiring_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/policy"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/wiring"
)

// asking is a policy that asks a person about every write.
type asking struct{}

func (asking) Decide(c policy.Call) policy.Verdict {
	if c.ReadOnly {
		return policy.Verdict{Action: policy.Allow}
	}
	return policy.Verdict{Action: policy.Ask, Rule: 1, Reason: "rule 1 asks about writes"}
}

// askingIn opens a harness that asks about every write of a server.
func askingIn(t testing.TB, dir string, flags map[string]string, up *upstream) *fixture {
	t.Helper()
	return openIn(t, dir, flags, wiring.Outside{Policy: asking{}}, up.entry)
}

// waits executes a program that must wait for an approval.
func (f *fixture) waits(text string) *run.Outcome {
	f.t.Helper()
	out, err := f.Runs().Execute(f.t.Context(), code(text))
	if err != nil {
		f.t.Fatal(err)
	}
	f.wantWaiting(out)
	return out
}

func (f *fixture) wantWaiting(out *run.Outcome) {
	f.t.Helper()
	if out.Status != run.WaitingApproval || out.Approval == nil || out.Error != nil {
		f.t.Fatalf("the run is %s, error %+v, want one that waits", out.Status, out.Error)
	}
}

// decide decides a request and continues its run.
func (f *fixture) decide(out *run.Outcome, d approval.Decision) *run.Outcome {
	f.t.Helper()
	if _, err := f.Runs().Decide(f.t.Context(), auth.Local(), out.Approval.ID, d); err != nil {
		f.t.Fatal(err)
	}
	return f.goOn(out.RunID)
}

func (f *fixture) goOn(id string) *run.Outcome {
	f.t.Helper()
	out, err := f.Runs().Resume(f.t.Context(), id, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}

var approve = approval.Decision{Approve: true}

// sent returns the calls of the tool send, sorted.
func (u *upstream) sent() []string {
	calls := slices.DeleteFunc(u.called(), func(c string) bool { return !strings.HasPrefix(c, "send ") })
	slices.Sort(calls)
	return calls
}

// TestApproval: a call that the policy asks about waits. Its request contains what a person needs for the decision. After the approval, the call is made
// once.
func TestApproval(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, "up")
	f := askingIn(t, t.TempDir(), nil, up)
	out := f.waits(`
		const {n} = await callMCPTool('up__read', {n: 1})
		console.log('read', n)
		return callMCPTool('up__send', {n: n + 1})`)
	if len(up.sent()) != 0 {
		t.Errorf("before the approval: %q", up.called())
	}
	r := out.Approval
	if len(r.Calls) != 1 || r.Calls[0].Tool != "up__send" || string(r.Calls[0].Args) != `{"n":2}` || !r.Calls[0].Destructive ||
		r.Calls[0].Reason != "rule 1 asks about writes" || r.Made != 2 || r.Status != approval.Waiting {
		t.Errorf("asked: %+v", r)
	}
	again := f.goOn(out.RunID)
	f.wantWaiting(again)
	if again.Approval.ID != r.ID || len(again.Logs) != 1 {
		t.Errorf("resumed before the decision: %+v", again)
	}
	got := f.decide(out, approve)
	if n := decoded[struct{ N int }](t, got); n.N != 2 || got.Calls != 2 || len(got.Logs) != 1 {
		t.Errorf("approved: %+v", got)
	}
	if calls := up.sent(); !slices.Equal(calls, []string{`send {"n":2}`}) {
		t.Errorf("sent: %q", calls)
	}
	f.replay(got)
}

// TestApprovalDenied: the program can catch the error of a denial, which contains the reason.
func TestApprovalDenied(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, "up")
	f := askingIn(t, t.TempDir(), nil, up)
	out := f.waits(`
		try { await callMCPTool('up__send', {n: 1}) }
		catch (e) { return [e instanceof DeniedError, e.name, e.message, e.data.reason] }`)
	got := f.decide(out, approval.Decision{Reason: "not today"})
	want := []any{true, "DeniedError", "up__send was not called: it was denied: not today", "not today"}
	if got := decoded[[]any](t, got); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("caught %v, want %v", got, want)
	}
	if len(up.sent()) != 0 {
		t.Errorf("a denied call was made: %q", up.called())
	}
	f.replay(got)
	failed := f.decide(f.waits(`await callMCPTool('up__send', {n: 1})`), approval.Decision{})
	if kind(failed) != "denied" || failed.Error.Tool != "up__send" {
		t.Errorf("not caught: %+v", failed.Error)
	}
}

// TestApprovalAll: calls that wait at the same time form one request. A loop makes one request for each of its calls.
func TestApprovalAll(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, "up")
	f := askingIn(t, t.TempDir(), nil, up)
	out := f.waits(`return (await Promise.all(Array.from({length: 50}, (_, i) => callMCPTool('up__send', {i})))).map((r) => r.i)`)
	if n := len(out.Approval.Calls); n != 50 {
		t.Errorf("the request has %d calls, want 50", n)
	}
	got := f.decide(out, approve)
	for i, n := range decoded[[]int](t, got) {
		if i != n {
			t.Errorf("call %d got the answer of %d", i, n)
		}
	}
	if calls := up.sent(); len(calls) != 50 || len(slices.Compact(calls)) != 50 {
		t.Errorf("%d calls were made, %d different ones", len(up.sent()), len(slices.Compact(calls)))
	}
	f.replay(got)

	const loop = `let n = 0; for (let i = 0; i < 50; i++) n += (await callMCPTool('up__send', {k: i})).k; return n`
	out = f.waits(loop)
	asked := map[string]bool{}
	for out.Status == run.WaitingApproval {
		asked[out.Approval.ID] = true
		if len(out.Approval.Calls) != 1 || out.Approval.Calls[0].N != len(asked) {
			t.Fatalf("request %d: %+v", len(asked), out.Approval.Calls)
		}
		out = f.decide(out, approve)
	}
	if sum := decoded[int](t, out); sum != 1225 || len(asked) != 50 || len(up.sent()) != 100 {
		t.Errorf("sum %d, %d requests, %d calls", sum, len(asked), len(up.sent()))
	}
	f.replay(out)
	remembered := f.decide(f.waits(loop), approval.Decision{Approve: true, Remember: true})
	if sum := decoded[int](t, remembered); sum != 1225 {
		t.Errorf("remembered: %d", sum)
	}
	f.waits(loop) // An approval that is remembered does not hold for another run.
}

// TestApprovalTimers: timers keep their remaining time while their run waits, and the program's clock jumps over the waiting time.
func TestApprovalTimers(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, "up")
	f := askingIn(t, t.TempDir(), nil, up)
	out := f.waits(`
		await callMCPTool('up__read', {}) // so that the server is connected
		const began = Date.now(), order = []
		await Promise.all([
		  utils.sleep(3000).then(() => order.push('timer')),
		  callMCPTool('up__send', {}).then(() => order.push('call')),
		])
		return {order, took: Date.now() - began}`)
	left := out.Approval.Resume.Timers
	if len(left) != 1 || left[2] <= 0 || left[2] > 3*time.Second {
		t.Errorf("timers: %v", left)
	}
	parked := time.Now()
	<-time.After(50 * time.Millisecond) // The program's clock jumps over this time.
	done := f.decide(out, approve)
	got := decoded[struct {
		Order []string
		Took  int
	}](t, done)
	if passed := time.Since(parked); got.Took < 50 || time.Duration(done.Duration) > passed+time.Duration(out.Duration)-50*time.Millisecond {
		t.Errorf("the program's clock went on by %d ms, the run took %s, %s of them since it waited", got.Took, time.Duration(done.Duration), passed)
	}
	if !slices.Equal(got.Order, []string{"call", "timer"}) {
		t.Errorf("order %q", got.Order)
	}
}

// TestApprovalWall: the times that a run takes before and after it waits count together towards maxWall. The waiting time does not count.
func TestApprovalWall(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, "up")
	f := askingIn(t, t.TempDir(), map[string]string{"sandbox.timeout": "10s", "sandbox.maxWall": "10s", "sandbox.callTimeout": "10s"}, up)
	const program = `await utils.sleep(%d); await callMCPTool('up__send', {}); await utils.sleep(%d); return 'done'`
	long, short := f.waits(fmt.Sprintf(program, 300, 9900)), f.waits(fmt.Sprintf(program, 1, 1))
	<-time.After(10 * time.Second) // as long as maxWall
	if got := f.decide(short, approve); got.Status != run.Succeeded {
		t.Errorf("the waiting counts: %+v", got.Error)
	}
	if got := f.decide(long, approve); kind(got) != "timeout" {
		t.Errorf("10.2 s of 10 s: %s", got.Status)
	}
}

// TestApprovalJournal: a waiting run has no runner, and its journal has no record of the waiting.
func TestApprovalJournal(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, "up")
	f := askingIn(t, t.TempDir(), map[string]string{"sandbox.pool": "1"}, up)
	var waiting []*run.Outcome
	for i := range 5 { // more runs than runners
		waiting = append(waiting, f.waits(fmt.Sprintf(`return callMCPTool('up__send', {n: %d})`, i)))
	}
	records := f.journalOf(waiting[0].RunID)
	if last := records[len(records)-1]; last.Call == nil || last.Call.N != 1 {
		text, _ := json.Marshal(last)
		t.Errorf("the last record is %s", text)
	}
	slices.Reverse(waiting)
	for _, out := range waiting {
		got := f.decide(out, approve)
		records := f.journalOf(got.RunID)
		intents := 0
		for _, r := range records {
			if r.Intent != nil {
				intents++
				if r.Intent.Approval != out.Approval.ID {
					t.Errorf("the intent names approval %q, want %q", r.Intent.Approval, out.Approval.ID)
				}
			}
		}
		if intents != 1 || got.Status != run.Succeeded {
			t.Errorf("%s with %d intents", got.Status, intents)
		}
	}
	if n := len(up.sent()); n != 5 {
		t.Errorf("%d calls", n)
	}
}
