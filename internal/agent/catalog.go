package agent

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/modelview"
)

// defaultHits is how many tools a search gives that asks for no number.
const defaultHits = 8

// tools is a Catalog of the tools that there are.
type tools struct {
	catalog *catalog.Catalog
	ready   func(context.Context)

	mu     sync.Mutex
	seen   []*catalog.Tool // those whose definitions were estimated
	tokens int
}

var _ Catalog = (*tools)(nil)

// NewCatalog makes a Catalog of c. ready waits until the servers have listed their tools, or failed to; it is called before
// every look into c.
func NewCatalog(c *catalog.Catalog, ready func(context.Context)) Catalog {
	return &tools{catalog: c, ready: ready}
}

func (t *tools) Search(ctx context.Context, query string, limit int) (string, error) {
	t.ready(ctx)
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	if limit <= 0 {
		limit = defaultHits
	}
	return modelview.Hits(query, t.catalog.Search(ctx, query, limit), t.catalog.Servers()), nil
}

func (t *tools) Details(ctx context.Context, names []string) (string, error) {
	t.ready(ctx)
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	var found []*catalog.Details
	var problems []error
	for _, name := range names {
		d, err := t.catalog.Details(name)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		found = append(found, d)
	}
	return modelview.Details(found, problems), nil
}

// maxDefinitions is how many definitions are counted; the others are taken to be like them.
const maxDefinitions = 32

// Definitions counts what other clients put into a model's context: name, description and input schema of every tool. It is
// counted again when the catalog has changed.
func (t *tools) Definitions() int {
	all := t.catalog.Tools()
	t.mu.Lock()
	defer t.mu.Unlock()
	if slices.Equal(all, t.seen) {
		return t.tokens
	}
	counted, bytes, total := 0, 0, 0
	step := max(len(all)/maxDefinitions, 1)
	for i, tool := range all {
		size := len(tool.FullName()) + len(tool.Description) + len(tool.InputSchema) + len(`{"name":"","description":"","inputSchema":}`)
		total += size
		if i%step == 0 {
			counted += estimate(definition(tool))
			bytes += size
		}
	}
	t.seen, t.tokens = all, counted*total/max(bytes, 1)
	return t.tokens
}

// definition is a tool as clients show it to models.
func definition(t *catalog.Tool) string {
	schema := t.InputSchema
	if !json.Valid(schema) {
		schema = json.RawMessage("{}")
	}
	return string(encode(map[string]any{"name": t.FullName(), "description": t.Description, "inputSchema": schema}))
}
