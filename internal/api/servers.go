package api

import (
	"context"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"mcp-code-exec-harness/internal/harness"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/telemetry"
)

// ServerPath names an upstream server.
type ServerPath struct {
	Name string `path:"name" doc:"Its name in the configuration."`
}

// ServerList is every upstream server.
type ServerList struct {
	Servers []mcpclient.Status `json:"servers"`
}

// status finds a server.
func (a *API) status(name string) (mcpclient.Status, error) {
	all := a.opt.Harness.Servers().Servers()
	i := slices.IndexFunc(all, func(s mcpclient.Status) bool { return s.Name == name })
	if i < 0 {
		return mcpclient.Status{}, absent("server")
	}
	return all[i], nil
}

// visible is what a caller may see of a server.
func visible(ctx context.Context, s mcpclient.Status) mcpclient.Status {
	if admin(ctx) != nil {
		s.Reason, s.StderrTail, s.PID = "", "", 0 // they may hold paths and addresses of the host
	}
	return s
}

func (a *API) addServers() {
	operation(a, huma.Operation{
		OperationID: "listServers", Method: http.MethodGet, Path: "/v1/servers", Tags: []string{"servers"}, Summary: "Upstream MCP servers",
		Description: "Why one is not available is shown to admins only.",
	}, func(ctx context.Context, _ *struct{}) (*body[ServerList], error) {
		out := &body[ServerList]{ServerList{[]mcpclient.Status{}}}
		for _, s := range a.opt.Harness.Servers().Servers() {
			out.Body.Servers = append(out.Body.Servers, visible(ctx, s))
		}
		return out, nil
	})

	operation(a, huma.Operation{
		OperationID: "getServer", Method: http.MethodGet, Path: "/v1/servers/{name}", Tags: []string{"servers"}, Summary: "An upstream server",
		Description: "Why it is not available is shown to admins only.",
	}, func(ctx context.Context, in *ServerPath) (*body[mcpclient.Status], error) {
		s, err := a.status(in.Name)
		return &body[mcpclient.Status]{visible(ctx, s)}, err
	})

	operation(a, huma.Operation{
		OperationID: "addServer", Method: http.MethodPost, Path: "/v1/servers", Tags: []string{"servers"}, Summary: "Add an upstream server",
		Description:   "Takes the role admin. The server is there until the harness stops; harness servers add keeps one in the configuration.",
		DefaultStatus: http.StatusCreated,
	}, func(ctx context.Context, in *body[NewServer]) (*created[mcpclient.Status], error) {
		if err := admin(ctx); err != nil {
			return nil, err
		}
		b := in.Body
		if b.Command != "" && !a.opt.AllowCommandServers {
			return nil, problem(http.StatusForbidden, "servers that are started by a command are not added over HTTP (server.allowCommandServers)")
		}
		if _, err := a.status(b.Name); err == nil {
			return nil, problem(http.StatusConflict, "there is a server of that name already")
		}
		err := a.opt.Harness.AddServer(ctx, harness.NewServer{
			Name: b.Name, Transport: b.Transport, URL: b.URL, Headers: b.Headers, Command: b.Command, Args: b.Args, Env: b.Env,
		})
		if err != nil {
			a.opt.Logger.WarnContext(ctx, "add a server", "error", err)
			return nil, problem(http.StatusBadRequest, "give a url that begins with http:// or https://, or a command with the transport stdio")
		}
		a.serverChange(ctx, "added", b.Name)
		status, err := a.status(b.Name)
		return &created[mcpclient.Status]{"/v1/servers/" + b.Name, status}, err
	})

	operation(a, huma.Operation{
		OperationID: "removeServer", Method: http.MethodDelete, Path: "/v1/servers/{name}", Tags: []string{"servers"}, Summary: "Remove an upstream server",
		Description: "Takes the role admin. One of the configuration is back when the harness starts again.", DefaultStatus: http.StatusNoContent,
	}, func(ctx context.Context, in *ServerPath) (*struct{}, error) {
		err := admin(ctx)
		if err == nil {
			_, err = a.status(in.Name)
		}
		if err != nil {
			return nil, err
		}
		a.serverChange(ctx, "removed", in.Name)
		return nil, a.opt.Harness.RemoveServer(ctx, in.Name)
	})

	operation(a, huma.Operation{
		OperationID: "reconnectServer", Method: http.MethodPost, Path: "/v1/servers/{name}/reconnect", Tags: []string{"servers"},
		Summary: "Connect to an upstream server anew", Description: "Takes the role admin.",
	}, func(ctx context.Context, in *ServerPath) (*body[mcpclient.Status], error) {
		err := admin(ctx)
		if err == nil {
			_, err = a.status(in.Name)
		}
		if err != nil {
			return nil, err
		}
		a.serverChange(ctx, "reconnected", in.Name)
		if err := a.opt.Harness.Servers().Reconnect(ctx, in.Name); err != nil {
			a.opt.Logger.WarnContext(ctx, "reconnect a server", "error", err)
			return nil, problem(http.StatusBadGateway, "it does not start; the list of servers says why")
		}
		status, err := a.status(in.Name)
		return &body[mcpclient.Status]{status}, err
	})
}

// serverChange tells of a change that an admin makes.
func (a *API) serverChange(ctx context.Context, change, name string) {
	a.audit(ctx, telemetry.Event{
		UserID: identity(ctx).User, Type: telemetry.ServerChange, Severity: telemetry.Medium, Details: map[string]any{"server": name, "change": change},
	})
}

// NewServer is an upstream server to add: by its url, or by a command where that is allowed.
type NewServer struct {
	_         struct{}          `additionalProperties:"true"`
	Name      string            `json:"name" minLength:"1" maxLength:"64" pattern:"^[A-Za-z0-9][A-Za-z0-9_.-]*$"`
	Transport string            `json:"transport,omitempty" enum:"http,sse,stdio"`
	URL       string            `json:"url,omitempty"`
	Headers   map[string]string `json:"headers,omitempty"`
	Command   string            `json:"command,omitempty"`
	Args      []string          `json:"args,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
}
