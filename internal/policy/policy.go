package policy

import (
	"encoding/json"
	"fmt"
	"iter"
	"sync"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/catalog/destination"
)

// Action is what happens to a call.
type Action string

// The actions, the least strict first.
const (
	Allow Action = "allow"
	Ask   Action = "ask" // a person decides
	Deny  Action = "deny"
)

// StricterThan compares actions.
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
	ReadOnly     bool   // annotations, as the server or the configuration claims them
	Destructive  bool
	Idempotent   bool
	OpenWorld    bool
	User         string
	Roles        []auth.Role     // roles of the caller; nil if unknown
	Sandbox      string          // tier that the program runs in; empty if it is not known
	Args         json.RawMessage // arguments with tokens in place of values
	Tokens       []Token         // tokens in Args, each once
	// Destinations are the arguments of the tool that say where it sends something, as its definition has them.
	Destinations []destination.Destination
	// Origin says where a string, or the text of a number, in Args comes from; nil: that is not known.
	Origin func(value string) ValueOrigin
}

// Token is a token in the arguments of a call.
type Token struct {
	Text    string   // [EMAIL_1]
	Type    string   // EMAIL
	Origins []string // where values came from: full names of tools, "task", "file", "input", "program"; empty if it is not known
}

// Verdict is the decision on a call, or one judgement of it.
type Verdict struct {
	Action Action `json:"action"`
	Rule   int    `json:"rule"`             // number of the rule in the policy, from 1; 0 where no rule matched
	Preset string `json:"preset,omitempty"` // preset of the rule; empty: one of the policy's own
	Reason string `json:"reason"`           // for people and programs: names the rule, and the token it is about; never a value
	Token  string `json:"token,omitempty"`  // deciding token; empty where the call itself decided
	Origin string `json:"origin,omitempty"` // origin of the token; empty if unknown
	// Values are where the values come from at the paths that rules about the call name with from.
	Values []Value `json:"values,omitempty"`

	by     *rule  // rule with a limit that decided the call as a whole
	missed string // why a rule does not allow the call that would, if its values came from elsewhere
}

// Policy is a list of compiled rules. It is safe for concurrent use.
type Policy struct {
	rules []*rule
	args  bool // rules look at arguments
	// origins says that rules look at where values of arguments come from.
	origins      bool
	destinations []override
	trusts       func(origin string) bool
}

// New compiles a policy: its own rules, and behind them those of a preset. The error joins one *RuleError for each mistake in its own rules.
func New(own []Rule, preset string, presetRules []Rule, of Servers) (*Policy, error) {
	trusts := trusting(of.Untrusted)
	p := &Policy{destinations: overrides(of.Destinations), trusts: trusts}
	err := p.add(own, "", trusts)
	if failed := p.add(presetRules, preset, trusts); failed != nil {
		return nil, fmt.Errorf("preset %s: %w", preset, failed)
	}
	return p, err
}

// Decide returns the verdict on a call. It takes time linear in rules times origins of tokens, and in the arguments.
func (p *Policy) Decide(c Call) Verdict {
	c.Destinations = p.Destinations(c.Tool, c.Destinations)
	verdict, rule, call := Verdict{}, (*rule)(nil), (*rule)(nil)
	var values []Value
	for v, by := range p.judge(&c) {
		values = append(values, v.Values...)
		if v.Token == "" && by != nil && by.Limit != nil {
			call = by
		}
		// Of a token and a destination that are judged alike, the token is named: its value is what would be lost.
		instead := v.Token != "" && verdict.Token == "" && v.Action == verdict.Action && rule != nil && rule != by && len(rule.Destinations) > 0
		if verdict.Action == "" || v.Action.StricterThan(verdict.Action) || instead && v.Action != Allow {
			verdict, rule = v, by
		}
	}
	verdict.Reason, verdict.by, verdict.Values = rule.explain(&verdict, c.Tool), call, values
	return verdict
}

// Judgements returns every judgement of a call: first of the call itself, then of each origin of each token.
func (p *Policy) Judgements(c Call) (all []Verdict) {
	c.Destinations = p.Destinations(c.Tool, c.Destinations)
	for v, by := range p.judge(&c) {
		v.Reason = by.explain(&v, c.Tool)
		all = append(all, v)
	}
	return all
}

// Trusts reports whether what a tool says can be a destination.
func (p *Policy) Trusts(tool string) bool { return p.trusts(tool) }

// Origins reports whether rules look at where values of arguments come from.
func (p *Policy) Origins() bool { return p.origins }

// judge yields every judgement, without its reason, and the rule that decided it; nil if none matched.
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
