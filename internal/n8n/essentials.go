package n8n

import (
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/startup"
)

// Bounds of the essentials of a node.
const (
	maxEssentials  = 8   // maximum number of properties
	maxChoices     = 12  // maximum number of choices of a property
	maxOperations  = 240 // maximum size in bytes of the operations of all resources
	maxDescription = 90  // maximum size of a description in bytes
)

var tags = startup.Regexp(`<[^>]*>`)

// plainText returns a description without markup, in one line.
func plainText(s string, limit int) string {
	s = strings.Join(strings.Fields(tags().ReplaceAllString(s, "")), " ")
	if len(s) > limit {
		s = clip.Text(s, limit) + "…"
	}
	return s
}

// operations returns the operations by resource ("" for a node without resources), and the resources.
func (t *nodeType) operations(v float64) (byResource map[string][]string, resources []string) {
	byResource = map[string][]string{}
	for _, p := range t.Properties {
		if p.Name == "resource" && (setting{version: v}).showsVersion(p.Display) {
			for _, o := range p.Options {
				if value, is := o.Value.(string); is && !slices.Contains(resources, value) {
					resources = append(resources, value)
				}
			}
		}
	}
	for _, p := range t.Properties {
		if p.Name != "operation" || !(setting{version: v}).showsVersion(p.Display) {
			continue
		}
		of := []string{""}
		if list := p.Display.Show["resource"]; list != nil {
			of = nil
			for _, r := range list {
				if s, is := r.(string); is {
					of = append(of, s)
				}
			}
		}
		for _, r := range of {
			for _, o := range p.Options {
				if value, is := o.Value.(string); is && !slices.Contains(byResource[r], value) {
					byResource[r] = append(byResource[r], value)
				}
			}
		}
	}
	return byResource, resources
}

// showsVersion does the same as shows, but considers only the version.
func (s setting) showsVersion(d display) bool {
	only := display{Show: map[string][]any{}, Hide: map[string][]any{}}
	if want := d.Show["@version"]; want != nil {
		only.Show["@version"] = want
	}
	if want := d.Hide["@version"]; want != nil {
		only.Hide["@version"] = want
	}
	return s.shows(only)
}

// choices returns the values of a property's options.
func (p *property) choices() []any {
	var all []any
	for _, o := range p.Options {
		all = append(all, o.Value)
	}
	return all
}

func (p *property) hasChoices() bool { return p.Type == "options" || p.Type == "multiOptions" }

// dynamic reports whether the choices come from the service that the node uses, so that they are unknown here.
func (p *property) dynamic() bool {
	return p.TypeOptions["loadOptionsMethod"] != nil || p.TypeOptions["loadOptions"] != nil || p.Arbitrary || len(p.Options) == 0
}

// brief returns a property in the form of essentials. known is true if its choices are shown elsewhere.
func (p *property) brief(limit int, known bool) object {
	out := object{"name": p.Name, "type": p.Type}
	if p.Required {
		out["required"] = true
	}
	switch d := p.Default.(type) {
	case nil:
	case string:
		if d != "" && len(d) <= 60 {
			out["default"] = d
		}
	case bool, float64:
		out["default"] = d
	case object:
		if mode := text(d, "mode"); mode != "" {
			out["mode"] = mode
		}
	}
	if p.hasChoices() && !p.dynamic() && !known {
		all := p.choices()
		out["options"] = all[:min(limit, len(all))]
		if more := len(all) - limit; more > 0 {
			out["moreOptions"] = more
		}
	}
	if d := p.describe(); d != "" {
		out["description"] = d
	}
	return out
}

// describe returns a property's description if it says more than the name of the property.
func (p *property) describe() string {
	if p.hasChoices() && !p.dynamic() || p.Type == "boolean" || p.Type == "collection" {
		return ""
	}
	d := plainText(p.Description, maxDescription)
	said := fold(d)
	for _, name := range []string{p.Name, p.DisplayName} {
		if said == fold(name) || said == "the"+fold(name) {
			return ""
		}
	}
	return d
}

// essentials returns what is needed to configure a node for the chosen resource and operation. If none are chosen, the default resource and operation
// count.
func (t *nodeType) essentials(v float64, tool bool, chosen object) object {
	params := t.filled(chosen, v, tool)
	byResource, resources := t.operations(v)
	out := object{"name": t.Name, "displayName": t.DisplayName, "description": plainText(t.Description, 160), "version": v}
	if len(resources) > 0 || len(byResource) > 0 {
		out["operations"] = t.shownOperations(byResource, resources, chosen)
	}
	shown := t.visible(params, v, tool)
	slices.SortStableFunc(shown, func(a, b *property) int { return rank(a) - rank(b) })
	properties := []object{}
	left := len(shown)
	for _, p := range shown {
		if len(properties) == maxEssentials {
			break
		}
		known := p.Name == "resource" || p.Name == "operation"
		b := p.brief(maxChoices, known)
		if known {
			delete(b, "type")
			b["value"] = params[p.Name]
			delete(b, "default")
		}
		properties = append(properties, b)
		left--
	}
	out["properties"] = properties
	if left > 0 {
		out["moreProperties"] = left
	}
	if names := t.credentialNames(params, v, tool); len(names) > 0 {
		out["credentials"] = names
	}
	return out
}

// rank orders properties: first those that determine others, then required and ordinary ones, and optional collections last.
func rank(p *property) int {
	switch {
	case p.Name == "resource":
		return 0
	case p.Name == "operation":
		return 1
	case p.Required:
		return 2
	case p.Name == "authentication" || p.Type == "hidden":
		return 5
	case p.Type == "collection" || p.Type == "fixedCollection" && p.Name == "options":
		return 4
	}
	return 3
}

// shownOperations returns operations by resource, as in {resource: "a, b"}. If a resource is chosen, the answer has only the operations of that
// resource. Otherwise it has the operations of as many resources as fit, and the names of the remaining resources.
func (t *nodeType) shownOperations(byResource map[string][]string, resources []string, chosen object) object {
	out := object{}
	if len(resources) == 0 {
		resources = []string{""}
	}
	if r := text(chosen, "resource"); r != "" {
		resources = []string{r}
	}
	size, left := 0, []string{}
	for _, r := range resources {
		ops := strings.Join(append(slices.Clone(byResource[r]), byResource[""]...), ", ")
		if r == "" {
			ops = strings.Join(byResource[""], ", ")
		}
		if size += len(ops) + len(r); size > maxOperations && len(out) > 0 {
			left = append(left, r)
			continue
		}
		if r == "" {
			r = "all"
		}
		out[r] = clip.Text(ops, 2*maxOperations)
	}
	if len(left) > 0 {
		out["moreResources"] = clip.Text(strings.Join(left, ", "), 2*maxOperations)
	}
	return out
}

// credentialNames returns the types of credentials that a node accepts with these parameters.
func (t *nodeType) credentialNames(params object, v float64, tool bool) []string {
	names := []string{}
	at := setting{root: params, beside: params, version: v, tool: tool}
	for _, c := range t.Credentials {
		if at.shows(c.Display) && !slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
	}
	return names
}
