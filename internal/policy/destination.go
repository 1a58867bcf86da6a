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

// Default stands, among the destinations of a rule, for those of each tool: what its definition says (package destination), or Servers.Destinations.
const Default = "default"

// Servers is what a policy knows of servers.
type Servers struct {
	// Untrusted are full names of tools of which others decide what they say, such as mail__*: what they alone say is no destination.
	Untrusted []string
	// Destinations are paths by full names of tools; * stands for any text. They replace what the definition of a tool says, and none says that it has none.
	Destinations map[string][]string
}

// override is the destinations that the configuration gives to tools.
type override struct {
	tools        pattern
	destinations []destination.Destination
}

// overrides are the destinations of a configuration, the longest pattern first.
func overrides(of map[string][]string) (all []override) {
	longest := func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) }
	for _, tools := range slices.SortedFunc(maps.Keys(of), longest) {
		o := override{tools: fullPattern(tools)}
		for _, path := range of[tools] {
			if steps, err := jsonpath.Parse(path); err == nil { // CheckDestinations has reported it
				o.destinations = append(o.destinations, destination.Destination{Path: path, Kind: "configured", Reason: "the configuration says so", Steps: steps})
			}
		}
		all = append(all, o)
	}
	return all
}

// CheckDestinations reports a mistake in the paths of a tool.
func CheckDestinations(paths []string) error {
	for _, path := range paths {
		if _, err := jsonpath.Parse(path); err != nil {
			return fmt.Errorf("%q: %w", path, err)
		}
	}
	return nil
}

// Destinations are the destinations of a tool for rules with Default: those that its definition says, unless the configuration says others.
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

// asDestination is what Tokens.As can be.
const asDestination = "destination"

// addressed reports whether the user said a token, and each place of it in the arguments is a whole value at a destination of the tool: it says where the
// call sends something, and is not what is sent.
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
	for dec := json.NewDecoder(bytes.NewReader(c.Args)); ; { // names are among them
		next, err := dec.Token()
		if err != nil {
			break // the end: look has read it to there
		}
		if text, ok := next.(string); ok {
			places += strings.Count(text, token)
		}
	}
	seen := found.conditions[at]
	return seen.holding > 0 && seen.alike == 0 && seen.holding == places
}
