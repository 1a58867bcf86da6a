package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	segment "github.com/segmentio/encoding/json"
)

// Resources lists what a server offers to read; none if it has no resources. Failures are *[CallError].
func (m *Manager) Resources(ctx context.Context, server string) ([]Resource, error) {
	s, err := m.serverOf(ctx, server)
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
	all := []Resource{}
	err = pages(func(cursor string, _ int) (json.RawMessage, error) {
		params := &mcp.ListResourcesParams{Cursor: cursor}
		raw, _, err := s.request(ctx, CallOptions{}, params, func(ctx context.Context, c *conn) error {
			_, err := c.session.ListResources(ctx, params)
			return err
		})
		raw.charge.free() // a listing is small enough
		return raw.json, err
	}, func(raw json.RawMessage) (int, string, error) {
		var page struct {
			Resources  json.RawMessage `json:"resources"`
			NextCursor string          `json:"nextCursor"`
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return 0, "", err
		}
		more, err := decodeList[Resource](page.Resources, maxItems-len(all))
		for _, r := range more {
			r.Server = server
			all = append(all, r)
		}
		return len(all), page.NextCursor, err
	})
	if failed, ok := errors.AsType[*CallError](err); ok {
		return nil, failed
	}
	if err != nil {
		return nil, s.wrongShape("resources/list", err)
	}
	return all, nil
}

// ReadResource reads a resource of a server. The caller calls release once it no longer uses the contents. Failures are
// *[CallError].
func (m *Manager) ReadResource(ctx context.Context, server, uri string, opts CallOptions) (
	contents []ResourceContents, release func(), err error,
) {
	s, err := m.serverOf(ctx, server)
	if err != nil {
		return nil, nil, err
	}
	params := &mcp.ReadResourceParams{URI: uri}
	raw, _, err := s.request(ctx, opts, params, func(ctx context.Context, c *conn) error {
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
