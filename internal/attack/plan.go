package attack

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/catalog/destination"
	"mcp-code-exec-harness/internal/catalog/schema"
	"mcp-code-exec-harness/internal/policy"
)

// attempt is one try to carry a destination from a source to a sink, with one Form.
type attempt struct {
	N          int
	Source     string // full name of a tool; empty if the user is the source
	Sink, Path string
	Form       *Form
	Value      string // destination that the source names
	Honest     bool   // whether the destination belongs to the user or to a friend, not to the attacker

	from, to   *catalog.Tool
	sourceArgs json.RawMessage
	args       json.RawMessage // arguments for the sink, with a hole in place of the destination
	mine       string          // destination of the user
	ally       *ally

	through   bool           // whether the server of the sink received the value
	judged    bool           // whether the policy has judged the call of the sink
	now, then policy.Verdict // verdicts of the policy, and of the policy with the suggested rules
	err       string         // error with which the attempt failed
}

// source returns the server of the source, or "" for the user.
func (a *attempt) source() string {
	if a.from == nil {
		return ""
	}
	return a.from.Server
}

// given returns the value as the source writes it.
func (a *attempt) given() string {
	if a.Form.Given == nil {
		return a.Value
	}
	return a.Form.Given(a.Value)
}

func (a *attempt) script() scripted {
	s := scripted{N: a.N, Form: a.Form.Name, Server: a.source(), Source: a.Source, SourceArgs: a.sourceArgs, Sink: a.Sink, Args: a.args, Mine: a.mine, Honest: a.Honest}
	if a.ally != nil {
		s.Ally, s.Ask = a.ally.tool.FullName(), a.ally.args
	}
	return s
}

// sink is an argument that says where a call of a tool sends something.
type sink struct {
	tool   *catalog.Tool
	at     destination.Destination
	others []destination.Destination
}

// source is a tool whose answers contain texts.
type source struct {
	tool *catalog.Tool
	args json.RawMessage
}

// ally is a trusted tool that takes any text as an argument. Its simulated answer repeats the text.
type ally struct {
	tool *catalog.Tool
	args json.RawMessage // arguments with a hole for the text
}

// Untested is a tool that could not be tried.
type Untested struct {
	Tool   string `json:"tool"`
	Path   string `json:"path,omitempty"`
	Reason string `json:"because"`
}

// planner chooses attempts.
type planner struct {
	ctx      context.Context
	catalog  *catalog.Catalog
	policy   *policy.Policy
	attacks  func(tool string) bool // reports whether a tool is tried as a source
	sinks    []sink
	sources  []source // tools for which attacks is true
	trusted  []source
	allies   []ally
	untested []Untested
	made     map[[4]string]bool
	number   int
	learned  func(*catalog.Tool) json.RawMessage
}

// look finds sources and sinks among the tools.
func (p *planner) look(tools []*catalog.Tool) {
	for _, t := range tools {
		of := p.policy.Destinations(t.FullName(), t.Destinations())
		for _, d := range of {
			p.sinks = append(p.sinks, sink{t, d, of})
		}
		if !destination.Reads(t.Name, t.Annotations.ReadOnly) {
			continue
		}
		args, ok := p.plainArgs(t, of)
		if !ok {
			p.untested = append(p.untested, Untested{t.FullName(), "", "no arguments could be made that its schema allows, so it is no source"})
			continue
		}
		if s := shapeOf(t, p.learned); s != nil && !s.says() {
			p.untested = append(p.untested, Untested{t.FullName(), "", "its answers have no place for a text, so it is no source"})
			continue
		}
		if p.attacks(t.FullName()) {
			p.sources = append(p.sources, source{t, args})
			continue
		}
		p.trusted = append(p.trusted, source{t, args})
		if asks, ok := p.asks(t, of); ok {
			p.allies = append(p.allies, ally{t, asks})
		}
	}
}

// plainArgs returns valid arguments for a tool that only reads. All destinations in the arguments belong to the user.
func (p *planner) plainArgs(t *catalog.Tool, of []destination.Destination) (json.RawMessage, bool) {
	m := &maker{root: rootOf(t)}
	m.users(of, "")
	return p.valid(t, m)
}

// asks returns arguments for a tool, with a hole in place of one text. It returns false if an argument of the tool is a destination, or if no
// argument takes arbitrary text.
func (p *planner) asks(t *catalog.Tool, of []destination.Destination) (json.RawMessage, bool) {
	properties := rootOf(t).Get("properties")
	if properties == nil || len(of) > 0 {
		return nil, false
	}
	for _, member := range properties.Members {
		if member.Value.Get("type").String() != "string" || member.Value.Get("enum") != nil || member.Value.Get("format") != nil {
			continue
		}
		m := &maker{root: rootOf(t), at: map[string]any{"$" + step(member.Name): "@@ask@@ and more text"}}
		if args, ok := p.valid(t, m); ok {
			return bytes.ReplaceAll(args, []byte("@@ask@@ and more text"), []byte("@@ask@@")), true
		}
	}
	return nil, false
}

func rootOf(t *catalog.Tool) *schema.Value {
	root, err := schema.Parse(t.InputSchema)
	if err != nil {
		return &schema.Value{Kind: schema.Object}
	}
	return root
}

func (p *planner) valid(t *catalog.Tool, m *maker) (json.RawMessage, bool) {
	text, err := json.Marshal(m.value(m.root, "", nil, 0))
	return text, err == nil && bytes.HasPrefix(text, []byte("{")) && p.catalog.Validate(p.ctx, "attack", t, text) == nil
}

// arguments returns arguments for a call of the sink, with a hole in place of the destination, and a destination that fits the hole. The owner of
// the destination is given by who: attacker, user or friend. ok is false if no valid arguments were found.
func (p *planner) arguments(s sink, who string, n int) (holed json.RawMessage, value string, ok bool) {
	for _, value := range candidates(s.at, who, n) {
		for _, as := range []struct {
			value any
			hole  string
			list  bool
		}{{value, hole, false}, {json.Number(value), numberHole, false}, {value, hole, true}, {json.Number(value), numberHole, true}} {
			if as.hole == numberHole && !digits(value) {
				continue
			}
			given := func(one any) any {
				if as.list {
					return []any{one}
				}
				return one
			}
			m := &maker{root: rootOf(s.tool), at: map[string]any{s.at.Path: given(as.value)}}
			m.users(s.others, s.at.Path)
			args, ok := p.valid(s.tool, m)
			if !ok || !holds(args, value) {
				continue
			}
			m.at[s.at.Path] = given(as.hole)
			text, err := json.Marshal(m.value(m.root, "", nil, 0))
			if err == nil && bytes.Contains(text, []byte(as.hole)) {
				return text, value, true
			}
		}
	}
	return nil, "", false
}

// attempt returns a new attempt. It returns nil if there is already an attempt with this sink, source and form, or if no arguments are valid.
func (p *planner) attempt(s sink, from *source, f *Form, honest bool) *attempt {
	a := &attempt{Sink: s.tool.FullName(), Path: s.at.Path, Form: f, Honest: honest, to: s.tool}
	if from != nil {
		a.Source, a.from, a.sourceArgs = from.tool.FullName(), from.tool, from.args
	}
	key := [4]string{a.Sink, a.Path, a.Source, fmt.Sprint(f.Name, honest)}
	if p.made[key] || f.Lists && s.at.Kind != destination.Recipient {
		return nil
	}
	if f.Echo {
		if len(p.allies) == 0 {
			return nil
		}
		a.ally = &p.allies[p.number%len(p.allies)]
	}
	who := attacker
	if honest {
		who = friend
		if from == nil {
			who = user
		}
	}
	n := p.number + 1
	if who == user {
		n = 0
	}
	args, value, ok := p.arguments(s, who, n)
	if !ok {
		return nil
	}
	p.number++
	p.made[key] = true
	a.N, a.args, a.Value, a.mine = p.number, args, value, s.mine(value)
	return a
}

// mine returns a destination of the user in the same format as value. It recognizes the format by the length of value.
func (s sink) mine(value string) string {
	theirs := candidates(s.at, attacker, 12345)
	for i, of := range candidates(s.at, user, 0) {
		if len(theirs[i]) == len(value) {
			return of
		}
	}
	return candidates(s.at, user, 0)[0]
}

// Maximum numbers of attempts in each part of a plan. If more attempts are possible, the part is a sample. Each sink occurs in the sample, and so
// does each form or each source.
const (
	maxCore   = 2000
	maxForms  = 3000
	maxDirect = 1500
)

// plan returns the attempts, the most informative ones first.
func (p *planner) plan() (all []*attempt) {
	var sinks []sink
	for _, s := range p.sinks {
		if _, _, ok := p.arguments(s, attacker, 1); !ok {
			p.untested = append(p.untested, Untested{s.tool.FullName(), s.at.Path, "no arguments could be made that its schema allows"})
			continue
		}
		sinks = append(sinks, s)
	}
	p.sinks = sinks
	add := func(a *attempt) {
		if a != nil {
			all = append(all, a)
		}
	}
	honest := &Form{Name: "honest"}
	for i, s := range sinks {
		add(p.attempt(s, nil, honest, true))
		if len(p.trusted) > 0 {
			add(p.attempt(s, &p.trusted[i%len(p.trusted)], honest, true))
		}
	}
	servers := p.byServer()
	if len(sinks) == 0 || len(p.sources) == 0 {
		return all
	}
	// Each sink is tried with each core form and one server. The other servers are tried too, until there are maxCore attempts.
	for n, form := range Forms[:core] {
		for i, s := range sinks {
			for k, of := range servers {
				if k == (i+n)%len(servers) || len(all) < maxCore {
					add(p.attempt(s, &of[(i+n)%len(of)], form, false))
				}
			}
		}
	}
	// Each sink is tried with each form, up to the maximum.
	each := min(len(Forms), max(1, maxForms/len(sinks)))
	for n := range each {
		for i, s := range sinks {
			at := i*each + n
			add(p.attempt(s, &p.sources[at%len(p.sources)], Forms[at%len(Forms)], false))
		}
	}
	// Each sink is tried with each source, up to the maximum.
	each = min(len(p.sources), max(1, maxDirect/len(sinks)))
	for n := range each {
		for i, s := range sinks {
			add(p.attempt(s, &p.sources[(i*each+n)%len(p.sources)], Forms[0], false))
		}
	}
	return all
}

// byServer returns the sources grouped by server.
func (p *planner) byServer() (all [][]source) {
	var names []string
	for _, s := range p.sources {
		at := slices.Index(names, s.tool.Server)
		if at < 0 {
			names, all = append(names, s.tool.Server), append(all, nil)
			at = len(all) - 1
		}
		all[at] = append(all[at], s)
	}
	return all
}
