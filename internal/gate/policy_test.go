package gate_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/gate"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/policy"
)

// decisions is a policy that records the calls it decides about.
type decisions struct {
	verdict func(policy.Call) policy.Verdict

	mu     sync.Mutex
	calls  []policy.Call
	hooked []policy.Verdict
}

func (d *decisions) Decide(c policy.Call) policy.Verdict {
	d.mu.Lock()
	d.calls = append(d.calls, c)
	d.mu.Unlock()
	return d.verdict(c)
}

// under gives a fixture the policy verdict.
func (f *fixture) under(verdict func(policy.Call) policy.Verdict) *decisions {
	d := &decisions{verdict: verdict}
	f.gate = gate.New(gate.Options{
		Catalog: f.catalog, Servers: f.servers, Now: func() time.Time { return f.now }, Policy: d,
		Decided: func(_ context.Context, _ policy.Call, v policy.Verdict) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.hooked = append(d.hooked, v)
		},
	})
	f.scope.User, f.scope.Roles = "ann", []auth.Role{auth.User}
	f.Run = f.gate.Open(f.scope)
	return d
}

func denyNotes(c policy.Call) policy.Verdict {
	if c.Tool == "crm__create_note" {
		return policy.Verdict{Action: policy.Deny, Rule: 2, Reason: "rule 2 (tools crm__create*) denies crm__create_note"}
	}
	return policy.Verdict{Action: policy.Allow}
}

func TestPolicyDenies(t *testing.T) {
	t.Parallel()
	f := setup(t)
	d := f.under(denyNotes)
	_, err := f.do(frame.Tool, "crm__createNote", `{"input":{"text":"x"}}`)
	wantError(t, err, "DeniedError", frame.KindDenied, "crm__create_note was not called: rule 2 (tools crm__create*) denies")
	if len(f.servers.called) != 0 || len(f.intents) != 0 || len(d.hooked) != 1 || d.hooked[0].Rule != 2 {
		t.Errorf("called %v, intents %v, hook %v", f.servers.called, f.intents, d.hooked)
	}
	f.tool("crm__search", `{"q":"a"}`)
	if len(f.servers.called) != 1 || len(d.hooked) != 1 {
		t.Errorf("called %v, hook %v", f.servers.called, d.hooked)
	}
	// Policy gets the tool's real name and the annotations from the server. It decides before the arguments are validated.
	note, search := d.calls[0], d.calls[1]
	if note.Server != "crm" || note.User != "ann" || len(note.Roles) != 1 || string(note.Args) != `{"text":"x"}` {
		t.Errorf("policy sees %+v", note)
	}
	if note.ReadOnly || !note.Destructive || note.Idempotent || !note.OpenWorld {
		t.Errorf("without annotations: %+v", note)
	}
	if !search.ReadOnly || search.Destructive || !search.Idempotent || !search.OpenWorld {
		t.Errorf("of a tool that is read-only: %+v", search)
	}
	denied := d.verdict
	d.verdict = func(c policy.Call) policy.Verdict { c.Tool = "crm__create_note"; return denied(c) }
	_, err = f.do(frame.Tool, "crm__search", `{"input":{"wrong":1}}`)
	wantError(t, err, "DeniedError", frame.KindDenied)
}

// A call that a dead process may have sent is in doubt, whatever policy says now.
func TestPolicyDeniesWhatMayHaveBeenSent(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.under(denyNotes)
	_, err := f.again(t.Context(), frame.Tool, "crm__create_note", `{"input":{}}`, &journal.Intent{N: 1, Retry: true, Time: f.now.UnixMicro()})
	wantError(t, err, "InDoubtError", frame.KindInDoubt)
}

// The error for an unknown name does not suggest a tool that policy denies to the caller.
func TestSuggestionsArePermitted(t *testing.T) {
	t.Parallel()
	f := setup(t)
	_, err := f.do(frame.Tool, "crm__create_notes", `{"input":{}}`)
	wantError(t, err, "ToolError", frame.KindTool, "crm__create_note")
	f.under(denyNotes)
	_, err = f.do(frame.Tool, "crm__create_notes", `{"input":{}}`)
	wantError(t, err, "ToolError", frame.KindTool, "Closest: ")
	if _, closest, _ := strings.Cut(err.Message, "Closest: "); strings.Contains(closest, "crm__create_note") {
		t.Errorf("a denied tool is suggested: %s", closest)
	}
}

// If the connected server reports other annotations than the recorded list, policy judges the call by the reported ones.
func TestPolicyJudgesTheConnectedServer(t *testing.T) {
	t.Parallel()
	f := setup(t)
	d := f.under(func(c policy.Call) policy.Verdict {
		if !c.ReadOnly {
			return policy.Verdict{Action: policy.Deny, Rule: 1, Reason: "rule 1 denies writes"}
		}
		return policy.Verdict{Action: policy.Allow}
	})
	f.tool("crm__search", `{"q":"a"}`)
	if len(d.calls) != 1 {
		t.Errorf("a tool that stays as it is was judged %d times", len(d.calls))
	}
	f.servers.onConnect = func() {
		f.catalog.SetServer(catalog.Server{Name: "crm", Tools: []catalog.Tool{{Server: "crm", Name: "search"}}})
	}
	_, err := f.do(frame.Tool, "crm__search", `{"input":{"q":"a"}}`)
	wantError(t, err, "DeniedError", frame.KindDenied, "rule 1 denies writes")
	if len(f.servers.called) != 1 {
		t.Errorf("called %v", f.servers.called)
	}
}

// If the connected server reports other destinations than the recorded list, policy judges the call by the reported ones.
func TestPolicyJudgesTheDestinationsOfTheConnectedServer(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.under(func(c policy.Call) policy.Verdict {
		if len(c.Destinations) > 0 {
			return policy.Verdict{Action: policy.Deny, Rule: 1, Reason: "rule 1 denies " + c.Destinations[0].Path}
		}
		return policy.Verdict{Action: policy.Allow}
	})
	f.servers.onConnect = func() {
		f.catalog.SetServer(catalog.Server{Name: "crm", Tools: []catalog.Tool{{Server: "crm", Name: "create_note", InputSchema: []byte(`{"properties":{"to":{}}}`)}}})
	}
	_, err := f.do(frame.Tool, "crm__create_note", `{"input":{"text":"x"}}`)
	wantError(t, err, "DeniedError", frame.KindDenied, "rule 1 denies $.to")
	if len(f.servers.called) != 0 {
		t.Errorf("called %v", f.servers.called)
	}
}
