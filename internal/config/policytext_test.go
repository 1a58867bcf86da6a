package config

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mcp-code-exec-harness/internal/policy"
)

// TestPolicyText checks that the text of any policy is parsed as the same policy.
func TestPolicyText(t *testing.T) {
	t.Parallel()
	all := map[string]Policy{"empty": {}, "hostile": {Rules: []policy.Rule{
		{Tools: []string{"a__b"}, Action: policy.Deny, Reason: "no: \"really\" # not\n- {tools: x}\u2028\x01 <b> ünï"},
		{
			Tools: []string{"a__b", "*"}, Users: []string{"null"}, When: policy.When{ReadOnly: new(false), Idempotent: new(true)}, Action: policy.Allow,
			Args: map[string]policy.Condition{
				"$['a, b'].c": {Equals: []string{"true"}}, "$.n": {Min: new(0.0), Max: new(1e21)}, "$.p": {Pattern: `^[a-z]{2}\d+$`, Equals: []string{"5", "a, b"}}, "$.q": {From: []string{"user", "crm__*"}}, "$.r": {},
			},
		},
		{Tools: []string{"*"}, Tokens: &policy.Tokens{}, Action: policy.Deny},
		{Tools: []string{"*"}, Tokens: &policy.Tokens{Type: []string{"email"}, As: "destination"}, Action: policy.Allow},
		{Tools: []string{"*"}, Destinations: []string{"default", "$.cc[*]"}, Limit: &policy.Limit{Calls: 3, Per: "1d"}, Sandbox: []string{"wasm"}, Roles: []string{"admin"}, Action: policy.Ask},
	}, Runs: []RunRule{{Users: []string{"guest-*"}, Tier: "docker", Timeout: new(1500 * time.Millisecond), MaxOutput: new(Size(64 << 10)), MaxCalls: new(0)}}}}
	for _, name := range policy.Presets() {
		all["preset "+name] = Policy{Preset: name, Rules: PresetRules(name)}
	}
	for name, p := range all {
		text := p.Text()
		got, err := ParsePolicy([]byte(text), "text")
		if err != nil {
			t.Errorf("%s: %v in\n%s", name, err, text)
			continue
		}
		if p.Preset == "" {
			p.Preset = "open"
		}
		if diff := cmp.Diff(p, got, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(RunRule{})); diff != "" {
			t.Errorf("%s: (-want +got)\n%s\n%s", name, diff, text)
		}
	}
}

// TestPolicyMistakePlace checks the line and column of mistakes in a policy.
func TestPolicyMistakePlace(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]int{
		"- {tools: crm, action: deny}":                                       {1, 11},
		"rules:\n  - {tools: a__b, action: deny}\n  - {tools: a__b, act: 1}": {3, 19},
		"preset: [": {1, 9},
	} {
		_, err := ParsePolicy([]byte(text), "text")
		mistake, ok := errors.AsType[*Error](err)
		if !ok {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if line, column := mistake.Place(); line != want[0] || column != want[1] {
			t.Errorf("%q: line %d, column %d: %v", text, line, column, err)
		}
	}
}
