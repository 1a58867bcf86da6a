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

// resource lists or reads what servers offer besides tools.
func (r *Run) resource(ctx context.Context, c *journal.Call) (json.RawMessage, *frame.Error) {
	var in struct {
		Server string `json:"server"`
		URI    string `json:"uri"`
	}
	if err := decode(c.Args, &in); err != nil {
		return nil, err
	}
	var err error
	server := in.Server
	if server != "" || c.Name == "read" {
		if server, err = r.gate.opt.Catalog.ResolveServer(server); err != nil {
			return nil, toolError("", failure(err))
		}
	}
	switch c.Name {
	case "list":
		list, err := r.resources(ctx, server)
		if err != nil {
			return nil, unmade("", err)
		}
		value, failed := encode(list)
		if failed != nil {
			return nil, failed
		}
		return r.hide(ctx, fromResource, "resources", value)
	case "read":
		contents, release, err := r.gate.opt.Servers.ReadResource(ctx, server, in.URI, mcpclient.CallOptions{Owner: r.scope.User})
		if err != nil {
			return nil, unmade("", err)
		}
		defer release()
		value, failed := encode(map[string]any{"contents": contents})
		if failed != nil {
			return nil, failed
		}
		if value, failed = r.hide(ctx, fromResource, in.URI, value); failed != nil {
			return nil, failed
		}
		if value, err = r.fit(ctx, c.N, value); err != nil {
			return nil, toolError("", "the resource was read, but "+err.Error())
		}
		return value, nil
	}
	return nil, runtimeError("TypeError", "there is no host call resource %s", c.Name)
}

// resources lists what a server offers to read, or all servers if it is "". A server that fails then costs the others
// nothing, unless all fail.
func (r *Run) resources(ctx context.Context, server string) ([]mcpclient.Resource, error) {
	if server != "" {
		return r.gate.opt.Servers.Resources(ctx, server)
	}
	r.gate.opt.Servers.EnsureTools(ctx)
	servers := r.gate.opt.Catalog.Servers()
	lists, errs := make([][]mcpclient.Resource, len(servers)), make([]error, len(servers))
	var wg sync.WaitGroup
	for i, s := range servers {
		wg.Go(func() { lists[i], errs[i] = r.gate.opt.Servers.Resources(ctx, s.Name) })
	}
	wg.Wait()
	all, ok := []mcpclient.Resource{}, len(servers) == 0
	for i := range servers {
		all, ok = append(all, lists[i]...), ok || errs[i] == nil
	}
	if !ok {
		why := make([]string, len(errs))
		for i, err := range errs {
			why[i] = failure(err)
		}
		return nil, errors.New(strings.Join(why, "; "))
	}
	return all, nil
}
