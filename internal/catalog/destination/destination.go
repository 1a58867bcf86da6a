// Package destination finds the arguments of tools that say where a call sends data or money: recipients, channels, URLs, accounts, repositories.
//
// It judges by the tool's definition alone: names of arguments, their formats, types and descriptions, and the annotations and the name of the tool.
// The same definition always gives the same destinations. A tool that writes or sends has destinations of every kind. A tool that only reads has
// none, except URLs if it reads in an open world: what a program writes into a URL reaches the host.
//
// The rules are lists of words (words.go). They are a default that a person reviews, and that the configuration can replace for a tool. Destinations
// are not found in arguments with other names, nor in arguments that are code or a query.
package destination

import (
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/catalog/schema"
	"mcp-code-exec-harness/internal/jsonpath"
	"mcp-code-exec-harness/internal/startup"
)

// Kind says what a destination is, such as a recipient or a URL.
type Kind string

// The kinds of destinations.
const (
	Recipient  Kind = "recipient"
	Channel    Kind = "channel"
	URL        Kind = "URL"
	Account    Kind = "account"
	Repository Kind = "repository"
)

// Tool is the definition of a tool.
type Tool struct {
	Name, Description string
	Input             *schema.Value // JSON Schema of the arguments; may be nil
	ReadOnly          *bool         // claim of the server; nil if it makes none
	OpenWorld         bool
}

// Destination is an argument that says where a call sends something.
type Destination struct {
	Path   string          `json:"path" example:"$.to"`
	Kind   Kind            `json:"kind"`
	Reason string          `json:"because" example:"named to"`
	Steps  []jsonpath.Step `json:"-"`
}

// Limits of the search in a schema. Destinations beyond them are not found.
const (
	maxDepth        = 12
	maxSchemas      = 5000
	maxDestinations = 64
)

// Of returns the destinations of a tool, in the order of its schema.
func Of(t Tool) []Destination {
	f := &finder{tool: t, root: t.Input, left: maxSchemas}
	f.verbs = words(t.Name)
	f.writes = writes(t.ReadOnly, f.verbs)
	if removes(f.verbs) || !f.writes && !t.OpenWorld {
		return nil
	}
	f.sends, f.pays = anyOf(f.verbs, sending), anyOf(f.verbs, paying) || anyOf(words(t.Description), paying)
	f.object(place{path: "$"}, t.Input, nil)
	return f.found
}

// Reads reports whether a tool only reads. The claim of the server decides, or else the tool's name. A tool whose name says that it removes something
// never counts as reading.
func Reads(name string, claim *bool) bool {
	return !writes(claim, words(name)) && !removes(words(name))
}

// writes reports whether a tool may change or send something. The claim of the server decides, or else the first verb of the tool's name. In a name
// with "and" or "or", one verb that writes is enough. A tool without a claim and without a known verb may write.
func writes(claim *bool, name []string) bool {
	if claim != nil {
		return !*claim
	}
	if slices.Contains(name, "and") || slices.Contains(name, "or") {
		return anyOf(name, writing) || !anyOf(name, reading)
	}
	for _, word := range name {
		switch {
		case reading[word]:
			return false
		case writing[word]:
			return true
		}
	}
	return true
}

// removes reports whether the first verb of a tool's name means that the tool removes something.
func removes(name []string) bool {
	for _, word := range name {
		switch {
		case removing[word]:
			return true
		case reading[word], writing[word]:
			return false
		}
	}
	return false
}

// finder looks for destinations in a schema.
type finder struct {
	tool                Tool
	root                *schema.Value
	verbs               []string // words of the tool's name
	writes, sends, pays bool     // effects of the tool
	left                int      // number of schemas that may still be searched
	found               []Destination
}

// place is the position of a schema in the arguments.
type place struct {
	path   string
	steps  []jsonpath.Step
	depth  int
	within []*schema.Value // schemas of the objects that contain the value
	in     string          // name of the destination to which the value belongs; "" if there is none
	kind   Kind            // kind of that destination
}

func (p place) property(name string) place {
	step := "." + name
	if !plain().MatchString(name) {
		step = "['" + name + "']"
	}
	return p.step(step, jsonpath.Property(name))
}

func (p place) elements() place {
	all, _ := jsonpath.Parse("$[*]")
	return p.step("[*]", all[0])
}

func (p place) step(text string, s jsonpath.Step) place {
	p.path, p.steps, p.depth = p.path+text, append(slices.Clone(p.steps), s), p.depth+1
	return p
}

// enters reports whether a schema is searched at this place. A schema that refers to itself is searched at most twice on one path.
func (p place) enters(v *schema.Value) bool {
	times := 0
	for _, in := range p.within {
		if in == v {
			times++
		}
	}
	return times < 2
}

var plain = startup.Regexp(`^[^.\[\]*'"]+$`)

// variants returns all schemas that describe one value: a schema, after its reference is resolved, and the members of its anyOf, oneOf and allOf.
func (f *finder) variants(v *schema.Value, depth int) (all []*schema.Value) {
	if f.left--; f.left < 0 || depth > maxDepth {
		return nil
	}
	if v = schema.Follow(f.root, v); !v.Is(schema.Object) {
		return nil
	}
	all = append(all, v)
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		of := v.Get(key)
		if !of.Is(schema.Array) {
			continue
		}
		for _, item := range of.Items {
			all = append(all, f.variants(item, depth+1)...)
		}
	}
	return all
}

// object searches the properties of a value. The argument of has the schemas that describe the value; nil stands for the variants of v.
func (f *finder) object(at place, v *schema.Value, of []*schema.Value) {
	if of == nil {
		of = f.variants(v, at.depth)
	}
	var properties []schema.Member
	for _, v := range of {
		if p := v.Get("properties"); p.Is(schema.Object) && at.enters(v) {
			properties = append(properties, p.Members...)
			at.within = append(slices.Clone(at.within), v)
		}
	}
	names := map[string]bool{}
	for _, p := range properties {
		names[strings.Join(words(p.Name), " ")] = true
	}
	for _, p := range properties {
		f.value(at.property(p.Name), p.Name, p.Value, names)
	}
}

// value searches a property. If the property is a list, it also searches the elements, under the name of the property.
func (f *finder) value(at place, name string, v *schema.Value, siblings map[string]bool) {
	if at.depth > maxDepth {
		return
	}
	a := argument{name: name, words: words(name), siblings: siblings, of: f.variants(v, 0)}
	a.describe()
	if a.fixed {
		return
	}
	kind, reason := at.kind, "part of "+at.in
	k, why, is := f.judge(at, &a)
	if is {
		kind, reason = k, why
		if at.in == "" && !a.message() {
			at.in, at.kind = name, k
		}
	} else {
		is = at.in != "" && (addressParts[strings.Join(a.words, " ")] || len(siblings) == 1)
	}
	if a.scalar && is && len(f.found) < maxDestinations &&
		!slices.ContainsFunc(f.found, func(d Destination) bool { return d.Path == at.path }) {
		f.found = append(f.found, Destination{at.path, kind, reason, at.steps})
	}
	if len(a.objects) > 0 {
		f.object(at, nil, a.objects)
	}
	for _, items := range a.lists {
		f.value(at.elements(), name, items, siblings)
	}
}

// argument is a property as its schema describes it.
type argument struct {
	name        string
	words       []string
	siblings    map[string]bool // names of the properties beside it, in words
	of          []*schema.Value
	description string
	format      string
	scalar      bool // reports that the value may be a string, a number or a list of them, or that the schema names no type
	number      bool // reports that the value may be a number or a list of numbers, but no string
	fixed       bool // reports that the schema lists the possible values, or that the value is true or false
	objects     []*schema.Value
	lists       []*schema.Value // schemas of elements that are objects or lists
}

func (a *argument) describe() {
	texts, numbers, others := false, false, false
	for _, v := range a.of {
		if text := v.Get("description").String(); a.description == "" {
			a.description = strings.ToLower(text)
		}
		if text := v.Get("format").String(); a.format == "" {
			a.format = text
		}
		if v.Get("enum") != nil || v.Get("const") != nil {
			a.fixed = true
		}
		types := v.Get("type").Strings()
		if types == nil && v.Get("properties") == nil && v.Get("items") == nil && v.Get("anyOf") == nil && v.Get("oneOf") == nil && v.Get("allOf") == nil {
			texts = true
		}
		for _, t := range types {
			switch t {
			case "string":
				texts = true
			case "integer", "number":
				numbers = true
			case "boolean":
				others = true
			}
		}
		if v.Get("properties") != nil {
			a.objects = append(a.objects, v)
		}
		list := v.Get("items")
		switch elements := list.Get("type").Strings(); {
		case list == nil:
			texts = texts || slices.Contains(types, "array")
		case slices.Contains(elements, "string"):
			texts = true
			a.fixed = a.fixed || list.Get("enum") != nil
		case slices.Contains(elements, "integer"), slices.Contains(elements, "number"):
			numbers = true
		case len(elements) == 0 && list.Get("properties") == nil && list.Get("$ref") == nil && list.Get("anyOf") == nil && list.Get("oneOf") == nil && list.Get("allOf") == nil:
			texts = true
		default:
			a.lists = append(a.lists, list)
		}
	}
	a.scalar, a.number = texts || numbers, numbers && !texts
	a.fixed = a.fixed && len(a.objects)+len(a.lists) == 0 || others && !a.scalar
}

// message reports whether the elements of an argument such as emails are messages, not recipients.
func (a *argument) message() bool {
	return slices.ContainsFunc(slices.Concat(a.objects, a.lists), func(v *schema.Value) bool {
		p := v.Get("properties")
		return p.Get("to") != nil || p.Get("subject") != nil || p.Get("body") != nil || p.Get("text") != nil
	})
}

// judge returns the kind of destination that an argument is, and the reason.
func (f *finder) judge(at place, a *argument) (kind Kind, reason string, ok bool) {
	named := "named " + a.name
	if f.writes {
		kind = f.named(at, a)
	} else if matches(a.words, addresses, urlTails) && !a.number {
		kind = URL
	}
	switch {
	case kind != "":
		return kind, named, true
	case !a.scalar:
		return "", "", false
	case urlFormats[a.format]:
		return URL, "format " + a.format, true
	case !f.writes:
		return "", "", false
	case a.format == "email" || a.format == "idn-email":
		if !senders(a.words) {
			return Recipient, "format " + a.format, true
		}
	case !a.number && !senders(a.words) && !anyOf(a.words, contents):
		for _, d := range descriptions {
			if said := d.says().FindString(a.description); said != "" && !strings.Contains(a.description, "sender") {
				return d.kind, `described as "` + said + `"`, true
			}
		}
	}
	return "", "", false
}

// named returns the kind of destination that the name of an argument indicates, or "" if it indicates none.
func (f *finder) named(at place, a *argument) Kind {
	last := a.words
	if senders(last) || ownAccount().MatchString(a.description) {
		return ""
	}
	switch {
	case f.directed(at, a), matches(last, people, idTails), matches(last, mails, addressTails), matches(last, phones, addressTails):
		return Recipient
	case f.sends && matches(last, persons, idTails), matches(last, postal, addressTails), (f.sends || f.pays) && matches(last, places, addressTails):
		return Recipient
	case matches(last, channels, idTails) && !f.makes(last), anyOf(f.verbs, publishing) && matches(last, queues, idTails),
		matches(last, hooks, idTails) && last[len(last)-1] == "id", f.sends && matches(last, threads, idTails) && !f.addressed(a):
		return Channel
	case matches(last, accounts, idTails), matches(last, ledgers, idTails) && (f.pays || toward(last)):
		return Account
	case !a.number && matches(last, addresses, urlTails), !a.number && matches(last, hosts, urlTails), matches(last, connections, urlTails):
		return URL
	case matches(last, repositories, idTails), matches(last, owners, idTails) && f.beside(a):
		return Repository
	case matches(last, projects, idTails) && strings.Contains(a.description, "url-encoded path"):
		return Repository
	case matches(last, ends, idTails) && !otherEnds().MatchString(a.description) && (f.pays || !a.siblings["source"]):
		return Recipient
	case len(last) == 1 && last[0] == "number" && strings.Contains(a.description, "phone"):
		return Recipient
	}
	return ""
}

// directed reports whether the name of an argument is "to", or a name such as sendTo or to_user.
func (f *finder) directed(place place, a *argument) bool {
	at := slices.Index(a.words, "to")
	if at < 0 || a.format != "" && !strings.Contains(a.format, "email") || otherEnds().MatchString(a.description) ||
		!a.scalar && (a.siblings["from"] || strings.Contains(strings.ToLower(place.path), "associations")) {
		return false // the name has no word "to", or the argument is the end of a range or relation
	}
	before, after := a.words[:at], a.words[at+1:]
	for _, word := range after {
		if !idTails[word] && !addressTails[word] && !people[word] && !persons[word] && !channels[word] && !ledgers[word] && !phones[word] && !mails[word] {
			return false
		}
	}
	return len(before) == 0 && (len(after) > 0 || !a.number || f.sends) || len(before) > 0 && directing[before[len(before)-1]] && len(before) <= 2
}

// makes reports whether a name is the name of a new thing, such as channelName for a tool that makes a channel.
func (f *finder) makes(name []string) bool {
	return making[f.first()] && name[len(name)-1] == "name" && len(name) > 1 && slices.Contains(f.verbs, name[len(name)-2])
}

// first returns the first verb of the tool's name.
func (f *finder) first() string {
	for _, word := range f.verbs {
		if reading[word] || writing[word] {
			return word
		}
	}
	return ""
}

// addressed reports whether another argument names the recipient or the channel.
func (f *finder) addressed(a *argument) bool {
	for name := range a.siblings {
		if of := strings.Fields(name); name == "to" || matches(of, people, idTails) || matches(of, channels, idTails) {
			return true
		}
	}
	return false
}

// beside reports whether another argument is a repository.
func (f *finder) beside(a *argument) bool {
	for name := range a.siblings {
		if matches(strings.Fields(name), repositories, idTails) {
			return true
		}
	}
	return false
}
