package catalog

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"mcp-code-exec-harness/internal/catalog/ident"
)

// UnknownToolError says that no tool has the name, and which names come closest.
type UnknownToolError struct {
	Name    string
	Closest []string
}

func (e *UnknownToolError) Error() string {
	msg := fmt.Sprintf("Tool not found: %s. Use list_mcp_tools() to see available tools.", shown(e.Name))
	if len(e.Closest) > 0 {
		msg += " Closest: " + strings.Join(e.Closest, ", ")
	}
	return msg
}

// UnknownServerError says that no server has the name, and which there are.
type UnknownServerError struct {
	Name    string
	Closest []string
}

func (e *UnknownServerError) Error() string {
	msg := fmt.Sprintf("server not found: %s. Use introspect_servers() to see available servers.", shown(e.Name))
	if len(e.Closest) > 0 {
		msg += " Closest: " + strings.Join(e.Closest, ", ")
	}
	return msg
}

// AmbiguousError says that a name that is nobody's exact name fits several.
type AmbiguousError struct {
	Name       string
	Candidates []string
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("%s could be any of: %s. Write the exact name.", shown(e.Name), strings.Join(e.Candidates, ", "))
}

// shown is a name from outside, fit for a message.
func shown(name string) string {
	name = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, name)
	if runes := []rune(name); len(runes) > 100 {
		return string(runes[:100]) + "..."
	}
	return name
}

// Resolve finds a tool by its full name. The exact name always works; otherwise case and everything that is neither
// letter nor digit are ignored, and identifiers work too. The error is an *UnknownToolError or *AmbiguousError.
func (c *Catalog) Resolve(name string) (*Tool, error) { return c.now.Load().resolve(name) }

// ResolveIn finds a tool by its server and its name or function name there, each as tolerantly as Resolve.
func (c *Catalog) ResolveIn(server, tool string) (*Tool, error) {
	return c.now.Load().resolveIn(server, tool)
}

// ResolveServer finds a server's exact name. The error is an *UnknownServerError or *AmbiguousError.
func (c *Catalog) ResolveServer(name string) (string, error) {
	e, err := c.now.Load().resolveServer(name)
	if err != nil {
		return "", err
	}
	return e.Name, nil
}

func (s *snapshot) resolve(name string) (*Tool, error) {
	var fits []*Tool
	for _, e := range s.servers {
		if tool, ok := strings.CutPrefix(name, e.Name); ok && strings.HasPrefix(tool, "__") {
			if t := e.byName[tool[2:]]; t != nil {
				fits = append(fits, t)
			}
		}
	}
	if len(fits) > 0 {
		return only(name, fits)
	}
	// crm__search folds to the same as cr__msearch, so where the name is split counts, and how exact its parts are.
	best := 0
	for _, t := range s.folded(ident.Fold(name)) {
		switch like := s.likeness(name, t); {
		case like > best:
			fits, best = []*Tool{t}, like
		case like == best:
			fits = append(fits, t)
		}
	}
	if len(fits) == 0 {
		return nil, &UnknownToolError{Name: name, Closest: s.suggest(name, closest)}
	}
	return only(name, fits)
}

// folded are the tools whose folded server and tool names together are fold.
func (s *snapshot) folded(fold string) (fits []*Tool) {
	for _, e := range s.servers {
		for _, server := range e.folds {
			tool, ok := strings.CutPrefix(fold, server)
			if !ok {
				continue
			}
			for _, t := range e.byFold[tool] {
				if !slices.Contains(fits, t) {
					fits = append(fits, t)
				}
			}
		}
	}
	return fits
}

// likeness is how well the parts of a full name that folds to t's fit t: 0 if it has no "__" at the right place. Server
// and tool names may have a "__" of their own, so each is tried.
func (s *snapshot) likeness(name string, t *Tool) int {
	e := s.byName[t.Server]
	best := 0
	for i := 0; i+2 <= len(name); i++ {
		if name[i:i+2] == "__" {
			server, tool := partLikeness(name[:i], e.Name, e.identifier), partLikeness(name[i+2:], t.Name, t.Function())
			if server > 0 && tool > 0 {
				best = max(best, server+tool)
			}
		}
	}
	return best
}

// partLikeness is 3 for the exact name, 2 for the identifier, 1 for what folds to one of them.
func partLikeness(part, name, identifier string) int {
	switch {
	case part == name:
		return 3
	case part == identifier:
		return 2
	case slices.Contains(foldsOf(name, identifier), ident.Fold(part)):
		return 1
	}
	return 0
}

func (s *snapshot) resolveIn(server, tool string) (*Tool, error) {
	e, err := s.resolveServer(server)
	if err != nil {
		return nil, err
	}
	if t, ok := e.byName[tool]; ok {
		return t, nil
	}
	if t, ok := e.byFunction[tool]; ok {
		return t, nil
	}
	var fits []*Tool
	if fold := ident.Fold(tool); fold != "" {
		fits = e.byFold[fold]
	}
	if len(fits) == 0 {
		name := e.Name + "__" + tool
		return nil, &UnknownToolError{Name: name, Closest: s.suggest(name, closest)}
	}
	return only(e.Name+"__"+tool, fits)
}

func (s *snapshot) resolveServer(name string) (*placed, error) {
	if e, ok := s.byName[name]; ok {
		return e, nil
	}
	fold := ident.Fold(name)
	var fits []*placed
	for _, e := range s.servers {
		if e.identifier == name {
			return e, nil
		}
		if fold != "" && slices.Contains(e.folds, fold) {
			fits = append(fits, e)
		}
	}
	switch len(fits) {
	case 0:
		return nil, &UnknownServerError{Name: name, Closest: s.suggestServers(name, closest)}
	case 1:
		return fits[0], nil
	}
	names := make([]string, len(fits))
	for i, e := range fits {
		names[i] = e.Name
	}
	return nil, &AmbiguousError{Name: name, Candidates: names}
}

// only is the one tool of fits, of which there is at least one.
func only(name string, fits []*Tool) (*Tool, error) {
	if len(fits) == 1 {
		return fits[0], nil
	}
	names := make([]string, len(fits))
	for i, t := range fits {
		names[i] = t.FullName()
	}
	if names[0] == names[1] {
		// Servers "a" with "b__c" and "a__b" with "c": only ResolveIn tells them apart.
		return nil, &AmbiguousError{Name: name, Candidates: []string{candidates(fits)}}
	}
	return nil, &AmbiguousError{Name: name, Candidates: names}
}

func candidates(tools []*Tool) string {
	var out []string
	for _, t := range tools {
		out = append(out, fmt.Sprintf("%q of server %q", t.Name, t.Server))
	}
	return strings.Join(out, ", ")
}
