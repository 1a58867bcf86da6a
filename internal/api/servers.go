package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"mcp-code-exec-harness/internal/harness"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/task"
)

type serverPath struct {
	Name string `path:"name"`
}

// status finds a server.
func (a *API) status(name string) (mcpclient.Status, error) {
	all := a.opt.Harness.Servers().Servers()
	i := slices.IndexFunc(all, func(s mcpclient.Status) bool { return s.Name == name })
	if i < 0 {
		return mcpclient.Status{}, fmt.Errorf("server %q: %w", name, task.ErrNotFound)
	}
	return all[i], nil
}

func (a *API) addServers() {
	huma.Register(a.doc, huma.Operation{
		OperationID: "listServers", Method: http.MethodGet, Path: "/v1/servers", Tags: []string{"servers"}, Summary: "Upstream MCP servers",
		Description: "Why one is not available is shown to admins only.",
	}, func(ctx context.Context, _ *struct{}) (*struct {
		Body struct {
			Servers []mcpclient.Status `json:"servers"`
		}
	}, error,
	) {
		out := &struct {
			Body struct {
				Servers []mcpclient.Status `json:"servers"`
			}
		}{}
		out.Body.Servers = list(a.opt.Harness.Servers().Servers())
		if admin(ctx) != nil {
			for i := range out.Body.Servers {
				s := &out.Body.Servers[i]
				s.Reason, s.StderrTail, s.PID = "", "", 0 // they may hold paths and addresses of the host
			}
		}
		return out, nil
	})

	huma.Register(a.doc, huma.Operation{
		OperationID: "addServer", Method: http.MethodPost, Path: "/v1/servers", Tags: []string{"servers"}, Summary: "Add an upstream server",
		Description:   "Takes the role admin. The server is there until the harness stops; harness servers add keeps one in the configuration.",
		DefaultStatus: http.StatusCreated,
	}, func(ctx context.Context, in *struct{ Body NewServer }) (*struct{ Body mcpclient.Status }, error) {
		if err := admin(ctx); err != nil {
			return nil, a.fail(ctx, err)
		}
		b := in.Body
		if b.Command != "" && !a.opt.AllowCommandServers {
			return nil, problem(http.StatusForbidden, "servers that are started by a command are not added over HTTP (server.allowCommandServers)")
		}
		if _, err := a.status(b.Name); err == nil {
			return nil, problem(http.StatusConflict, fmt.Sprintf("there is a server %q already", b.Name))
		}
		err := a.opt.Harness.AddServer(ctx, harness.NewServer{
			Name: b.Name, Transport: b.Transport, URL: b.URL, Headers: b.Headers, Command: b.Command, Args: b.Args, Env: b.Env,
		})
		if err != nil {
			return nil, problem(http.StatusBadRequest, err.Error())
		}
		status, err := a.status(b.Name)
		return &struct{ Body mcpclient.Status }{status}, a.fail(ctx, err)
	})

	huma.Register(a.doc, huma.Operation{
		OperationID: "removeServer", Method: http.MethodDelete, Path: "/v1/servers/{name}", Tags: []string{"servers"}, Summary: "Remove an upstream server",
		Description: "Takes the role admin. One of the configuration is back when the harness starts again.", DefaultStatus: http.StatusNoContent,
	}, func(ctx context.Context, in *serverPath) (*struct{}, error) {
		err := admin(ctx)
		if err == nil {
			_, err = a.status(in.Name)
		}
		if err == nil {
			err = a.opt.Harness.RemoveServer(ctx, in.Name)
		}
		return nil, a.fail(ctx, err)
	})

	huma.Register(a.doc, huma.Operation{
		OperationID: "reconnectServer", Method: http.MethodPost, Path: "/v1/servers/{name}/reconnect", Tags: []string{"servers"},
		Summary: "Connect to an upstream server anew", Description: "Takes the role admin.",
	}, func(ctx context.Context, in *serverPath) (*struct{ Body mcpclient.Status }, error) {
		err := admin(ctx)
		if err == nil {
			_, err = a.status(in.Name)
		}
		if err != nil {
			return nil, a.fail(ctx, err)
		}
		if err := a.opt.Harness.Servers().Reconnect(ctx, in.Name); err != nil {
			return nil, problem(http.StatusBadGateway, err.Error())
		}
		status, err := a.status(in.Name)
		return &struct{ Body mcpclient.Status }{status}, a.fail(ctx, err)
	})
}

// NewServer is an upstream server to add: by its url, or by a command where that is allowed.
type NewServer struct {
	Name      string            `json:"name" minLength:"1" maxLength:"64" pattern:"^[A-Za-z0-9][A-Za-z0-9_.-]*$"`
	Transport string            `json:"transport,omitempty" enum:"http,sse,stdio"`
	URL       string            `json:"url,omitempty" format:"uri"`
	Headers   map[string]string `json:"headers,omitempty"`
	Command   string            `json:"command,omitempty"`
	Args      []string          `json:"args,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
}
