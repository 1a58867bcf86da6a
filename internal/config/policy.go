package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"mcp-code-exec-harness/internal/policy"
)

// Compiled compiles a policy that Load or ParsePolicy returned, for the configured servers. The rules of its preset follow its own rules.
func (c *Config) Compiled(p Policy) *policy.Policy {
	compiled, _ := compilePolicy(p, c.MCPServers) // Load and ParsePolicy have already reported mistakes
	return compiled
}

func compilePolicy(p Policy, servers []*MCPServer) (*policy.Policy, error) {
	of := policy.Servers{Destinations: map[string][]string{HTTPServer + "__*": {}}} // network.allow already limits the destinations
	for _, server := range servers {
		if server.Untrusted {
			of.Untrusted = append(of.Untrusted, server.Name+"__*")
		}
		for _, tool := range server.UntrustedTools {
			of.Untrusted = append(of.Untrusted, server.Name+"__"+tool)
		}
		for tool, paths := range server.Destinations {
			of.Destinations[server.Name+"__"+tool] = paths
		}
	}
	return policy.New(p.Rules, p.Preset, PresetRules(p.Preset), of)
}

// QuarantineMode returns the quarantine mode in effect. A policy judges a tool by the definition that the tool's server sends. The presets
// that ask people therefore quarantine a tool whose definition has changed.
func (c *Config) QuarantineMode() string {
	switch {
	case c.Quarantine != "":
		return c.Quarantine
	case c.Policy.Preset == "guarded", c.Policy.Preset == "careful", c.Policy.Preset == "strict":
		return "changed"
	}
	return "off"
}

// ParsePolicy parses the section policy: a list of rules, or a mapping with preset, rules and runs. It also accepts a mapping with the key
// policy, such as a whole harness.yaml, and ignores the other keys. The error joins one *Error for each mistake. name is the name of the
// source in these errors.
func ParsePolicy(text []byte, name string) (Policy, error) {
	root, err := parse(text, position{source: name, line: 1, column: 1})
	if err != nil {
		return Policy{}, err
	}
	if section, ok := root.get("policy"); ok {
		root = section.value
	}
	l := &loader{config: &Config{}, byPath: map[string]key{}, given: map[string]setting{}}
	sections := keysOf(reflect.ValueOf(&l.config.Policy).Elem(), "policy.")
	l.keys = leaves(sections)
	for _, k := range l.keys {
		l.byPath[k.path] = k
	}
	l.policySection(setting{node: root})
	for _, s := range l.settings {
		l.problem(s.key.assign(s.node))
		l.given[s.key.path] = s
	}
	l.policy()
	return l.config.Policy, errors.Join(l.problems...)
}

// PresetRules returns the rules of a preset.
func PresetRules(name string) []policy.Rule {
	text, ok := policy.Preset(name)
	if !ok {
		return nil
	}
	p, err := ParsePolicy(text, "preset "+name)
	if err != nil {
		panic("config: " + err.Error()) // the text is part of the program
	}
	return p.Rules
}

// policySection collects the settings of the section policy.
func (l *loader) policySection(s setting) {
	switch s.kind {
	case null:
	case list:
		s.key = l.byPath["policy.rules"]
		l.set(s)
	case mapping:
		keys := []key{l.byPath["policy.preset"], l.byPath["policy.rules"], l.byPath["policy.runs"]}
		l.group(s.node, "policy.", keys)
	default:
		l.problem(s.errorf("policy", "", "it must be a list of rules, or a mapping with preset, rules and runs, not %s", s.kind))
	}
}

// policyText collects the settings of a variable that holds the whole section.
func (l *loader) policyText(s setting) {
	parsed, err := parse([]byte(strings.TrimSpace(s.text)), s.position)
	if err != nil {
		l.problem(s.errorf("policy", "", "this is neither a list nor a mapping in YAML or JSON"))
		return
	}
	s.node = parsed
	l.policySection(s)
}

// assignRules assigns a list of rules; it reports only the first mistake.
func (k key) assignRules(n node) *Error {
	if n.kind != list {
		return n.errorf(k.path, "write each rule behind a -", "it must be a list of rules, not %s", n.kind)
	}
	rules := reflect.MakeSlice(k.typ, 0, len(n.list))
	for i, item := range n.list {
		elem := k.elem()
		elem.path = ruleKey(k.path, i+1)
		if err := elem.assign(item); err != nil {
			return err
		}
		rules = reflect.Append(rules, elem.dst)
	}
	k.dst.Set(rules)
	return nil
}

// ruleKey returns the key of a rule; rules are numbered from 1.
func ruleKey(rules string, number int) string { return fmt.Sprintf("%s.%d", rules, number) }

// policy compiles the rules to report mistakes at their positions.
func (l *loader) policy() {
	l.compileRuns()
	_, err := compilePolicy(l.config.Policy, l.config.MCPServers)
	if err == nil {
		return
	}
	wrong := []error{err}
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		wrong = all.Unwrap()
	}
	given := l.given["policy.rules"]
	for _, err := range wrong {
		if r, ok := errors.AsType[*policy.RuleError](err); ok {
			at, path := given.node, ruleKey("policy.rules", r.Rule)
			if r.Rule <= len(at.list) {
				at = at.list[r.Rule-1]
			}
			for _, name := range r.Keys {
				path += "." + name
				if f, ok := at.get(name); ok {
					at = f.value
				}
			}
			l.problem(at.errorf(path, "", "%v", r.Err))
		}
	}
}
