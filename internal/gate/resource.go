package gate

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/mcpclient"
)

// resource lists, reads and fills in what servers offer besides tools: resources and prompts.
func (r *Run) resource(ctx context.Context, c *journal.Call) (json.RawMessage, *frame.Error) {
	var in struct {
		Server string            `json:"server"`
		URI    string            `json:"uri"`
		Name   string            `json:"name"`
		Args   map[string]string `json:"args"`
	}
	if err := decode(c.Args, &in); err != nil {
		return nil, err
	}
	servers, listing := r.gate.opt.Servers, c.Name == "list" || c.Name == "templates" || c.Name == "prompts"
	server := in.Server
	if server != "" || c.Name == "read" || c.Name == "prompt" {
		var err error
		if server, err = r.gate.opt.Catalog.ResolveServer(server); err != nil {
			return nil, toolError("", failure(err))
		}
	}
	var value json.RawMessage
	var failed *frame.Error
	of := c.Name
	options := mcpclient.CallOptions{Owner: r.scope.User}
	switch c.Name {
	case "list":
		value, failed = listed(ctx, r, server, servers.Resources)
		of = "resources"
	case "templates":
		value, failed = listed(ctx, r, server, servers.ResourceTemplates)
	case "prompts":
		value, failed = listed(ctx, r, server, servers.Prompts)
	case "read":
		contents, release, err := servers.ReadResource(ctx, server, in.URI, options)
		if err != nil {
			return nil, unmade("", err)
		}
		defer release()
		value, failed = encode(map[string]any{"contents": contents})
		of = in.URI
	case "prompt":
		result, release, err := servers.Prompt(ctx, server, in.Name, in.Args, options)
		if err != nil {
			return nil, unmade("", err)
		}
		defer release()
		value, of = result, in.Name
	default:
		return nil, runtimeError("TypeError", "there is no host call resource %s", c.Name)
	}
	if failed != nil {
		return nil, failed
	}
	if value, failed = r.hide(ctx, fromResource, of, value); failed != nil || listing {
		return value, failed
	}
	value, err := r.fit(ctx, c.N, value)
	if err != nil {
		return nil, toolError("", "it was read, but "+err.Error())
	}
	r.tell(ctx, of, value, "", nil)
	return value, nil
}

// listed is what list gives for a server, or for all servers if it is "". A server that fails then costs the others nothing, unless all
// fail.
func listed[T any](ctx context.Context, r *Run, server string, list func(context.Context, string) ([]T, error)) (json.RawMessage, *frame.Error) {
	if server != "" {
		all, err := list(ctx, server)
		if err != nil {
			return nil, unmade("", err)
		}
		return encode(append([]T{}, all...))
	}
	r.gate.opt.Servers.EnsureTools(ctx)
	servers := r.gate.opt.Catalog.Servers()
	lists, errs := make([][]T, len(servers)), make([]error, len(servers))
	var wg sync.WaitGroup
	for i, s := range servers {
		wg.Go(func() { lists[i], errs[i] = list(ctx, s.Name) })
	}
	wg.Wait()
	all, ok := []T{}, len(servers) == 0
	for i := range servers {
		all, ok = append(all, lists[i]...), ok || errs[i] == nil
	}
	if !ok {
		why := make([]string, len(errs))
		for i, err := range errs {
			why[i] = failure(err)
		}
		return nil, unmade("", errors.New(strings.Join(why, "; ")))
	}
	return encode(all)
}
