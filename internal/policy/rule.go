package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/auth"
)

// Rule is a rule as written in the configuration. The tags are those of package config.
type Rule struct {
	Tools   []string             `json:"tools" key:"tools" required:"true" doc:"Full names of tools, such as mailer__send; * stands for any text; case, - and _ do not count."`
	When    When                 `json:"when,omitzero" key:"when" doc:"What the tool's annotations must say."`
	Users   []string             `json:"users,omitempty" key:"users" doc:"Users who call; * stands for any text."`
	Roles   []string             `json:"roles,omitempty" key:"roles" doc:"Roles of the caller, one of which is enough: user, approver, admin, anonymous."`
	Sandbox []string             `json:"sandbox,omitempty" key:"sandbox" doc:"Tiers of the sandbox that the calling program runs in: wasm, process, docker."`
	Args    map[string]Condition `json:"args,omitempty" key:"args" doc:"What the arguments must be, by path: $.to, $.items[*].to."`
	// Destinations act as conditions: a rule that allows matches calls whose values at these paths are all trusted; a rule that asks or denies matches
	// calls with a value that is not trusted.
	Destinations []string `json:"destinations,omitempty" key:"destinations" doc:"Paths of where a call sends something, such as $.to, $.cc[*]; default stands for those of the tool, which harness policy destinations shows. A rule that allows wants each value there to come from the user or a server that is not untrusted; one that asks or denies is about calls where one does not."`
	Tokens       *Tokens  `json:"tokens,omitempty" key:"tokens" doc:"The rule is about tokens in the arguments, not about the call as a whole."`
	Limit        *Limit   `json:"limit,omitempty" key:"limit" doc:"How many calls of a user the rule allows or asks about; further ones are denied."`
	Cache        string   `json:"cache,omitempty" key:"cache" doc:"For so long, such as 5m, at most 1d, a user's call of a tool that only reads gets the answer of an earlier call with the same arguments, and the server is not asked. A call that may change something on the server ends it. Tools of an open world are left out, unless when.openWorld is true. For rules that allow."`
	Action       Action   `json:"action" key:"action" required:"true" oneof:"allow,deny,ask" doc:"What happens to the call."`
	Reason       string   `json:"reason,omitempty" key:"reason" doc:"Why, in words for people and programs."`
}

// When are the annotations that a tool must have; a nil field accepts any. A tool without annotations counts as destructive, open-world, and
// neither read-only nor idempotent.
type When struct {
	ReadOnly    *bool `json:"readOnly,omitempty" key:"readOnly" doc:"It changes nothing."`
	Destructive *bool `json:"destructive,omitempty" key:"destructive" doc:"It may delete or overwrite something."`
	Idempotent  *bool `json:"idempotent,omitempty" key:"idempotent" doc:"Repeating a call changes nothing more."`
	OpenWorld   *bool `json:"openWorld,omitempty" key:"openWorld" doc:"It deals with the world outside of its server."`
}

// Condition is a condition on a value of the arguments; all its parts must hold. A condition without parts matches any value.
type Condition struct {
	Equals  []string `json:"equals,omitempty" key:"equals" doc:"The value, or several possible ones."`
	Pattern string   `json:"pattern,omitempty" key:"pattern" doc:"A regular expression (RE2) that is found in the value."`
	Min     *float64 `json:"min,omitempty" key:"min" negative:"true" doc:"The least number."`
	Max     *float64 `json:"max,omitempty" key:"max" negative:"true" doc:"The greatest number."`
	From    []string `json:"from,omitempty" key:"from" doc:"Where the value came from, one of which is enough: user, code, computed, or full names of tools such as contacts__*; resource is what servers answer but by tools."`
}

// Tokens selects the tokens that a rule is about; an empty list selects any.
type Tokens struct {
	Type []string `json:"type,omitempty" key:"type" doc:"Types of tokens, such as email; * stands for any text."`
	From []string `json:"from,omitempty" key:"from" doc:"Where the value came from: full names of tools such as crm__*, task, file, program; resource is what servers answer but by tools."`
	// As, if set, restricts a rule with the action allow: the rule then counts only for tokens that the user said and that only name a destination
	// of the call.
	As string `json:"as,omitempty" key:"as" oneof:"destination" doc:"destination: only a token that the user said and that is, as a whole value, nothing but a destination of the call, such as a recipient; wherever else its value came from. For rules that allow."`
}

// origins are the names that Tokens.From accepts besides names of tools.
var origins = []string{"task", "file", "skill", "input", "code", "program", "catalog", "resource"}

// valueOrigins are the names that Condition.From accepts besides names of tools.
var valueOrigins = []string{"user", "code", "computed", "resource"}

// fetched are the origins that the name resource stands for: answers of servers to requests other than tool calls.
var fetched = []string{"*__resources/*", "*__prompts/*", "*__completion/*"}

// tiers are the tiers of the sandbox.
var tiers = []string{"wasm", "process", "docker"}

// RuleError is a mistake in a rule.
type RuleError struct {
	Rule int      // number of the rule, from 1
	Keys []string // path of keys to the value: args, $.to, pattern
	Err  error
}

func (e *RuleError) Error() string {
	return fmt.Sprintf("rule %d: %s: %v", e.Rule, strings.Join(e.Keys, "."), e.Err)
}

func (e *RuleError) Unwrap() error { return e.Err }

// String describes the calls that a rule is about, for example "tools mailer__*, tokens email from crm__*".
func (r Rule) String() string {
	parts := []string{"tools " + either(r.Tools)}
	for _, a := range r.When.named() {
		switch {
		case a.want == nil:
		case *a.want:
			parts = append(parts, a.name)
		default:
			parts = append(parts, "not "+a.name)
		}
	}
	for _, list := range []struct {
		name   string
		values []string
	}{{"users", r.Users}, {"roles", r.Roles}, {"sandbox", r.Sandbox}, {"args", r.paths()}, {"destinations", r.Destinations}} {
		if len(list.values) > 0 {
			parts = append(parts, list.name+" "+either(list.values))
		}
	}
	if r.Tokens != nil {
		text := "tokens " + either(r.Tokens.Type)
		if len(r.Tokens.From) > 0 {
			text += " from " + either(r.Tokens.From)
		}
		if r.Tokens.As != "" {
			text += " as " + r.Tokens.As
		}
		parts = append(parts, text)
	}
	if r.Limit != nil {
		parts = append(parts, r.Limit.String())
	}
	if r.Cache != "" {
		parts = append(parts, "cache "+r.Cache)
	}
	return strings.Join(parts, ", ")
}

// paths returns the paths of arguments, each with the origins that its condition names.
func (r Rule) paths() []string {
	all := slices.Sorted(maps.Keys(r.Args))
	for i, path := range all {
		if from := r.Args[path].From; len(from) > 0 {
			all[i] += " from " + either(from)
		}
	}
	return all
}

func either(values []string) string {
	if len(values) == 0 {
		return "*"
	}
	return strings.Join(values, "|")
}

type annotation struct {
	name string
	want *bool
}

func (w When) named() [4]annotation {
	return [4]annotation{{"readOnly", w.ReadOnly}, {"destructive", w.Destructive}, {"idempotent", w.Idempotent}, {"openWorld", w.OpenWorld}}
}

// rule is a compiled rule.
type rule struct {
	Rule
	number int
	preset string // empty for a rule of the policy's own

	annotations  [4]annotation
	tools, users patterns
	kinds, from  patterns // kinds and origins of tokens
	conditions   []*condition
	window       time.Duration // period of the limit
	keep         time.Duration // time for which answers are kept; 0: not at all
	identity     string        // hash of the rule, for the key of its counter; empty without a limit
}

// fitting returns the rules that match a call if tokens are left aside, in order. found is the result of look for the conditions of the rules.
func (p *Policy) fitting(c *Call) (all []*rule, found *found) {
	tool := full(c.Server, c.Tool)
	for _, r := range p.rules {
		if r.fits(c, tool) {
			all = append(all, r)
		}
	}
	if !p.args || !slices.ContainsFunc(all, func(r *rule) bool { return len(r.conditions) > 0 }) {
		return all, nil
	}
	found = look(c, all)
	return slices.DeleteFunc(all, func(r *rule) bool { return !r.holds(found) }), found
}

// fits reports whether a rule matches a call apart from its arguments and tokens.
func (r *rule) fits(c *Call, tool string) bool {
	if !r.tools.match(tool) || len(r.Users) > 0 && !r.users.match(c.User) {
		return false
	}
	for i, is := range [...]bool{c.ReadOnly, c.Destructive, c.Idempotent, c.OpenWorld} {
		if want := r.annotations[i].want; want != nil && *want != is {
			return false
		}
	}
	if r.Action != Allow && len(c.Destinations) == 0 && len(r.Destinations) == 1 && r.Destinations[0] == Default {
		return false // a tool without destinations sends nothing
	}
	if len(r.Sandbox) > 0 && !(slices.Contains(r.Sandbox, c.Sandbox) || c.Sandbox == "" && r.Action != Allow) {
		return false
	}
	switch {
	case len(r.Roles) == 0:
		return true
	case c.Roles == nil:
		return r.Action != Allow
	}
	return slices.ContainsFunc(c.Roles, func(role auth.Role) bool { return slices.Contains(r.Roles, string(role)) })
}

// flows reports whether a rule counts for a token. kind is the token's type and from one of its origins, both normalized; from is empty if the origin
// is unknown. addressed is Call.addressed for the token.
func (r *rule) flows(kind, from string, addressed func() bool) bool {
	switch {
	case r.Tokens == nil:
		return r.Action != Ask
	case len(r.kinds) > 0 && !r.kinds.match(kind):
		return false
	case r.Tokens.As != "" && !addressed():
		return false
	case len(r.from) == 0:
		return true
	case from == "":
		return r.Action != Allow
	}
	return r.from.match(from)
}

// numbered returns a rule's number, with its preset.
func (r *rule) numbered() string {
	text := fmt.Sprintf("rule %d", r.number)
	if r.preset != "" {
		text += " of preset " + r.preset
	}
	return text
}

// named returns a rule's number and description.
func (r *rule) named() string { return r.numbered() + fmt.Sprintf(" (%s)", r.Rule) }

// explain returns the reason of a judgement; r is nil if no rule matched.
func (r *rule) explain(v *Verdict, tool string) string {
	about := tool
	if v.Token != "" {
		about = v.Token + " from " + v.Origin
		if v.Origin == "" {
			about = v.Token + " of unknown origin"
		}
	}
	if r == nil {
		return "no rule is about " + about
	}
	text := r.named() + " " + map[Action]string{Allow: "allows", Ask: "asks about", Deny: "denies"}[r.Action] + " " + about
	if r.Reason != "" {
		text += ": " + r.Reason
	}
	return text + r.origins(v)
}

// origins returns the part of a reason that says where a value comes from. The value is one that matched a condition of r, or else one whose
// origin kept another rule from allowing the call.
func (r *rule) origins(v *Verdict) (text string) {
	if r.Action == Allow || v.Token != "" {
		return ""
	}
	for _, value := range v.Values {
		if slices.ContainsFunc(r.conditions, func(c *condition) bool { return c.traced() && value.at(c) && c.comes(value.ValueOrigin) }) {
			return "; " + value.Path + " " + value.String()
		}
	}
	if v.missed != "" {
		text = "; " + v.missed
	}
	return text
}
