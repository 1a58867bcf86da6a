package simulation_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/policy"
	"mcp-code-exec-harness/internal/simulation"
)

// A natural token in a recorded call has a type, and the origins of all forms of the token. A token of a domain or network has the origins of the
// addresses in it.
func TestNaturalTokens(t *testing.T) {
	t.Parallel()
	const answer = `{"to":"pii_1e@d1.pii.invalid","ip":"240.117.103.142","key":"ghp_pii_1s"}`
	for to, want := range map[string][]string{
		"pii_1e@d1.pii.invalid":           {"deny email pii_1e@d1.pii.invalid"},
		"Ada <PII_1E@D1.PII.INVALID>":     {"deny email PII_1E@D1.PII.INVALID"},
		"[EMAIL_1]":                       {"deny email [EMAIL_1]"},
		"pii_1e":                          {"deny email pii_1e"},
		"https://d1.pii.invalid/":         {"deny email_domain d1.pii.invalid"},
		"http://240.117.103.142/":         {"deny ip_address 240.117.103.142"},
		"240.117.103.0/24":                {"deny ip_network 240.117.103.0/24"},
		"240.117.0.0/16":                  {"deny ip_network 240.117.0.0/16"},
		"token ghp_pii_1s":                {"deny secret ghp_pii_1s"},
		"pii_2e@d2.pii.invalid":           nil, // The token is only in the answer of the second tool.
		"240.118.103.0/24 d2.pii.invalid": nil,
		"no token, pii_, 10.1.2.3":        nil,
	} {
		h := &history{}
		input, err := json.Marshal(map[string]string{"to": to})
		if err != nil {
			t.Fatal(err)
		}
		h.add("run_0", "s", [3]string{"crm__get", `{}`, answer}, [3]string{"gone__tool", `{}`, `["pii_2e@d2.pii.invalid","240.118.103.7"]`}, [3]string{"mail__send", string(input), `1`})
		var got []string
		for _, kind := range []string{"email", "email_domain", "ip_address", "ip_network", "secret"} {
			all, err := h.source(simulation.Bounds{}).Simulate(t.Context(), compiled(t, "[]"), compiled(t, "- {tools: mail__send, tokens: {type: "+kind+", from: crm__get}, action: deny}"))
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range all.Changes {
				got = append(got, fmt.Sprintf("%s %s %s", c.Then.Action, kind, c.Then.Token))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", to, got, want)
		}
	}
}

// Natural tokens in recorded answers are counted in the same way as tokens in brackets.
func TestNaturalHidden(t *testing.T) {
	t.Parallel()
	h := &history{}
	h.add("run_0", "s", [3]string{"crm__get", `{}`, `[{"email":"pii_1e@d1.pii.invalid","ip":"240.117.103.142"},{"email":"PII_1E@D1.PII.INVALID"},{"email":"pii_2e@d1.pii.invalid","pii_3e@d2.pii.invalid":1,"tel":"[PHONE_1]"}]`})
	got, err := h.source(simulation.Bounds{}).Hidden(t.Context(), 100)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, f := range got.Fields {
		lines = append(lines, fmt.Sprintf("%s %s %d %d", f.Field, f.Type, f.Tokens, f.Calls))
	}
	want := []string{"$[*].email EMAIL 2 1", "$[*].ip IP_ADDRESS 1 1", "$[*].tel PHONE 1 1", "$[*].… EMAIL 1 1"}
	if !slices.Equal(lines, want) {
		t.Errorf("fields: %q", lines)
	}
}

// Trial.Args and Trial.Tokens accept every form of a token.
func TestTrialOfNaturalTokens(t *testing.T) {
	t.Parallel()
	cfg := &config.Config{}
	var err error
	if cfg.Policy, err = config.ParsePolicy([]byte("preset: strict\nrules: [{tools: mail__send, tokens: {type: email, from: crm__get}, action: allow}]"), "text"); err != nil {
		t.Fatal(err)
	}
	h := &history{}
	for _, c := range []struct {
		to, said string
		want     policy.Action
	}{
		{"pii_1e@d1.pii.invalid", "pii_1e@d1.pii.invalid", policy.Ask},
		{"pii_1e@d1.pii.invalid", "[EMAIL_1]", policy.Ask},
		{"[EMAIL_1]", "pii_1e", policy.Ask},
		{"pii_1e@acme.com", "pii_1e@acme.com", policy.Ask},
		{"pii_2e@d1.pii.invalid", "pii_1e@d1.pii.invalid", policy.Deny},
		{"d1.pii.invalid", "d1.pii.invalid", policy.Deny}, // The token's type is not email.
	} {
		trial := simulation.Trial{Tool: "mail__send", Args: json.RawMessage(`{"to":"` + c.to + `"}`), Tokens: []simulation.Said{{Text: c.said, From: []string{"crm__get"}}}}
		if err := trial.Check(); err != nil {
			t.Errorf("%s: %v", c.said, err)
		}
		if got := simulation.Test(cfg, h.source(simulation.Bounds{}).Catalog, trial).Verdict; got.Action != c.want {
			t.Errorf("%s with %s: %+v", c.to, c.said, got)
		}
	}
	for _, text := range []string{"", "ada@acme.com", "to pii_1e@d1.pii.invalid", "[PHONE_1] [PHONE_2]", "pii_1e@acme.com.", "10.1.2.3"} {
		if simulation.IsToken(text) {
			t.Errorf("%q is a token", text)
		}
	}
}
