package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/yosida95/uritemplate/v3"

	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
)

// A resource of an upstream server keeps its own URI if no other server offers the same one and this server uses another scheme. Otherwise its URI is
// mcp://SERVER/URI, with both parts escaped.
const upstreamScheme = "mcp://"

const (
	anyResource  = "{+uri}"
	maxTemplates = 200 // maximum number of a server's templates that a URI is compared with
	maxTemplate  = 1 << 10
)

func (s *Server) addUpstreamResources() {
	s.server.AddResourceTemplate(&mcp.ResourceTemplate{
		Name: "servers", Title: "Resources of the servers", URITemplate: anyResource,
	}, s.readUpstream)
}

func upstreamURI(server, uri string) string {
	return upstreamScheme + url.PathEscape(server) + "/" + url.PathEscape(uri)
}

// splitUpstream is the inverse of upstreamURI: it returns the server and the resource's URI on that server.
func splitUpstream(uri string) (server, there string, err error) {
	server, there, _ = strings.Cut(strings.TrimPrefix(uri, upstreamScheme), "/")
	if server, err = url.PathUnescape(server); err == nil {
		there, err = url.PathUnescape(there)
	}
	if err != nil || server == "" || there == "" {
		return "", "", mcp.ResourceNotFoundError(uri)
	}
	return server, there, nil
}

// ownURI reports whether a URI has a scheme of this server's own resources.
func ownURI(uri string) bool {
	return strings.HasPrefix(uri, scheme+"://") || strings.HasPrefix(uri, skillScheme)
}

// upstreamResource is a resource of a server, with the server's own URI.
type upstreamResource struct {
	mcp.Resource
	Server string
}

func (s *Server) resources(ctx context.Context, who caller) (all []upstreamResource, err error) {
	raw, err := s.value(ctx, who, runs.Request{Code: "return await list_mcp_resources()"})
	if err == nil && json.Unmarshal(raw, &all) != nil {
		err = errors.New("the servers' resources are too many to list; programs have list_mcp_resources(server)")
	}
	return all, err
}

// listUpstream adds the resources of the upstream servers to a list.
func (s *Server) listUpstream(ctx context.Context, who caller, list *mcp.ListResourcesResult) error {
	all, err := s.resources(ctx, who)
	if err != nil {
		return err
	}
	times := map[string]int{}
	for _, r := range all {
		times[r.URI]++
	}
	for _, r := range all {
		if times[r.URI] > 1 || strings.HasPrefix(r.URI, upstreamScheme) || ownURI(r.URI) {
			r.URI = upstreamURI(r.Server, r.URI)
		}
		list.Resources = append(list.Resources, &r.Resource)
	}
	return nil
}

// upstreamTemplate is a template of a server's resources.
type upstreamTemplate struct {
	mcp.ResourceTemplate
	Server string
}

func (s *Server) templates(ctx context.Context, who caller) (all []upstreamTemplate, err error) {
	raw, err := s.value(ctx, who, runs.Request{Code: "return await list_mcp_resource_templates()"})
	if err == nil && json.Unmarshal(raw, &all) != nil {
		err = errors.New("the servers' templates of resources are too many to list; programs have list_mcp_resource_templates(server)")
	}
	return all, err
}

// listTemplates adds the templates of the upstream servers to a list. A template that several servers have, or that begins as this server's own, is left
// out: clients name the server by mcp://SERVER/URI.
func (s *Server) listTemplates(ctx context.Context, who caller, list *mcp.ListResourceTemplatesResult) error {
	all, err := s.templates(ctx, who)
	if err != nil {
		return err
	}
	for i, t := range list.ResourceTemplates {
		if t.URITemplate == anyResource {
			named := *t
			named.URITemplate, list.ResourceTemplates[i] = upstreamScheme+"{server}/{uri}", &named
		}
	}
	times := map[string]int{}
	for _, t := range all {
		times[t.URITemplate]++
	}
	for _, t := range all {
		if times[t.URITemplate] == 1 && !ownURI(t.URITemplate) {
			list.ResourceTemplates = append(list.ResourceTemplates, &t.ResourceTemplate)
		}
	}
	return nil
}

// serverOfTemplate finds the server with a template that matches a URI. If no server or several servers have one, it returns an error.
func (s *Server) serverOfTemplate(ctx context.Context, who caller, uri string) (server string, err error) {
	all, err := s.templates(ctx, who)
	if err != nil {
		return "", err
	}
	tried := map[string]int{}
	for _, t := range all {
		if tried[t.Server]++; tried[t.Server] > maxTemplates || len(t.URITemplate) > maxTemplate || t.Server == server {
			continue
		}
		parsed, err := uritemplate.New(t.URITemplate)
		if err != nil || !parsed.Regexp().MatchString(uri) {
			continue
		}
		if server != "" {
			return "", mcp.ResourceNotFoundError(uri)
		}
		server = t.Server
	}
	if server == "" {
		return "", mcp.ResourceNotFoundError(uri)
	}
	return server, nil
}

const (
	// readByURI is a program that reads a resource by a URI that only one server offers.
	readByURI = `const found = (await list_mcp_resources()).filter((r) => r.uri === env.HARNESS_URI)
if (found.length !== 1) return found.length
return await read_mcp_resource(found[0].server, env.HARNESS_URI)`
	readOfServer = "return await read_mcp_resource(env.HARNESS_SERVER, env.HARNESS_URI)"
)

// readUpstream answers resources/read for a resource of an upstream server.
func (s *Server) readUpstream(ctx context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	switch { // the template of all resources matches these too
	case strings.HasPrefix(r.Params.URI, scheme+"://"):
		return s.readFile(ctx, r)
	case strings.HasPrefix(r.Params.URI, skillScheme):
		return s.readSkillFile(ctx, r)
	}
	who, uri, server, code := s.caller(r.Extra), r.Params.URI, "", readByURI
	named := strings.HasPrefix(uri, upstreamScheme)
	if named {
		var err error
		if server, uri, err = splitUpstream(uri); err != nil {
			return nil, err
		}
		code = readOfServer
	}
	read := func() (json.RawMessage, error) {
		return s.value(ctx, who, runs.Request{Code: code, Env: map[string]string{"HARNESS_SERVER": server, "HARNESS_URI": uri}})
	}
	raw, err := read()
	if err == nil && string(raw) == "0" { // no server lists it
		if server, err = s.serverOfTemplate(ctx, who, uri); err == nil {
			code = readOfServer
			raw, err = read()
		}
	}
	if err != nil {
		return nil, err
	}
	var answer mcp.ReadResourceResult
	switch err := json.Unmarshal(raw, &answer); {
	case len(raw) > 0 && raw[0] >= '0' && raw[0] <= '9': // several servers list it
		return nil, mcp.ResourceNotFoundError(r.Params.URI)
	case err != nil || len(answer.Contents) == 0: // the answer became a file, or a token has made its base64 invalid
		answer.Contents = []*mcp.ResourceContents{{URI: uri, MIMEType: "application/json", Text: string(raw)}}
	}
	for _, c := range answer.Contents {
		if named {
			c.URI = upstreamURI(server, c.URI)
		}
	}
	return &answer, nil
}

// value executes a program for the caller and returns its output. The program runs in the session that req names or, if req names none, in the default
// session of the caller.
func (s *Server) value(ctx context.Context, who caller, req runs.Request) (json.RawMessage, error) {
	if s.opt.Admit != nil {
		if err := s.opt.Admit(ctx, who.Identity, true); err != nil {
			return nil, err
		}
	}
	ctx, cancel := bound(ctx, s.closing)
	defer cancel()
	req.User, req.Session = who.user, who.session(req.Session)
	out, err := s.opt.Harness.Runs().Create(ctx, who.Identity, req)
	switch {
	case err != nil:
		return nil, s.shown(ctx, err)
	case out.Status == run.WaitingApproval:
		return nil, errors.New(newPending(out.Approval, "Tell the user. A program of execute_code that makes this request waits, and gets the result once it is decided.").text("request"))
	case out.Error != nil:
		return nil, errors.New(out.Error.Message)
	}
	return out.Output, nil
}
