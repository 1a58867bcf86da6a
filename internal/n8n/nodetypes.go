package n8n

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// nodeType is one description of a node. It is valid for the versions in Version, which have the same properties.
type nodeType struct {
	Name           string         `json:"name"` // name with its package: n8n-nodes-base.slack
	DisplayName    string         `json:"displayName"`
	Description    string         `json:"description"`
	Group          []string       `json:"group"`
	Version        versions       `json:"version"`
	DefaultVersion float64        `json:"defaultVersion,omitempty"`
	Inputs         any            `json:"inputs"`  // a list, or an expression that evaluates to a list
	Outputs        any            `json:"outputs"` // like Inputs
	Credentials    []credential   `json:"credentials,omitempty"`
	Properties     []property     `json:"properties"`
	Codex          codex          `json:"codex,omitzero"`
	Hidden         bool           `json:"hidden,omitempty"`
	UsableAsTool   any            `json:"usableAsTool,omitempty"`
	Webhooks       []any          `json:"webhooks,omitempty"`
	Polling        bool           `json:"polling,omitempty"`
	Defaults       map[string]any `json:"defaults,omitempty"`
}

// versions are one or several version numbers.
type versions []float64

// UnmarshalJSON reads one number or a list of numbers.
func (v *versions) UnmarshalJSON(data []byte) error {
	var one float64
	if json.Unmarshal(data, &one) == nil {
		*v = versions{one}
		return nil
	}
	var all []float64
	err := json.Unmarshal(data, &all)
	*v = all
	return err
}

type codex struct {
	Categories    []string `json:"categories,omitempty"`
	Subcategories any      `json:"subcategories,omitempty"` // lists by category; the index uses their words
	Alias         []string `json:"alias,omitempty"`
}

type credential struct {
	Name     string  `json:"name"`
	Required bool    `json:"required,omitempty"`
	Display  display `json:"displayOptions,omitzero"`
}

// property is a parameter of a node. Options are properties for a collection, groups of values for a fixedCollection, and choices otherwise.
type property struct {
	Name        string         `json:"name"`
	DisplayName string         `json:"displayName"`
	Type        string         `json:"type"`
	Default     any            `json:"default,omitempty"`
	Required    bool           `json:"required,omitempty"`
	Description string         `json:"description,omitempty"`
	Options     []option       `json:"options,omitempty"`
	Display     display        `json:"displayOptions,omitzero"`
	TypeOptions map[string]any `json:"typeOptions,omitempty"`
	Modes       []option       `json:"modes,omitempty"`
	Placeholder string         `json:"placeholder,omitempty"`
	Arbitrary   bool           `json:"allowArbitraryValues,omitempty"`
}

// option is a choice (Name, Value), a property of a collection, or a group of a fixedCollection (Name, Values).
type option struct {
	Name        string     `json:"name"`
	DisplayName string     `json:"displayName,omitempty"`
	Value       any        `json:"value,omitempty"`
	Description string     `json:"description,omitempty"`
	Values      []property `json:"values,omitempty"`
	Display     display    `json:"displayOptions,omitzero"`

	Type        string         `json:"type,omitempty"`
	Default     any            `json:"default,omitempty"`
	Required    bool           `json:"required,omitempty"`
	Options     []option       `json:"options,omitempty"`
	TypeOptions map[string]any `json:"typeOptions,omitempty"`
	Modes       []option       `json:"modes,omitempty"`
	Placeholder string         `json:"placeholder,omitempty"`
}

func (o option) property() property {
	return property{
		Name: o.Name, DisplayName: o.DisplayName, Type: o.Type, Default: o.Default, Required: o.Required, Description: o.Description, Options: o.Options,
		Display: o.Display, TypeOptions: o.TypeOptions, Modes: o.Modes, Placeholder: o.Placeholder,
	}
}

// display specifies for which values of other properties a property is shown.
type display struct {
	Show map[string][]any `json:"show,omitempty"`
	Hide map[string][]any `json:"hide,omitempty"`
}

func (t *nodeType) has(v float64) bool { return slices.Contains(t.Version, v) }

// short returns the name without its package.
func (t *nodeType) short() string { return shortType(t.Name) }

func shortType(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

// nodeTypes are the nodes of an installation. A nil *nodeTypes knows no nodes.
type nodeTypes struct {
	Version string      `json:"version"` // version of the source
	Types   []*nodeType `json:"types"`

	byName map[string][]*nodeType // descriptions by name of the node, oldest first
	names  []string
	folded map[string][]string
	index  func() *nodeIndex
}

// build computes the indexes of Types. It drops the second entry that n8n lists for a node usable by agents: the node as a tool.
func (ts *nodeTypes) build() *nodeTypes {
	ts.byName, ts.folded = map[string][]*nodeType{}, map[string][]string{}
	for _, t := range ts.Types {
		ts.byName[t.Name] = append(ts.byName[t.Name], t)
	}
	for name := range ts.byName {
		base, is := strings.CutSuffix(name, "Tool")
		if is && ts.byName[base] != nil {
			delete(ts.byName, name)
		}
	}
	ts.names = slices.Sorted(maps.Keys(ts.byName))
	for _, name := range ts.names {
		slices.SortFunc(ts.byName[name], func(a, b *nodeType) int { return cmp.Compare(slices.Max(a.Version), slices.Max(b.Version)) })
		for _, form := range []string{name, shortType(name), ts.current(name).DisplayName} {
			form = fold(form)
			if !slices.Contains(ts.folded[form], name) {
				ts.folded[form] = append(ts.folded[form], name)
			}
		}
	}
	ts.index = onceIndex(ts)
	return ts
}

func fold(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, name)
}

// current returns the version of a node that n8n uses for new nodes; nil for an unknown name.
func (ts *nodeTypes) current(name string) *nodeType {
	if ts == nil {
		return nil
	}
	all := ts.byName[name]
	if len(all) == 0 {
		return nil
	}
	newest := all[len(all)-1]
	for _, t := range all {
		if t.has(newest.DefaultVersion) {
			return t
		}
	}
	return newest
}

// at returns the description of a version of a node; nil if there is none. For a node as a tool, it returns the description of the node.
func (ts *nodeTypes) at(name string, v float64) *nodeType {
	for _, t := range ts.byName[ts.base(name)] {
		if t.has(v) {
			return t
		}
	}
	return nil
}

// base returns the name of a node, given its name or the name that it has as a tool of an agent.
func (ts *nodeTypes) base(name string) string {
	if base, is := strings.CutSuffix(name, "Tool"); is && len(ts.byName[name]) == 0 && len(ts.byName[base]) > 0 {
		return base
	}
	return name
}

// asTool reports whether a name is that of a node as a tool of an agent.
func (ts *nodeTypes) asTool(name string) bool { return ts != nil && ts.base(name) != name }

// versionsOf returns all versions of a node, in ascending order.
func (ts *nodeTypes) versionsOf(name string) []float64 {
	var all []float64
	for _, t := range ts.byName[ts.base(name)] {
		all = append(all, t.Version...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// defaultVersion returns the version of a new node; 1 if the node is unknown.
func (ts *nodeTypes) defaultVersion(name string) float64 {
	if ts == nil {
		return 1
	}
	t := ts.current(ts.base(name))
	if t == nil {
		return 1
	}
	if t.DefaultVersion != 0 && t.has(t.DefaultVersion) {
		return t.DefaultVersion
	}
	return slices.Max(t.Version)
}

// find returns the exact name of a node for a name that a caller wrote: with or without the package, in any case, or the display name.
func (ts *nodeTypes) find(name string) (string, bool) {
	if len(ts.byName[ts.base(name)]) > 0 {
		return name, true
	}
	name = strings.TrimPrefix(name, "nodes-base.")
	if all := ts.folded[fold(name)]; len(all) > 0 {
		best := slices.MinFunc(all, func(a, b string) int { // a base node before a langchain node
			return cmp.Or(cmp.Compare(strings.Count(a, "/"), strings.Count(b, "/")), strings.Compare(a, b))
		})
		return best, true
	}
	return "", false
}

// nearest returns up to n names that resemble an unknown name.
func (ts *nodeTypes) nearest(name string, n int) []string {
	want := pairs(fold(shortType(name)))
	type scored struct {
		name  string
		score float64
	}
	var all []scored
	for _, known := range ts.names {
		if s := likeness(want, pairs(fold(shortType(known)))); s > 0.4 {
			all = append(all, scored{known, s})
		}
	}
	slices.SortStableFunc(all, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
	out := []string{}
	for _, s := range all[:min(n, len(all))] {
		out = append(out, s.name)
	}
	return out
}

// pairs returns the pairs of adjacent letters in a name.
func pairs(s string) map[string]bool {
	out := map[string]bool{}
	for i := 0; i+2 <= min(len(s), 200); i++ {
		out[s[i:i+2]] = true
	}
	return out
}

// likeness returns Dice's coefficient of two sets.
func likeness(a, b map[string]bool) float64 {
	common := 0
	for p := range a {
		if b[p] {
			common++
		}
	}
	return 2 * float64(common) / float64(max(1, len(a)+len(b)))
}

// closest returns the known text that is most similar to a name, or "" if none is similar.
func closest(name string, known []string) string {
	best, score := "", 0.5
	for _, k := range known {
		if s := likeness(pairs(fold(name)), pairs(fold(k))); s > score {
			best, score = k, s
		}
	}
	return best
}
