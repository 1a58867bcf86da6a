package api

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// endpoint describes an operation.
type endpoint struct {
	id      string
	pattern string // method and path
	tag     string
	status  int // HTTP status of a successful answer
	summary string
	about   string // description beyond the summary; may be empty
}

// operation adds an endpoint. The types I and O describe the input and the output of the endpoint.
func operation[I, O any](a *API, e endpoint, do func(context.Context, *I) (*O, error)) {
	method, path, _ := strings.Cut(e.pattern, " ")
	huma.Register(a.doc, huma.Operation{
		OperationID: e.id, Method: method, Path: path, Tags: []string{e.tag}, DefaultStatus: e.status, Summary: e.summary, Description: e.about,
		MaxBodyBytes: -1, BodyReadTimeout: -1, // readBody has limited the size and the time
	}, func(ctx context.Context, in *I) (*O, error) {
		visitOf(ctx).decoded()
		out, err := do(ctx, in)
		if err != nil {
			return nil, a.fail(ctx, err)
		}
		return out, nil
	})
}

// body is an input or an output that has a body, but no parameters and no header fields.
type body[T any] struct{ Body T }

// ByID identifies the thing in the path, such as a task, a run or a schedule.
type ByID struct {
	ID string `path:"id" doc:"Its id."`
}

// created is the answer to a request that created something.
type created[T any] struct {
	Location string `header:"Location" doc:"Where it is."`
	Body     T
}

// routes registers the endpoints that write their answers themselves.
type routes struct {
	a   *API
	mux *http.ServeMux
}

// add registers an endpoint with its description. do must not return an error once it has begun to answer.
func (r *routes) add(op *huma.Operation, do func(w http.ResponseWriter, r *http.Request) error) {
	op.Responses["default"] = &huma.Response{Description: "Error", Content: content("application/problem+json", r.a.schemaOf(Problem{}))}
	r.a.doc.OpenAPI().AddOperation(op)
	path := strings.ReplaceAll(op.Path, "{path}", "{path...}")
	r.mux.HandleFunc(op.Method+" "+path, r.a.plain(do))
}

// plain converts a function that returns an error into an HTTP handler.
func (a *API) plain(do func(w http.ResponseWriter, r *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := do(w, r); err != nil {
			a.refuse(w, r, err)
		}
	}
}

// nothing answers requests that match no endpoint.
func (a *API) nothing(mux *http.ServeMux) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var allowed []string
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
			other := &http.Request{Method: method, URL: r.URL, Host: r.Host}
			if routeOf(mux, other) != "" {
				allowed = append(allowed, method)
			}
		}
		if len(allowed) == 0 {
			a.refuse(w, r, problem(http.StatusNotFound, "unknown endpoint; see /docs"))
			return
		}
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		a.refuse(w, r, problem(http.StatusMethodNotAllowed, "method not allowed: "+strings.Join(allowed, " or ")))
	}
}

// routeOf returns the path of the pattern that a request matches, or an empty string if it matches none.
func routeOf(mux *http.ServeMux, r *http.Request) string {
	_, pattern := mux.Handler(r)
	_, path, _ := strings.Cut(pattern, " ")
	return path
}

// list returns an empty list in place of a nil one, which JSON would write as null.
func list[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}

// param describes a string parameter.
func param(in, name, description string) *huma.Param {
	return &huma.Param{In: in, Name: name, Description: description, Required: in == "path", Schema: &huma.Schema{Type: huma.TypeString}}
}

// content describes a body of one media type.
func content(kind string, schema *huma.Schema) map[string]*huma.MediaType {
	return map[string]*huma.MediaType{kind: {Schema: schema}}
}

// answers describes the answer to a request that succeeds.
func answers(status, description string, content map[string]*huma.MediaType) map[string]*huma.Response {
	return map[string]*huma.Response{status: {Description: description, Content: content}}
}

// public is the security requirement of endpoints without authentication.
var public = []map[string][]string{{}}

// rootPath is the route of the root page, which redirects browsers to the documentation.
const rootPath = "/{$}"

// isPublic reports whether a route needs no identity: probes, the document, the metadata about tokens, and the endpoint that takes run capabilities.
func isPublic(route string) bool {
	return slices.Contains([]string{"/health", "/ready", mcpCallPath, rootPath, "/docs", docsPath}, route) || strings.HasPrefix(route, "/openapi") || strings.HasPrefix(route, resourcePath)
}
