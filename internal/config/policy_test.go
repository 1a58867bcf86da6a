package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/catalog/destination"
	"mcp-code-exec-harness/internal/jsonpath"
	"mcp-code-exec-harness/internal/policy"
)

const shortPolicy = `policy:
  - {tools: "*", when: {destructive: true}, action: ask}
  - {tools: "mailer__*", tokens: {type: email, from: "crm__*"}, action: allow}
  - {tools: "mailer__*", tokens: {type: "*"}, action: deny}
`

func TestPolicy(t *testing.T) {
	t.Parallel()
	c, _ := load(t, world(t, map[string]string{"work/harness.yaml": shortPolicy}))
	want := []policy.Rule{
		{Tools: []string{"*"}, When: policy.When{Destructive: new(true)}, Action: policy.Ask},
		{Tools: []string{"mailer__*"}, Tokens: &policy.Tokens{Type: []string{"email"}, From: []string{"crm__*"}}, Action: policy.Allow},
		{Tools: []string{"mailer__*"}, Tokens: &policy.Tokens{Type: []string{"*"}}, Action: policy.Deny},
	}
	if diff := cmp.Diff(want, c.Policy.Rules); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := c.Compiled(c.Policy).Decide(policy.Call{Tool: "a__b", Destructive: true}); got.Action != policy.Ask || got.Rule != 1 {
		t.Errorf("a destructive call: %+v", got)
	}
	entry := Entry{Key: "policy.rules.2", Value: "tools mailer__*, tokens email from crm__*: allow", Origin: "harness.yaml:3"}
	if got := entryOf(t, c, "policy.rules.2"); got != entry {
		t.Errorf("shown as %+v, want %+v", got, entry)
	}

	e := world(t, map[string]string{"work/harness.yaml": `
policy:
  preset: strict
  rules:
    - tools: [crm__get, "crm__list_*"]
      users: ann
      roles: [admin, approver]
      when: {readOnly: true, openWorld: no}
      args:
        $.amount: {min: -5, max: 1e3}
        $.to[*]: {pattern: '@example\.com$', equals: [a, "b, c"]}
      action: allow
      reason: the directory is public
`})
	c, _ = load(t, e)
	rule := policy.Rule{
		Tools: []string{"crm__get", "crm__list_*"}, Users: []string{"ann"}, Roles: []string{"admin", "approver"},
		When: policy.When{ReadOnly: new(true), OpenWorld: new(false)},
		Args: map[string]policy.Condition{
			"$.amount": {Min: new(-5.0), Max: new(1000.0)}, "$.to[*]": {Pattern: `@example\.com$`, Equals: []string{"a", "b, c"}},
		},
		Action: policy.Allow, Reason: "the directory is public",
	}
	if diff := cmp.Diff([]policy.Rule{rule}, c.Policy.Rules); diff != "" || c.Policy.Preset != "strict" {
		t.Errorf("preset %q (-want +got)\n%s", c.Policy.Preset, diff)
	}
	token := policy.Token{Text: "[EMAIL_1]", Type: "EMAIL", Origins: []string{"task"}}
	if got := c.Compiled(c.Policy).Decide(policy.Call{Tool: "a__b", Tokens: []policy.Token{token}}); got.Action != policy.Deny || got.Preset != "strict" {
		t.Errorf("a token under the preset strict: %+v", got)
	}

	// Variables replace keys of the file. A comma in a rule does not separate items.
	e.Environ = []string{`HARNESS_POLICY={"rules":[{"tools":"*","args":{"$.name":{"equals":"Smith, John"}},"action":"deny"}]}`, "HARNESS_POLICY_PRESET=guarded"}
	c, _ = load(t, e)
	if got := c.Policy.Rules; len(got) != 1 || !cmp.Equal(got[0].Args["$.name"].Equals, []string{"Smith, John"}) || c.Policy.Preset != "guarded" {
		t.Errorf("from variables: %+v", c.Policy)
	}
	e.Environ = []string{"HARNESS_POLICY=[]"}
	if c, _ = load(t, e); len(c.Policy.Rules) != 0 || c.Policy.Preset != "strict" {
		t.Errorf("from a variable: %+v", c.Policy)
	}
}

func TestBadPolicy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"policy: strict", "harness.yaml:1:9: policy: it must be a mapping, not a single value; write its keys indented below it"},
		{"policy: {preset: stirct}", `harness.yaml:1:18: policy.preset: "stirct" is not one of open, guarded, careful, strict; did you mean strict?`},
		{"policy: {rule: []}", "harness.yaml:1:10: policy.rule: unknown key; did you mean policy.rules?"},
		{"policy: {rules: deny}", "harness.yaml:1:17: policy.rules: it must be a list of rules, not a single value; write each rule behind a -"},
		{"policy:\n- deny", "harness.yaml:2:3: policy.rules.1: it must be a mapping with tools, when, users, roles, sandbox, args, destinations, tokens, limit, cache, action, reason, not a single value"},
		{"policy:\n- {action: deny}", "harness.yaml:2:4: policy.rules.1: tools is missing; add it"},
		{"policy:\n- {tools: '*'}", "harness.yaml:2:4: policy.rules.1: action is missing; add it"},
		{"policy:\n- {tool: '*'}", "harness.yaml:2:4: policy.rules.1.tool: unknown key; did you mean tools?"},
		{"policy: [{tools: [], action: x}", "harness.yaml:1:9: this is not valid YAML: sequence end token ']' not found"},
		{"policy:\n- tools: []\n  action: deny", `harness.yaml:2:10: policy.rules.1.tools: it names no tool; write "*" for every tool`},
		{"policy:\n- tools: '*'\n  action: dney", `harness.yaml:3:11: policy.rules.1.action: "dney" is not one of allow, deny, ask; did you mean deny?`},
		{"policy:\n- {tools: '*', when: {readonly: true}, action: deny}", "harness.yaml:2:23: policy.rules.1.when.readonly: unknown key; did you mean readOnly?"},
		{"policy:\n- {tools: '*', when: {readOnly: maybe}, action: deny}", `harness.yaml:2:33: policy.rules.1.when.readOnly: "maybe" is neither true nor false`},
		{"policy:\n- {tools: '*', limit: {calls: 1}, action: deny}", "harness.yaml:2:24: policy.rules.1.limit: per is missing; add it"},
		{"policy:\n- {tools: '*', limit: {calls: 1, per: run}, action: deny}", "harness.yaml:2:24: policy.rules.1.limit: a rule that denies allows no calls; leave the limit out"},
		{"policy:\n- {tools: '*', limit: {calls: 0, per: run}, action: allow}", "harness.yaml:2:31: policy.rules.1.limit.calls: 0 is less than 1, the least allowed"},
		{"policy:\n- {tools: '*', limit: {calls: 1, per: hour}, action: allow}", `harness.yaml:2:39: policy.rules.1.limit.per: "hour" is neither run nor task nor a time from 1s to 366d, such as 1h`},
		{"policy: {runs: deny}", "harness.yaml:1:16: policy.runs: it must be a list of rules, not a single value; write each rule behind a -"},
		{"policy: {runs: [{timeout: 5m}]}", "harness.yaml:1:27: policy.runs.1.timeout: 5m is more than sandbox.timeout, which is 30s; rules only lower limits"},
		{"policy: {runs: [{timeout: 5s, maxCalls: 1001}]}", "harness.yaml:1:41: policy.runs.1.maxCalls: 1001 is more than sandbox.maxCalls, which is 1000; rules only lower limits"},
		{"policy: {runs: [{maxOutput: 1GiB}]}", "harness.yaml:1:29: policy.runs.1.maxOutput: 1GiB is more than sandbox.maxOutput, which is 1MiB; rules only lower limits"},
		{"policy: {runs: [{tier: dokcer}]}", `harness.yaml:1:24: policy.runs.1.tier: "dokcer" is not one of wasm, process, docker; did you mean docker?`},
		{"policy: {runs: [{maxInFlight: 0}]}", "harness.yaml:1:31: policy.runs.1.maxInFlight: 0 is less than 1, the least allowed"},
		{"policy: {runs: [{users: x}]}", "harness.yaml:1:18: policy.runs.1: it has neither a limit nor a tier; add one, such as timeout: 5s"},
		{"policy: {runs: [{roles: boss, timeout: 5s}]}", `harness.yaml:1:25: policy.runs.1.roles: "boss" is not one of user, approver, admin, anonymous`},
		{"policy: {runs: [{memory: 5}]}", "harness.yaml:1:18: policy.runs.1.memory: unknown key; known keys are users, roles, tier, timeout, maxWall, maxCalls, maxHostCalls, maxInFlight, maxOutput, maxLogLines, maxValue"},
		{"policy:\n- {tools: '*', max: {calls: 1}, action: deny}", "harness.yaml:2:16: policy.rules.1.max: unknown key; known keys are tools, when, users, roles, sandbox, args, destinations, tokens, limit, cache, action, reason"},
		{"policy:\n- {tools: '*', roles: boss, action: deny}", `harness.yaml:2:23: policy.rules.1.roles: "boss" is not one of user, approver, admin, anonymous`},
		{"policy:\n- {tools: '*', tokens: {from: taks}, action: deny}", `harness.yaml:2:31: policy.rules.1.tokens.from: "taks" is neither a tool nor one of task, file, skill, input, code, program, catalog, resource; did you mean task?`},
		{"policy:\n- {tools: '*', args: {to: {}}, action: deny}", "harness.yaml:2:27: policy.rules.1.args.to: it is not a path; write one such as $.to, $.items[*].to or $['a name']"},
		{"policy:\n- {tools: '*', args: {$.to: a}, action: deny}", "harness.yaml:2:29: policy.rules.1.args.$.to: it must be a mapping with equals, pattern, min, max, from, not a single value"},
		{"policy:\n- {tools: 'bank__*', args: {$.iban: {from: [user, contcts]}}, action: allow}", `harness.yaml:2:44: policy.rules.1.args.$.iban.from: "contcts" is neither a tool nor one of user, code, computed, resource; write contcts__* for every tool of a server`},
		{"policy:\n- {tools: '*', args: {$.to: {min: x}}, action: deny}", `harness.yaml:2:35: policy.rules.1.args.$.to.min: "x" is not a number`},
		{"policy:\n- {tools: '*', args: {$.to: {pattern: '(?=a)'}}, action: deny}", "harness.yaml:2:39: policy.rules.1.args.$.to.pattern: error parsing regexp: invalid or unsupported Perl syntax: `(?=`"},
		{"policy:\n- {tools: crm, action: deny}\n- {tools: 'a__*', action: ask, users: [x]}", `harness.yaml:2:11: policy.rules.1.tools: "crm" is the name of no tool; write crm__* for every tool of a server`},
	} {
		if got := problems(t, world(t, map[string]string{"work/harness.yaml": c.text})); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.text, got, c.want)
		}
	}
}

// TestParsePolicy checks that a policy file may contain the section policy alone, or a whole configuration.
func TestParsePolicy(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(shortPolicy, "\n")
	for _, text := range []string{shortPolicy, "sandbox: {x: y}\n" + shortPolicy, section, "preset: guarded\nrules:\n" + section} {
		p, err := ParsePolicy([]byte(text), "p.yaml")
		if err != nil || len(p.Rules) != 3 || new(Config).Compiled(p) == nil {
			t.Errorf("%s: %+v, %v", text, p, err)
		}
	}
	for _, text := range []string{"", "[]", "policy:"} {
		if p, err := ParsePolicy([]byte(text), "p.yaml"); err != nil || new(Config).Compiled(p) == nil {
			t.Errorf("%q: %+v, %v", text, p, err)
		}
	}
	for text, want := range map[string]string{
		"[{tools: crm, action: deny}]": "p.yaml:1:10: policy.rules.1.tools: ",
		"deny":                         "p.yaml:1:1: policy: it must be a list of rules",
		"[":                            "p.yaml:1:1: this is not valid YAML",
		"rulez: []":                    "p.yaml:1:1: policy.rulez: unknown key",
	} {
		_, err := ParsePolicy([]byte(text), "p.yaml")
		var one *Error
		if !errors.As(err, &one) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestPresets(t *testing.T) {
	t.Parallel()
	token := policy.Token{Text: "[EMAIL_1]", Type: "EMAIL", Origins: []string{"task"}}
	for _, name := range policy.Presets() {
		p, err := policy.New(nil, name, PresetRules(name), policy.Servers{Untrusted: []string{"mail__*"}})
		if err != nil {
			t.Fatal(err)
		}
		plain := p.Decide(policy.Call{Tool: "a__b", Tokens: []policy.Token{}}).Action
		destructive := p.Decide(policy.Call{Tool: "a__b", Destructive: true}).Action
		flow := p.Decide(policy.Call{Tool: "a__b", Tokens: []policy.Token{token}}).Action
		got := [3]policy.Action{plain, destructive, flow}
		want := map[string][3]policy.Action{
			"open": {"allow", "allow", "allow"}, "guarded": {"allow", "ask", "allow"}, "careful": {"allow", "ask", "ask"}, "strict": {"allow", "ask", "deny"},
		}[name]
		if got != want {
			t.Errorf("%s: plain, destructive and with a token %v, want %v", name, got, want)
		}
		sends := policy.Call{
			Server: "a", Tool: "a__b", Args: []byte(`{"to":"X"}`), Destinations: []destination.Destination{{Path: "$.to", Steps: []jsonpath.Step{jsonpath.Property("to")}}},
		}
		for by, wanted := range map[string]policy.Action{"user": policy.Allow, "contacts__get": policy.Allow, "mail__read": want[2], "code": want[2], "computed": want[2]} {
			sends.Origin = func(string) policy.ValueOrigin { return policy.ValueOrigin{Said: []string{by}} }
			if got := p.Decide(sends); got.Action != wanted {
				t.Errorf("%s: a destination from %s: %+v, want %s", name, by, got, wanted)
			}
		}
	}
	for _, name := range policy.Presets() {
		p, err := policy.New(nil, name, PresetRules(name), policy.Servers{})
		if err != nil {
			t.Fatal(err)
		}
		question := policy.Call{Server: "pii", Tool: "pii__domain", ReadOnly: true, Tokens: []policy.Token{token}}
		if got := p.Decide(question); got.Action != policy.Allow {
			t.Errorf("%s: a question about a token: %+v", name, got)
		}
		if p, err = policy.New([]policy.Rule{{Tools: []string{"*"}, Tokens: &policy.Tokens{Type: []string{"email"}}, Action: policy.Deny}}, name, PresetRules(name), policy.Servers{}); err != nil {
			t.Fatal(err)
		}
		if got := p.Decide(question); got.Action != policy.Deny {
			t.Errorf("%s: a question that a rule denies: %+v", name, got)
		}
	}
	if rules := PresetRules("none"); rules != nil {
		t.Errorf("an unknown preset has rules %v", rules)
	}
}
