package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	segment "github.com/segmentio/encoding/json"
)

// Resources lists what a server offers to read; none if it has no resources. Failures are *[CallError].
func (m *Manager) Resources(ctx context.Context, server string) ([]Resource, error) {
	all, err := list[Resource](ctx, m, server, "resources", func(c *mcp.ServerCapabilities) bool { return c.Resources != nil },
		func(cursor string) (progressParams, func(context.Context, *conn) error) {
			params := &mcp.ListResourcesParams{Cursor: cursor}
			return params, func(ctx context.Context, c *conn) error {
				_, err := c.session.ListResources(ctx, params)
				return err
			}
		})
	for i := range all {
		all[i].Server = server
	}
	return all, err
}

// ResourceTemplates lists the templates of resources that a server offers, as Resources does.
func (m *Manager) ResourceTemplates(ctx context.Context, server string) ([]ResourceTemplate, error) {
	all, err := list[ResourceTemplate](ctx, m, server, "resourceTemplates", func(c *mcp.ServerCapabilities) bool { return c.Resources != nil },
		func(cursor string) (progressParams, func(context.Context, *conn) error) {
			params := &mcp.ListResourceTemplatesParams{Cursor: cursor}
			return params, func(ctx context.Context, c *conn) error {
				_, err := c.session.ListResourceTemplates(ctx, params)
				return err
			}
		})
	if failed, ok := errors.AsType[*CallError](err); ok && failed.Code == jsonrpc.CodeMethodNotFound {
		all, err = nil, nil // it has resources without templates
	}
	for i := range all {
		all[i].Server = server
	}
	return all, err
}

// Prompts lists the prompts that a server offers; none if it has no prompts. Failures are *[CallError].
func (m *Manager) Prompts(ctx context.Context, server string) ([]Prompt, error) {
	all, err := list[Prompt](ctx, m, server, "prompts", func(c *mcp.ServerCapabilities) bool { return c.Prompts != nil },
		func(cursor string) (progressParams, func(context.Context, *conn) error) {
			params := &mcp.ListPromptsParams{Cursor: cursor}
			return params, func(ctx context.Context, c *conn) error {
				_, err := c.session.ListPrompts(ctx, params)
				return err
			}
		})
	for i := range all {
		all[i].Server = server
	}
	return all, err
}

// list lists the things of a kind that a server offers, if its capabilities have them. page is the request for a page.
func list[T any](
	ctx context.Context, m *Manager, server, kind string, offers func(*mcp.ServerCapabilities) bool,
	page func(cursor string) (progressParams, func(context.Context, *conn) error),
) ([]T, error) {
	s, err := m.serverOf(ctx, server)
	if err != nil {
		return nil, err
	}
	c, err := s.connect(ctx, false)
	if err != nil {
		return nil, err
	}
	if caps := c.session.InitializeResult().Capabilities; caps == nil || !offers(caps) {
		return nil, nil
	}
	all := []T{}
	err = pages(func(cursor string, _ int) (json.RawMessage, error) {
		params, send := page(cursor)
		raw, _, err := s.request(ctx, CallOptions{}, params, send)
		raw.charge.free() // a listing is small enough
		return raw.json, err
	}, func(raw json.RawMessage) (int, string, error) {
		var page map[string]json.RawMessage
		if err := json.Unmarshal(raw, &page); err != nil {
			return 0, "", err
		}
		next := ""
		if present(page["nextCursor"]) {
			if err := json.Unmarshal(page["nextCursor"], &next); err != nil {
				return 0, "", err
			}
		}
		more, err := decodeList[T](page[kind], maxItems-len(all))
		all = append(all, more...)
		return len(all), next, err
	})
	if failed, ok := errors.AsType[*CallError](err); ok {
		return nil, failed
	}
	if err != nil {
		return nil, s.wrongShape(kind+"/list", err)
	}
	return all, nil
}

// Prompt fills in a prompt of a server. The result is the answer to prompts/get, an object with messages; the caller calls release once it no
// longer uses it. Failures are *[CallError].
func (m *Manager) Prompt(ctx context.Context, server, name string, args map[string]string, opts CallOptions) (
	result json.RawMessage, release func(), err error,
) {
	s, err := m.serverOf(ctx, server)
	if err != nil {
		return nil, nil, err
	}
	params := &mcp.GetPromptParams{Name: name, Arguments: args}
	raw, _, err := s.request(ctx, opts, params, func(ctx context.Context, c *conn) error {
		_, err := c.session.GetPrompt(ctx, params)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if !isObject(raw.json) {
		raw.charge.free()
		return nil, nil, s.wrongShape("prompts/get", errors.New("it is no object"))
	}
	return raw.json, raw.charge.free, nil
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
