package catalog

import (
	"fmt"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/clip"
)

// MaxName is the maximum length in bytes of a tool's name. A tool with a longer name is left out, and a longer name in a call is unknown.
const MaxName = 1024

// maxCandidates is the maximum number of tools that one folded name is compared with. maxListed is the maximum number of tools that an error lists.
const (
	maxCandidates = 100
	maxListed     = 10
)

// UnknownError reports that no tool or no server has the name. It contains the closest names.
type UnknownError struct {
	Kind    string // "tool" or "server"
	Name    string
	Closest []string
}

func (e *UnknownError) Error() string {
	format := "Tool not found: %s. Use list_mcp_tools() to see available tools."
	if e.Kind == "server" {
		format = "server not found: %s. Use introspect_servers() to see available servers."
	}
	msg := fmt.Sprintf(format, shown(e.Name))
	if len(e.Name) > MaxName {
		msg += fmt.Sprintf(" A name has at most %d bytes.", MaxName)
	}
	if len(e.Closest) > 0 {
		msg += " Closest: " + strings.Join(e.Closest, ", ")
	}
	return msg
}

// HeldError reports a tool that is not offered because its definition is held for review.
type HeldError struct {
	Name   string // name as the caller wrote it
	Server string
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("%s is held for review, because what its server says about it has not been approved. "+
		"A person reviews it; tell the user.", shown(e.Name))
}

// AmbiguousError reports a name that fits several tools or servers.
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

// shown shortens a name from outside and makes it printable, so that a message can contain it.
func shown(name string) string {
	return ident.OneLine(clip.Text(name, 100))
}

// Resolve finds a tool by its full name. It looks for the exact name first. If no tool has it, Resolve ignores case and all characters that are
// neither letters nor digits, and accepts identifiers in place of names. The error is an *UnknownError, *HeldError or *AmbiguousError.
func (c *Catalog) Resolve(name string) (*Tool, error) { return c.ResolveIn("", name) }

// ResolveIn finds a tool by its server and by its name or function name in that server, with the same tolerance as Resolve. If server is empty, it
// does the same as Resolve.
func (c *Catalog) ResolveIn(server, tool string) (*Tool, error) {
	return c.now.Load().resolveIn(server, tool)
}

// ResolveServer returns the exact name of the server that a name stands for. The error is an *UnknownError or *AmbiguousError.
func (c *Catalog) ResolveServer(name string) (string, error) {
	e, err := c.now.Load().resolveServer(name)
	if err != nil {
		return "", err
	}
	return e.Name, nil
}

// HeldServer returns a *HeldError for a server of which no tool is approved, or whose own title and instructions are held. It returns nil for other
// servers.
func (c *Catalog) HeldServer(name string) error {
	e := c.now.Load().byName[name]
	if e != nil && len(e.Held) > 0 && (e.Held[0] == "" || len(e.Tools) == 0) {
		return &HeldError{name, name}
	}
	return nil
}

func (s *snapshot) resolve(name string) (*Tool, error) {
	if len(name) > MaxName {
		return nil, &UnknownError{Kind: "tool", Name: name}
	}
	var fits []*Tool
	for _, e := range s.servers {
		if tool, ok := strings.CutPrefix(name, e.Name+"__"); ok && e.byName[tool] != nil {
			fits = append(fits, e.byName[tool])
		}
	}
	if len(fits) > 0 {
		return only(name, fits)
	}
	for _, e := range s.servers {
		if tool, ok := strings.CutPrefix(name, e.Name+"__"); ok && e.held[tool] {
			return nil, &HeldError{name, e.Name}
		}
	}
	// crm__search and cr__msearch have the same folded form, so the choice depends on where the name is split and on how exact its parts are.
	best := 0
	for _, c := range s.folded(ident.Fold(name)) {
		switch like := c.likeness(name); {
		case like > best:
			fits, best = []*Tool{c.tool}, like
		case like == best:
			fits = append(fits, c.tool)
		}
	}
	if len(fits) == 0 {
		for _, e := range s.servers {
			for _, server := range e.folds {
				if tool, ok := strings.CutPrefix(ident.Fold(name), server); ok && e.heldFolds[tool] {
					return nil, &HeldError{name, e.Name}
				}
			}
		}
		return nil, &UnknownError{Kind: "tool", Name: name, Closest: s.suggest(name)}
	}
	return only(name, fits)
}

// candidate is a tool whose folded server and tool names together are the folded form of a name.
type candidate struct {
	server *member
	split  int // length in bytes of the server's folded name
	tool   *Tool
}

// folded returns the candidates for a folded name, at most maxCandidates.
func (s *snapshot) folded(fold string) (fits []candidate) {
	for _, e := range s.servers {
		for _, server := range e.toolFolds {
			tool, ok := strings.CutPrefix(fold, server)
			if !ok {
				continue
			}
			for _, t := range e.byFold[tool] {
				if len(fits) == maxCandidates {
					return fits
				}
				if !slices.ContainsFunc(fits, func(c candidate) bool { return c.tool == t }) {
					fits = append(fits, candidate{e, len(server), t})
				}
			}
		}
	}
	return fits
}

// likeness returns how well the parts of a name fit a candidate. It returns 0 if the name has no "__" between its server part and its tool part.
func (c candidate) likeness(name string) int {
	left := c.split
	tool := strings.IndexFunc(name, func(r rune) bool {
		left -= len(ident.Fold(string(r)))
		return left < 0
	})
	server := strings.TrimRightFunc(name[:tool], func(r rune) bool { return ident.Fold(string(r)) == "" })
	if !strings.Contains(name[len(server):tool], "__") {
		return 0
	}
	return 1 + exactness(c.server.Name, c.server.identifier, func(part string) bool { return strings.HasPrefix(name, part+"__") }) +
		exactness(c.tool.Name, c.tool.Function(), func(part string) bool { return strings.HasSuffix(name, "__"+part) })
}

// exactness returns 2 if the predicate stands holds for the exact name, 1 if it holds only for the identifier, and 0 otherwise.
func exactness(name, identifier string, stands func(string) bool) int {
	switch {
	case stands(name):
		return 2
	case stands(identifier):
		return 1
	}
	return 0
}

func (s *snapshot) resolveIn(server, tool string) (*Tool, error) {
	if server == "" {
		return s.resolve(tool)
	}
	e, err := s.resolveServer(server)
	if err != nil {
		return nil, err
	}
	if len(tool) > MaxName {
		return nil, &UnknownError{Kind: "tool", Name: tool}
	}
	if t, ok := e.byName[tool]; ok {
		return t, nil
	}
	if e.held[tool] {
		return nil, &HeldError{e.Name + "__" + tool, e.Name}
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
		if e.heldFolds[ident.Fold(tool)] {
			return nil, &HeldError{name, e.Name}
		}
		return nil, &UnknownError{Kind: "tool", Name: name, Closest: s.suggest(name)}
	}
	return only(e.Name+"__"+tool, fits)
}

func (s *snapshot) resolveServer(name string) (*member, error) {
	if e, ok := s.byName[name]; ok {
		return e, nil
	}
	if len(name) > MaxName {
		return nil, &UnknownError{Kind: "server", Name: name}
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
		return nil, &UnknownError{Kind: "server", Name: name, Closest: s.suggestServers(name)}
	case 1:
		return fits[0], nil
	}
	names := make([]string, len(fits))
	for i, e := range fits {
		names[i] = e.Name
	}
	return nil, &AmbiguousError{Name: name, Candidates: names}
}

// only returns the tool in fits if it is the only one, or else an *AmbiguousError. fits is not empty.
func only(name string, fits []*Tool) (*Tool, error) {
	if len(fits) == 1 {
		return fits[0], nil
	}
	names := fullNames(fits)
	if names[0] == names[1] {
		// Tool "b__c" of server "a" and tool "c" of server "a__b" have the same full name. Only ResolveIn tells them apart.
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
