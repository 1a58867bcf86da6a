package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/policy"
	"mcp-code-exec-harness/internal/simulation"
)

// policied returns a world with a policy that denies a tool, and three keys of approvers: those of alice, of bob, and one without a user.
func policied(t *testing.T) (w *world, alice, bob, anyone string) {
	t.Helper()
	cfg, err := config.ParsePolicy([]byte("preset: guarded\nrules:\n  - {tools: bad__fail, action: deny, reason: not today}\nruns:\n  - {users: guest, timeout: 5s}\n"), "text")
	if err != nil {
		t.Fatal(err)
	}
	w = setup(t, setting{
		keys: true, servers: []*config.MCPServer{demoServer(t, "crm")}, options: func(o *api.Options) {
			o.Policy = &config.Config{Policy: cfg, Sandbox: config.Sandbox{Timeout: time.Minute}}
		},
	})
	alice, bob, anyone = w.key("alice", auth.User, auth.Approver), w.key("bob", auth.User, auth.Approver), w.key("", auth.User, auth.Approver)
	return w, alice, bob, anyone
}

// search calls a tool of the CRM in a new run, and returns the id of the run.
func (w *world) search(key string, times int) string {
	w.t.Helper()
	code := fmt.Sprintf("for (let i = 0; i < %d; i++) await callMCPTool('crm__search', {q: '[EMAIL_1]'}); return 1", times)
	return w.as(key, "POST", "/v1/runs", map[string]string{"code": code}).want(http.StatusOK).field("runId")
}

// slowTools is a harness that calls list before it lists its tools.
type slowTools struct {
	api.Harness
	list func(ctx context.Context)
}

// EnsureTools implements api.Harness.
func (h slowTools) EnsureTools(ctx context.Context, user string) {
	h.list(ctx)
	h.Harness.EnsureTools(ctx, user)
}

// A caller can have one request at a time that reads recorded runs. The request ends when its client disconnects.
func TestPolicySimulationBounds(t *testing.T) {
	t.Parallel()
	began, gone := make(chan struct{}), make(chan error, 1)
	var held atomic.Bool
	w := setup(t, setting{keys: true, options: func(o *api.Options) {
		o.Harness = slowTools{o.Harness, func(ctx context.Context) {
			if held.CompareAndSwap(true, false) {
				close(began)
				<-ctx.Done()
				gone <- ctx.Err()
			}
		}}
	}})
	alice, bob := w.key("alice", auth.User, auth.Approver), w.key("bob", auth.User, auth.Approver)
	simulate := func(key string) *reply {
		return w.as(key, "POST", "/v1/policy/simulation", map[string]any{"preset": "strict"})
	}
	held.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/v1/policy/simulation", strings.NewReader(`{"preset":"strict"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+alice)
	r.Header.Set("Content-Type", "application/json")
	ended := make(chan error, 1)
	go func() {
		answer, err := client.Do(r)
		if err == nil {
			err = answer.Body.Close()
		}
		ended <- err
	}()
	<-began
	if got := simulate(alice).want(http.StatusTooManyRequests); !strings.Contains(got.body, "simulations") {
		t.Errorf("a second one: %s", got.body)
	}
	simulate(bob).want(http.StatusOK)
	cancel()
	if err := <-ended; err == nil {
		t.Error("the request was answered")
	}
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("the work of a client that is gone ends by %v", err)
	}
	w.eventually("the caller may ask again", func() bool { return simulate(alice).status == http.StatusOK })
}

// An approver sees the rules in effect, in words and as text, and which rule of this or another policy decides a call.
func TestPolicyEndpoints(t *testing.T) {
	t.Parallel()
	w, alice, _, _ := policied(t)
	var rules api.PolicyRules
	w.as(alice, "GET", "/v1/policy", nil).want(http.StatusOK).json(&rules)
	if len(rules.Rules) != 2 || rules.Rules[1].Preset != "guarded" || rules.Rules[1].Number != 1 || len(rules.Runs) != 1 || !strings.HasPrefix(rules.YAML, "preset: guarded\nrules:\n  - {tools: bad__fail") {
		t.Errorf("the rules: %+v", rules)
	}
	var check api.PolicyCheck
	if w.as(alice, "POST", "/v1/policy/check", map[string]string{"policy": rules.YAML}).want(http.StatusOK).json(&check); len(check.Mistakes) != 0 || !slices.Equal(check.Rules, rules.Rules) {
		t.Errorf("the text of the policy in effect: %+v", check)
	}
	w.as(alice, "POST", "/v1/policy/check", map[string]string{"policy": "rules:\n  - {tools: crm, action: deny}\n  - {tools: a__b, action: no}"}).want(http.StatusOK).json(&check)
	if len(check.Mistakes) == 0 || len(check.Rules) != 0 || check.Mistakes[0].Line < 2 || check.Mistakes[0].Column == 0 || check.Mistakes[0].Message == "" {
		t.Errorf("a policy with mistakes: %+v", check)
	}
	for name, c := range map[string]struct {
		body map[string]any
		want policy.Action
		why  string
	}{
		"a rule of its own":  {map[string]any{"tool": "bad__fail"}, policy.Deny, "not today"},
		"its preset":         {map[string]any{"tool": "other__write"}, policy.Ask, "rule 1 of preset guarded"},
		"another policy":     {map[string]any{"tool": "bad__fail", "policy": "[]"}, policy.Allow, "no rule is about bad__fail"},
		"a preset":           {map[string]any{"tool": "crm__search", "preset": "strict", "args": map[string]any{"q": "[EMAIL_1]"}, "tokens": []any{map[string]any{"text": "[EMAIL_1]", "from": []string{"crm__get"}}}}, policy.Deny, "[EMAIL_1] from crm__get"},
		"the reader's words": {map[string]any{"tool": "crm__search", "policy": "- {tools: '*', args: {$.q: {from: user}}, action: deny}", "args": map[string]any{"q": "x"}, "values": []any{map[string]any{"text": "x", "from": []string{"user"}}}}, policy.Deny, "comes from user"},
	} {
		var got simulation.Tested
		w.as(alice, "POST", "/v1/policy/test", c.body).want(http.StatusOK).json(&got)
		if got.Verdict.Action != c.want || !strings.Contains(got.Verdict.Reason, c.why) || len(got.Judgements) == 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	var limits simulation.Tested
	if w.as(alice, "POST", "/v1/policy/test", map[string]any{"tool": "a__b", "userId": "guest"}).want(http.StatusOK).json(&limits); limits.Limits["timeout"] != "5s" {
		t.Errorf("the limits of a guest: %v", limits.Limits)
	}
	for name, body := range map[string]map[string]any{
		"a name": {"tool": "fail"}, "a role": {"tool": "a__b", "roles": []string{"boss"}}, "a token": {"tool": "a__b", "tokens": []any{map[string]any{"text": "ann"}}}, "two policies": {"tool": "a__b", "policy": "[]", "preset": "open"},
		"large arguments": {"tool": "a__b", "args": map[string]any{"q": strings.Repeat("x", 300<<10)}}, "a text for arguments": {"tool": "a__b", "args": "x"},
	} {
		w.as(alice, "POST", "/v1/policy/test", body).want(http.StatusBadRequest)
		_ = name
	}
}

// Another policy decides recorded calls again: those of the caller's user, or those of all users for a caller who may act for all. The answer says what it
// leaves out.
func TestPolicySimulation(t *testing.T) {
	t.Parallel()
	w, alice, bob, anyone := policied(t)
	hers, his := w.search(alice, 3), w.search(bob, 1)
	last := w.search(alice, 1)
	const other = "- {tools: crm__search, action: ask, reason: look}\n"
	simulate := func(key string, body map[string]any) (got simulation.Changes) {
		t.Helper()
		w.as(key, "POST", "/v1/policy/simulation", body).want(http.StatusOK).json(&got)
		return got
	}
	runs := func(of simulation.Changes) (all []string) {
		for _, c := range of.Changes {
			all = append(all, c.Run)
		}
		return slices.Compact(all)
	}
	got := simulate(alice, map[string]any{"policy": other})
	if got.Runs != 2 || got.Calls != 4 || got.Changed != 4 || got.Truncated || len(got.Unread) != 0 || !slices.Equal(runs(got), []string{last, hers}) {
		t.Errorf("alice's: %+v", got)
	}
	if c := got.Changes[1]; c.Call != 1 || c.Tool != "crm__search" || c.Now.Action != policy.Allow || c.Then.Action != policy.Ask || c.Then.Rule != 1 || !strings.Contains(c.Then.Reason, "look") {
		t.Errorf("a call: %+v", c)
	}
	if len(got.Kinds) != 1 || got.Kinds[0] != (simulation.Kind{From: policy.Allow, To: policy.Ask, Calls: 4}) || len(got.Tools) != 1 || got.Tools[0].Tool != "crm__search" {
		t.Errorf("the counts: %+v %+v", got.Kinds, got.Tools)
	}
	if got := simulate(bob, map[string]any{"policy": other}); !slices.Equal(runs(got), []string{his}) {
		t.Errorf("bob's: %+v", got)
	}
	if got := simulate(anyone, map[string]any{"policy": other}); !slices.Equal(runs(got), []string{last, his, hers}) {
		t.Errorf("everybody's: %+v", got)
	}
	if got := simulate(anyone, map[string]any{"policy": other, "userId": "bob"}); !slices.Equal(runs(got), []string{his}) {
		t.Errorf("bob's, for another: %+v", got)
	}
	if got := simulate(alice, map[string]any{"policy": other, "runs": 1}); !slices.Equal(runs(got), []string{last}) || !got.Truncated || len(got.Unread) != 1 || !strings.Contains(got.Unread[0].Reason, "the newest 1 runs were read") {
		t.Errorf("the newest run: %+v", got)
	}
	if got := simulate(alice, map[string]any{"policy": other, "since": time.Now().Add(time.Hour)}); got.Runs != 0 || got.Truncated {
		t.Errorf("runs of the future: %+v", got)
	}
	if got := simulate(alice, map[string]any{"preset": "strict"}); got.Changed != 4 || got.Kinds[0].To != policy.Deny || strings.Contains(fmt.Sprint(got), "Acme") {
		t.Errorf("a preset: %+v", got)
	}
	// The comparison of presets and the flows examine the same runs.
	for _, c := range []struct {
		key, query string
		calls      int
		last       string
	}{{alice, "", 4, last}, {bob, "", 1, his}, {anyone, "", 5, last}, {anyone, "?userId=bob", 1, his}, {alice, "?runs=1", 1, last}} {
		var presets simulation.Comparison
		w.as(c.key, "GET", "/v1/policy/presets"+c.query, nil).want(http.StatusOK).json(&presets)
		if presets.Calls != c.calls || presets.InEffect != "guarded" || presets.Presets[0].Allow != c.calls || presets.Presets[3].Deny != c.calls || presets.Tools[0].Tool != "crm__search" || presets.Tools[0].Calls != c.calls || len(presets.Tools) < 2 ||
			presets.Truncated != (c.query == "?runs=1") {
			t.Errorf("presets%s: %+v", c.query, presets)
		}
		var flows simulation.Flows
		w.as(c.key, "GET", "/v1/policy/flows"+c.query, nil).want(http.StatusOK).json(&flows)
		if len(flows.Flows) != 1 || flows.Flows[0] != (simulation.Flow{From: "code", To: "crm__search", Tally: simulation.Tally{Allow: c.calls}, Run: c.last, Call: 1}) {
			t.Errorf("flows%s: %+v", c.query, flows)
		}
	}
	var servers simulation.Flows
	if w.as(alice, "GET", "/v1/policy/flows?by=server", nil).want(http.StatusOK).json(&servers); len(servers.Flows) != 1 || servers.Flows[0].To != "crm" {
		t.Errorf("flows by server: %+v", servers)
	}
	for _, path := range []string{"/v1/policy/presets", "/v1/policy/flows"} {
		w.as(bob, "GET", path+"?userId=alice", nil).want(http.StatusForbidden)
		w.as(bob, "GET", path+"?runs=0", nil).want(http.StatusBadRequest)
	}
	w.as(bob, "POST", "/v1/policy/simulation", map[string]any{"policy": other, "userId": "alice"}).want(http.StatusForbidden)
	w.as(alice, "POST", "/v1/policy/simulation", map[string]any{}).want(http.StatusBadRequest)
	w.as(alice, "POST", "/v1/policy/simulation", map[string]any{"policy": other, "runs": 1001}).want(http.StatusBadRequest)
	w.as(alice, "POST", "/v1/policy/simulation", map[string]any{"policy": "# " + strings.Repeat("x", 64<<10)}).want(http.StatusBadRequest)
	bad := w.as(alice, "POST", "/v1/policy/simulation", map[string]any{"policy": "- {tools: Zq7marker, action: deny}"}).want(http.StatusBadRequest)
	if !strings.Contains(bad.body, "line 1, column 11") || strings.Contains(bad.body, "Zq7marker") {
		t.Errorf("a policy with a mistake: %s", bad.body)
	}
}

// A user sees which fields of recorded answers contain personal data, in all of the user's runs or in one session. Other users do not see it.
func TestTokensByField(t *testing.T) {
	t.Parallel()
	w, alice, bob, anyone := policied(t)
	w.as(alice, "POST", "/v1/sessions", map[string]string{"id": "s"}).want(http.StatusCreated)
	for _, body := range []map[string]string{{"code": "await callMCPTool('crm__get', {id: 1001})", "sessionId": "s"}, {"code": "for (const id of [1001, 1002]) await callMCPTool('crm__get', {id})"}} {
		w.as(alice, "POST", "/v1/runs", body).want(http.StatusOK)
	}
	for _, c := range []struct {
		key, query              string
		runs, calls, tokens, in int
	}{{alice, "", 2, 3, 3, 3}, {alice, "&sessionId=s", 1, 1, 1, 1}, {anyone, "&userId=alice", 2, 3, 3, 3}, {alice, "&runs=1", 1, 2, 2, 2}, {bob, "", 0, 0, 0, 0}} {
		var got api.TokenStats
		r := w.as(c.key, "GET", "/v1/pii/stats?by=field"+c.query, nil).want(http.StatusOK).json(&got)
		if got.Recorded == nil || got.Recorded.Runs != c.runs || got.Recorded.Calls != c.calls || strings.Contains(r.body, "@") {
			t.Errorf("%s: %s", c.query, r.body)
			continue
		}
		at := slices.IndexFunc(got.Recorded.Fields, func(f simulation.HiddenField) bool { return f.Field == "$.email" })
		if c.tokens == 0 && at < 0 {
			continue
		}
		if at < 0 || got.Recorded.Fields[at] != (simulation.HiddenField{Tool: "crm__get", Field: "$.email", Type: "EMAIL", Tokens: c.tokens, Calls: c.in}) {
			t.Errorf("%s: %s", c.query, r.body)
		}
	}
	var plain api.TokenStats
	if w.as(alice, "GET", "/v1/pii/stats", nil).want(http.StatusOK).json(&plain); plain.Recorded != nil || plain.Count == 0 {
		t.Errorf("without fields: %+v", plain)
	}
	w.as(bob, "GET", "/v1/pii/stats?by=field&userId=alice", nil).want(http.StatusForbidden)
	w.as(alice, "GET", "/v1/pii/stats?by=tool", nil).want(http.StatusBadRequest)
}
