package catalog

import (
	"fmt"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/catalog/ident"
)

// MaxName is how many bytes a name of a tool has at most: a longer one of a server is left out, and of a caller unknown.
const MaxName = 1024

// maxCandidates bounds the tools that one folded name is compared with, and maxListed those that an error lists.
const (
	maxCandidates = 100
	maxListed     = 10
)

// UnknownToolError says that no tool has the name, and which names come closest.
type UnknownToolError struct {
	Name    string
	Closest []string
}

func (e *UnknownToolError) Error() string {
	return unknown("Tool not found: %s. Use list_mcp_tools() to see available tools.", e.Name, e.Closest)
}

// UnknownServerError says that no server has the name, and which there are.
type UnknownServerError struct {
	Name    string
	Closest []string
}

func (e *UnknownServerError) Error() string {
	return unknown("server not found: %s. Use introspect_servers() to see available servers.", e.Name, e.Closest)
}

func unknown(format, name string, closest []string) string {
	msg := fmt.Sprintf(format, shown(name))
	if len(name) > MaxName {
		msg += fmt.Sprintf(" A name has at most %d bytes.", MaxName)
	}
	if len(closest) > 0 {
		msg += " Closest: " + strings.Join(closest, ", ")
	}
	return msg
}

// AmbiguousError reports a name that is the exact name of no tool or server and fits several.
type AmbiguousError struct {
	Name       string
	Candidates []string
}

func (e *AmbiguousError) Error() string {
	list := strings.Join(e.Candidates[:min(len(e.Candidates), maxListed)], ", ")
	if more := len(e.Candidates) - maxListed; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("%s could be any of: %s. Write the exact name.", shown(e.Name), list)
}

// shown is a name from outside, fit for a message.
func shown(name string) string {
	return ident.OneLine(clip(name, 100))
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
	if len(name) > MaxName {
		return nil, &UnknownToolError{Name: name}
	}
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
	best, fold := 0, ident.Fold(name)
	for _, t := range s.folded(fold) {
		switch like := s.likeness(name, fold, t); {
		case like > best:
			fits, best = []*Tool{t}, like
		case like == best:
			fits = append(fits, t)
		}
	}
	if len(fits) == 0 {
		return nil, &UnknownToolError{Name: name, Closest: s.suggest(name)}
	}
	return only(name, fits)
}

// folded are the tools whose folded server and tool names together are fold, at most maxCandidates.
func (s *snapshot) folded(fold string) (fits []*Tool) {
	for _, e := range s.servers {
		for _, server := range e.folds {
			tool, ok := strings.CutPrefix(fold, server)
			if !ok {
				continue
			}
			for _, t := range e.byFold[tool] {
				if len(fits) == maxCandidates {
					return fits
				}
				if !slices.Contains(fits, t) {
					fits = append(fits, t)
				}
			}
		}
	}
	return fits
}

// likeness is how well the parts of a full name that folds to t's fit t: 0 if it has no "__" at the right position.
// Server and tool names may have a "__" of their own, so each is tried; it takes linear time, because the parts of fold
// are the folded parts of name.
func (s *snapshot) likeness(name, fold string, t *Tool) int {
	e := s.byName[t.Server]
	folds := foldsOf(t.Name, t.Function())
	best, folded := 0, 0
	for i, r := range name {
		if strings.HasPrefix(name[i:], "__") {
			server := partLikeness(name[:i], fold[:folded], e.Name, e.identifier, e.folds)
			tool := partLikeness(name[i+2:], fold[folded:], t.Name, t.Function(), folds)
			if server > 0 && tool > 0 {
				best = max(best, server+tool)
			}
		}
		if r != '_' {
			folded += len(ident.Fold(string(r)))
		}
	}
	return best
}

// partLikeness is 3 for the exact name, 2 for the identifier, 1 for what folds to one of them.
func partLikeness(part, fold, name, identifier string, folds []string) int {
	switch {
	case part == name:
		return 3
	case part == identifier:
		return 2
	case slices.Contains(folds, fold):
		return 1
	}
	return 0
}

func (s *snapshot) resolveIn(server, tool string) (*Tool, error) {
	e, err := s.resolveServer(server)
	if err != nil {
		return nil, err
	}
	if len(tool) > MaxName {
		return nil, &UnknownToolError{Name: tool}
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
		return nil, &UnknownToolError{Name: name, Closest: s.suggest(name)}
	}
	return only(e.Name+"__"+tool, fits)
}

func (s *snapshot) resolveServer(name string) (*member, error) {
	if e, ok := s.byName[name]; ok {
		return e, nil
	}
	if len(name) > MaxName {
		return nil, &UnknownServerError{Name: name}
	}
	fold := ident.Fold(name)
	var fits []*member
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
		return nil, &UnknownServerError{Name: name, Closest: s.suggestServers(name)}
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
