package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/runs"
)

// A resource of an upstream server has its own URI where no other server offers the same one, else mcp://SERVER/URI, both escaped.
const upstreamScheme = "mcp://"

func (s *Server) addUpstreamResources() {
	s.server.AddResourceTemplate(&mcp.ResourceTemplate{
		Name: "servers", Title: "Resources of the servers", URITemplate: "{+uri}",
	}, s.readUpstream)
}

func upstreamURI(server, uri string) string {
	return upstreamScheme + url.PathEscape(server) + "/" + url.PathEscape(uri)
}

// listUpstream adds the resources of the upstream servers to a list.
func (s *Server) listUpstream(ctx context.Context, who caller, list *mcp.ListResourcesResult) error {
	raw, err := s.value(ctx, who, runs.Request{Code: "return await list_mcp_resources()"})
	if err != nil {
		return err
	}
	var all []struct {
		mcp.Resource
		Server string
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		return errors.New("the servers' resources are too many to list; programs have list_mcp_resources(server)")
	}
	times := map[string]int{}
	for _, r := range all {
		times[r.URI]++
	}
	for _, r := range all {
		if times[r.URI] > 1 || strings.HasPrefix(r.URI, upstreamScheme) || strings.HasPrefix(r.URI, scheme+"://") {
			r.URI = upstreamURI(r.Server, r.URI)
		}
		list.Resources = append(list.Resources, &r.Resource)
	}
	return nil
}

// readByURI is a program that reads the resource of a URI that one server offers.
const readByURI = `const found = (await list_mcp_resources()).filter((r) => r.uri === env.HARNESS_URI)
if (found.length !== 1) return null
return await read_mcp_resource(found[0].server, env.HARNESS_URI)`

// readUpstream answers resources/read for a resource of an upstream server.
func (s *Server) readUpstream(ctx context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	if strings.HasPrefix(r.Params.URI, scheme+"://") { // both templates match it
		return s.readFile(ctx, r)
	}
	uri, server := r.Params.URI, ""
	code := readByURI
	if path, ok := strings.CutPrefix(uri, upstreamScheme); ok {
		var err error
		server, path, _ = strings.Cut(path, "/")
		if server, err = url.PathUnescape(server); err == nil {
			uri, err = url.PathUnescape(path)
		}
		if err != nil || server == "" || uri == "" {
			return nil, mcp.ResourceNotFoundError(r.Params.URI)
		}
		code = "return await read_mcp_resource(env.HARNESS_SERVER, env.HARNESS_URI)"
	}
	raw, err := s.value(ctx, s.caller(r.Extra), runs.Request{Code: code, Env: map[string]string{"HARNESS_SERVER": server, "HARNESS_URI": uri}})
	if err != nil {
		return nil, err
	}
	if string(raw) == "null" {
		return nil, mcp.ResourceNotFoundError(r.Params.URI)
	}
	var read mcp.ReadResourceResult
	if json.Unmarshal(raw, &read) != nil || len(read.Contents) == 0 { // it became a file, or is no base64 with a token in it
		read.Contents = []*mcp.ResourceContents{{URI: r.Params.URI, MIMEType: "application/json", Text: string(raw)}}
	}
	for _, c := range read.Contents {
		if server != "" {
			c.URI = upstreamURI(server, c.URI)
		}
	}
	return &read, nil
}

// value is what a program returns that is executed in the caller's own session.
func (s *Server) value(ctx context.Context, who caller, req runs.Request) (json.RawMessage, error) {
	if s.opt.Admit != nil {
		if err := s.opt.Admit(ctx, who.Identity, true); err != nil {
			return nil, err
		}
	}
	ctx, cancel := bound(ctx, s.closing)
	defer cancel()
	req.User, req.Session = who.user, who.session("")
	out, err := s.opt.Harness.Runs().Create(ctx, who.Identity, req)
	switch {
	case err != nil:
		return nil, s.shown(ctx, err)
	case out.Error != nil:
		return nil, errors.New(out.Error.Message)
	}
	return out.Output, nil
}
