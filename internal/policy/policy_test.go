package policy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/policy"
	"mcp-code-exec-harness/internal/testing/generated"
)

func compile(t testing.TB, rules ...policy.Rule) *policy.Policy {
	t.Helper()
	p, err := policy.New(rules, "", nil, policy.Servers{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var yes, no = new(true), new(false)

// tools returns a rule about tools.
func tools(action policy.Action, names ...string) policy.Rule {
	return policy.Rule{Tools: names, Action: action}
}

// flow returns a rule about tokens.
func flow(action policy.Action, tool, kind, from string) policy.Rule {
	r := tools(action, tool)
	r.Tokens = &policy.Tokens{Type: []string{kind}}
	if from != "" {
		r.Tokens.From = []string{from}
	}
	return r
}

func destructive(action policy.Action) policy.Rule {
	r := tools(action, "*")
	r.When.Destructive = yes
	return r
}

func call(tool string, tokens ...policy.Token) policy.Call {
	server, _, _ := strings.Cut(tool, "__")
	return policy.Call{Server: server, Tool: tool, User: "ann", Roles: []auth.Role{auth.User}, Args: json.RawMessage("{}"), Tokens: tokens}
}

func email(origins ...string) policy.Token {
	return policy.Token{Text: "[EMAIL_1]", Type: "EMAIL", Origins: origins}
}

// The rules of the documentation: destructive calls ask, and mails may contain addresses from the CRM and no other tokens.
func TestFlows(t *testing.T) {
	t.Parallel()
	p := compile(t, destructive(policy.Ask), flow(policy.Allow, "mailer__*", "email", "crm__*"), flow(policy.Deny, "mailer__*", "*", ""))
	phone := policy.Token{Text: "[PHONE_1]", Type: "PHONE", Origins: []string{"crm__search"}}
	for _, c := range []struct {
		name        string
		call        policy.Call
		destructive bool
		want        policy.Action
		rule        int
		reason      string
	}{
		{"no token", call("mailer__send"), false, policy.Allow, 0, "no rule is about mailer__send"},
		{"destructive", call("crm__delete"), true, policy.Ask, 1, "rule 1 (tools *, destructive) asks about crm__delete"},
		{"allowed flow", call("mailer__send", email("crm__search")), false, policy.Allow, 0, ""},
		{"origin spelled differently", call("mailer__send", email("CRM__Search")), false, policy.Allow, 0, ""},
		{"allowed flow of a destructive call", call("mailer__send", email("crm__search")), true, policy.Ask, 1, ""},
		{"other origin", call("mailer__send", email("web__fetch")), false, policy.Deny, 3, "rule 3 (tools mailer__*, tokens *) denies [EMAIL_1] from web__fetch"},
		{"one origin of two", call("mailer__send", email("crm__search", "web__fetch")), false, policy.Deny, 3, "from web__fetch"},
		{"unknown origin", call("mailer__send", email()), false, policy.Deny, 3, "denies [EMAIL_1] of unknown origin"},
		{"other type", call("mailer__send", phone), false, policy.Deny, 3, "[PHONE_1]"},
		{"second token", call("mailer__send", email("crm__search"), phone), false, policy.Deny, 3, "[PHONE_1]"},
		{"denied flow of a destructive call", call("mailer__send", phone), true, policy.Deny, 3, ""},
		{"other tool", call("crm__update", phone), false, policy.Allow, 0, ""},
		{"other server with the same beginning", call("mailer2__send", phone), false, policy.Allow, 0, ""},
		{"tool of another server named so", call("crm__mailer__send", phone), false, policy.Allow, 0, ""},
	} {
		c.call.Destructive = c.destructive
		got := p.Decide(c.call)
		if got.Action != c.want || got.Rule != c.rule || !strings.Contains(got.Reason, c.reason) {
			t.Errorf("%s: %+v, want %s by rule %d: %s", c.name, got, c.want, c.rule, c.reason)
		}
	}
	if got := p.Decide(call("mailer__send", email("crm__search"), phone)); got.Token != "[PHONE_1]" || got.Origin != "crm__search" {
		t.Errorf("the verdict is about %+v", got)
	}
	if got := p.Judgements(call("mailer__send", email("crm__search", "task"))); len(got) != 3 || got[1].Rule != 2 || got[2].Rule != 3 {
		t.Errorf("judgements are %+v", got)
	}
}

// A rule without tokens counts in judgements of tokens if it allows or denies, but not if it asks.
func TestRulesWithoutTokens(t *testing.T) {
	t.Parallel()
	all := flow(policy.Deny, "*", "*", "")
	for _, c := range []struct {
		first policy.Rule
		want  policy.Action
	}{
		{tools(policy.Allow, "crm__*"), policy.Allow},
		{tools(policy.Ask, "crm__*"), policy.Deny},
		{tools(policy.Deny, "crm__*"), policy.Deny},
		{tools(policy.Allow, "web__*"), policy.Deny},
	} {
		if got := compile(t, c.first, all).Decide(call("crm__update", email("task"))); got.Action != c.want {
			t.Errorf("after %s %s: %+v, want %s", c.first.Action, c.first, got, c.want)
		}
	}
}

func TestMatching(t *testing.T) {
	t.Parallel()
	with := func(change func(*policy.Rule)) policy.Rule {
		r := tools(policy.Deny, "*")
		change(&r)
		return r
	}
	for _, c := range []struct {
		rule policy.Rule
		call policy.Call
		want bool
	}{
		{tools(policy.Deny, "crm__getSum"), call("crm__get-sum"), true},
		{tools(policy.Deny, "My-CRM__*"), call("my_crm__x"), true},
		{tools(policy.Deny, "*__delete*"), call("crm__delete_all"), true},
		{tools(policy.Deny, "*__delete*"), call("crm__undelete"), false},
		{tools(policy.Deny, "*delete*"), call("deleter__x"), true},
		{tools(policy.Deny, "crm__a", "crm__b"), call("crm__b"), true},
		{tools(policy.Deny, "crm__*a*a*"), call("crm__banana"), true},
		{tools(policy.Deny, "crm__*a*a*a*a*"), call("crm__banana"), false},
		{tools(policy.Deny, "crm__!!"), call("crm__??"), false},
		{tools(policy.Deny, "cr__msearch"), call("crm__search"), false},
		{with(func(r *policy.Rule) { r.Users = []string{"an*", "bob"} }), call("x__y"), true},
		{with(func(r *policy.Rule) { r.Users = []string{"Ann"} }), call("x__y"), false},
		{with(func(r *policy.Rule) { r.Roles = []string{"admin", "user"} }), call("x__y"), true},
		{with(func(r *policy.Rule) { r.Roles = []string{"admin"} }), call("x__y"), false},
		{with(func(r *policy.Rule) { r.Roles = []string{"admin"} }), policy.Call{Tool: "x__y"}, true},
		{with(func(r *policy.Rule) { r.Sandbox = []string{"wasm", "process"} }), policy.Call{Tool: "x__y", Sandbox: "process"}, true},
		{with(func(r *policy.Rule) { r.Sandbox = []string{"wasm", "process"} }), policy.Call{Tool: "x__y", Sandbox: "docker"}, false},
		{with(func(r *policy.Rule) { r.Sandbox = []string{"docker"} }), call("x__y"), true},
		{with(func(r *policy.Rule) { r.When.ReadOnly = no }), call("x__y"), true},
		{with(func(r *policy.Rule) { r.When.ReadOnly = yes }), call("x__y"), false},
		{with(func(r *policy.Rule) { r.When.OpenWorld = no }), policy.Call{Tool: "x__y", OpenWorld: true}, false},
		{with(func(r *policy.Rule) { r.When.Idempotent = yes }), policy.Call{Tool: "x__y", Idempotent: true}, true},
	} {
		if got := compile(t, c.rule).Decide(c.call).Action == policy.Deny; got != c.want {
			t.Errorf("%s and %+v: match is %v, want %v", c.rule, c.call, got, c.want)
		}
	}
	allow := tools(policy.Allow, "*")
	allow.Roles = []string{"admin"}
	if got := compile(t, allow, tools(policy.Deny, "*")).Decide(policy.Call{Tool: "x__y"}); got.Action != policy.Deny {
		t.Errorf("a caller of unknown roles is allowed as an admin: %+v", got)
	}
	allow = tools(policy.Allow, "*")
	allow.Sandbox = []string{"docker"}
	if got := compile(t, allow, tools(policy.Deny, "*")).Decide(call("x__y")); got.Action != policy.Deny {
		t.Errorf("a program in an unknown tier is allowed as one in a container: %+v", got)
	}
}

// A server may be tolerant about the names of properties. A name that the server may take for the name in a rule never makes a rule that allows match.
// For a rule that asks or denies, the value under this name counts.
func TestArgumentsAlike(t *testing.T) {
	t.Parallel()
	allow, deny := tools(policy.Allow, "*"), tools(policy.Deny, "*")
	allow.Args = map[string]policy.Condition{"$.max_amount": {Max: new(100.0)}, "$.to[*].name": {}}
	deny.Args = map[string]policy.Condition{"$.max_amount": {Min: new(1000.0)}}
	for args, want := range map[string]struct{ allowed, denied bool }{
		`{"max_amount":1,"to":[{"name":"a"}]}`:                        {true, false},
		`{"max_amount":1,"to":[{"name":"a"}],"amount":5000}`:          {true, false},
		`{"max_amount":1,"Max_Amount":5000,"to":[{"name":"a"}]}`:      {false, true},
		`{"max_amount":1,"maxAmount":5000,"to":[{"name":"a"}]}`:       {false, true},
		`{"maxAmount":1,"max_amount":1,"to":[{"name":"a"}]}`:          {false, false},
		`{"max_amount":1,"max-amount":null,"to":[{"name":"a"}]}`:      {false, false},
		`{"max_amount":1,"MAX AMOUNT":5e3,"to":[{"name":"a"}]}`:       {false, true},
		`{"max_amount":1,"max_amount":5000,"to":[{"name":"a"}]}`:      {false, true},
		`{"max_amount":1,"max_amoun\u0054":5000,"to":[{"name":"a"}]}`: {false, true},
		`{"max_amount":1,"to":[{"name":"a","Name":"b"}]}`:             {false, false},
		`{"max_amount":1,"to":[{"name":"a"}],"TO":[{"name":"b"}]}`:    {false, false},
	} {
		made := call("x__y")
		made.Args = json.RawMessage(args)
		if got := compile(t, allow, tools(policy.Deny, "*")).Decide(made).Action == policy.Allow; got != want.allowed {
			t.Errorf("%s: allowed %v", args, got)
		}
		if got := compile(t, deny).Decide(made).Action == policy.Deny; got != want.denied {
			t.Errorf("%s: denied %v", args, got)
		}
	}
}

func TestArguments(t *testing.T) {
	t.Parallel()
	const args = `{"to":["a@x","b@y"],"n":5,"big":1e400,"deep":{"a name":[{"k":"v"},{"k":"w"}],"flag":true,"none":null},"twice":1,"twice":2,"text":"7"}`
	for _, c := range []struct {
		path        string
		is          policy.Condition
		deny, allow bool // whether a rule with this action and the condition matches
	}{
		{"$.to", policy.Condition{Pattern: "@x$"}, true, false},
		{"$.to[*]", policy.Condition{Pattern: "@[xy]$"}, true, true},
		{"$.to[0]", policy.Condition{Equals: []string{"a@x"}}, true, true},
		{"$.to[1]", policy.Condition{Equals: []string{"a@x", "c"}}, false, false},
		{"$.to[2]", policy.Condition{}, false, false},
		{"$.cc", policy.Condition{}, false, false},
		{"$.n", policy.Condition{Equals: []string{"5.0"}}, true, true},
		{"$.n", policy.Condition{Min: new(5.0), Max: new(6.0)}, true, true},
		{"$.n", policy.Condition{Max: new(4.0)}, false, false},
		{"$.big", policy.Condition{Min: new(1.0)}, true, true},
		{"$.text", policy.Condition{Min: new(7.0)}, true, true},
		{"$.to", policy.Condition{Min: new(0.0)}, false, false},
		{"$.deep['a name'][*].k", policy.Condition{Equals: []string{"w"}}, true, false},
		{`$.deep["a name"][0].k`, policy.Condition{Equals: []string{"v"}}, true, true},
		{"$.deep.flag", policy.Condition{Equals: []string{"true"}}, true, true},
		{"$.deep.none", policy.Condition{Equals: []string{"null"}}, true, true},
		{"$.deep", policy.Condition{}, true, true},
		{"$.deep", policy.Condition{Pattern: "."}, false, false},
		{"$.*.flag", policy.Condition{}, true, true},
		{"$.twice", policy.Condition{Equals: []string{"1"}}, true, false},
		{"$.twice", policy.Condition{Equals: []string{"2"}}, true, false},
		{"$", policy.Condition{}, true, true},
		{"$.n.m", policy.Condition{}, false, false},
	} {
		deny, allow := tools(policy.Deny, "*"), tools(policy.Allow, "*")
		deny.Args = map[string]policy.Condition{c.path: c.is}
		allow.Args = deny.Args
		made := call("x__y")
		made.Args = json.RawMessage(args)
		if got := compile(t, deny).Decide(made).Action == policy.Deny; got != c.deny {
			t.Errorf("%s %+v: a denying rule matches: %v", c.path, c.is, got)
		}
		if got := compile(t, allow, tools(policy.Deny, "*")).Decide(made).Action == policy.Allow; got != c.allow {
			t.Errorf("%s %+v: an allowing rule matches: %v", c.path, c.is, got)
		}
		for _, broken := range []string{"", "{", `{"to":"a@x"} x`} {
			made.Args = json.RawMessage(broken)
			if compile(t, deny).Decide(made).Action != policy.Deny || compile(t, allow, tools(policy.Deny, "*")).Decide(made).Action != policy.Deny {
				t.Errorf("%s %+v: arguments %q are not denied", c.path, c.is, broken)
			}
		}
	}
	both := tools(policy.Deny, "*")
	both.Args = map[string]policy.Condition{"$.n": {Equals: []string{"5"}}, "$.text": {Equals: []string{"8"}}}
	made := call("x__y")
	made.Args = json.RawMessage(args)
	if compile(t, both).Decide(made).Action != policy.Allow {
		t.Error("one condition of two is enough")
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	args := func(path string, c policy.Condition) policy.Rule {
		r := tools(policy.Deny, "*")
		r.Args = map[string]policy.Condition{path: c}
		return r
	}
	role := tools(policy.Deny, "*")
	role.Roles = []string{"boss"}
	tier := tools(policy.Deny, "*")
	tier.Sandbox = []string{"vm"}
	for want, rule := range map[string]policy.Rule{
		`rule 1: sandbox: "vm" is not one of wasm`:                     tier,
		"rule 1: tools: it names no tool":                              tools(policy.Deny),
		`rule 1: tools: "crm" is the name of no tool; write crm__*`:    tools(policy.Deny, "crm"),
		`rule 1: roles: "boss" is not one of user`:                     role,
		`rule 1: action: "maybe" is not one of`:                        tools("maybe", "*"),
		`rule 1: tokens.from: "taks" is neither a tool nor one of`:     flow(policy.Deny, "*", "*", "taks"),
		`rule 1: tokens.from: "crm" is neither a tool nor one of task`: flow(policy.Deny, "*", "*", "crm"),
		"rule 1: args.to: it is not a path":                            args("to", policy.Condition{}),
		"rule 1: args.$.: it is not a path":                            args("$.", policy.Condition{}),
		"rule 1: args.$[x]: it is not a path":                          args("$[x]", policy.Condition{}),
		"rule 1: args.$['a]: it is not a path":                         args("$['a]", policy.Condition{}),
		"rule 1: args.$..a: it is not a path":                          args("$..a", policy.Condition{}),
		"rule 1: args.$.a.pattern: error parsing regexp":               args("$.a", policy.Condition{Pattern: "("}),
		"rule 1: args.$.a.min: no number":                              args("$.a", policy.Condition{Min: new(2.0), Max: new(1.0)}),
	} {
		_, err := policy.New([]policy.Rule{rule}, "", nil, policy.Servers{})
		var one *policy.RuleError
		if !errors.As(err, &one) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// Rules of a preset come last and are numbered on their own.
func TestPresetRules(t *testing.T) {
	t.Parallel()
	p, err := policy.New([]policy.Rule{tools(policy.Allow, "crm__delete")}, "guarded", []policy.Rule{destructive(policy.Ask)}, policy.Servers{})
	if err != nil {
		t.Fatal(err)
	}
	for tool, want := range map[string]policy.Verdict{
		"crm__delete": {Action: policy.Allow, Rule: 1, Reason: "rule 1 (tools crm__delete) allows crm__delete"},
		"crm__purge":  {Action: policy.Ask, Rule: 1, Preset: "guarded", Reason: "rule 1 of preset guarded (tools *, destructive) asks about crm__purge"},
	} {
		c := call(tool)
		c.Destructive = true
		if got := p.Decide(c); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", tool, got, want)
		}
	}
	for _, name := range policy.Presets() {
		if text, ok := policy.Preset(name); !ok || len(text) == 0 {
			t.Errorf("preset %s has no file", name)
		}
	}
	if _, ok := policy.Preset("../presets/open"); ok {
		t.Error("a path is a preset")
	}
}

// An additional token, or an additional origin of a token, never makes a verdict milder. The order of tokens does not matter.
func TestStrictnessIsMonotone(t *testing.T) {
	t.Parallel()
	seed := generated.Seed(t)
	r := rand.New(rand.NewPCG(seed, 0))
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	action := func() policy.Action { return policy.Action(pick("allow", "ask", "deny")) }
	origin := func() string { return pick("crm__search", "crm__get", "web__fetch", "task", "program") }
	for range 5000 {
		var rules []policy.Rule
		for range r.IntN(6) {
			rule := tools(action(), pick("*", "mailer__*", "mailer__send", "crm__*"))
			if r.IntN(3) > 0 {
				rule.Tokens = &policy.Tokens{Type: []string{pick("*", "email", "phone")}}
				if r.IntN(2) > 0 {
					rule.Tokens.From = []string{pick("*", "crm__*", "crm__get", "task", "program")}
				}
			}
			if r.IntN(3) == 0 {
				rule.When.Destructive = new(r.IntN(2) > 0)
			}
			rules = append(rules, rule)
		}
		p := compile(t, rules...)
		c := call(pick("mailer__send", "crm__search"))
		c.Destructive = r.IntN(2) > 0
		last := p.Decide(c).Action
		for i := range 5 {
			if n := len(c.Tokens); n > 0 && r.IntN(2) > 0 && len(c.Tokens[n-1].Origins) > 0 {
				c.Tokens[n-1].Origins = append(c.Tokens[n-1].Origins, origin())
			} else {
				token := policy.Token{Text: fmt.Sprintf("[X_%d]", i), Type: pick("EMAIL", "PHONE", "IBAN")}
				for range r.IntN(3) {
					token.Origins = append(token.Origins, origin())
				}
				c.Tokens = append(c.Tokens, token)
			}
			got := p.Decide(c)
			if last.StricterThan(got.Action) {
				t.Fatalf("%s after %s\nrules %v\ncall %+v", got.Action, last, rules, c)
			}
			last = got.Action
		}
		r.Shuffle(len(c.Tokens), func(i, j int) { c.Tokens[i], c.Tokens[j] = c.Tokens[j], c.Tokens[i] })
		if got := p.Decide(c).Action; got != last {
			t.Fatalf("%s in another order, %s before\nrules %v\ncall %+v", got, last, rules, c)
		}
	}
}

func FuzzDecide(f *testing.F) {
	f.Add("crm__*", "$.a[0]['b']", `{"a":[{"b":1}]}`, "crm__search")
	f.Add("*a*__b*", "$", `[`, "__")
	f.Fuzz(func(t *testing.T, pattern, path, args, name string) {
		deny, allow := tools(policy.Deny, pattern), tools(policy.Allow, pattern)
		deny.Args = map[string]policy.Condition{path: {Equals: []string{"1"}}}
		allow.Args = deny.Args
		denying, err := policy.New([]policy.Rule{deny}, "", nil, policy.Servers{})
		if err != nil {
			return
		}
		allowing := compile(t, allow, tools(policy.Deny, "*"))
		c := call(name, email(name))
		c.Args = json.RawMessage(args)
		if allowing.Decide(c).Action == policy.Allow && denying.Decide(c).Action == policy.Allow {
			t.Errorf("%q %q: the rule matches %s of %q where it allows, and not where it denies", pattern, path, args, name)
		}
	})
}

func BenchmarkDecide(b *testing.B) {
	p := compile(b, destructive(policy.Ask), flow(policy.Allow, "mailer__*", "email", "crm__*"), flow(policy.Deny, "mailer__*", "*", ""))
	c := call("mailer__send", email("crm__search"))
	for b.Loop() {
		p.Decide(c)
	}
}
