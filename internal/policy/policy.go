package policy

import (
	"encoding/json"
	"fmt"
	"iter"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/catalog/destination"
)

// Action is what happens to a call.
type Action string

// The actions, the least strict first.
const (
	Allow Action = "allow"
	Ask   Action = "ask" // A person decides about the call.
	Deny  Action = "deny"
)

// StricterThan reports whether a is stricter than b.
func (a Action) StricterThan(b Action) bool { return a.rank() > b.rank() }

func (a Action) rank() int {
	switch a {
	case Allow:
		return 0
	case Ask:
		return 1
	}
	return 2
}

// Call is a tool call as policy sees it.
type Call struct {
	Server, Tool string // Tool is the full name, such as crm__search
	ReadOnly     bool   // ReadOnly to OpenWorld are annotations of the tool, by its server or the configuration.
	Destructive  bool
	Idempotent   bool
	OpenWorld    bool
	User         string
	Roles        []auth.Role     // roles of the caller; nil if unknown
	Sandbox      string          // tier that the program runs in; empty if unknown
	Args         json.RawMessage // arguments with tokens in place of values
	Tokens       []Token         // tokens in Args, each once
	// Destinations are the arguments that say where the call sends something, by the definition of the tool.
	Destinations []destination.Destination
	// Origin returns the origin of a string, or of the literal of a number, in Args; nil if origins are not known.
	Origin func(value string) ValueOrigin
}

// Token is a token in the arguments of a call.
type Token struct {
	Text    string   // text of the token, such as [EMAIL_1]
	Type    string   // type of the value, such as EMAIL
	Origins []string // where the value came from: full names of tools, "task", "file", "input", "program"; empty if unknown
}

// Verdict is the decision on a call, or one judgement of it.
type Verdict struct {
	Action Action `json:"action"`
	Rule   int    `json:"rule"`             // number of the rule in the policy, from 1; 0 if no rule matched
	Preset string `json:"preset,omitempty"` // preset of the rule; empty for a rule of the policy's own
	Reason string `json:"reason"`           // text for people and programs; names the rule and the token, never a value
	Token  string `json:"token,omitempty"`  // deciding token; empty if the call itself decided
	Origin string `json:"origin,omitempty"` // origin of the token; empty if unknown
	// Values are the values in the arguments whose origins were compared with conditions of rules, each with its origin.
	Values []Value `json:"values,omitempty"`

	keep   time.Duration
	by     *rule  // rule with a limit that decided the call as a whole; nil if none did
	missed string // text about a rule that would allow the call if its values came from elsewhere
}

// Policy is a list of compiled rules. It is safe for concurrent use.
type Policy struct {
	rules []*rule
	args  bool // whether rules have conditions on arguments
	keeps bool // whether rules keep answers
	// origins is true if rules depend on where values of arguments come from.
	origins      bool
	destinations []override
	trusts       func(origin string) bool
}

// New compiles a policy: its own rules, followed by those of a preset. The error joins one *RuleError for each mistake in its own rules.
func New(own []Rule, preset string, presetRules []Rule, of Servers) (*Policy, error) {
	trusts := trusting(of.Untrusted)
	p := &Policy{destinations: overrides(of.Destinations), trusts: trusts}
	err := p.add(own, "", trusts)
	if failed := p.add(presetRules, preset, trusts); failed != nil {
		return nil, fmt.Errorf("preset %s: %w", preset, failed)
	}
	return p, err
}

// Decide returns the verdict on a call. Its time is linear in the rules times the origins of tokens, and in the size of the arguments.
func (p *Policy) Decide(c Call) Verdict {
	c.Destinations = p.Destinations(c.Tool, c.Destinations)
	verdict, rule, call := Verdict{}, (*rule)(nil), (*rule)(nil)
	var values []Value
	var keep time.Duration
	for v, by := range p.judge(&c) {
		values = append(values, v.Values...)
		if v.Token == "" && by != nil && by.Limit != nil {
			call = by
		}
		if v.Token == "" {
			keep = max(keep, by.keepsAnswer(&c))
		}
		// If a token and a destination are judged alike, the verdict names the token: its value is what would be disclosed.
		instead := v.Token != "" && verdict.Token == "" && v.Action == verdict.Action && rule != nil && rule != by && len(rule.Destinations) > 0
		if verdict.Action == "" || v.Action.StricterThan(verdict.Action) || instead && v.Action != Allow {
			verdict, rule = v, by
		}
	}
	verdict.Reason, verdict.by, verdict.Values = rule.explain(&verdict, c.Tool), call, values
	verdict.keep = keep
	return verdict
}

// Judgements returns every judgement of a call: first that of the call itself, then one for each origin of each token.
func (p *Policy) Judgements(c Call) (all []Verdict) {
	c.Destinations = p.Destinations(c.Tool, c.Destinations)
	for v, by := range p.judge(&c) {
		v.Reason = by.explain(&v, c.Tool)
		all = append(all, v)
	}
	return all
}

// Trusts reports whether a value from a tool can be a trusted destination.
func (p *Policy) Trusts(tool string) bool { return p.trusts(tool) }

// Origins reports whether rules depend on where values of arguments come from.
func (p *Policy) Origins() bool { return p.origins }

// judge yields every judgement and the rule that decided it, or nil if no rule matched. The judgements have no reasons yet.
func (p *Policy) judge(c *Call) iter.Seq2[Verdict, *rule] {
	return func(yield func(Verdict, *rule) bool) {
		fitting, found := p.fitting(c)
		base := Verdict{missed: p.missed(c, found)}
		if found != nil {
			base.Values = found.values
		}
		first := func(matches func(*rule) bool, v Verdict) bool {
			v.Action = Allow
			for _, r := range fitting {
				if matches(r) {
					v.Action, v.Rule, v.Preset = r.Action, r.number, r.preset
					return yield(v, r)
				}
			}
			return yield(v, nil)
		}
		if !first(func(r *rule) bool { return r.Tokens == nil }, base) {
			return
		}
		for _, t := range c.Tokens {
			kind, origins := single(t.Type), t.Origins
			addressed := sync.OnceValue(func() bool { return c.addressed(t.Text) })
			if len(origins) == 0 {
				origins = []string{""}
			}
			for _, origin := range origins {
				from := full("", origin)
				if !first(func(r *rule) bool { return r.flows(kind, from, addressed) }, Verdict{Token: t.Text, Origin: origin}) {
					return
				}
			}
		}
	}
}
