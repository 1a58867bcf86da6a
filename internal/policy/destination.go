package policy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/catalog/destination"
	"mcp-code-exec-harness/internal/jsonpath"
)

// Default is an element of Rule.Destinations that stands for the destinations of the called tool: those in Servers.Destinations, or else those of the
// tool's definition (package destination).
const Default = "default"

// Servers is the configuration of servers that a policy needs.
type Servers struct {
	// Untrusted are patterns of full names of tools, such as mail__*, for tools whose answers others can influence. A value that comes only from such
	// answers is not a trusted destination.
	Untrusted []string
	// Destinations maps full names of tools, in which * stands for any text, to paths. The paths replace the destinations of the tool's definition; a
	// tool with an empty list has none.
	Destinations map[string][]string
}

// override replaces the destinations of tools by configured ones.
type override struct {
	tools        pattern
	destinations []destination.Destination
}

// overrides returns the overrides of a configuration, the longest pattern first.
func overrides(of map[string][]string) (all []override) {
	longest := func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) }
	for _, tools := range slices.SortedFunc(maps.Keys(of), longest) {
		o := override{tools: fullPattern(tools)}
		for _, path := range of[tools] {
			if steps, err := jsonpath.Parse(path); err == nil { // CheckDestinations has reported the error
				o.destinations = append(o.destinations, destination.Destination{Path: path, Kind: "configured", Reason: "the configuration says so", Steps: steps})
			}
		}
		all = append(all, o)
	}
	return all
}

// CheckDestinations returns an error if a path of a tool's destinations is invalid.
func CheckDestinations(paths []string) error {
	for _, path := range paths {
		if _, err := jsonpath.Parse(path); err != nil {
			return fmt.Errorf("%q: %w", path, err)
		}
	}
	return nil
}

// Destinations returns the destinations of a tool for rules with Default: configured ones if there are any, else those of its definition.
func (p *Policy) Destinations(tool string, defined []destination.Destination) []destination.Destination {
	if len(p.destinations) == 0 {
		return defined
	}
	name := full("", tool)
	for _, o := range p.destinations {
		if o.tools.match(name) {
			return o.destinations
		}
	}
	return defined
}

// asDestination is the only value of Tokens.As.
const asDestination = "destination"

// addressed reports whether a token comes from the user and serves only as an address: each occurrence of the token in the arguments is a whole value
// at a destination of the tool. Such a token says where the call sends something; it is not what is sent.
func (c *Call) addressed(token string) bool {
	if c.Origin == nil || !slices.Contains(c.Origin(token).Said, userOrigin) {
		return false
	}
	at := &condition{Condition: Condition{Equals: []string{token}}, defaults: true, allows: true}
	found := look(c, []*rule{{conditions: []*condition{at}}})
	if found == nil {
		return false
	}
	places := 0
	for dec := json.NewDecoder(bytes.NewReader(c.Args)); ; { // names of properties are read too
		next, err := dec.Token()
		if err != nil {
			break // the end of the arguments, because look has already parsed them
		}
		if text, ok := next.(string); ok {
			places += strings.Count(text, token)
		}
	}
	seen := found.conditions[at]
	return seen.holding > 0 && seen.alike == 0 && seen.holding == places
}
