package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Resources lists the resources that a server offers. The list is empty if the server does not support resources. Errors are *[CallError].
func (m *Manager) Resources(ctx context.Context, user, server string) ([]Resource, error) {
	all, err := list[Resource](ctx, m, user, server, "resources", func(c *mcp.ServerCapabilities) bool { return c.Resources != nil },
		func(cursor string) (progressParams, func(context.Context, *conn) error) {
			params := &mcp.ListResourcesParams{Cursor: cursor}
			return params, func(ctx context.Context, c *conn) error {
				_, err := c.session.ListResources(ctx, params)
				return err
			}
		}, func(r Resource) string { return r.URI })
	for i := range all {
		all[i].Server = server
	}
	return all, err
}

// ResourceTemplates lists the resource templates that a server offers. The list is empty if the server has none. Errors are *[CallError].
func (m *Manager) ResourceTemplates(ctx context.Context, user, server string) ([]ResourceTemplate, error) {
	all, err := list[ResourceTemplate](ctx, m, user, server, "resourceTemplates", func(c *mcp.ServerCapabilities) bool { return c.Resources != nil },
		func(cursor string) (progressParams, func(context.Context, *conn) error) {
			params := &mcp.ListResourceTemplatesParams{Cursor: cursor}
			return params, func(ctx context.Context, c *conn) error {
				_, err := c.session.ListResourceTemplates(ctx, params)
				return err
			}
		}, func(r ResourceTemplate) string { return r.URITemplate })
	if failed, ok := errors.AsType[*CallError](err); ok && failed.Code == jsonrpc.CodeMethodNotFound {
		all, err = nil, nil // the server has resources but no templates
	}
	for i := range all {
		all[i].Server = server
	}
	return all, err
}

// Prompts lists the prompts that a server offers. The list is empty if the server does not support prompts. Errors are *[CallError].
func (m *Manager) Prompts(ctx context.Context, user, server string) ([]Prompt, error) {
	all, err := list[Prompt](ctx, m, user, server, "prompts", func(c *mcp.ServerCapabilities) bool { return c.Prompts != nil },
		func(cursor string) (progressParams, func(context.Context, *conn) error) {
			params := &mcp.ListPromptsParams{Cursor: cursor}
			return params, func(ctx context.Context, c *conn) error {
				_, err := c.session.ListPrompts(ctx, params)
				return err
			}
		}, func(p Prompt) string { return p.Name })
	for i := range all {
		all[i].Server = server
	}
	return all, err
}

// list lists the items of one kind that a server offers. It also asks a server that does not announce the kind, as the
// official clients do. ask returns the request for a page; identify returns the identity of an item.
func list[T any](
	ctx context.Context, m *Manager, user, server, kind string, offers func(*mcp.ServerCapabilities) bool,
	ask func(cursor string) (progressParams, func(context.Context, *conn) error), identify func(T) string,
) ([]T, error) {
	s, err := m.serverOf(user, server)
	if err != nil {
		return nil, err
	}
	c, err := s.connect(ctx, false)
	if err != nil {
		return nil, err
	}
	caps := c.session.InitializeResult().Capabilities
	announced := caps != nil && offers(caps)
	if _, lacks := c.lacks.Load(kind); lacks && !announced {
		return nil, nil
	}
	opts := CallOptions{User: user}
	if !announced {
		opts.Timeout = unannouncedGrace
	}
	all, known := []T{}, map[string]bool{}
	why, err := c.pages(func(cursor string, _ int) (json.RawMessage, error) {
		params, send := ask(cursor)
		raw, _, err := s.request(ctx, opts, params, send)
		raw.charge.free() // not charged, because maxListing already bounds the memory of a listing
		return raw.json, err
	}, func(raw json.RawMessage) (page, error) {
		var members map[string]json.RawMessage
		if present(raw) && json.Unmarshal(raw, &members) != nil {
			return page{}, errors.New("it is no object: " + excerpt(raw))
		}
		var next *string
		if err := decodeLoosely(orNull(members["nextCursor"]), &next); err != nil {
			return page{}, err
		}
		more, err := decodeList[T](members[kind], maxItems-len(all))
		got := page{items: len(more), next: next}
		for _, item := range more {
			if id := identify(item); !known[id] {
				known[id] = true
				all = append(all, item)
				got.fresh++
			}
		}
		return got, err
	})
	if failed, ok := errors.AsType[*CallError](err); ok {
		if !announced && (failed.Kind == KindRPC || failed.Kind == KindHTTP || failed.Kind == KindTimeout) && ctx.Err() == nil {
			c.lacks.Store(kind, true)
			return nil, nil
		}
		return nil, failed
	}
	if err != nil {
		return nil, s.wrongShape(kind+"/list", err)
	}
	if why != "" {
		s.m.opts.Logger.Warn("the list of a server does not end; what it has so far is used", "server", s.cfg.Name, "list", kind, "items", len(all), "reason", why)
	}
	return all, nil
}

// unannouncedGrace is the timeout of a request to list items that the server does not announce. A server without such items may not answer.
var unannouncedGrace = 3 * time.Second

// Prompt fills in a prompt of a server. The result is the answer to prompts/get, an object with messages. The caller calls release once the result is
// no longer used. Errors are *[CallError].
func (m *Manager) Prompt(ctx context.Context, server, name string, args map[string]string, opts CallOptions) (
	result json.RawMessage, release func(), err error,
) {
	s, err := m.serverOf(opts.User, server)
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

// ReadResource reads a resource of a server. The caller calls release once the contents are no longer used. Errors are
// *[CallError].
func (m *Manager) ReadResource(ctx context.Context, server, uri string, opts CallOptions) (
	contents []ResourceContents, release func(), err error,
) {
	s, err := m.serverOf(opts.User, server)
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
	if err = decodeLoosely(raw.json, &res); err == nil {
		contents, err = decodeList[ResourceContents](res.Contents, maxBlocks)
	}
	if err != nil {
		raw.charge.free()
		return nil, nil, s.wrongShape("resources/read", err)
	}
	for i := range contents {
		contents[i].Blob, contents[i].MIMEType = plainBase64(contents[i].Blob, contents[i].MIMEType)
	}
	return contents, raw.charge.free, nil
}

func (s *server) wrongShape(method string, err error) *CallError {
	return &CallError{
		Server: s.cfg.Name, Kind: KindProtocol, Sent: true, Answered: true, Err: err,
		Message: fmt.Sprintf("its answer to %s has a wrong shape: %v", method, err),
	}
}
