package n8n

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// finding is a problem of a workflow or a node.
type finding struct {
	Severity string `json:"severity"` // "error": the workflow or node fails when it runs; "warning": it may fail
	Code     string `json:"code"`
	Node     string `json:"node,omitempty"`
	Path     string `json:"path,omitempty"`
	Message  string `json:"message"`
	Remedy   string `json:"remedy"`
}

func (f finding) String() string {
	s := f.Message + "; " + f.Remedy
	if f.Node != "" && !strings.Contains(f.Message, f.Node) {
		s = fmt.Sprintf("node %q: %s", f.Node, s)
	}
	return s
}

// maxFindings is the maximum number of errors, and of warnings, in a report.
const maxFindings = 100

const (
	severityError   = "error"
	severityWarning = "warning"
)

// findings collects the findings of a check, at most maxFindings errors and as many warnings.
type findings struct {
	errors, warnings []finding
	more             int // number of findings that were dropped
}

func (f *findings) add(one finding) {
	list := &f.errors
	if one.Severity != severityError {
		list = &f.warnings
	}
	if len(*list) >= maxFindings {
		f.more++
		return
	}
	*list = append(*list, one)
}

// all returns the kept findings, errors first.
func (f *findings) all() []finding { return slices.Concat(f.errors, f.warnings) }

// nearest does the same as closest, but returns "" if the list of errors or the list of warnings is full.
func (f *findings) nearest(name string, known []string) string {
	if len(f.errors) >= maxFindings || len(f.warnings) >= maxFindings {
		return ""
	}
	return closest(name, known)
}

// verdict returns the answer of a validation.
func (f *findings) verdict() object {
	out := object{"valid": len(f.errors) == 0, "errors": sentences(f.errors), "warnings": sentences(f.warnings), "findings": append([]finding{}, f.all()...)}
	if f.more > 0 {
		out["moreFindings"] = f.more
	}
	return out
}

func sentences(all []finding) []string {
	out := make([]string, len(all))
	for i, f := range all {
		out[i] = f.String()
	}
	return out
}

// numbers lists versions for a message.
func numbers(all []float64) string {
	out := make([]string, len(all))
	for i, v := range all {
		out[i] = fmt.Sprint(v)
	}
	return strings.Join(out, ", ")
}

func (i *Instance) validateConfig(mode string) func(context.Context, func(), nodeInput) (any, error) {
	return func(ctx context.Context, _ func(), in nodeInput) (any, error) {
		t, v, types, err := i.chosen(ctx, in)
		if err != nil {
			return nil, err
		}
		found := t.checkConfig(in.Config, v, types.asTool(in.NodeType))
		if mode == "minimal" || mode == "" && in.Mode == "minimal" {
			missing := slices.DeleteFunc(found.all(), func(f finding) bool { return f.Code != "missing_parameter" })
			found = &findings{errors: missing}
		}
		return found.verdict(), nil
	}
}

// checkConfig checks the parameters of a node.
func (t *nodeType) checkConfig(config object, v float64, tool bool) *findings {
	c := &configCheck{at: setting{version: v, tool: tool}}
	filled := t.filled(config, v, tool)
	c.at.root = filled
	c.check(t.Properties, config, filled, "parameters")
	return &c.findings
}

// configCheck checks parameters against properties, and the members of collections against their properties.
type configCheck struct {
	at setting
	findings
}

func (c *configCheck) add(severity, code, path, remedy, format string, args ...any) {
	c.findings.add(finding{Severity: severity, Code: code, Path: path, Message: fmt.Sprintf(format, args...), Remedy: remedy})
}

// check compares given values with properties. filled are the values with defaults filled in.
func (c *configCheck) check(properties []property, given, filled object, path string) {
	at := c.at
	at.beside = filled
	shown := map[string][]*property{}
	known := []string{}
	hidden := map[string]*property{}
	for i := range properties {
		p := &properties[i]
		if p.Type == "notice" || p.Type == "callout" || p.Type == "button" {
			continue
		}
		if at.shows(p.Display) {
			if shown[p.Name] == nil {
				known = append(known, p.Name)
			}
			shown[p.Name] = append(shown[p.Name], p)
		} else {
			hidden[p.Name] = p
		}
	}
	for _, name := range known {
		p := shown[name][len(shown[name])-1]
		value, has := given[name]
		here := path + "." + name
		if p.Required && empty(value, p) && (has || empty(p.Default, p)) && !isExpression(value) {
			c.add("error", "missing_parameter", here, p.remedy(), "the required parameter %s is missing", name)
			continue
		}
		if has {
			c.value(shown[name], value, here)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		switch {
		case len(shown[name]) > 0 || name == "notice":
		case hidden[name] != nil:
			if !equal(given[name], hidden[name].Default) && !empty(given[name], hidden[name]) {
				c.add("warning", "hidden_parameter", path+"."+name, shownFor(hidden[name].Display),
					"the parameter %s has no effect with the others as they are", name)
			}
		default:
			remedy := "remove it; get_node_properties lists those that there are"
			if near := c.nearest(name, known); near != "" {
				remedy = "did you mean " + near + "?"
			}
			c.add("warning", "unknown_parameter", path+"."+name, remedy, "there is no parameter %s here", name)
		}
	}
}

// shownFor describes what must be set for a property to be shown.
func shownFor(d display) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(d.Show)) {
		if key != "@version" {
			parts = append(parts, key+" to "+shownValue(d.Show[key]))
		}
	}
	if len(parts) == 0 {
		return "remove it, or use another version of the node"
	}
	return "remove it, or set " + strings.Join(parts, " and ") + " (one of)"
}

// remedy describes how to set a property.
func (p *property) remedy() string {
	switch {
	case p.hasChoices() && !p.dynamic():
		return "set it to one of " + p.listChoices()
	case p.Type == "resourceLocator":
		return `set it to {"__rl": true, "mode": "id", "value": "…"}`
	case p.Placeholder != "":
		return "set it, such as " + plainText(p.Placeholder, 60)
	}
	return "set it to a " + p.Type
}

func (p *property) listChoices() string {
	var all []string
	for _, c := range p.choices() {
		all = append(all, fmt.Sprint(c))
	}
	s := strings.Join(all[:min(len(all), maxChoices)], ", ")
	if more := len(all) - maxChoices; more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	return s
}

func empty(v any, p *property) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == "" && !(p.hasChoices() && slices.Contains(p.choices(), any("")))
	case []any:
		return len(v) == 0
	case object:
		if _, is := v["__rl"]; is || p.Type == "resourceLocator" {
			return v["value"] == nil || v["value"] == ""
		}
		return len(v) == 0
	}
	return false
}

// value checks a value. Several shown properties can have the same name; the value must fit one of them.
func (c *configCheck) value(as []*property, value any, path string) {
	var first findings
	for n, p := range as {
		one := &configCheck{at: c.at}
		one.fits(p, value, path)
		found := one.all()
		if len(found) == 0 {
			return
		}
		if n == 0 {
			first = one.findings
		}
	}
	for _, f := range first.all() {
		c.findings.add(f)
	}
	c.more += first.more
}

func (c *configCheck) fits(p *property, value any, path string) {
	if isExpression(value) || value == nil {
		return
	}
	wrong := func(want string) {
		c.add("error", "wrong_type", path, "set it to "+want+", or to an expression that begins with =", "%s is %s, not %s", path[strings.LastIndexByte(path, '.')+1:], shownValue(value), want)
	}
	multiple, _ := p.TypeOptions["multipleValues"].(bool)
	if list, is := value.([]any); is && multiple && p.Type != "fixedCollection" && p.Type != "collection" {
		for i, v := range list {
			single := *p
			single.TypeOptions = nil
			c.fits(&single, v, fmt.Sprintf("%s[%d]", path, i))
		}
		return
	}
	switch p.Type {
	case "options":
		c.choice(p, value, path)
	case "multiOptions":
		list, is := value.([]any)
		if !is {
			wrong("a list")
			return
		}
		for i, v := range list {
			c.choice(p, v, fmt.Sprintf("%s[%d]", path, i))
		}
	case "boolean":
		if _, is := value.(bool); !is {
			wrong("true or false")
		}
	case "number":
		if _, is := version(value); !is && value != "" {
			wrong("a number")
		}
	case "string", "dateTime", "color":
		switch value.(type) {
		case object, []any:
			wrong("a text")
		}
	case "json":
		if s, is := value.(string); is && s != "" && !json.Valid([]byte(s)) {
			c.add("error", "wrong_type", path, "correct the JSON", "%s is not valid JSON", path[strings.LastIndexByte(path, '.')+1:])
		}
	case "collection":
		o, is := value.(object)
		if !is {
			wrong("an object")
			return
		}
		members := make([]property, len(p.Options))
		for i, option := range p.Options {
			members[i] = option.property()
		}
		c.check(optional(members), o, fill(members, o, c.at), path)
	case "fixedCollection":
		c.groups(p, value, path, multiple, wrong)
	}
}

// optional returns properties that are not required, because n8n adds members of a collection one by one.
func optional(all []property) []property {
	out := slices.Clone(all)
	for i := range out {
		out[i].Required = false
	}
	return out
}

func (c *configCheck) groups(p *property, value any, path string, multiple bool, wrong func(string)) {
	o, is := value.(object)
	if !is {
		wrong("an object")
		return
	}
	for _, name := range slices.Sorted(maps.Keys(o)) {
		at := slices.IndexFunc(p.Options, func(g option) bool { return g.Name == name })
		if at < 0 {
			var names []string
			for _, g := range p.Options {
				names = append(names, g.Name)
			}
			c.add("warning", "unknown_parameter", path+"."+name, "it may hold "+strings.Join(names, ", "), "there is no %s here", name)
			continue
		}
		list, isList := o[name].([]any)
		if !isList {
			list = []any{o[name]}
		}
		for i, v := range list {
			here := path + "." + name
			if multiple {
				here += fmt.Sprintf("[%d]", i)
			}
			values, is := v.(object)
			if !is {
				if !isExpression(v) {
					c.add("error", "wrong_type", here, "set it to an object", "%s is %s, not an object", here, shownValue(v))
				}
				continue
			}
			c.check(p.Options[at].Values, values, fill(p.Options[at].Values, values, c.at), here)
		}
	}
}

// choice checks one value against the choices of a property.
func (c *configCheck) choice(p *property, value any, path string) {
	if p.dynamic() || isExpression(value) {
		return
	}
	for _, choice := range p.choices() {
		if equal(value, choice) {
			return
		}
	}
	name := path[strings.LastIndexByte(path, '.')+1:]
	remedy := "set it to one of " + p.listChoices()
	if s, is := value.(string); is {
		var known []string
		for _, choice := range p.choices() {
			known = append(known, fmt.Sprint(choice))
		}
		if near := closest(s, known); near != "" {
			remedy = "did you mean " + near + "? Choices: " + p.listChoices()
		}
	}
	c.add("error", "invalid_option", path, remedy, "%s is not a choice of %s", shownValue(value), name)
}
