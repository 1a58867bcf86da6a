package wiring_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/telemetry"
	"mcp-code-exec-harness/internal/wiring"
)

// TestPolicyOfConfiguration: the rules in harness.yaml apply to programs, and denied calls are audited.
func TestPolicyOfConfiguration(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, "up")
	var log bytes.Buffer
	audit := telemetry.NewAuditor(slog.New(slog.NewTextHandler(&log, nil)), telemetry.AuditFile{})
	rules := `[{tools: "up__send", args: {$.n: {min: 2}}, action: deny, reason: too many}, {tools: "up__read", action: allow}, {tools: "*", action: ask}]`
	f := openIn(t, t.TempDir(), map[string]string{"policy.rules": rules}, wiring.Outside{Audit: audit}, up.entry)
	out, err := f.Runs().Execute(t.Context(), code(`
		const {n} = await callMCPTool('up__read', {n: 1})
		try { await callMCPTool('up__send', {n: 2}) }
		catch (e) { return [n, e.name, e instanceof ToolError, e.message] }`))
	if err != nil {
		t.Fatal(err)
	}
	got := decoded[[]any](t, out)
	const message = "up__send was not called: rule 1 (tools up__send, args $.n) denies up__send: too many"
	if len(got) != 4 || got[0] != 1.0 || got[1] != "DeniedError" || got[2] != true || got[3] != message {
		t.Errorf("got %v", got)
	}
	if len(up.sent()) != 0 {
		t.Errorf("a denied call was made: %q", up.called())
	}
	f.replay(out)
	if out := f.waits(`await callMCPTool('up__send', {n: 1})`); out.Status != run.WaitingApproval {
		t.Errorf("a call that is asked about: %+v", out)
	}
	for _, want := range []string{
		"audit.eventType=policy_decision", "audit.details.tool=up__send", "audit.details.action=deny audit.details.rule=1 ",
		"audit.details.action=ask audit.details.rule=3 ",
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %q in the log\n%s", want, log.String())
		}
	}
}

// TestDenialNamesToken: the error of a denied call names the token and its origin in the form that the program knows.
func TestDenialNamesToken(t *testing.T) {
	t.Parallel()
	f := questioned(t, map[string]string{"policy.rules": `[{tools: up__read, tokens: {type: us_ssn}, action: deny, reason: it stays}]`})
	out := f.exec(code(`
const {ssn} = await callMCPTool('up__read', {})
try { await callMCPTool('up__read', {q: ssn}) } catch (e) { return [ssn, e.message] }`))
	const want = `["[US_SSN_1]","up__read was not called: rule 1 (tools up__read, tokens us_ssn) denies [US_SSN_1] from up__read: it stays"]`
	if string(out.Output) != want {
		t.Errorf("got  %s, %+v\nwant %s", out.Output, out.Error, want)
	}
	f.replay(out)
}
