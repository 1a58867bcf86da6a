package policy_test

import (
	"cmp"
	"encoding/json"
	"strings"
	"testing"

	diff "github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/policy"
)

// from returns a rule with a condition on the origin of a value.
func from(action policy.Action, tool, path string, origins ...string) policy.Rule {
	r := tools(action, tool)
	r.Args = map[string]policy.Condition{path: {From: origins}}
	return r
}

// pay returns a call of bank__transfer with the given arguments and origins of values.
func pay(args string, origins map[string]policy.ValueOrigin) policy.Call {
	c := call("bank__transfer")
	c.Args = json.RawMessage(args)
	c.Origin = func(value string) policy.ValueOrigin { return origins[value] }
	return c
}

func said(by ...string) policy.ValueOrigin { return policy.ValueOrigin{Said: by} }

func TestValueOrigins(t *testing.T) {
	t.Parallel()
	const to = `{"to":"X"}`
	parts := policy.ValueOrigin{Said: []string{"computed"}, Parts: []string{"mail__read"}}
	more := policy.ValueOrigin{Said: []string{"crm__a"}, More: true}
	deny := tools(policy.Deny, "bank__*")
	for name, c := range map[string]struct {
		rules []policy.Rule
		args  string
		is    policy.ValueOrigin
		want  policy.Action
		says  string
	}{
		"the user":             {rules: []policy.Rule{from(policy.Allow, "bank__*", "$.to", "user", "contacts__*"), deny}, is: said("user"), want: policy.Allow},
		"a tool":               {rules: []policy.Rule{from(policy.Allow, "bank__*", "$.to", "user", "contacts__*"), deny}, is: said("contacts__get"), want: policy.Allow},
		"a tool by its folded": {rules: []policy.Rule{from(policy.Allow, "bank__*", "$.to", "Contacts__Get_One"), deny}, is: said("contacts__getOne"), want: policy.Allow},
		"a resource":           {rules: []policy.Rule{from(policy.Allow, "bank__*", "$.to", "resource"), deny}, is: said("crm__resources/read"), want: policy.Allow},
		"another tool": {
			rules: []policy.Rule{from(policy.Allow, "bank__*", "$.to", "user", "contacts__*"), deny}, is: said("mail__read"), want: policy.Deny,
			says: "rule 2 (tools bank__*) denies bank__transfer; rule 1 does not allow it: $.to comes from mail__read",
		},
		"both": {rules: []policy.Rule{from(policy.Allow, "bank__*", "$.to", "user"), deny}, is: said("user", "mail__read"), want: policy.Allow},
		"computed": {
			rules: []policy.Rule{from(policy.Allow, "bank__*", "$.to", "user"), deny}, is: parts, want: policy.Deny,
			says: "rule 1 does not allow it: $.to is computed, with parts from mail__read",
		},
		"code":            {rules: []policy.Rule{from(policy.Allow, "bank__*", "$.to", "user"), deny}, is: said("code"), want: policy.Deny, says: "$.to is in the program's text alone"},
		"code is allowed": {rules: []policy.Rule{from(policy.Allow, "bank__*", "$.to", "code"), deny}, is: said("code"), want: policy.Allow},
		"not known":       {rules: []policy.Rule{from(policy.Allow, "bank__*", "$.to", "*"), deny}, want: policy.Deny, says: "$.to is of unknown origin"},
		"any":             {rules: []policy.Rule{from(policy.Allow, "bank__*", "$.to", "*"), deny}, is: said("mail__read"), want: policy.Allow},
		"an object": {
			rules: []policy.Rule{from(policy.Allow, "bank__*", "$.to", "*"), deny}, args: `{"to":{"iban":"X"}}`, is: said("user"), want: policy.Deny,
			says: "$.to is of unknown origin",
		},
		"one of two":         {rules: []policy.Rule{from(policy.Allow, "bank__*", "$.to", "user"), deny}, args: `{"to":["X","Y"]}`, is: said("user"), want: policy.Deny, says: "$.to is of unknown origin"},
		"no value":           {rules: []policy.Rule{from(policy.Allow, "bank__*", "$.to", "user"), deny}, args: `{}`, is: said("user"), want: policy.Deny},
		"twice":              {rules: []policy.Rule{from(policy.Allow, "bank__*", "$.to", "user"), deny}, args: `{"to":"X","to":"Y"}`, is: said("user"), want: policy.Deny},
		"a name alike":       {rules: []policy.Rule{from(policy.Allow, "bank__*", "$.to", "user"), deny}, args: `{"to":"X","TO":"X"}`, is: said("user"), want: policy.Deny},
		"a denied source":    {rules: []policy.Rule{from(policy.Deny, "bank__*", "$.to", "mail__*")}, is: said("mail__read"), want: policy.Deny, says: "$.to comes from mail__read"},
		"its parts":          {rules: []policy.Rule{from(policy.Deny, "bank__*", "$.to", "mail__*")}, is: parts, want: policy.Deny, says: "$.to is computed, with parts from mail__read"},
		"what may be of it":  {rules: []policy.Rule{from(policy.Deny, "bank__*", "$.to", "mail__*")}, is: more, want: policy.Deny, says: "$.to comes from crm__a and others"},
		"not known, denied":  {rules: []policy.Rule{from(policy.Deny, "bank__*", "$.to", "mail__*")}, want: policy.Deny},
		"quoted by it":       {rules: []policy.Rule{from(policy.Deny, "bank__*", "$.to", "mail__*")}, is: said("user", "mail__read"), want: policy.Allow},
		"another one":        {rules: []policy.Rule{from(policy.Deny, "bank__*", "$.to", "mail__*")}, is: said("crm__a"), want: policy.Allow},
		"asked":              {rules: []policy.Rule{from(policy.Ask, "bank__*", "$.to", "computed")}, is: parts, want: policy.Ask, says: "rule 1 (tools bank__*, args $.to from computed) asks about bank__transfer; $.to is computed, with parts from mail__read"},
		"with other parts":   {rules: []policy.Rule{both(policy.Allow, "^Z"), deny}, is: said("user"), want: policy.Deny},
		"with fitting parts": {rules: []policy.Rule{both(policy.Allow, "^X"), deny}, is: said("user"), want: policy.Allow},
	} {
		if c.args == "" {
			c.args = to
		}
		v := compile(t, c.rules...).Decide(pay(c.args, map[string]policy.ValueOrigin{"X": c.is}))
		if v.Action != c.want || !strings.Contains(v.Reason, c.says) {
			t.Errorf("%s: %s, %s", name, v.Action, v.Reason)
		}
	}
	// The reason does not mention a rule that would not allow the call with any origin of the value.
	v := compile(t, both(policy.Allow, "^Z"), deny).Decide(pay(to, map[string]policy.ValueOrigin{"X": said("mail__read")}))
	if strings.Contains(v.Reason, "does not allow it") {
		t.Errorf("reason %s", v.Reason)
	}
	// Numbers have origins too. The verdict has the origins at all paths in the rules about the tool, without duplicates.
	p := compile(t, from(policy.Allow, "crm__*", "$.no", "user"), from(policy.Allow, "bank__*", "$.items[*].id", "user"), from(policy.Ask, "bank__*", "$.to", "computed"), deny)
	v = p.Decide(pay(`{"to":"X","items":[{"id":12},{"id":12},{"id":13}]}`, map[string]policy.ValueOrigin{"X": parts, "12": said("user"), "13": more}))
	want := []policy.Value{{Path: "$.to", ValueOrigin: parts}, {Path: "$.items[*].id", ValueOrigin: said("user")}, {Path: "$.items[*].id", ValueOrigin: more}}
	if diff := diff.Diff(want, v.Values); diff != "" || v.Action != policy.Ask {
		t.Errorf("%s %s (-want +got)\n%s", v.Action, v.Reason, diff)
	}
	if !p.Origins() || compile(t, deny).Origins() {
		t.Error("which rules ask for origins")
	}
}

// both returns a rule with a condition on a value and on its origin.
func both(action policy.Action, pattern string) policy.Rule {
	r := tools(action, "bank__*")
	r.Args = map[string]policy.Condition{"$.to": {From: []string{"user"}, Pattern: pattern}}
	return r
}

func TestBadValueOrigins(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"usr":  `rule 1: args.$.to.from: "usr" is neither a tool nor one of user, code, computed, resource; did you mean user?`,
		"task": `rule 1: args.$.to.from: "task" is neither a tool nor one of user, code, computed, resource; write task__* for every tool of a server`,
	} {
		if _, err := policy.New([]policy.Rule{from(policy.Allow, "bank__*", "$.to", text)}, "", nil, policy.Servers{}); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// A destination is trusted if it comes from the user or from a server that is not untrusted. A rule that allows requires that all destinations are
// trusted. A rule that asks or denies matches calls with a destination that is not trusted.
func TestDestinations(t *testing.T) {
	t.Parallel()
	to := func(action policy.Action) policy.Rule {
		r := tools(action, "bank__*")
		r.Destinations = []string{"$.to", "$.cc[*]"}
		return r
	}
	rules := map[string][]policy.Rule{"allow": {to(policy.Allow), tools(policy.Deny, "bank__*")}, "deny": {to(policy.Deny)}, "ask": {to(policy.Ask)}}
	for _, c := range []struct {
		args    string
		x, y    policy.ValueOrigin
		trusted bool
		says    string
	}{
		{args: `{"to":"X"}`, x: said("user"), trusted: true},
		{args: `{"to":"X"}`, x: said("crm__get"), trusted: true},
		{args: `{"to":"X"}`, x: said("mail__read"), says: "$.to comes from mail__read"},
		{args: `{"to":"X"}`, x: said("Mail__read")},
		{args: `{"to":"X"}`, x: said("web__fetch")},
		{args: `{"to":"X"}`, x: said("web__bookmarks"), trusted: true},
		{args: `{"to":"X"}`, x: said("web__resources/read")},
		{args: `{"to":"X"}`, x: said("mail__read", "crm__get"), trusted: true},
		{args: `{"to":"X"}`, x: said("code"), says: "$.to is in the program's text alone"},
		{args: `{"to":"X"}`, x: said("computed"), says: "$.to is computed"},
		{args: `{"to":"X"}`, says: "$.to is of unknown origin"},
		{args: `{"to":"X","cc":["X","Y"]}`, x: said("user"), y: said("crm__get"), trusted: true},
		{args: `{"to":"X","cc":["X","Y"]}`, x: said("user"), y: said("web__fetch"), says: "$.cc[*] comes from web__fetch"},
		{args: `{"cc":["Y"]}`, y: said("web__fetch")},
		{args: `{"to":{"name":"X"}}`, x: said("user")}, // an object at the path, whose origin is unknown
		{args: `{"text":"Z"}`, trusted: true},          // no value at a destination
		{args: `{"to":"X","cc":null}`, x: said("user"), trusted: true},
		{args: `{"to":null,"cc":[null]}`, trusted: true},
		{args: `{"to":"null"}`},
	} {
		of := map[string]policy.ValueOrigin{"X": c.x, "Y": c.y}
		for name, list := range rules {
			p, err := policy.New(list, "", nil, policy.Servers{Untrusted: []string{"mail__*", "web__fetch", "web__resources/*"}})
			if err != nil {
				t.Fatal(err)
			}
			want := policy.Allow
			if !c.trusted {
				want = map[string]policy.Action{"allow": policy.Deny, "deny": policy.Deny, "ask": policy.Ask}[name]
			}
			if v := p.Decide(pay(c.args, of)); v.Action != want || !c.trusted && !strings.Contains(v.Reason, c.says) || !p.Origins() {
				t.Errorf("%s, %s: %s %s", name, c.args, v.Action, v.Reason)
			}
		}
	}
	// If a rule also denies a token, the reason names the token. If a rule only asks about a token, the reason names the destination.
	for action, want := range map[policy.Action]string{policy.Deny: "denies [EMAIL_1]", policy.Ask: "denies bank__transfer; $.to comes from mail__read"} {
		p, err := policy.New([]policy.Rule{flow(action, "*", "*", ""), to(policy.Deny)}, "", nil, policy.Servers{Untrusted: []string{"mail__*"}})
		if err != nil {
			t.Fatal(err)
		}
		c := pay(`{"to":"X"}`, map[string]policy.ValueOrigin{"X": said("mail__read")})
		c.Tokens = []policy.Token{email("crm__get")}
		if v := p.Decide(c); v.Action != policy.Deny || !strings.Contains(v.Reason, want) {
			t.Errorf("%s: %s %s", action, v.Action, v.Reason)
		}
	}
	// A name that a server may take for the name in the path prevents a rule that allows from matching. For a rule that asks or denies, the value
	// under this name counts.
	for name, list := range rules {
		p, err := policy.New(list, "", nil, policy.Servers{})
		if err != nil {
			t.Fatal(err)
		}
		if v := p.Decide(pay(`{"TO":"X"}`, map[string]policy.ValueOrigin{"X": said("computed")})); v.Action == policy.Allow {
			t.Errorf("%s: %s %s", name, v.Action, v.Reason)
		}
	}
	if _, err := policy.New([]policy.Rule{{Tools: []string{"*"}, Destinations: []string{"to"}, Action: policy.Ask}}, "", nil, policy.Servers{}); err == nil || !strings.Contains(err.Error(), "rule 1: destinations: ") {
		t.Errorf("error %v", err)
	}
}

// A rule with tokens.as allows a token that the user said and that occurs in the call only as a destination.
func TestAddressed(t *testing.T) {
	t.Parallel()
	allow := policy.Rule{Tools: []string{"*"}, Tokens: &policy.Tokens{Type: []string{"email"}, As: "destination"}, Action: policy.Allow}
	deny := policy.Rule{Tools: []string{"*"}, Tokens: &policy.Tokens{}, Action: policy.Deny}
	p, err := policy.New([]policy.Rule{allow, deny}, "", nil, policy.Servers{Destinations: map[string][]string{"mail__send": {"$.to", "$.cc[*]"}}})
	if err != nil {
		t.Fatal(err)
	}
	if !p.Origins() {
		t.Error("it does not look at origins")
	}
	for name, c := range map[string]struct {
		args string
		is   policy.ValueOrigin
		kind string
		tool string
		want policy.Action
	}{
		"recipient":                   {args: `{"to":"[EMAIL_1]","body":"x"}`, is: said("user"), want: policy.Allow},
		"also from elsewhere":         {args: `{"to":"[EMAIL_1]"}`, is: said("user", "crm__list"), want: policy.Allow},
		"one of a list":               {args: `{"cc":["x","[EMAIL_1]"]}`, is: said("user"), want: policy.Allow},
		"twice":                       {args: `{"to":"[EMAIL_1]","cc":["[EMAIL_1]"]}`, is: said("user"), want: policy.Allow},
		"not the user's":              {args: `{"to":"[EMAIL_1]"}`, is: said("crm__list"), want: policy.Deny},
		"of unknown origin":           {args: `{"to":"[EMAIL_1]"}`, want: policy.Deny},
		"in the program":              {args: `{"to":"[EMAIL_1]"}`, is: said("code"), want: policy.Deny},
		"content":                     {args: `{"to":"x","body":"[EMAIL_1]"}`, is: said("user"), want: policy.Deny},
		"content as well":             {args: `{"to":"[EMAIL_1]","body":"of [EMAIL_1]"}`, is: said("user"), want: policy.Deny},
		"content, escaped":            {args: `{"to":"[EMAIL_1]","body":"\\u005bEMAIL_1]"}`, is: said("user"), want: policy.Deny},
		"a name":                      {args: `{"to":"[EMAIL_1]","[EMAIL_1]":1}`, is: said("user"), want: policy.Deny},
		"a part":                      {args: `{"to":"Ann <[EMAIL_1]>"}`, is: said("user"), want: policy.Deny},
		"a name of another case":      {args: `{"To":"[EMAIL_1]"}`, is: said("user"), want: policy.Deny},
		"twice the same name":         {args: `{"to":"[EMAIL_1]","body":"[EMAIL_1]","body":"x"}`, is: said("user"), want: policy.Deny},
		"no JSON":                     {args: `{"to":"[EMAIL_1]"`, is: said("user"), want: policy.Deny},
		"another type":                {args: `{"to":"[EMAIL_1]"}`, is: said("user"), kind: "PHONE", want: policy.Deny},
		"a tool without destinations": {args: `{"to":"[EMAIL_1]"}`, is: said("user"), tool: "notes__add", want: policy.Deny},
	} {
		args := strings.ReplaceAll(c.args, `\\u`, `\u`)
		in := pay(args, map[string]policy.ValueOrigin{"[EMAIL_1]": c.is})
		in.Server, in.Tool = "mail", cmp.Or(c.tool, "mail__send")
		in.Tokens = []policy.Token{{Text: "[EMAIL_1]", Type: cmp.Or(c.kind, "EMAIL"), Origins: []string{"crm__list", "task"}}}
		if got := p.Decide(in); got.Action != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for _, r := range []policy.Rule{
		{Tools: []string{"*"}, Tokens: &policy.Tokens{As: "destination"}, Action: policy.Deny}, {Tools: []string{"*"}, Tokens: &policy.Tokens{As: "recipient"}, Action: policy.Allow},
	} {
		if _, err := policy.New([]policy.Rule{r}, "", nil, policy.Servers{}); err == nil {
			t.Errorf("%s is accepted", r)
		}
	}
}
