package api

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/mcpserver"
	"mcp-code-exec-harness/internal/task"
)

const mcpPath = "/mcp"

// addMCP adds the endpoint for MCP clients.
func (a *API) addMCP(r *routes) {
	var tasks *task.Service
	if a.opt.MCPTasks {
		tasks = a.opt.Tasks
	}
	a.gateway = mcpserver.New(mcpserver.Options{
		Harness: a.opt.Harness, Tasks: tasks, Mode: a.opt.MCPMode, Skills: a.opt.MCPSkills, Admit: a.admit, Shown: a.shownToModel, Logger: a.opt.Logger, Version: a.opt.Version,
	})
	handler := a.gateway.Handler(
		func(r *http.Request) auth.Identity { return identity(r.Context()) },
		func(r *http.Request) { visitOf(r.Context()).decoded() },
	)
	serve := func(w http.ResponseWriter, r *http.Request) error {
		v := visitOf(r.Context())
		v.answer.pace.stream = true
		if r.Method == http.MethodGet {
			v.detach()
		}
		if r.Method == http.MethodGet || r.Header.Get("Mcp-Method") == "subscriptions/listen" {
			ctx, stop := a.whileValid(r.Context())
			defer stop()
			r = r.Clone(ctx) // The credential is read again from the headers of r, which must not change meanwhile.
		}
		if r.Header.Get("Accept") == "" { // accept any type
			r.Header.Set("Accept", "*/*")
		}
		p := &problems{ResponseWriter: w, last: r.Method == http.MethodGet && r.ProtoMajor == 1}
		handler.ServeHTTP(p, r)
		if p.status == http.StatusForbidden { // the session belongs to another user
			return absent("session")
		}
		if strings.HasPrefix(p.text.String(), "malformed payload") { // the SDK appends the body, which must not be repeated
			return problem(p.status, "the body is no JSON-RPC message")
		}
		if p.status != 0 {
			return problem(p.status, strings.TrimSpace(p.text.String()))
		}
		return nil
	}
	a.addResource(r)
	message := content("application/json", &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true})
	answer := answers("200", "Messages, or the response alone for a client that accepts JSON only", content("text/event-stream", &huma.Schema{Type: huma.TypeString}))
	maps.Copy(answer["200"].Content, message)
	answer["202"] = &huma.Response{Description: "A notification or a response was taken"}
	r.add(&huma.Operation{
		OperationID: "mcp", Method: http.MethodPost, Path: mcpPath, Tags: []string{"mcp"}, Summary: "MCP over streamable HTTP",
		Description: "The tools of all servers through three tools, as with harness mcp. Requests of 2026-07-28 stand for themselves; older clients have sessions.",
		RequestBody: &huma.RequestBody{Required: true, Content: message}, Responses: answer,
	}, serve)
	r.add(&huma.Operation{
		OperationID: "mcpStream", Method: http.MethodGet, Path: mcpPath, Tags: []string{"mcp"}, Summary: "Messages of the server to a session",
		Responses: answers("200", "Messages", content("text/event-stream", &huma.Schema{Type: huma.TypeString})),
	}, serve)
	r.add(&huma.Operation{
		OperationID: "mcpEnd", Method: http.MethodDelete, Path: mcpPath, Tags: []string{"mcp"}, Summary: "End a session",
		Responses: map[string]*huma.Response{"204": {Description: "It has ended"}},
	}, serve)
}

// problems holds back error responses in plain text, so that they can be answered as problems (RFC 9457). It also closes the connections of streams.
type problems struct {
	http.ResponseWriter
	last   bool // whether to close the connection after the answer: a client that does not read its stream would never send another request
	status int  // status of the error that is held back; 0 if there is none
	text   strings.Builder
}

// WriteHeader implements http.ResponseWriter.
func (p *problems) WriteHeader(status int) {
	if status >= http.StatusBadRequest && strings.HasPrefix(p.Header().Get("Content-Type"), "text/plain") {
		p.status = status
		return
	}
	if p.last {
		p.Header().Set("Connection", "close")
	}
	p.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (p *problems) Write(text []byte) (int, error) {
	if p.status != 0 {
		return p.text.Write(text)
	}
	return p.ResponseWriter.Write(text)
}

// Unwrap lets http.ResponseController flush.
func (p *problems) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// shownToModel converts an error into the error that the model of an MCP client reads. ctx may be the context of a session, which outlives its requests.
func (a *API) shownToModel(ctx context.Context, err error) error {
	if p := shown(err); p != nil {
		return p
	}
	if ctx.Err() == nil {
		a.opt.Logger.ErrorContext(ctx, "a call of an MCP client failed", "error", err)
	}
	return fault()
}

// admit counts a call of an MCP client against a rate limit. It refuses work while the server is stopping.
func (a *API) admit(_ context.Context, who auth.Identity, work bool) error {
	limiter := a.opt.Requests
	if work {
		limiter = a.opt.Limiter
	}
	if work && a.stopping.Load() {
		return errors.New("the server stops: try again when it is back")
	}
	if limiter == nil {
		return nil
	}
	ok, _, _, after := limiter.Allow(who.Caller())
	if ok {
		return nil
	}
	a.opt.Metrics.RateLimited()
	return errTooMany(after)
}
