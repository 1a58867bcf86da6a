// Package catalog holds every tool of every connected MCP server: by name, by search, with types. SetServer takes what a server
// offers; connections are the caller's.
//
// # What is learned of answers
//
// Of tools without an output schema the structure of answers is learned (Learn): kinds of values and names of fields. A name of a field is kept only
// if it is made of common words or the server's own, but that does not make it common to all users: a server may answer each user with fields that
// the user has named. Nothing that is seen from one user's answers tells which names are, so what is learned belongs to the user of the answers, and View
// shows it to no one else. A name that several users have seen would still tell a guesser that others have it. Each user, and all together, have
// a bound of memory; what has not been answered for the longest time is forgotten.
package catalog

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/catalog/search"
	"mcp-code-exec-harness/internal/catalog/shape"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/slots"
)

// Catalog is safe for concurrent use. A reader sees one consistent state for the length of a call and never waits for
// a change; the first search after a change makes the index of what changed.
type Catalog struct {
	writing   sync.Mutex
	now       atomic.Pointer[snapshot]
	changed   atomic.Pointer[chan struct{}] // closed by the next change
	checks    *slots.Slots                  // expensive validations
	shapes    shapes                        // learned shapes of answers
	usage     *usage                        // nil: nothing is learned of the use of tools
	computing *slots.Computing              // searches of users; nil: they have no bound
}

// Compute has searches of users take turns. It must be called before any search.
func (c *Catalog) Compute(turns *slots.Computing) { c.computing = turns }

// New makes an empty catalog.
func New() *Catalog {
	c := &Catalog{checks: slots.New(slots.Limits{All: max(1, runtime.GOMAXPROCS(0)/2), Each: 1}, "inputs", "checked")}
	c.now.Store(newSnapshot(nil))
	c.changed.Store(new(make(chan struct{})))
	return c
}

// Changed returns a channel that the next change closes. What is read after the call has every change that does not close it.
func (c *Catalog) Changed() <-chan struct{} { return *c.changed.Load() }

// SetServer adds a server or replaces it, in one step. The server must have a name.
func (c *Catalog) SetServer(s Server) {
	e := newEntry(s)
	c.change(func(servers map[string]*entry) { servers[s.Name] = e })
}

// RemoveServer removes a server; an unknown name is no error.
func (c *Catalog) RemoveServer(name string) {
	c.change(func(servers map[string]*entry) { delete(servers, name) })
}

func (c *Catalog) change(edit func(map[string]*entry)) {
	c.writing.Lock()
	defer c.writing.Unlock()
	servers := map[string]*entry{}
	for _, e := range c.now.Load().servers {
		servers[e.Name] = e.entry
	}
	edit(servers)
	c.now.Store(newSnapshot(servers))
	close(*c.changed.Swap(new(make(chan struct{}))))
}

// Servers are all servers, sorted by name. They are shared and must not be changed.
func (c *Catalog) Servers() []Server {
	snap := c.now.Load()
	out := make([]Server, len(snap.servers))
	for i, e := range snap.servers {
		out[i] = e.Server
	}
	return out
}

// Tools are all tools, sorted by full name.
func (c *Catalog) Tools() []*Tool { return slices.Clone(c.now.Load().tools()) }

// List is the full names of all tools, sorted.
func (c *Catalog) List() []string { return fullNames(c.now.Load().tools()) }

func fullNames(tools []*Tool) []string {
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = t.FullName()
	}
	return names
}

// Names are the function names of every server, by the server's name, for enumerating `tools` in a program.
func (c *Catalog) Names() map[string][]string {
	out := map[string][]string{}
	for _, e := range c.now.Load().servers {
		out[e.Name] = e.functionNames()
	}
	return out
}

// Module is a server as a module that programs can import.
func (c *Catalog) Module(server string) (frame.Module, error) {
	e, err := c.now.Load().resolveServer(server)
	if err != nil {
		return frame.Module{}, err
	}
	return frame.Module{
		ID: "./servers/" + e.Name, Kind: "server", Server: e.Name,
		Functions: e.moduleFunctions(), Instructions: e.Instructions,
	}, nil
}

// Problems are the servers' faults that change what a program can write: names that come to the same identifier, the
// same tool twice, full names that are not unique.
func (c *Catalog) Problems() []string { return slices.Clone(c.now.Load().problems) }

// entry is what depends on one server alone; it is carried over unchanged when another server changes.
type entry struct {
	Server
	byName     map[string]*Tool
	byFunction map[string]*Tool
	byFold     map[string][]*Tool
	held       map[string]bool // names of tools
	heldFolds  map[string]bool // folded forms of held
	problems   []string
	segment    func() *search.Segment
	pairs      func() []pairs           // letter pairs of the full names, for suggestions
	declared   atomic.Pointer[declared] // the declaration without what is learned that was made last; nil: none was
	learned    atomic.Pointer[declared] // the declaration with what is learned of one user that was made last; nil: none was
}

func newEntry(s Server) *entry {
	e := &entry{
		Server: s, byName: map[string]*Tool{}, byFunction: map[string]*Tool{}, byFold: map[string][]*Tool{}, held: map[string]bool{}, heldFolds: map[string]bool{},
	}
	for _, name := range s.Held {
		e.held[name], e.heldFolds[ident.Fold(name)] = true, true
	}
	delete(e.held, "") // the server's own text, which is no tool
	delete(e.heldFolds, "")
	e.Description, e.Instructions = ident.Printable(s.Description), ident.Printable(s.Instructions)
	tools := make([]Tool, 0, len(s.Tools))
	for _, t := range s.Tools {
		if len(t.Name) > MaxName || ident.OneLine(t.Name) != t.Name {
			e.problems = append(e.problems, fmt.Sprintf(
				"server %q lists a tool %q; it is left out, because a name has at most %d bytes, all of them printable", s.Name, shown(t.Name), MaxName))
			continue
		}
		if ident.Confusable(t.Name) {
			e.problems = append(e.problems, fmt.Sprintf(
				"server %q lists a tool %q; it is left out, because its name can be taken for another one: it mixes alphabets, %s", s.Name, shown(t.Name), ident.Codes(t.Name)))
			continue
		}
		t.Server = s.Name
		t.Title, t.Annotations.Title = joined(t.Title), joined(t.Annotations.Title)
		t.Description = ident.Printable(t.Description)
		tools = append(tools, t)
	}
	// By name, so that numbers given to colliding names do not depend on the order in which the server lists them.
	slices.SortStableFunc(tools, func(a, b Tool) int { return strings.Compare(a.Name, b.Name) })
	e.Tools = slices.CompactFunc(tools, func(a, b Tool) bool {
		if a.Name == b.Name {
			e.problems = append(e.problems, fmt.Sprintf("server %q lists tool %q twice; the first is used", s.Name, a.Name))
		}
		return a.Name == b.Name
	})
	names := make([]string, len(e.Tools))
	for i, t := range e.Tools {
		names[i] = t.Name
	}
	ids, problems := identifiers(names)
	for _, p := range problems {
		e.problems = append(e.problems, fmt.Sprintf("server %q: %s", s.Name, p))
	}
	words := sync.OnceValue(func() shape.Words { return wordsOf(e) })
	for i, n := range names {
		t := &e.Tools[i]
		t.derived = t.derive(ids[n])
		t.derived.words = words
		e.byName[n] = t
		e.byFunction[ids[n]] = t
		for _, fold := range foldsOf(n, ids[n]) {
			e.byFold[fold] = append(e.byFold[fold], t)
		}
	}
	e.segment = sync.OnceValue(func() *search.Segment { return newSegment(e) })
	e.pairs = sync.OnceValue(func() []pairs {
		known := make([]pairs, len(e.Tools))
		for i := range e.Tools {
			known[i] = pairsOf(e.Tools[i].FullName())
		}
		return known
	})
	return e
}

// joined is a printable text in one line.
func joined(text string) string { return strings.Join(strings.Fields(ident.Printable(text)), " ") }

func (e *entry) functionNames() []string {
	names := slices.AppendSeq(make([]string, 0, len(e.byFunction)), maps.Keys(e.byFunction))
	slices.Sort(names)
	return names
}

func (e *entry) moduleFunctions() []frame.Function {
	out := make([]frame.Function, len(e.Tools))
	for i := range e.Tools {
		out[i] = frame.Function{Name: e.Tools[i].Function(), Tool: e.Tools[i].FullName()}
	}
	slices.SortFunc(out, func(a, b frame.Function) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// member is a server in a snapshot. The other servers decide its identifier.
type member struct {
	*entry
	identifier string
	folds      []string
	toolFolds  []string // folded names by which tools are found
}

// snapshot is one state of the catalog; it never changes. It holds no map over all tools, so that a change costs little
// however many there are.
type snapshot struct {
	servers  []*member // servers by name
	byName   map[string]*member
	tools    func() []*Tool // tools by full name
	index    func() *search.Index
	problems []string
}

func newSnapshot(servers map[string]*entry) *snapshot {
	names := slices.Sorted(maps.Keys(servers))
	ids, problems := identifiers(names)
	s := &snapshot{byName: map[string]*member{}}
	for _, p := range problems {
		s.problems = append(s.problems, "servers: "+p)
	}
	for _, n := range names {
		e := &member{entry: servers[n], identifier: ids[n], folds: foldsOf(n, ids[n])}
		e.toolFolds = e.folds
		for _, alias := range e.Aliases {
			e.toolFolds = append(e.toolFolds[:len(e.toolFolds):len(e.toolFolds)], ident.Fold(alias))
		}
		s.problems = append(s.problems, e.problems...)
		s.problems = append(s.problems, s.shared(e)...)
		s.servers = append(s.servers, e)
		s.byName[n] = e
	}
	slices.Sort(s.problems)
	s.tools = sync.OnceValue(func() []*Tool {
		var tools []*Tool
		for _, e := range s.servers {
			for i := range e.Tools {
				tools = append(tools, &e.Tools[i])
			}
		}
		slices.SortStableFunc(tools, func(a, b *Tool) int { return strings.Compare(a.FullName(), b.FullName()) })
		return tools
	})
	s.index = sync.OnceValue(func() *search.Index {
		segments := make([]*search.Segment, len(s.servers))
		for i, e := range s.servers {
			segments[i] = e.segment()
		}
		return search.NewIndex(segments)
	})
	return s
}

// shared are the full names that e's tools share with those of servers before it: tool b__c of server a and tool c of
// server a__b are both a__b__c.
func (s *snapshot) shared(e *member) (problems []string) {
	for _, other := range s.servers {
		rest, ok := strings.CutPrefix(e.Name, other.Name+"__")
		if !ok {
			continue
		}
		for i := range e.Tools {
			if t := other.byName[rest+"__"+e.Tools[i].Name]; t != nil {
				problems = append(problems, fmt.Sprintf(
					"tool name %q is not unique: %s", t.FullName(), candidates([]*Tool{t, &e.Tools[i]})))
			}
		}
	}
	return problems
}

// foldsOf are the folded forms of a name and of its identifier, which differ where the identifier has a number or the
// name has no letter or digit.
func foldsOf(name, identifier string) []string {
	fold, other := ident.Fold(name), ident.Fold(identifier)
	if fold == "" || fold == other {
		return []string{other}
	}
	return []string{fold, other}
}
