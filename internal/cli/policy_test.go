package cli_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/testing/fake"
)

const flowPolicy = `policy:
  - {tools: "*", when: {destructive: true}, action: ask}
  - {tools: "mailer__*", tokens: {type: email, from: "crm__*"}, action: allow}
  - {tools: "mailer__*", tokens: {type: "*"}, action: deny}
`

type verdict struct {
	Action, Preset, Reason, Token, Origin string
	Rule                                  int
}

func TestPolicyShow(t *testing.T) {
	t.Parallel()
	f := setup(t)
	if r := f.run("policy", "show").want(0); r.stdout != "" || !strings.Contains(r.stderr, "every call is allowed") {
		t.Errorf("without rules: %s%s", r.stdout, r.stderr)
	}
	f.write("harness.yaml", strings.Replace(flowPolicy, "policy:", "policy:\n  preset: guarded\n  rules:", 1))
	want := []string{
		"rule 1                    ask    tools *, destructive", "rule 2                    allow  tools mailer__*, tokens email from crm__*",
		"rule 3                    deny   tools mailer__*, tokens *", "rule 1 of preset guarded  ask    tools *, destructive",
	}
	if r := f.run("policy", "show").want(0); r.stdout != strings.Join(want, "\n")+"\n" {
		t.Errorf("shown:\n%s", r.stdout)
	}
	var shown struct {
		Preset string
		Rules  []struct {
			Rule           int
			Preset, Action string
			Tools          []string
		}
	}
	f.run("policy", "show", "--json").want(0).value(&shown)
	if len(shown.Rules) != 4 || shown.Preset != "guarded" || shown.Rules[3].Rule != 1 || shown.Rules[3].Preset != "guarded" {
		t.Errorf("as JSON: %+v", shown)
	}
	// The printed rules of a preset are a valid policy.
	f.write("copy.yaml", f.run("policy", "show", "strict").want(0).stdout)
	r := f.run("policy", "test", "a__b", "--token", "[EMAIL_1]", "--policy", "copy.yaml").want(0)
	if !strings.HasPrefix(r.stdout, "deny: rule 3 (tools *, tokens *) denies [EMAIL_1] of unknown origin: no rule allows this flow\n") {
		t.Errorf("with a copy of the preset: %s", r.stdout)
	}
	if r := f.run("policy", "show", "none").want(2); !strings.Contains(r.stderr, "open, guarded, careful, strict") {
		t.Error(r.stderr)
	}
}

// TestPolicyOrigins checks that rules about the origins of values are shown, and that policy test judges the origins that its flags give.
func TestPolicyOrigins(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("harness.yaml", "policy:\n  - {tools: bank__pay, args: {$.iban: {from: [user, 'contacts__*']}}, action: allow}\n  - {tools: bank__pay, action: deny}\n")
	want := "rule 1  allow  tools bank__pay, args $.iban from user|contacts__*\nrule 2  deny   tools bank__pay\n"
	if r := f.run("policy", "show").want(0); r.stdout != want {
		t.Errorf("shown: %s", r.stdout)
	}
	for value, want := range map[string]string{
		"X=1=contacts__get":   "allow: rule 1",
		"X=1=mail__read,user": "allow: rule 1",
		"X=1=mail__read":      "deny: rule 2 (tools bank__pay) denies bank__pay; rule 1 does not allow it: $.iban comes from mail__read\n",
		"Y=user":              "deny: rule 2 (tools bank__pay) denies bank__pay; rule 1 does not allow it: $.iban is of unknown origin\n",
	} {
		if r := f.run("policy", "test", "bank__pay", "--args", `{"iban":"X=1"}`, "--value", value).want(0); !strings.HasPrefix(r.stdout, want) {
			t.Errorf("%s: %s", value, r.stdout)
		}
	}
	var tested struct {
		Verdict struct {
			Values []struct {
				Path string
				From []string
			}
		}
	}
	f.run("policy", "test", "bank__pay", "--args", `{"iban":"X"}`, "--value", "X=mail__read,mail__list", "--json").want(0).value(&tested)
	if v := tested.Verdict.Values; len(v) != 1 || v[0].Path != "$.iban" || !slices.Equal(v[0].From, []string{"mail__read", "mail__list"}) {
		t.Errorf("as JSON: %+v", tested)
	}
	if r := f.run("policy", "test", "bank__pay", "--value", "X").want(2); !strings.Contains(r.stderr, "--value X: write a value with its origin") {
		t.Error(r.stderr)
	}
}

// TestPolicyOfRuns checks that rules about runs are shown, and that policy test shows the limits of a caller.
func TestPolicyOfRuns(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("harness.yaml", "policy:\n  runs:\n  - {roles: user, timeout: 5s, maxCalls: 20}\n  - {users: 'guest*', timeout: 9s, maxOutput: 64KiB}\n")
	want := "runs 1  lower  roles user, timeout 5s, maxCalls 20\nruns 2  lower  users guest*, timeout 9s, maxOutput 64KiB\n"
	if r := f.run("policy", "show").want(0); r.stdout != want {
		t.Errorf("shown: %s", r.stdout)
	}
	var shown struct {
		Runs []struct {
			Rule   int
			Roles  []string
			Limits map[string]string
		}
	}
	f.run("policy", "show", "--json").want(0).value(&shown)
	if len(shown.Runs) != 2 || shown.Runs[0].Rule != 1 || !slices.Equal(shown.Runs[0].Roles, []string{"user"}) || shown.Runs[0].Limits["timeout"] != "5s" {
		t.Errorf("as JSON: %+v", shown)
	}
	for user, want := range map[string]string{
		"guest1": "programs of guest1: maxCalls 20, maxOutput 64KiB, timeout 5s (policy.runs 1 2)\n", "ann": "programs of ann: maxCalls 20, timeout 5s (policy.runs 1)\n",
	} {
		if r := f.run("policy", "test", "a__b", "--user", user, "--role", "user").want(0); !strings.Contains(r.stdout, want) {
			t.Errorf("%s: %s", user, r.stdout)
		}
	}
	if r := f.run("policy", "test", "a__b", "--user", "ann", "--role", "admin").want(0); strings.Contains(r.stdout, "programs of") {
		t.Error(r.stdout)
	}
}

func TestPolicyTest(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.addDemo("crm")
	f.write("harness.yaml", f.read("harness.yaml")+flowPolicy)
	for _, c := range []struct {
		args   []string
		action string
		reason string
	}{
		{[]string{"mailer__send"}, "ask", "rule 1 (tools *, destructive) asks about mailer__send"},
		{[]string{"mailer__send", "--no-destructive"}, "allow", "no rule is about mailer__send"},
		{[]string{"mailer__send", "--read-only", "--token", "[EMAIL_1]=crm__search"}, "allow", "no rule"},
		{[]string{"mailer__send", "--read-only", "--token", "pii_1e@d1.pii.invalid=crm__search"}, "allow", "no rule"},
		{[]string{"mailer__send", "--args", `{"to":"pii_1e@d1.pii.invalid"}`, "--token", "pii_1e=task"}, "deny", "denies pii_1e@d1.pii.invalid from task"},
		{[]string{"mailer__send", "--token", "[EMAIL_1]=crm__search,task"}, "deny", "denies [EMAIL_1] from task"},
		{[]string{"mailer__send", "--args", `{"to":["[PHONE_2]"]}`}, "deny", "denies [PHONE_2] of unknown origin"},
		{[]string{"CRM__list-team"}, "allow", "no rule is about crm__list_team"}, // the catalog has it as read-only
		{[]string{"pii__last4", "--token", "[EMAIL_1]=task"}, "allow", "no rule"},
		{[]string{"crm__list_team", "--no-read-only", "--destructive"}, "ask", "rule 1"},
	} {
		var got struct {
			Known      bool
			Verdict    verdict
			Judgements []verdict
		}
		f.run(append([]string{"policy", "test", "--json"}, c.args...)...).want(0).value(&got)
		if got.Verdict.Action != c.action || !strings.Contains(got.Verdict.Reason, c.reason) || len(got.Judgements) == 0 {
			t.Errorf("%q: %+v, want %s: %s", c.args, got, c.action, c.reason)
		}
		if known := !strings.HasPrefix(c.args[0], "mailer"); got.Known != known {
			t.Errorf("%q: known is %v", c.args, got.Known)
		}
	}
	r := f.run("policy", "test", "mailer__send", "--token", "[EMAIL_1]=crm__search", "--token", "[IBAN_1]=task").want(0)
	const want = `deny: rule 3 (tools mailer__*, tokens *) denies [IBAN_1] from task

JUDGED     ACTION  BECAUSE
the call   ask     rule 1 (tools *, destructive) asks about mailer__send
[EMAIL_1]  allow   rule 2 (tools mailer__*, tokens email from crm__*) allows [EMAIL_1] from crm__search
[IBAN_1]   deny    rule 3 (tools mailer__*, tokens *) denies [IBAN_1] from task
`
	if r.stdout != want || !strings.Contains(r.stderr, "the catalog has no tool mailer__send") {
		t.Errorf("stdout\n%s\nstderr %s", r.stdout, r.stderr)
	}
	for want, args := range map[string][]string{
		"write server__tool":       {"mailer"},
		"unknown role":             {"a__b", "--role", "boss"},
		"write a token such as":    {"a__b", "--token", "ann@example.com"},
		"not a JSON object":        {"a__b", "--args", "[]"},
		"no such file":             {"a__b", "--policy", "none.yaml"},
		"harness.yaml:1:1: policy": {"a__b", "--policy", f.write("bad/harness.yaml", "rulez: []")},
	} {
		if r := f.run(append([]string{"policy", "test"}, args...)...).want(2); !strings.Contains(r.stderr, want) {
			t.Errorf("%q: %s, want %s", args, r.stderr, want)
		}
	}
}

func TestPolicySimulate(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.addDemo("crm", "database")
	f.run("exec", "-e", `
		await callMCPTool('database__list_tables', {})
		const search = (text) => callMCPTool('crm__search', {q: text})
		await search('[EMAIL_1]')
		await search('[EMAIL_' + 2 + ']')
		await pii.kind('[EMAIL_1]').catch(() => {})
		return 1`).want(0)
	f.write("other.yaml", `
- {tools: database__*, action: ask}
- {tools: crm__*, tokens: {type: email, from: program}, action: allow}
- {tools: crm__*, tokens: {}, action: deny}
- {tools: pii__*, tokens: {from: program}, action: deny}`)
	var got struct {
		Runs, Calls int
		Changes     []struct {
			Run            string
			Call           int
			Tool           string
			Known          bool
			Now, Then      verdict
			UnknownOrigins []string
		}
	}
	r := f.run("policy", "simulate", "other.yaml", "--json").want(0).value(&got)
	if got.Runs != 1 || got.Calls != 4 || len(got.Changes) != 3 {
		t.Fatalf("simulated: %s", r.stdout)
	}
	ask, deny := got.Changes[0], got.Changes[1]
	if ask.Tool != "database__list_tables" || ask.Now.Action != "allow" || ask.Then.Action != "ask" || ask.Then.Rule != 1 || !ask.Known || len(ask.UnknownOrigins) != 0 {
		t.Errorf("the first: %+v", ask)
	}
	// The origin of the first token is known, because the program contains it. The origin of the second is unknown.
	if deny.Tool != "crm__search" || deny.Then.Token != "[EMAIL_2]" || deny.Then.Action != "deny" || len(deny.UnknownOrigins) != 1 {
		t.Errorf("the second: %+v", deny)
	}
	if asked := got.Changes[2]; asked.Tool != "pii__kind" || !asked.Known || asked.Then.Token != "[EMAIL_1]" || asked.Then.Action != "deny" {
		t.Errorf("the question: %+v", asked)
	}
	text := f.run("policy", "simulate", "other.yaml").want(0)
	if n := strings.Count(text.stdout, "\n"); n != 4 || !strings.Contains(text.stderr, "3 of 4 calls in 1 runs are decided differently") {
		t.Errorf("%s%s", text.stdout, text.stderr)
	}
	f.run("exec", "-e", "await callMCPTool('database__list_tables', {})").want(0)
	if r := f.run("policy", "simulate", "other.yaml", "--limit", "1").want(0); !strings.Contains(r.stderr, ": the newest 1 runs were read\n1 of 1 calls in 1 runs are decided differently") {
		t.Errorf("with a limit: %s%s", r.stdout, r.stderr)
	}
	f.write("same.yaml", "[]")
	if r := f.run("policy", "simulate", "same.yaml").want(0); r.stdout != "" || !strings.Contains(r.stderr, "0 of 5") {
		t.Errorf("%s%s", r.stdout, r.stderr)
	}
	f.write("bad.yaml", "- {tools: crm, action: deny}")
	if r := f.run("policy", "simulate", "bad.yaml").want(2); !strings.Contains(r.stderr, "bad.yaml:1:11: policy.rules.1.tools: ") {
		t.Error(r.stderr)
	}
	if r := f.run("policy", "simulate", "same.yaml", "--limit", "0").want(2); !strings.Contains(r.stderr, "--limit 0") {
		t.Error(r.stderr)
	}
}

// TestPolicyDestinations checks the destinations that are derived from definitions of tools, with the reason, the destinations in the configuration, and the
// rules of presets about destinations.
func TestPolicyDestinations(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.addDemo("mailer", "web", "crm")
	const want = "TOOL          PATH  KIND       BECAUSE\nmailer__send  $.to  recipient  named to\n"
	if r := f.run("policy", "destinations", "mailer").want(0); r.stdout != want {
		t.Errorf("shown:\n%s", r.stdout)
	}
	if r := f.run("policy", "destinations", "crm").want(0); r.stdout != "" || !strings.Contains(r.stderr, "no tool has a destination") {
		t.Errorf("of a server that reads: %s%s", r.stdout, r.stderr)
	}
	f.run("policy", "destinations", "none").want(2)
	if r := f.run("tools", "show", "mailer__send").want(0); !strings.Contains(r.stdout, "\nSends something to $.to (recipient: ") {
		t.Errorf("a tool's destinations are not shown with it: %s", r.stdout)
	}
	send := func(preset, from string) string {
		return f.run("policy", "test", "mailer__send", "--args", `{"to":"X"}`, "--value", "X="+from, "--policy", f.write(preset+".yaml", "preset: "+preset)).want(0).stdout
	}
	for _, c := range [][3]string{
		{"strict", "mail__read", "deny: rule 4 of preset strict (tools *, destinations default) denies mailer__send: neither the user nor a trusted server has named this destination; $.to comes from mail__read\n"},
		{"careful", "mail__read", "ask: rule 4 of preset careful"},
		{"strict", "user", "allow: no rule is about mailer__send"},
		{"careful", "crm__get", "allow: "},
		{"guarded", "mail__read", "allow: "},
	} {
		f.write("harness.yaml", strings.Split(f.read("harness.yaml"), "  mail:")[0]+"  mail: {command: x, disabled: true, untrusted: true}\n")
		if got := send(c[0], c[1]); !strings.HasPrefix(got, c[2]) {
			t.Errorf("%s, %s: %s", c[0], c[1], got)
		}
	}
	f.write("harness.yaml", strings.Replace(f.read("harness.yaml"), "untrusted: true", "untrustedTools: [read*]", 1))
	for from, want := range map[string]string{"mail__read_all": "deny: ", "mail__addresses": "allow: "} {
		if got := send("strict", from); !strings.HasPrefix(got, want) {
			t.Errorf("%s, of a server with untrusted tools: %s", from, got)
		}
	}
	f.write("harness.yaml", strings.Replace(f.read("harness.yaml"), "  mailer:", "  mailer:\n    destinations: {'*': [], send: [$.subject]}", 1))
	var shown []struct {
		Tool         string
		Destinations []struct{ Path, Kind, Because string }
	}
	f.run("policy", "destinations", "mailer__*", "--json").want(0).value(&shown)
	if len(shown) != 2 || len(shown[0].Destinations) != 0 || len(shown[1].Destinations) != 1 || shown[1].Destinations[0].Path != "$.subject" {
		t.Errorf("as the configuration has it: %+v", shown)
	}
	if got := send("strict", "mail__read"); !strings.HasPrefix(got, "allow: ") {
		t.Errorf("%s", got)
	}
	f.write("harness.yaml", strings.Replace(f.read("harness.yaml"), "$.subject", "subject", 1))
	if r := f.run("policy", "destinations").want(2); !strings.Contains(r.stderr, "mcpServers.mailer.destinations: send: ") {
		t.Error(r.stderr)
	}
}

// TestPolicySimulateOrigins applies rules about origins to recorded runs and tasks. A value from the user is allowed. A value from an untrusted CRM is denied,
// also in a later run of the same session.
func TestPolicySimulateOrigins(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.addDemo("crm", "mailer")
	f.write("harness.yaml", f.read("harness.yaml")+"pii: {enabled: false}\n")
	var customer struct{ Output string }
	f.run("exec", "--json", "-e", "return (await callMCPTool('crm__get', {id: 1001})).email").want(0).value(&customer)
	mail := func(to string) string {
		return "callMCPTool('mailer__send', {to: " + to + ", subject: 's', body: 'b'})"
	}
	got := func(file string) (all []string) {
		var found struct {
			Changes []struct {
				Then           verdict
				UnknownOrigins []string
			}
		}
		f.run("policy", "simulate", file, "--json").want(0).value(&found)
		for _, c := range found.Changes {
			_, why, _ := strings.Cut(c.Then.Reason, "; ")
			all = append(all, c.Then.Action+" "+why+strings.Join(c.UnknownOrigins, ""))
		}
		return all
	}
	f.run("exec", "--session", "s1", "-e", "const c = await callMCPTool('crm__get', {id: 1001}); await "+mail("c.email.toUpperCase()")).want(0)
	f.run("exec", "--session", "s1", "-e", "await "+mail("'"+customer.Output+"'")).want(0)
	f.run("exec", "-e", "await "+mail("'"+customer.Output+"'")).want(0)
	f.run("exec", "-e", "await "+mail("['a@', 'x.example'].join('')")).want(0)
	f.run("exec", "-e", "await fs.readFile('/workspace/none').catch(() => {}); await fs.writeFile('/workspace/a', 'b@x.example'); await "+mail("await fs.readFile('/workspace/a', 'utf8')")).want(0)
	f.modelled(func(r fake.Request) fake.Reply {
		if r.Last().Role == "user" {
			return code("await " + mail("'bob@y.example'"))
		}
		return fake.Reply{Text: "Done."}
	})
	f.run("run", "Write to bob@y.example").want(0)

	f.write("rule.yaml", "[{tools: mailer__*, destinations: default, action: deny}]")
	trusted := []string{"deny $.to is of unknown origin$.to", "deny $.to is computed", "deny $.to is in the program's text alone"}
	if all := got("rule.yaml"); !slices.Equal(all, trusted) {
		t.Errorf("a CRM that is trusted: %q", all)
	}
	f.write("harness.yaml", strings.Replace(f.read("harness.yaml"), "  crm:", "  crm:\n    untrusted: true", 1))
	if all := got("rule.yaml"); !slices.Equal(all, append(trusted, "deny $.to comes from crm__get", "deny $.to comes from crm__get")) {
		t.Errorf("a CRM that is not: %q", all)
	}
}

// TestDeniedCall checks that the error of a denied call names the rule.
func TestDeniedCall(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.addDemo("database")
	f.write("harness.yaml", f.read("harness.yaml")+"policy: [{tools: 'database__*', action: deny, reason: not today}]\n")
	var out outcome
	f.run("exec", "--json", "-e", "await callMCPTool('database__list_tables', {})").want(1).value(&out)
	const want = "database__list_tables was not called: rule 1 (tools database__*) denies database__list_tables: not today"
	if out.Error == nil || out.Error.Kind != "denied" || out.Error.Message != want {
		t.Errorf("error %+v, want %s", out.Error, want)
	}
	f.run("exec", "--json", "-e", "try { await callMCPTool('database__list_tables', {}) } catch (e) { return e.name }").want(0).value(&out)
	if want := json.RawMessage(`"DeniedError"`); string(out.Output) != string(want) {
		t.Errorf("caught %s", out.Output)
	}
}

// TestPolicyNegative checks the warning about a rule with only an upper bound, because it allows every negative number.
func TestPolicyNegative(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("harness.yaml", "policy: [{tools: a__pay, args: {$.amount: {max: 100}}, action: allow}, {tools: b__pay, args: {$.amount: {min: 0, max: 100}}, action: allow}]\n")
	for tool, warns := range map[string]bool{"a__pay": true, "b__pay": false} {
		if r := f.run("policy", "test", tool, "--args", `{"amount": 5}`).want(0); strings.Contains(r.stderr, "negative") != warns {
			t.Errorf("%s: %s", tool, r.stderr)
		}
	}
}
