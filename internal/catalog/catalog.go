// Package catalog holds the tools of all connected MCP servers. Tools can be found by name and by search, and have types. SetServer takes what a
// server lists; the caller manages the connections.
//
// # What is learned from answers
//
// If a tool has no output schema, the catalog learns the structure of its answers (Learn): kinds of values and names of fields. It keeps the name of
// a field only if the name consists of common words or of the server's own words. Even such a name may come from one user, because a server may
// answer with fields that the user has named. One user's answers do not show which names these are. So what is learned belongs to the user who got
// the answers, and View shows it to no one else. It would not help to show a name only after several users have seen it: a user who guesses a name
// could find out that others have it. Memory is limited, for each user and for all users together. If a limit is reached, the catalog forgets the
// tools whose last answer is the oldest.
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

// Catalog is safe for concurrent use. A reader sees one consistent state for the length of a call and never waits for a change. The first search
// after a change indexes what has changed.
type Catalog struct {
	writing   sync.Mutex
	now       atomic.Pointer[snapshot]
	changed   atomic.Pointer[chan struct{}] // closed by the next change
	checks    *slots.Slots                  // slots for expensive validations
	shapes    *shapes                       // learned shapes of answers
	usage     *usage                        // tools that users called after searches; nil if this is not recorded
	computing *slots.Computing              // limit on simultaneous searches of users; nil if there is none
	own       *own                          // tools that only one user has; nil if there are none
}

// Compute sets the limit on simultaneous searches of users. The caller must call Compute before any search.
func (c *Catalog) Compute(turns *slots.Computing) { c.computing = turns }

// New returns an empty catalog.
func New() *Catalog {
	c := &Catalog{shapes: &shapes{}, checks: slots.New(slots.Limits{All: max(1, runtime.GOMAXPROCS(0)/2), Each: 1}, "inputs", "checked")}
	c.now.Store(newSnapshot(nil))
	c.changed.Store(new(make(chan struct{})))
	return c
}

// Changed returns a channel that the next change closes. Reads after this call see all changes that were made before it.
func (c *Catalog) Changed() <-chan struct{} { return *c.changed.Load() }

// SetServer adds a server or replaces it, in one step. The server must have a name.
func (c *Catalog) SetServer(s Server) {
	e := newEntry(s)
	c.change(func(servers map[string]*entry) { servers[s.Name] = e })
}

// RemoveServer removes a server. It ignores an unknown name.
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

// Servers returns all servers, sorted by name. They are shared and must not be changed.
func (c *Catalog) Servers() []Server {
	snap := c.now.Load()
	out := make([]Server, len(snap.servers))
	for i, e := range snap.servers {
		out[i] = e.Server
	}
	return out
}

// Tools returns all tools, sorted by full name.
func (c *Catalog) Tools() []*Tool { return slices.Clone(c.now.Load().tools()) }

// List returns the full names of all tools, sorted.
func (c *Catalog) List() []string { return fullNames(c.now.Load().tools()) }

func fullNames(tools []*Tool) []string {
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = t.FullName()
	}
	return names
}

// Names returns the function names of every server, by the server's name. Programs enumerate `tools` with them.
func (c *Catalog) Names() map[string][]string {
	out := map[string][]string{}
	for _, e := range c.now.Load().servers {
		out[e.Name] = e.functionNames()
	}
	return out
}

// Module returns a server as a module that programs can import.
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

// Problems returns the faults that change how programs can name tools. Such faults are names that lead to the same identifier, tools that are listed
// twice, tool names that are left out, and full names that are not unique.
func (c *Catalog) Problems() []string { return slices.Clone(c.now.Load().problems) }

// entry holds what depends on one server alone. It is reused unchanged when another server changes.
type entry struct {
	Server
	byName     map[string]*Tool
	byFunction map[string]*Tool
	byFold     map[string][]*Tool
	held       map[string]bool // names of held tools
	heldFolds  map[string]bool // folded names of held tools
	problems   []string
	segment    func() *search.Segment
	pairs      func() []pairs           // letter pairs of the full names, for suggestions
	declared   atomic.Pointer[declared] // last declaration without learned shapes; nil if none was made
	learned    atomic.Pointer[declared] // last declaration with the learned shapes of one user; nil if none was made
}

func newEntry(s Server) *entry {
	e := &entry{
		Server: s, byName: map[string]*Tool{}, byFunction: map[string]*Tool{}, byFold: map[string][]*Tool{}, held: map[string]bool{}, heldFolds: map[string]bool{},
	}
	for _, name := range s.Held {
		e.held[name], e.heldFolds[ident.Fold(name)] = true, true
	}
	delete(e.held, "") // "" stands for the server's own text, which is not a tool
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
	// The tools are sorted by name, so that the numbers of colliding names do not depend on the order in which the server lists them.
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

// joined returns a text in one line, without unprintable characters.
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

// member is a server in a snapshot. Its identifier depends on the other servers.
type member struct {
	*entry
	identifier string
	folds      []string
	toolFolds  []string // folded names and aliases of the server; any of them, followed by the folded name of a tool, finds the tool
}

// snapshot is one state of the catalog; it never changes. It contains no map of all tools, so that a change is cheap even if there are many tools.
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

// shared returns a problem for each full name that a tool of e shares with a tool of an earlier server: tool b__c of server a and tool c of server
// a__b are both a__b__c.
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

// foldsOf returns the folded forms of a name and of its identifier. They differ if the identifier has a number or if the name has no letter or digit.
func foldsOf(name, identifier string) []string {
	fold, other := ident.Fold(name), ident.Fold(identifier)
	if fold == "" || fold == other {
		return []string{other}
	}
	return []string{fold, other}
}
