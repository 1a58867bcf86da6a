package mcpserver

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/catalog"
)

const (
	// maxToolName is the maximum length of a tool's name that all providers of models accept. A provider refuses a whole request because of one longer
	// name.
	maxToolName = 64
	// maxGiven is the maximum number of removed tools whose names are remembered.
	maxGiven = 10_000
)

// offered are the tools of the upstream servers that clients get.
type offered struct {
	mu    sync.Mutex
	tools map[string]*catalog.Tool // tools by the name that clients get
	given map[string]string        // names that clients get, by full name; a name of one tool is never given to another
	taken map[string]string        // full names, by the name that clients get
	at    <-chan struct{}          // value of Catalog.Changed when the tools were offered
}

// offerTools offers the tools of the upstream servers as they are now, and after each change.
func (s *Server) offerTools() {
	for {
		changed := s.opt.Harness.Catalog().Changed()
		s.offerNow()
		select {
		case <-changed:
		case <-s.closing.Done():
			return
		}
	}
}

// offerNow offers the tools of the upstream servers as they are now.
func (s *Server) offerNow() {
	s.offered.mu.Lock()
	defer s.offered.mu.Unlock()
	at := s.opt.Harness.Catalog().Changed()
	if at == s.offered.at {
		return
	}
	now := s.offered.name(s.inOrder(), s.own)
	for name, t := range now {
		if s.offered.tools[name] != t {
			s.offer(name, t)
		}
	}
	var gone []string
	for name := range s.offered.tools {
		if now[name] == nil {
			gone = append(gone, name)
		}
	}
	if len(gone) > 0 {
		s.server.RemoveTools(gone...)
	}
	s.offered.tools, s.offered.at = now, at
}

// inOrder returns the catalog's tools in the order in which their servers were configured.
func (s *Server) inOrder() []*catalog.Tool {
	place := map[string]int{}
	for i, server := range s.opt.Harness.Servers().Servers() {
		place[server.Name] = i
	}
	tools := s.opt.Harness.Catalog().Tools()
	slices.SortStableFunc(tools, func(a, b *catalog.Tool) int { return cmp.Compare(place[a.Server], place[b.Server]) })
	return tools
}

// name gives each tool the name that clients get: the tool's own name if no earlier tool has that, otherwise server__tool. A tool keeps its name
// as long as this process lives, so a later server can neither take nor change the name of another server's tool.
func (o *offered) name(tools []*catalog.Tool, own func(name string) bool) map[string]*catalog.Tool {
	if o.given == nil || len(o.given) > len(tools)+maxGiven {
		o.given, o.taken = map[string]string{}, map[string]string{}
	}
	full := map[string]bool{}
	for _, t := range tools {
		full[clientName(t.FullName())] = true
	}
	free := func(name string) bool { return o.taken[name] == "" && !own(name) }
	named := map[string]*catalog.Tool{}
	for _, t := range tools {
		name := o.given[t.FullName()]
		if name == "" {
			name = clientName(t.Name)
			if !free(name) || full[name] {
				name = clientName(t.FullName())
			}
			if !free(name) {
				name = shortened(name, t.FullName())
			}
			o.given[t.FullName()], o.taken[name] = name, t.FullName()
		}
		named[name] = t
	}
	return named
}

// listedName returns the name that clients get for a tool's full name. It returns any other name unchanged.
func (o *offered) listedName(name string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if listed := o.given[name]; o.tools[listed] != nil {
		return listed
	}
	return name
}

// clientName returns a name with characters and a length that all providers of models accept. If a name is too long, or has no letter, digit or
// hyphen, it is shortened and ends in a part of its hash. So the result depends on the name alone, not on other tools.
func clientName(name string) string {
	plain := strings.Map(func(r rune) rune {
		if r < 0x80 && (r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r == '-' || r == '_') {
			return r
		}
		return '_'
	}, name)
	if len(plain) > maxToolName || strings.Trim(plain, "_") == "" {
		return shortened(plain, name)
	}
	return plain
}

// shortened returns the beginning of a name, followed by a part of the hash of whole.
func shortened(name, whole string) string {
	sum := sha256.Sum256([]byte(whole))
	hash := "_" + hex.EncodeToString(sum[:4])
	return name[:min(len(name), maxToolName-len(hash))] + hash
}

// own reports whether a name is that of one of this server's own tools.
func (s *Server) own(name string) bool {
	return slices.Contains([]string{executeCode, searchTools, getToolDetails}, name) || name == runTask && s.opt.Tasks != nil ||
		aliases[name] != nil || s.skills[name] != ""
}

// offers reports whether a name belongs to an offered tool of an upstream server.
func (s *Server) offers(name string) bool {
	s.offered.mu.Lock()
	defer s.offered.mu.Unlock()
	return s.offered.tools[name] != nil
}

// offer adds a tool. If the SDK rejects it, it is left out; programs can still call it.
func (s *Server) offer(name string, t *catalog.Tool) {
	defer func() {
		if failed := recover(); failed != nil {
			s.opt.Logger.Warn("a tool cannot be offered to MCP clients", "tool", t.FullName(), "error", failed)
		}
	}()
	tool := &mcp.Tool{
		Name: name, Title: t.Title, Description: t.Description, InputSchema: offeredInput(t.InputSchema),
		Annotations: &mcp.ToolAnnotations{
			Title: t.Annotations.Title, ReadOnlyHint: t.Annotations.IsReadOnly(), IdempotentHint: t.Annotations.Idempotent != nil && *t.Annotations.Idempotent,
			DestructiveHint: t.Annotations.Destructive, OpenWorldHint: t.Annotations.OpenWorld,
		},
	}
	if schema := offeredOutput(t.OutputSchema); schema != nil {
		tool.OutputSchema = schema
	}
	s.server.AddTool(tool, s.guard(func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return s.pass(ctx, r, t.FullName())
	}, true))
}

// anyStructure is the first version of the protocol in which structured content need not be an object.
const anyStructure = "2026-07-28"

// structured reports whether a client with the given version of the protocol accepts a value as structured content.
func structured(value json.RawMessage, version string) bool {
	return len(value) > 0 && string(value) != "null" && (value[0] == '{' || version >= anyStructure)
}
