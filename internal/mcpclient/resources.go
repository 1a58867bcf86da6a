package mcpclient

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	segment "github.com/segmentio/encoding/json"
)

// Resources lists what a server offers to read; none if it has no resources. Failures are *[CallError].
func (m *Manager) Resources(ctx context.Context, server string) ([]Resource, error) {
	s, err := m.server(server)
	if err != nil {
		return nil, err
	}
	c, err := s.connect(ctx, false)
	if err != nil {
		return nil, err
	}
	if caps := c.session.InitializeResult().Capabilities; caps == nil || caps.Resources == nil {
		return nil, nil
	}
	all, seen, size := []Resource{}, map[string]bool{}, 0
	for cursor := ""; ; {
		params := &mcp.ListResourcesParams{Cursor: cursor}
		raw, _, err := s.request(ctx, CallOptions{}, "", params, func(ctx context.Context, c *conn) error {
			_, err := c.session.ListResources(ctx, params)
			return err
		})
		if err != nil {
			return nil, err
		}
		var page struct {
			Resources  json.RawMessage `json:"resources"`
			NextCursor string          `json:"nextCursor"`
		}
		raw.charge.free() // a listing is small enough
		if err := json.Unmarshal(raw.json, &page); err != nil {
			return nil, s.wrongShape("resources/list", err)
		}
		more, err := decodeList[Resource](page.Resources, maxItems-len(all))
		if err != nil {
			return nil, s.wrongShape("resources/list", err)
		}
		for _, r := range more {
			r.Server = server
			all = append(all, r)
		}
		if page.NextCursor == "" {
			return all, nil
		}
		if size += len(raw.json); seen[page.NextCursor] || len(seen) >= maxPages || size > maxListing {
			return nil, s.wrongShape("resources/list", fmt.Errorf("the pages do not end (%d resources so far)", len(all)))
		}
		seen[page.NextCursor] = true
		cursor = page.NextCursor
	}
}

// ReadResource reads a resource of a server. The caller calls release once it no longer uses the contents. Failures are
// *[CallError].
func (m *Manager) ReadResource(ctx context.Context, server, uri string, opts CallOptions) (
	contents []ResourceContents, release func(), err error,
) {
	s, err := m.server(server)
	if err != nil {
		return nil, nil, err
	}
	params := &mcp.ReadResourceParams{URI: uri}
	raw, _, err := s.request(ctx, opts, "", params, func(ctx context.Context, c *conn) error {
		_, err := c.session.ReadResource(ctx, params)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	var res struct {
		Contents json.RawMessage `json:"contents"`
	}
	if _, err = segment.Parse(raw.json, &res, zeroCopy); err == nil {
		contents, err = decodeList[ResourceContents](res.Contents, maxBlocks)
	}
	if err != nil {
		raw.charge.free()
		return nil, nil, s.wrongShape("resources/read", err)
	}
	return contents, raw.charge.free, nil
}

func (s *server) wrongShape(method string, err error) *CallError {
	return &CallError{
		Server: s.cfg.Name, Kind: KindProtocol, Sent: true, Err: err,
		Message: fmt.Sprintf("its answer to %s has a wrong shape: %v", method, err),
	}
}
