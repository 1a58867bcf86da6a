package wiring_test

import (
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/wiring"
)

// sends is a program that sends five times at the same time. It returns the number of sent calls and the reasons why the others failed.
const sends = `
const all = await Promise.allSettled(Array.from({length: 5}, (_, n) => callMCPTool('up__send', {n})))
const failed = all.filter((r) => r.status === 'rejected').map((r) => r.reason)
return [all.length - failed.length, failed[0]?.name ?? '', failed[0]?.message ?? '']`

// The limit of a rule bounds a user's calls by run, and by time over all runs and processes. Calls of a replay do not count.
func TestPolicyLimit(t *testing.T) {
	t.Parallel()
	const reason = "up__send was not called: rule 1 (tools up__send, limit 3 calls per %) denies up__send: the calls of its limit were made: enough"
	for per, want := range map[string][3]float64{"run": {3, 3, 3}, "366d": {3, 0, 0}} {
		t.Run(per, func(t *testing.T) {
			t.Parallel()
			dir, up := t.TempDir(), newUpstream(t, "up")
			flags := map[string]string{"policy.rules": `[{tools: up__send, limit: {calls: 3, per: ` + per + `}, action: allow, reason: enough}]`}
			first, second := open(t, dir, flags, up.entry), open(t, dir, flags, up.entry)
			for i, f := range []*fixture{first, first, second} {
				out := f.exec(runs.Request{Code: sends, User: "ann"})
				got := decoded[[]any](t, out)
				if got[0] != want[i] || got[1] != "DeniedError" || got[2] != strings.ReplaceAll(reason, "%", per) {
					t.Errorf("run %d got %v", i+1, got)
				}
				f.replay(out)
			}
			if made := len(up.sent()); made != int(want[0]+want[1]+want[2]) {
				t.Errorf("%d calls were made", made)
			}
			if got := decoded[[]any](t, first.exec(runs.Request{Code: sends, User: "bob"})); got[0] != 3.0 {
				t.Errorf("another user got %v", got)
			}
		})
	}
}

// A run that is resumed after an approval keeps its count. A call that needs an approval counts once it is made.
func TestPolicyLimitOfAsked(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, "up")
	f := openIn(t, t.TempDir(), map[string]string{"policy.rules": `[{tools: up__send, limit: {calls: 2, per: run}, action: ask}]`}, wiring.Outside{}, up.entry)
	out := f.waits(`
await callMCPTool('up__send', {n: 1})
await callMCPTool('up__send', {n: 2})
try { await callMCPTool('up__send', {n: 3}) } catch (e) { return e.message }`)
	out = f.decide(out, approve)
	f.wantWaiting(out)
	if got := decoded[string](t, f.decide(out, approve)); !strings.Contains(got, "limit 2 calls per run") || len(up.sent()) != 2 {
		t.Errorf("got %q, sent %q", got, up.sent())
	}
}
