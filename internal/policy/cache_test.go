package policy

import (
	"strings"
	"testing"
	"time"
)

// Only a rule that allows a call of a tool that only reads keeps its answer; a tool of an open world needs a rule that says so.
func TestKeep(t *testing.T) {
	t.Parallel()
	yes := true
	open := When{OpenWorld: &yes}
	reads := Call{Server: "crm", Tool: "crm__list", ReadOnly: true}
	for name, c := range map[string]struct {
		rules  []Rule
		change func(*Call)
		want   time.Duration
	}{
		"reads":           {[]Rule{{Tools: []string{"crm__*"}, Cache: "5m", Action: Allow}}, nil, 5 * time.Minute},
		"days":            {[]Rule{{Tools: []string{"*"}, Cache: "1d", Action: Allow}}, nil, 24 * time.Hour},
		"writes":          {[]Rule{{Tools: []string{"*"}, Cache: "5m", Action: Allow}}, func(c *Call) { c.ReadOnly = false }, 0},
		"open world":      {[]Rule{{Tools: []string{"*"}, Cache: "5m", Action: Allow}}, func(c *Call) { c.OpenWorld = true }, 0},
		"said open world": {[]Rule{{Tools: []string{"*"}, When: open, Cache: "5m", Action: Allow}}, func(c *Call) { c.OpenWorld = true }, 5 * time.Minute},
		"another rule":    {[]Rule{{Tools: []string{"crm__*"}, Action: Allow}, {Tools: []string{"*"}, Cache: "5m", Action: Allow}}, nil, 0},
		"asked":           {[]Rule{{Tools: []string{"*"}, Args: map[string]Condition{"$.id": {Equals: []string{"7"}}}, Action: Ask}, {Tools: []string{"*"}, Cache: "5m", Action: Allow}}, func(c *Call) { c.Args = []byte(`{"id":"7"}`) }, 0},
		"a token is asked about": {
			[]Rule{{Tools: []string{"*"}, Tokens: &Tokens{Type: []string{"email"}}, Action: Ask}, {Tools: []string{"*"}, Cache: "5m", Action: Allow}},
			func(c *Call) { c.Tokens = []Token{{Text: "[EMAIL_1]", Type: "email"}} }, 0,
		},
	} {
		p, err := New(c.rules, "", nil, Servers{})
		if err != nil {
			t.Fatal(err)
		}
		call := reads
		if c.change != nil {
			c.change(&call)
		}
		if got := p.Decide(call).Keep(); got != c.want || !p.Keeps() {
			t.Errorf("%s: kept for %s, want %s", name, got, c.want)
		}
	}
	for _, c := range []struct {
		rule Rule
		says string
	}{
		{Rule{Cache: "5", Action: Allow}, "5m"},
		{Rule{Cache: "25h", Action: Allow}, "1d"},
		{Rule{Cache: "1ms", Action: Allow}, "1s"},
		{Rule{Cache: "5m", Action: Ask}, "rules that allow"},
		{Rule{Cache: "5m", Action: Deny}, "rules that allow"},
		{Rule{Cache: "5m", Action: Allow, Tokens: &Tokens{}}, "leave tokens out"},
		{Rule{Cache: "5m", Action: Allow, When: When{ReadOnly: new(bool)}}, "only read"},
	} {
		c.rule.Tools = []string{"*"}
		if _, err := New([]Rule{c.rule}, "", nil, Servers{}); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, want %q", c.rule, err, c.says)
		}
	}
}
