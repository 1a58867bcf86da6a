package wiring_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/journal"

	"mcp-code-exec-harness/internal/agent"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/id"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
)

// roleRules allow only admins to send, and ask about put.
const roleRules = `[{tools: up__put, action: ask}, {tools: up__send, roles: admin, action: allow}, {tools: up__send, action: deny}]`

// key creates an API key.
func (f *fixture) key(roles ...auth.Role) (*auth.Keys, auth.Identity) {
	f.t.Helper()
	keys, err := f.Keys()
	if err != nil {
		f.t.Fatal(err)
	}
	k, _, err := keys.Create(f.t.Context(), auth.NewKey{Name: "test", Roles: roles})
	if err != nil {
		f.t.Fatal(err)
	}
	return keys, auth.Identity{Principal: k.ID, Roles: roles}
}

// Rules with roles apply to programs of tasks. The roles are those that the key has when the program runs. For a principal whose roles are stored nowhere,
// they are the roles that it had when it asked for the task.
func TestRolesOfTasks(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, "up")
	f := open(t, t.TempDir(), map[string]string{"policy.rules": roleRules}, up.entry)
	sends := func(principal string, had ...auth.Role) bool {
		t.Helper()
		out, err := f.Runs().ForTasks().Execute(t.Context(), agent.Program{
			RunID: id.New("run"), New: true, User: "ann", Session: "s", Principal: principal, Roles: had, Began: time.Now(),
			Code: `try { await callMCPTool('up__send', {n: 1}); return 'sent' } catch (e) { return e.name }`, Observe: func(run.Event) {},
		})
		if err != nil {
			t.Fatal(err)
		}
		return decoded[string](t, out) == "sent"
	}
	keys, admin := f.key(auth.Admin)
	_, user := f.key(auth.User)
	if !sends(admin.Principal) || sends(user.Principal, auth.Admin) {
		t.Error("a key's roles of today do not decide")
	}
	if err := keys.Revoke(t.Context(), admin.Principal); err != nil {
		t.Fatal(err)
	}
	if sends(admin.Principal, auth.Admin) {
		t.Error("a revoked key has roles")
	}
	if !sends("oidc:ann", auth.User, auth.Admin) || sends("oidc:ann", auth.User) || sends("oidc:ann") || sends("key_none", auth.Admin) || sends("") {
		t.Error("the roles of another principal are not those it had")
	}
}

// Rules with roles apply to a run that is resumed after an approval or after its process died.
func TestRolesOfResumedRuns(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, "up")
	f := open(t, t.TempDir(), map[string]string{"policy.rules": roleRules}, up.entry)
	const program = `await callMCPTool('up__put', {n: 1}); try { await callMCPTool('up__send', {n: 1}); return 'sent' } catch (e) { return e.name }`
	start := func(who auth.Identity) *run.Outcome {
		t.Helper()
		out, err := f.Runs().Create(t.Context(), who, runs.Request{Code: program, User: "ann"})
		if err != nil {
			t.Fatal(err)
		}
		f.wantWaiting(out)
		return out
	}
	keys, admin := f.key(auth.Admin)
	if got := decoded[string](t, f.decide(start(admin), approve)); got != "sent" {
		t.Errorf("an admin's run that was approved: %s", got)
	}
	oidc := auth.Identity{Principal: "oidc:ann", User: "ann", Roles: []auth.Role{auth.User}}
	if got := decoded[string](t, f.decide(start(oidc), approve)); got != "DeniedError" {
		t.Errorf("a user's run: %s", got)
	}
	waits := start(admin)
	if err := keys.Revoke(t.Context(), admin.Principal); err != nil {
		t.Fatal(err)
	}
	if got := decoded[string](t, f.decide(waits, approve)); got != "DeniedError" {
		t.Errorf("after the key was revoked: %s", got)
	}
	// The process of this run died before its first call was answered.
	for role, want := range map[auth.Role]string{auth.Admin: "sent", auth.User: "DeniedError"} {
		who := auth.Identity{Principal: "oidc:bob", User: "bob", Roles: []auth.Role{role}}
		out, err := f.Runs().Create(t.Context(), who, runs.Request{Code: strings.TrimPrefix(program, "await callMCPTool('up__put', {n: 1}); "), User: "bob"})
		if err != nil {
			t.Fatal(err)
		}
		records := f.journalOf(out.RunID)
		if got := records[0].Start.Principal; got != "oidc:bob" {
			t.Errorf("the run is recorded as of %q", got)
		}
		if got := decoded[string](t, f.resumed(id.New("run"), records[:1])); got != want {
			t.Errorf("a resumed run of the role %s: %s", role, got)
		}
	}
}

// The limits of policy.runs apply to runs, to programs of tasks, and to resumed runs.
func TestLimitsOfCallers(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, "up")
	f := open(t, t.TempDir(), map[string]string{
		"policy.runs": `[{roles: user, maxCalls: 2, maxWall: 5m}, {users: "ann*", maxCalls: 1}, {users: bob, roles: admin, maxCalls: 0, timeout: 1s}]`,
	}, up.entry)
	const program = `let n = 0; try { for (; n < 5; n++) await callMCPTool('up__send', {n}) } catch (e) {} return n`
	for _, c := range []struct {
		user  string
		roles []auth.Role
		want  int
	}{
		{"carl", []auth.Role{auth.Admin}, 5},
		{"carl", []auth.Role{auth.User}, 2},
		{"carl", []auth.Role{auth.Admin, auth.User}, 2},
		{"carl", nil, 2},
		{"anna", []auth.Role{auth.User}, 1},
		{"anna", []auth.Role{auth.Admin}, 1},
		{"bob", []auth.Role{auth.Admin}, 0},
		{"bob", nil, 0},
	} {
		out, err := f.Runs().Execute(t.Context(), runs.Request{Code: program, User: c.user, Roles: c.roles})
		if err != nil {
			t.Fatal(err)
		}
		if got := decoded[int](t, out); got != c.want {
			t.Errorf("%s with the roles %v made %d calls, want %d", c.user, c.roles, got, c.want)
		}
		out, err = f.Runs().ForTasks().Execute(t.Context(), agent.Program{
			RunID: id.New("run"), New: true, User: c.user, Session: "s", Principal: "oidc:x", Roles: c.roles, Began: time.Now(), Code: program,
			Observe: func(run.Event) {},
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := decoded[int](t, out); got != c.want {
			t.Errorf("a task of %s with the roles %v made %d calls, want %d", c.user, c.roles, got, c.want)
		}
		if got := decoded[int](t, f.resumed(id.New("run"), f.journalOf(out.RunID)[:1])); got != c.want {
			t.Errorf("a resumed run of %s with the roles %v made %d calls, want %d", c.user, c.roles, got, c.want)
		}
	}
	bob := auth.Identity{Principal: "oidc:bob", User: "bob", Roles: []auth.Role{auth.Admin}}
	_, err := f.Runs().Create(t.Context(), bob, runs.Request{Code: "return 1", User: "bob", Timeout: 2 * time.Second})
	if err == nil || !strings.Contains(err.Error(), "timeout is longer than policy.runs allows, which is 1s") {
		t.Errorf("a timeout above that of the rule: %v", err)
	}
}

// Programs run in the strongest of the tiers that policy.runs names for their user, or in the configured tier if it names none. A weaker tier is refused,
// even for a run that was recorded in it.
func TestTierOfCallers(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, "up")
	for configured, rule := range map[string]string{"process": "wasm", "wasm": "process"} {
		f := open(t, t.TempDir(), map[string]string{
			"sandbox.tier": configured,
			"policy.runs":  `[{users: "ann*", tier: ` + rule + `}, {users: "ann*", tier: ` + configured + `}, {users: carl, tier: ` + rule + `}]`,
		}, up.entry)
		needProcess(t, f)
		recorded := map[string]*run.Outcome{}
		for user, want := range map[string]string{"anna": "wasm", "bob": configured, "carl": rule} {
			out, err := f.Runs().Execute(t.Context(), runs.Request{Code: "await utils.sleep(1); return 1", User: user})
			if err != nil {
				t.Fatal(err)
			}
			if out.Sandbox != want {
				t.Errorf("configured %s: the run of %s was in %s, want %s", configured, user, out.Sandbox, want)
			}
			recorded[out.Sandbox] = out
			out, err = f.Runs().ForTasks().Execute(t.Context(), agent.Program{
				RunID: id.New("run"), New: true, User: user, Session: "s", Principal: "oidc:x", Began: time.Now(), Code: "return 1", Observe: func(run.Event) {},
			})
			if err != nil || out.Sandbox != want {
				t.Errorf("configured %s: the task of %s was in %s, want %s: %v", configured, user, out.Sandbox, want, err)
			}
		}
		const weaker = "sandbox: process is weaker than wasm, which this user's programs need (policy.runs)"
		_, err := f.Runs().Execute(t.Context(), runs.Request{Code: "return 1", User: "anna", Sandbox: "process"})
		if err == nil || !strings.Contains(err.Error(), weaker) {
			t.Errorf("configured %s: a request for a weaker tier: %v", configured, err)
		}
		// The record for anna looks as if it had been made before the rules existed.
		records := edited(t, f.journalOf(recorded["process"].RunID), func(r *journal.Record) {
			if r.Start != nil {
				r.Start.User = "anna"
			}
		})
		if _, err := f.Runs().Replay(t.Context(), records, runs.Replay{}); !errors.Is(err, runs.ErrEngine) || !strings.Contains(err.Error(), weaker) {
			t.Errorf("configured %s: a replay in a weaker tier: %v", configured, err)
		}
		for how, want := range map[*runs.Replay]string{{Force: true}: "wasm", {Tier: "wasm"}: "wasm", {Tier: "process", Force: true}: "wasm"} {
			if out, err := f.Runs().Replay(t.Context(), records, *how); err != nil || out.Error != nil || out.Sandbox != want {
				t.Errorf("configured %s: the replay %+v: %+v, %v", configured, *how, out, err)
			}
		}
		if out := f.resumed(id.New("run"), until(t, records, func(r journal.Record) bool { return r.Call != nil })); out.Error != nil || out.Sandbox != "wasm" {
			t.Errorf("configured %s: the run that goes on: %+v, %+v", configured, out, out.Error)
		}
	}
}

// A rule with a tier applies to the programs in that tier.
func TestRulesOfTiers(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, "up")
	f := open(t, t.TempDir(), map[string]string{"sandbox.tier": "process", "policy.rules": `[{tools: "*", sandbox: process, action: deny, reason: not here}]`}, up.entry)
	needProcess(t, f)
	for tier, want := range map[string]string{"wasm": "", "process": "denied"} {
		out, err := f.Runs().Execute(t.Context(), runs.Request{Code: "return await tools.up.read({})", Sandbox: tier})
		if err == nil && kind(out) == want {
			continue
		}
		t.Errorf("%s: %+v, %v", tier, out, err)
	}
}

// needProcess skips a test if the process tier does not work.
func needProcess(t *testing.T, f *fixture) {
	t.Helper()
	for _, tier := range []string{"wasm", "process"} {
		_, missing, err := f.Tiers().Walls(t.Context(), tier)
		if err == nil && len(missing) > 0 {
			err = fmt.Errorf("walls of the %s tier are missing: %v", tier, missing)
		}
		if err != nil && os.Getenv("CI") == "true" {
			t.Fatal(err)
		} else if err != nil {
			t.Skip("install Node.js 20 or newer (https://nodejs.org), on Linux with user namespaces: ", err)
		}
	}
}
