package policy_test

import (
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/policy"
)

func limited(action policy.Action, tool string, calls int, per string) policy.Rule {
	r := tools(action, tool)
	r.Limit = &policy.Limit{Calls: calls, Per: per}
	return r
}

// The key of a call's counter contains the rule, and the run, task or period of the limit.
func TestLimitCounts(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for per, want := range map[string][3]string{ // end of the key for the runs r1 and r2 of one task, and for r1 an hour later
		"run":  {"run r1", "run r2", "run r1"},
		"task": {"task t", "task t", "task t"},
		"1h":   {"at 1893553200", "at 1893553200", "at 1893556800"},
		"1d":   {"at 1893542400", "at 1893542400", "at 1893542400"},
	} {
		v := compile(t, limited(policy.Allow, "mailer__*", 3, per)).Decide(call("mailer__send"))
		for i, of := range []struct {
			run string
			at  time.Time
		}{{"r1", at}, {"r2", at}, {"r1", at.Add(time.Hour)}} {
			c, ok := v.Count(of.run, "t", of.at)
			if !ok || !strings.HasSuffix(c.Key, " "+want[i]) || len(c.Key) < 32 || c.Limit != 3 || !c.Expires.After(of.at) {
				t.Errorf("per %s: %+v, want %s", per, c, want[i])
			}
		}
	}
	v := compile(t, limited(policy.Ask, "mailer__*", 3, "task")).Decide(call("mailer__send"))
	if c, ok := v.Count("r1", "", at); !ok || !strings.HasSuffix(c.Key, " run r1") {
		t.Errorf("a run of no task counts for %+v", c)
	}
}

// A call counts only if a rule with a limit decides the call as a whole. Policy itself does not count.
func TestLimitOfOtherRules(t *testing.T) {
	t.Parallel()
	p := compile(t, tools(policy.Ask, "mailer__ask"), flow(policy.Deny, "mailer__*", "phone", ""), limited(policy.Allow, "mailer__*", 1, "run"))
	phone := policy.Token{Text: "[PHONE_1]", Type: "PHONE", Origins: []string{"crm__search"}}
	for _, c := range []policy.Call{call("mailer__ask"), call("crm__search"), call("mailer__send", phone)} {
		if n, ok := p.Decide(c).Count("r", "t", time.Now()); ok {
			t.Errorf("%s counts for %+v", c.Tool, n)
		}
	}
	v := p.Decide(call("mailer__send", email("crm__search")))
	if n, ok := v.Count("r", "t", time.Now()); !ok || v.Action != policy.Allow || n.Limit != 1 {
		t.Errorf("%+v counts for %+v", v, n)
	}
	denied := v.Exceeded("mailer__send")
	if _, ok := denied.Count("r", "t", time.Now()); ok || denied.Action != policy.Deny || denied.Rule != 3 ||
		denied.Reason != "rule 3 (tools mailer__*, limit 1 calls per run) denies mailer__send: the calls of its limit were made" {
		t.Errorf("exceeded: %+v", denied)
	}
}

func TestBadLimits(t *testing.T) {
	t.Parallel()
	withTokens := limited(policy.Allow, "a__b", 1, "run")
	withTokens.Tokens = &policy.Tokens{}
	for want, r := range map[string]policy.Rule{
		"limit.calls": limited(policy.Allow, "a__b", 0, "run"), "limit.per": limited(policy.Allow, "a__b", 1, "hour"),
		"limit: a rule that denies": limited(policy.Deny, "a__b", 1, "run"), "limit: a limit counts calls": withTokens,
		"1ms": limited(policy.Allow, "a__b", 1, "1ms"), "400d": limited(policy.Allow, "a__b", 1, "400d"), "-1d": limited(policy.Allow, "a__b", 1, "-1d"),
	} {
		if _, err := policy.New([]policy.Rule{r}, "", nil, policy.Servers{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
