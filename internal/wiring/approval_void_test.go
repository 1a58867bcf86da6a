package wiring_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/policy"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/wiring"
)

// verdicts is a policy with one verdict on all writes. Tests change the verdict.
type verdicts struct{ atomic.Pointer[policy.Action] }

func (v *verdicts) Decide(c policy.Call) policy.Verdict {
	if c.ReadOnly {
		return policy.Verdict{Action: policy.Allow}
	}
	return policy.Verdict{Action: *v.Load(), Rule: 1, Reason: "rule 1"}
}

// An approval is void if the tool's definition or the arguments to send have changed since. The call is asked about again.
func TestApprovalVoid(t *testing.T) {
	t.Parallel()
	dir, up := t.TempDir(), newUpstream(t, "up")
	f := openIn(t, dir, nil, wiring.Outside{Policy: asking{}}, up.entry)
	out := f.waits(`await callMCPTool('up__send', {to: 'ann@example.com'})`)
	if args := string(out.Approval.Calls[0].Args); args != `{"to":"pii_1e@d1.pii.invalid"}` {
		t.Errorf("people are shown %s", args)
	}
	// The value of the token changes, as if the vault had been edited.
	changed := openIn(t, dir, nil, wiring.Outside{Policy: asking{}}, up.entry)
	if err := changed.Privacy().Forget(t.Context(), runs.DefaultUser, "s"); err != nil {
		t.Fatal(err)
	}
	token, err := changed.Privacy().In(runs.DefaultUser, "s").Hide(t.Context(), pii.FromCode, "bob@example.com")
	if err != nil || token != "pii_1e@d1.pii.invalid" {
		t.Fatal(token, err)
	}
	again := changed.decide(out, approve)
	f.wantWaiting(again)
	if c := again.Approval.Calls[0]; again.Approval.ID == out.Approval.ID || !strings.Contains(c.Changed, "arguments") || c.N != 1 {
		t.Errorf("asked again: %+v", again.Approval)
	}
	// Another process gets another description of the tool.
	other := newUpstream(t, "up")
	other.add(&mcp.Tool{Name: "send", Description: "Sends and forgets"})
	g := openIn(t, dir, nil, wiring.Outside{Policy: asking{}}, other.entry)
	third := g.decide(again, approve)
	g.wantWaiting(third)
	if c := third.Approval.Calls[0]; !strings.Contains(c.Changed, "definition") || c.Description != "Sends and forgets" {
		t.Errorf("asked a third time: %+v", third.Approval)
	}
	if n := len(up.sent()) + len(other.sent()); n != 0 {
		t.Errorf("%d calls were made under void approvals", n)
	}
	// A remembered approval ends with the definition for which it was given, too.
	last := g.decide(third, approval.Decision{Approve: true, Remember: true})
	if sent := other.sent(); last.Status != run.Succeeded || len(sent) != 1 || !strings.Contains(sent[0], "bob@example.com") {
		t.Errorf("sent %q, %+v", sent, last.Error)
	}
	g.replay(last)
}

// An approval only satisfies the action ask. It never overrides deny. A call that a person has denied stays denied.
func TestApprovalNeverOverrides(t *testing.T) {
	t.Parallel()
	up, rules := newUpstream(t, "up"), &verdicts{}
	ask, deny, allow := policy.Ask, policy.Deny, policy.Allow
	rules.Store(&ask)
	f := openIn(t, t.TempDir(), nil, wiring.Outside{Policy: rules}, up.entry)
	const program = `try { return (await callMCPTool('up__send', {n: 1})).n } catch (e) { return e.name }`
	out := f.waits(program)
	rules.Store(&deny)
	if got := decoded[string](t, f.decide(out, approve)); got != "DeniedError" || len(up.sent()) != 0 {
		t.Errorf("approved and denied by policy: %s, %q", got, up.sent())
	}
	rules.Store(&ask)
	out = f.waits(program)
	rules.Store(&allow)
	if got := decoded[string](t, f.decide(out, approval.Decision{Reason: "no"})); got != "DeniedError" || len(up.sent()) != 0 {
		t.Errorf("denied and allowed by policy: %s, %q", got, up.sent())
	}
}

// If nobody decides, the call is denied when the request expires.
func TestApprovalExpiry(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, "up")
	f := askingIn(t, t.TempDir(), map[string]string{"approvals.expireAfter": "1s"}, up)
	out := f.waits(`try { await callMCPTool('up__send', {n: 1}) } catch (e) { return e.message }`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Runs().ResumeDecided(ctx, func() {})
	}()
	eventually(t, "the run has ended", func() bool {
		info, err := f.Runs().Match(t.Context(), out.RunID)
		return err == nil && !info.Ended.IsZero()
	})
	cancel()
	<-done
	got, _, err := f.Runs().Recorded(t.Context(), out.RunID)
	if err != nil {
		t.Fatal(err)
	}
	if text := decoded[string](t, got); text != "up__send was not called: nobody approved it within 1s" {
		t.Errorf("the program was told %q", text)
	}
	_, err = f.Runs().Decide(t.Context(), auth.Local(), out.Approval.ID, approve)
	if !errors.Is(err, approval.ErrDecided) {
		t.Errorf("a decision about an expired request: %v", err)
	}
	f.replay(got)
}

// The number of waiting runs of a user is limited, and the error of a further run says so.
func TestApprovalQuota(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, "up")
	f := askingIn(t, t.TempDir(), map[string]string{"quotas.waiting": "2"}, up)
	const program = `try { return await callMCPTool('up__send', {n: 1}) } catch (e) { return [e.name, e.message] }`
	first := f.waits(program)
	f.waits(program)
	got := decoded[[]string](t, f.exec(code(program)))
	if got[0] != "DeniedError" || !strings.Contains(got[1], "quotas.waiting") || strings.Contains(got[1], "park") {
		t.Errorf("the third run was told %q", got)
	}
	f.decide(first, approve)
	f.waits(program)
}

// A request is deleted with its session, and with its run when the run is purged.
func TestApprovalSession(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, "up")
	f := askingIn(t, t.TempDir(), map[string]string{"quotas.waiting": "1"}, up)
	tasks, err := f.Tasks(wiring.TaskOptions{})
	if err != nil {
		t.Fatal(err)
	}
	leave, err := tasks.EnterSession(t.Context(), "local", "s")
	if err != nil {
		t.Fatal(err)
	}
	out := f.waits(`return callMCPTool('up__send', {n: 1})`)
	leave()
	keep, err := f.Store()
	if err != nil {
		t.Fatal(err)
	}
	expired, err := keep.ExpiredSessions(t.Context(), time.Now().Add(1e6*time.Hour), nil, 10)
	if err != nil || len(expired) != 0 {
		t.Errorf("the session of a waiting run expires: %v, %v", expired, err)
	}
	if err := tasks.DeleteSession(t.Context(), "local", "s"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Runs().Approval(t.Context(), auth.Local(), out.Approval.ID); !errors.Is(err, approval.ErrNotFound) {
		t.Errorf("the request of a deleted session: %v", err)
	}
	if _, err := f.Runs().Resume(t.Context(), out.RunID, nil); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("the run of a deleted session: %v", err)
	}
	// A deleted request does not count towards the quota.
	other := code(`return (await callMCPTool('up__send', {n: 2})).n`)
	other.Session = "other"
	again, err := f.Runs().Execute(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	ended := f.decide(again, approve)
	if n := decoded[int](t, ended); n != 2 {
		t.Errorf("got %d", n)
	}
	if _, err := keep.Purge(t.Context(), time.Now().Add(48*time.Hour)); err != nil {
		t.Fatal(err)
	}
	all, _, err := f.Runs().Approvals(t.Context(), auth.Local(), approval.Filter{})
	if err != nil || len(all) != 0 {
		t.Errorf("after the purge: %v, %v", all, err)
	}
}

// Abandoning a waiting run closes its request, as cancelling its task does.
func TestApprovalAbandoned(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, "up")
	f := askingIn(t, t.TempDir(), nil, up)
	out := f.waits(`return callMCPTool('up__send', {n: 1})`)
	if err := f.Runs().EndOrphans(t.Context(), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	f.wantWaiting(f.goOn(out.RunID)) // A waiting run is not an orphan.
	if err := f.Runs().Abandon(t.Context(), out.RunID); err != nil {
		t.Fatal(err)
	}
	r, err := f.Runs().Approval(t.Context(), auth.Local(), out.Approval.ID)
	if err != nil || r.Status != approval.Closed {
		t.Errorf("the request is %s, %v", r.Status, err)
	}
	if _, err := f.Runs().Decide(t.Context(), auth.Local(), r.ID, approve); !errors.Is(err, approval.ErrDecided) {
		t.Errorf("a decision about it: %v", err)
	}
	if infos, _, err := f.Runs().List(t.Context(), auth.Local(), journal.Filter{Status: run.Cancelled}); err != nil || len(infos) != 1 {
		t.Errorf("cancelled runs: %v, %v", infos, err)
	}
}
