package agent

import (
	"cmp"
	"context"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/modelview"
)

// defaultHits is the number of tools that a search without a limit returns.
const defaultHits = 8

type tools struct {
	catalog *catalog.Catalog
	ready   func(ctx context.Context, user string)
}

var _ Catalog = (*tools)(nil)

// NewCatalog returns a Catalog of c. Search and Details first call ready, which waits until each server has listed its tools or has failed.
func NewCatalog(c *catalog.Catalog, ready func(ctx context.Context, user string)) Catalog {
	return &tools{catalog: c, ready: ready}
}

func (t *tools) Search(ctx context.Context, user, query string, limit int) (string, error) {
	t.ready(ctx, user)
	known := t.catalog.Of(ctx, user)
	return modelview.Hits(query, known.Search(ctx, user, query, cmp.Or(limit, defaultHits)), known.Servers()), context.Cause(ctx)
}

func (t *tools) Details(ctx context.Context, user string, names []string) (string, error) {
	t.ready(ctx, user)
	var found []*catalog.Details
	var problems []error
	known := t.catalog.Of(ctx, user)
	for _, name := range names {
		d, err := known.Details(name)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		found = append(found, d)
	}
	return modelview.Details(found, problems), context.Cause(ctx)
}

// Definitions estimates the tokens of the name, description and input schema of every tool. Other MCP clients put all of these into the
// context of a model.
func (t *tools) Definitions() int {
	bytes := 0
	for _, tool := range t.catalog.Tools() {
		bytes += len(tool.FullName()) + len(tool.Description) + len(tool.InputSchema) + len(`{"name":"","description":"","inputSchema":}`)
	}
	return tokensOf(bytes)
}
