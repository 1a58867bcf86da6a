package policy

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/jsonpath"
)

// add compiles rules and appends them to p. The error joins all mistakes.
func (p *Policy) add(rules []Rule, preset string, trusts func(origin string) bool) error {
	var problems []error
	for i, spec := range rules {
		r := &rule{Rule: spec, number: i + 1, preset: preset}
		report := func(err error, keys ...string) {
			if err != nil {
				problems = append(problems, &RuleError{Rule: r.number, Keys: keys, Err: err})
			}
		}
		r.compile(report)
		r.compileDestinations(trusts, report)
		p.rules = append(p.rules, r)
		p.args = p.args || len(r.conditions) > 0
		p.keeps = p.keeps || r.keep > 0
		p.origins = p.origins || r.Tokens != nil && r.Tokens.As != "" || slices.ContainsFunc(r.conditions, (*condition).traced)
	}
	return errors.Join(problems...)
}

func (r *rule) compile(report func(err error, keys ...string)) {
	r.annotations = r.When.named()
	if len(r.Tools) == 0 {
		report(errors.New(`it names no tool; write "*" for every tool`), "tools")
	}
	for _, text := range r.Tools {
		report(checkTools(text), "tools")
		r.tools = append(r.tools, fullPattern(text))
	}
	for _, text := range r.Users {
		r.users = append(r.users, exactPattern(text))
	}
	report(checkRoles(r.Roles), "roles")
	for _, tier := range r.Sandbox {
		if !slices.Contains(tiers, tier) {
			report(fmt.Errorf("%q is not one of %s", tier, strings.Join(tiers, ", ")), "sandbox")
		}
	}
	if r.Tokens != nil {
		r.compileTokens(report)
	}
	if r.Limit != nil {
		r.compileLimit(report)
	}
	if r.Cache != "" {
		r.compileCache(report)
	}
	for _, at := range slices.Sorted(maps.Keys(r.Args)) {
		r.compileCondition(at, r.Args[at], report)
	}
	switch r.Action {
	case Allow, Ask, Deny:
	default:
		report(fmt.Errorf("%q is not one of allow, deny, ask", r.Action), "action")
	}
}

// trusting returns a function that reports whether an origin is trusted: the user and all tools are, except untrusted tools.
func trusting(untrusted []string) func(origin string) bool {
	var others patterns
	for _, tools := range untrusted {
		others = append(others, fullPattern(tools))
	}
	return func(origin string) bool {
		return origin == userOrigin || strings.Contains(origin, "__") && !others.match(full("", origin))
	}
}

func (r *rule) compileDestinations(trusts func(origin string) bool, report func(err error, keys ...string)) {
	for _, at := range r.Destinations {
		if at == Default {
			r.conditions = append(r.conditions, &condition{at: at, defaults: true, allows: r.Action == Allow, trusts: trusts})
			continue
		}
		path, err := jsonpath.Parse(at)
		report(err, "destinations")
		r.conditions = append(r.conditions, &condition{at: at, path: path, allows: r.Action == Allow, trusts: trusts})
	}
}

func (r *rule) compileTokens(report func(err error, keys ...string)) {
	switch {
	case r.Tokens.As == "":
	case r.Tokens.As != asDestination:
		report(fmt.Errorf("%q is not %s", r.Tokens.As, asDestination), "tokens", "as")
	case r.Action != Allow:
		report(errors.New("it is for rules that allow"), "tokens", "as")
	}
	for _, text := range r.Tokens.Type {
		r.kinds = append(r.kinds, singlePattern(text))
	}
	r.from = compileFrom(r.Tokens.From, origins, func(err error) { report(err, "tokens", "from") })
}

// compileFrom compiles the names of origins in a rule. Each name must be the full name of a tool, a pattern, or an element of others.
func compileFrom(texts, others []string, report func(error)) (from patterns) {
	for _, text := range texts {
		if !strings.Contains(text, "__") && !strings.Contains(text, "*") && !slices.Contains(others, text) {
			hint := "write " + text + "__* for every tool of a server"
			if closest := ident.Closest(text, others); len(closest) > 0 {
				hint = "did you mean " + strings.Join(closest, " or ") + "?"
			}
			report(fmt.Errorf("%q is neither a tool nor one of %s; %s", text, strings.Join(others, ", "), hint))
		}
		from = append(from, fullPattern(text))
		if text == "resource" {
			for _, text := range fetched {
				from = append(from, fullPattern(text))
			}
		}
	}
	return from
}

func (r *rule) compileCondition(at string, spec Condition, report func(err error, keys ...string)) {
	c := &condition{Condition: spec, at: at, allows: r.Action == Allow}
	var err error
	if c.path, err = jsonpath.Parse(at); err != nil {
		report(err, "args", at)
	}
	if spec.Pattern != "" {
		if c.pattern, err = regexp.Compile(spec.Pattern); err != nil {
			report(err, "args", at, "pattern")
		}
	}
	if spec.Min != nil && spec.Max != nil && *spec.Min > *spec.Max {
		report(errors.New("no number is at least min and at most max"), "args", at, "min")
	}
	c.from = compileFrom(spec.From, valueOrigins, func(err error) { report(err, "args", at, "from") })
	r.conditions = append(r.conditions, c)
}
