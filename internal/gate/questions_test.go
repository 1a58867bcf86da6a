package gate_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/gate"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/policy"
	"mcp-code-exec-harness/internal/testing/piitest"
)

func allow(policy.Call) policy.Verdict { return policy.Verdict{Action: policy.Allow} }

// private gives a fixture a session with three tokens.
func (f *fixture) private() *piitest.Filter {
	f.t.Helper()
	filter := piitest.New(f.t)
	f.scope.Privacy = filter.In("u", "s")
	if got, err := f.scope.Privacy.Hide(f.t.Context(), "crm__search", "grace@example.com, 219-09-9999, (202) 555-0123"); err != nil ||
		got != "[EMAIL_1], [US_SSN_1], [PHONE_1]" {
		f.t.Fatal(got, err)
	}
	f.Run = f.gate.Open(f.scope)
	return filter
}

// A question needs no server and no intent, and does not count as a tool call. Policy judges it as a read-only tool.
func TestQuestion(t *testing.T) {
	t.Parallel()
	f := setup(t)
	d := f.under(allow)
	f.scope.MaxCalls = 0
	f.private()
	for _, c := range []struct{ name, args, want string }{
		{"kind", `{"tokens":["[EMAIL_1]"]}`, `"EMAIL"`},
		{"domain", `{"tokens":["[EMAIL_1]"]}`, `"example.com"`},
		{"last4", `{"tokens":["[US_SSN_1]"]}`, `"9999"`},
		{"country", `{"tokens":["[PHONE_1]"]}`, `"US"`},
		{"same", `{"tokens":["[PHONE_1]","[EMAIL_1]"]}`, `false`},
	} {
		if got, err := f.do(frame.PII, c.name, c.args); got != c.want || err != nil {
			t.Errorf("%s %s: %s, %v; want %s", c.name, c.args, got, err, c.want)
		}
	}
	if len(f.servers.called) != 0 || f.servers.ensured != 0 || len(f.intents) != 0 {
		t.Errorf("servers called %v, listed %d times, intents %v", f.servers.called, f.servers.ensured, f.intents)
	}
	want := policy.Call{
		Server: "pii", Tool: "pii__domain", ReadOnly: true, Idempotent: true, User: "ann", Roles: f.scope.Roles,
		Args: []byte(`{"tokens":["[EMAIL_1]"]}`), Tokens: []policy.Token{{Text: "[EMAIL_1]", Type: "EMAIL", Origins: []string{"crm__search"}}},
	}
	if diff := cmp.Diff(want, d.calls[1]); diff != "" {
		t.Errorf("policy sees (-want +got):\n%s", diff)
	}
	if got := len(d.calls[4].Tokens); got != 2 {
		t.Errorf("policy sees %d tokens of two", got)
	}
}

func TestQuestionsWithoutAnswer(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.private()
	for _, c := range []struct{ name, args, want string }{
		{"domain", `{"tokens":["[PHONE_1]"]}`, "pii.domain: [PHONE_1] has no domain: only tokens of type EMAIL, EMAIL_DOMAIN do"},
		{"domain", `{"tokens":["[EMAIL_2]"]}`, "pii.domain: [EMAIL_2] is not a token of this session"},
		{"same", `{"tokens":["[EMAIL_1]"]}`, "pii.same: the number of tokens must be 2, not 1"},
		{"kind", `{"tokens":["to [EMAIL_1]"]}`, "pii.kind: the question takes a whole token, such as [PHONE_1], and no other text"},
		{"kind", `{"tokens":"[EMAIL_1]"}`, "wrong arguments: "},
		{"kind", ``, "pii.kind: the number of tokens must be 1, not 0"},
		{"value", `{"tokens":["[EMAIL_1]"]}`, "there is no question pii.value"},
	} {
		_, err := f.do(frame.PII, c.name, c.args)
		wantError(t, err, "TypeError", frame.KindRuntime, c.want)
	}
	made := func(i int) string {
		token, err := f.scope.Privacy.Hide(t.Context(), pii.FromProgram, fmt.Sprintf("p%d@example.com", i))
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	var err *frame.Error
	for i := 0; i < 100 && err == nil; i++ {
		_, err = f.do(frame.PII, "same", `{"tokens":["[EMAIL_1]","`+made(i)+`"]}`)
	}
	if err != nil {
		t.Errorf("a guess within the cap: %v", err)
	}
	_, err = f.do(frame.PII, "same", `{"tokens":["`+made(0)+`","[EMAIL_1]"]}`)
	wantError(t, err, "LimitError", frame.KindCallLimit, "pii.same: ", "100 times")

	filter := piitest.New(t)
	filter.Closed.Store(true)
	f.scope.Privacy = filter.In("u", "s")
	f.Run = f.gate.Open(f.scope)
	_, err = f.do(frame.PII, "kind", `{"tokens":["[EMAIL_1]"]}`)
	wantError(t, err, "ToolError", frame.KindTool, "vault is closed")
}

// Policy can deny a question.
func TestQuestionPolicy(t *testing.T) {
	t.Parallel()
	f := setup(t)
	d := f.under(func(c policy.Call) policy.Verdict {
		action := policy.Allow
		for _, token := range c.Tokens {
			if token.Type == "US_SSN" {
				action = policy.Deny
			}
		}
		return policy.Verdict{Action: action, Rule: 1, Reason: "rule 1 denies it"}
	})
	f.private()
	_, err := f.do(frame.PII, "last4", `{"tokens":["[US_SSN_1]"]}`)
	wantError(t, err, "DeniedError", frame.KindDenied, "pii__last4 was not called: rule 1 denies it")
	if err.Tool != "pii__last4" || len(d.hooked) != 1 {
		t.Errorf("the error is of %s; audited %v", err.Tool, d.hooked)
	}
	if got, err := f.do(frame.PII, "last4", `{"tokens":["[PHONE_1]"]}`); got != `"0123"` || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}

// A question that a dead process recorded does not count as a tool call of the resumed run.
func TestQuestionAgain(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.under(allow)
	f.scope.MaxCalls = 1
	call := journal.Call{N: 1, Kind: string(frame.PII), Name: "kind", Args: []byte(`{"tokens":["[EMAIL_1]"]}`)}
	f.scope.Recorded = []journal.Record{{Call: &call}, {Answer: &journal.Answer{N: 1, Value: []byte(`"EMAIL"`)}}}
	f.private()
	if got, err := f.do(frame.PII, "kind", `{"tokens":["[EMAIL_1]"]}`); got != `"EMAIL"` || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	if got := f.tool("crm__search", `{"q":"a"}`); got != `"hello"` {
		t.Error(got)
	}
}

// The catalog contains no tool with the name under which policy judges a question.
func TestQuestionIsNoTool(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.private()
	_, err := f.do(frame.Tool, gate.Question("domain").FullName(), `{"input":{"tokens":["[EMAIL_1]"]}}`)
	wantError(t, err, "ToolError", frame.KindTool, "pii__domain")
}
