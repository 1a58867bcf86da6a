package config

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/policy"
)

// RunRule lowers limits of the section sandbox for the runs of some callers, and may set their tier. Each limit has the name of the key in
// sandbox; nil limits and an empty tier change nothing.
type RunRule struct {
	Users        []string       `json:"users,omitempty" key:"users" doc:"Users whose runs these are; * stands for any text. Without it, all."`
	Roles        []string       `json:"roles,omitempty" key:"roles" doc:"Roles of the caller, one of which is enough: user, approver, admin, anonymous. Without it, all."`
	Tier         string         `json:"-" key:"tier" oneof:"wasm,process,docker" doc:"Tier of the sandbox for them, instead of sandbox.tier."`
	Timeout      *time.Duration `json:"-" key:"timeout" min:"1ms" doc:"Time a program may compute."`
	MaxWall      *time.Duration `json:"-" key:"maxWall" min:"1ms" doc:"Time a program may take, waiting for tools included."`
	MaxCalls     *int           `json:"-" key:"maxCalls" min:"0" doc:"Tool calls in one run."`
	MaxHostCalls *int           `json:"-" key:"maxHostCalls" min:"0" doc:"File, catalog and timer calls in one run."`
	MaxInFlight  *int           `json:"-" key:"maxInFlight" min:"1" doc:"Calls at the same time."`
	MaxOutput    *Size          `json:"-" key:"maxOutput" min:"1KiB" doc:"Size of the returned value, and of all log lines together."`
	MaxLogLines  *int           `json:"-" key:"maxLogLines" min:"0" doc:"Console lines of one run."`
	MaxValue     *Size          `json:"-" key:"maxValue" min:"1KiB" doc:"Size of one call's arguments or answer."`

	callers policy.Callers
}

// limits returns the limits that the rule sets. Each element has the key of a limit, the new value, and the field of s that the value
// replaces.
func (r *RunRule) limits(s *Sandbox) (all []lowered) {
	of := keysOf(reflect.ValueOf(s).Elem(), "")
	for _, k := range keysOf(reflect.ValueOf(r).Elem(), "") {
		if k.typ.Kind() == reflect.Pointer && !k.dst.IsNil() {
			i := slices.IndexFunc(of, func(other key) bool { return other.path == k.path })
			all = append(all, lowered{k.path, k.dst.Elem(), of[i].dst})
		}
	}
	return all
}

type lowered struct {
	key      string
	to, from reflect.Value
}

// Limits returns the limits of the rule by key, formatted as in the file.
func (r RunRule) Limits() map[string]string {
	all := map[string]string{}
	if r.Tier != "" {
		all["tier"] = r.Tier
	}
	for _, l := range r.limits(&Sandbox{}) {
		all[l.key] = format(l.to)
	}
	return all
}

// String describes a rule by its callers and limits, for example as "users guest*, timeout 5s".
func (r RunRule) String() string {
	var parts []string
	for _, list := range []struct {
		name   string
		values []string
	}{{"users", r.Users}, {"roles", r.Roles}} {
		if len(list.values) > 0 {
			parts = append(parts, list.name+" "+strings.Join(list.values, "|"))
		}
	}
	if r.Tier != "" {
		parts = append(parts, "tier "+r.Tier)
	}
	for _, l := range r.limits(&Sandbox{}) {
		parts = append(parts, l.key+" "+format(l.to))
	}
	return strings.Join(parts, ", ")
}

// LimitsFor returns the section sandbox for the runs of a caller. Each limit is the lowest of sandbox and of all rules in policy.runs that
// match the caller. rules holds the numbers of these rules, from 1. If roles is nil, the roles are unknown, and every role counts as
// possible.
func (c *Config) LimitsFor(user string, roles []auth.Role) (s Sandbox, rules []int) {
	s = c.Sandbox
	for i, r := range c.Policy.Runs {
		if !r.callers.Have(user, roles) {
			continue
		}
		rules = append(rules, i+1)
		for _, l := range r.limits(&s) {
			if l.to.Int() < l.from.Int() {
				l.from.Set(l.to)
			}
		}
	}
	return s, rules
}

// TiersFor returns the tiers of the rules in policy.runs that match a caller. The caller's runs use the strongest of them instead of
// sandbox.tier.
func (c *Config) TiersFor(user string, roles []auth.Role) (tiers []string) {
	for _, r := range c.Policy.Runs {
		if r.Tier != "" && r.callers.Have(user, roles) {
			tiers = append(tiers, r.Tier)
		}
	}
	return tiers
}

// Lowered returns, by key, the effective value of each limit that a rule in policy.runs sets for a caller. The key tier has the tiers of
// TiersFor, separated by |. rules holds the numbers of the rules that match the caller.
func (c *Config) Lowered(user string, roles []auth.Role) (limits map[string]string, rules []int) {
	s, rules := c.LimitsFor(user, roles)
	limits = map[string]string{}
	for _, n := range rules {
		for _, l := range c.Policy.Runs[n-1].limits(&s) {
			limits[l.key] = format(l.from)
		}
	}
	if tiers := c.TiersFor(user, roles); len(tiers) > 0 {
		limits["tier"] = strings.Join(tiers, "|")
	}
	return limits, rules
}

// compileRuns compiles policy.runs and reports mistakes at their positions.
func (l *loader) compileRuns() {
	given := l.given["policy.runs"]
	for i := range l.config.Policy.Runs {
		r := &l.config.Policy.Runs[i]
		path, at := ruleKey("policy.runs", i+1), given.node
		if i < len(at.list) {
			at = at.list[i]
		}
		var err error
		if r.callers, err = policy.NewCallers(r.Users, r.Roles); err != nil {
			l.problem(at.member("roles").errorf(path+".roles", "", "%v", err))
		}
		if r.Tier == "" && len(r.limits(&Sandbox{})) == 0 {
			l.problem(at.errorf(path, "add one, such as timeout: 5s", "it has neither a limit nor a tier"))
		}
	}
}

// checkRuns rejects rules of policy.runs that raise a limit.
func (l *loader) checkRuns() {
	given := l.given["policy.runs"]
	for i := range l.config.Policy.Runs {
		path, at := ruleKey("policy.runs", i+1), given.node
		if i < len(at.list) {
			at = at.list[i]
		}
		for _, limit := range l.config.Policy.Runs[i].limits(&l.config.Sandbox) {
			if limit.to.Int() > limit.from.Int() {
				l.problem(at.member(limit.key).errorf(path+"."+limit.key, "rules only lower limits",
					"%s is more than sandbox.%s, which is %s", format(limit.to), limit.key, format(limit.from)))
			}
		}
	}
}

// member returns the value of a name in a mapping, or the mapping itself if it lacks the name.
func (n node) member(name string) node {
	if f, ok := n.get(name); ok {
		return f.value
	}
	return n
}

var runRulesType = reflect.TypeFor[[]RunRule]()
