package api

import (
	_ "embed"
	"net/http"
	"path"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

//go:embed docs.html
var docsPage []byte

//go:embed docs.js
var docsScript []byte

// document is the configuration of huma without what it would add to answers: links, schemas, a page from elsewhere.
func (a *API) document() huma.Config {
	c := huma.DefaultConfig("mcp-code-exec-harness", strings.TrimPrefix(a.opt.Version, "v"))
	c.CreateHooks = nil
	c.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	c.OpenAPIPath, c.DocsPath, c.SchemasPath = "/openapi", "", ""
	c.Info.Description = "Code execution with MCP: tasks and programs that find and call tools in a sandbox."
	c.Info.License = &huma.License{Name: "MIT", Identifier: "MIT"}
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"bearer": {Type: "http", Scheme: "bearer", Description: "An API key (hk_…) or a JWT of the configured issuer."},
	}
	c.Security = []map[string][]string{{"bearer": {}}}
	return c
}

// schemaName keeps types of the same name in different packages apart: TaskUsage, ModelUsage.
func schemaName(t reflect.Type, hint string) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	name := huma.DefaultSchemaNamer(t, hint)
	home := path.Base(t.PkgPath())
	if t.Name() == "" || home == "api" || home == "." || strings.HasPrefix(strings.ToLower(name), home) {
		return name
	}
	return strings.ToUpper(home[:1]) + home[1:] + name
}

// addOperations adds the endpoints of those who run the harness, and describes the plain handlers by hand.
func (a *API) addOperations(mux *http.ServeMux) {
	mux.HandleFunc("GET /ready", a.ready)
	if a.opt.MetricsPath && a.opt.Metrics != nil {
		metrics := a.opt.Metrics.Handler()
		mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
			if err := admin(r.Context()); err != nil {
				a.refuse(w, r, err)
				return
			}
			metrics.ServeHTTP(w, r)
		})
	}
	mux.HandleFunc("GET /docs", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'")
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Write(docsPage)
	})
	mux.HandleFunc("GET /docs/docs.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
		w.Write(docsScript)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		a.refuse(w, r, problem(http.StatusNotFound, "there is nothing here; /docs describes what is"))
	})
	a.describe()
}

// describe puts the plain handlers into the document.
func (a *API) describe() {
	doc := a.doc.OpenAPI()
	object := &huma.Schema{Type: huma.TypeObject}
	text := &huma.Schema{Type: huma.TypeString}
	json := func(s *huma.Schema) map[string]*huma.MediaType {
		return map[string]*huma.MediaType{"application/json": {Schema: s}}
	}
	ok := func(description string, content map[string]*huma.MediaType) map[string]*huma.Response {
		return map[string]*huma.Response{
			"200":     {Description: description, Content: content},
			"default": {Description: "An error", Content: map[string]*huma.MediaType{"application/problem+json": {Schema: a.ref(Problem{})}}},
		}
	}
	done := func() map[string]*huma.Response {
		r := ok("", nil)
		delete(r, "200")
		r["204"] = &huma.Response{Description: "Done"}
		return r
	}
	str := func(in, name, description string, required bool) *huma.Param {
		return &huma.Param{In: in, Name: name, Description: description, Required: required, Schema: text}
	}
	request := func(required ...string) *huma.RequestBody {
		properties := map[string]*huma.Schema{
			"userId":    {Type: huma.TypeString, Description: "At most 100 characters."},
			"task":      {Type: huma.TypeString, Description: "At most 10,000 characters."},
			"context":   {Description: "Any JSON that the model is told besides."},
			"sessionId": {Type: huma.TypeString},
			"model":     {Type: huma.TypeString},
		}
		return &huma.RequestBody{Required: true, Content: json(&huma.Schema{
			Type: huma.TypeObject, Properties: properties, Required: required, AdditionalProperties: true,
		})}
	}
	public := []map[string][]string{}
	for _, o := range []*huma.Operation{
		{
			OperationID: "task", Method: http.MethodPost, Path: "/task", Tags: []string{"original"}, Summary: "Work a task and wait for it",
			RequestBody: request("userId", "task"), Responses: ok("How it ended, also where it failed", json(a.ref(originalAnswer{}))),
		},
		{
			OperationID: "taskStream", Method: http.MethodPost, Path: "/task/stream", Tags: []string{"original"},
			Summary: "The same, with the answer as it is written", RequestBody: request("userId", "task"),
			Responses: ok(`Lines of data: {"chunk": text}, at the end data: [DONE]`, map[string]*huma.MediaType{"text/event-stream": {Schema: text}}),
		},
		{
			OperationID: "mcpCall", Method: http.MethodPost, Path: "/internal/mcp-call", Tags: []string{"original"}, Security: public,
			Summary: "Call a tool with a run capability",
			RequestBody: &huma.RequestBody{Required: true, Content: json(&huma.Schema{
				Type: huma.TypeObject, Required: []string{"authToken", "toolName"},
				Properties: map[string]*huma.Schema{"authToken": text, "toolName": text, "input": {}},
			})},
			Responses: ok("The tool's result", json(&huma.Schema{})),
		},
		{
			OperationID: "health", Method: http.MethodGet, Path: "/health", Tags: []string{"operations"}, Summary: "The server answers",
			Security: public, Responses: ok("It does", json(object)),
		},
		{
			OperationID: "ready", Method: http.MethodGet, Path: "/ready", Tags: []string{"operations"}, Summary: "Store, queue and sandbox work",
			Security: public, Responses: ok("They do", json(object)),
		},
		{
			OperationID: "metrics", Method: http.MethodGet, Path: "/metrics", Tags: []string{"operations"}, Summary: "Prometheus metrics",
			Responses: ok("Metrics", map[string]*huma.MediaType{"text/plain": {Schema: text}}),
		},
		{
			OperationID: "taskEvents", Method: http.MethodGet, Path: "/v1/tasks/{id}/events", Tags: []string{"tasks"}, Summary: "Events of a task, over SSE",
			Description: "Stored events have an id and come exactly once and in order; pieces of an answer have none and are not repeated.",
			Parameters:  []*huma.Param{str("path", "id", "Task id.", true), str("header", "Last-Event-ID", "The last event that the client has.", false)},
			Responses:   ok("Events", map[string]*huma.MediaType{"text/event-stream": {Schema: text}}),
		},
		{
			OperationID: "taskSocket", Method: http.MethodGet, Path: "/v1/tasks/{id}/events/ws", Tags: []string{"tasks"}, Summary: "The same over WebSocket",
			Parameters: []*huma.Param{str("path", "id", "Task id.", true), str("query", "after", "The last event that the client has.", false)},
			Responses: map[string]*huma.Response{
				"101":     {Description: "Each message is an event: {id, type, time, data}"},
				"default": {Description: "An error", Content: map[string]*huma.MediaType{"application/problem+json": {Schema: a.ref(Problem{})}}},
			},
		},
		{
			OperationID: "listSkills", Method: http.MethodGet, Path: "/v1/skills", Tags: []string{"skills"}, Summary: "Saved skills of a user",
			Parameters: []*huma.Param{str("query", "userId", "Whose.", false)}, Responses: ok("Skills", json(object)),
		},
		{
			OperationID: "getSkill", Method: http.MethodGet, Path: "/v1/skills/{path}", Tags: []string{"skills"}, Summary: "The text of a skill",
			Description: "The path may have slashes.",
			Parameters:  []*huma.Param{str("path", "path", "Path inside /skills.", true), str("query", "userId", "Whose.", false)},
			Responses:   ok("Text", map[string]*huma.MediaType{"text/plain": {Schema: text}}),
		},
		{
			OperationID: "putSkill", Method: http.MethodPut, Path: "/v1/skills/{path}", Tags: []string{"skills"}, Summary: "Save a skill",
			Parameters:  []*huma.Param{str("path", "path", "Path inside /skills.", true), str("query", "userId", "Whose.", false)},
			RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"text/plain": {Schema: text}}},
			Responses:   done(),
		},
		{
			OperationID: "deleteSkill", Method: http.MethodDelete, Path: "/v1/skills/{path}", Tags: []string{"skills"}, Summary: "Delete a skill",
			Parameters: []*huma.Param{str("path", "path", "Path inside /skills.", true), str("query", "userId", "Whose.", false)},
			Responses:  done(),
		},
	} {
		doc.AddOperation(o)
	}
}

// ref is the schema of a type, by reference.
func (a *API) ref(v any) *huma.Schema {
	return a.doc.OpenAPI().Components.Schemas.Schema(reflect.TypeOf(v), true, "")
}
