package n8n

import (
	"fmt"
	"strings"
	"sync"

	"mcp-code-exec-harness/internal/catalog/search"
)

// nodeIndex finds nodes for requests in words. To the index of the catalog every node is a server of its own, whose name people use.
type nodeIndex struct {
	names []string // by segment
	index *search.Index
}

func onceIndex(ts *nodeTypes) func() *nodeIndex {
	return sync.OnceValue(func() *nodeIndex {
		x := &nodeIndex{}
		var segments []*search.Segment
		for _, name := range ts.names {
			t := ts.current(name)
			if t.Hidden {
				continue
			}
			x.names = append(x.names, name)
			segments = append(segments, search.NewSegment([]search.Doc{{
				Key: name, Name: t.short(), Title: t.DisplayName + " " + strings.Join(t.Codex.Alias, " "), Server: t.DisplayName, Description: t.Description,
				Params: t.actions(), Context: strings.Join(t.Codex.Categories, " ") + " " + fmt.Sprint(t.Codex.Subcategories),
			}}))
		}
		x.index = search.NewIndex(segments)
		return x
	})
}

// actions are what a node does, in the words of its operations.
func (t *nodeType) actions() string {
	var b strings.Builder
	for _, p := range t.Properties {
		if p.Name != "resource" && p.Name != "operation" && p.Name != "event" && p.Name != "events" {
			continue
		}
		for _, o := range p.Options {
			b.WriteString(o.Name + " ")
		}
	}
	return b.String()
}

// search finds nodes, the best first. A core node is before one that an older node was replaced by.
func (x *nodeIndex) search(query string, limit int) []string {
	out := []string{}
	for _, r := range x.index.Search(query, limit) {
		out = append(out, x.names[r.Segment])
	}
	return out
}
