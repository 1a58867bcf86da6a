package api

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// operation adds an endpoint whose input and output are described by their types.
func operation[I, O any](a *API, op huma.Operation, do func(context.Context, *I) (*O, error)) {
	op.MaxBodyBytes, op.BodyReadTimeout = -1, -1 // readBody has bounded both
	huma.Register(a.doc, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := do(ctx, in)
		if err != nil {
			return nil, a.fail(ctx, err)
		}
		return out, nil
	})
}

// body is an answer with nothing but a body.
type body[T any] struct{ Body T }

// created is the answer of what made something.
type created[T any] struct {
	Location string `header:"Location" doc:"Where it is."`
	Body     T
}

// routes takes the endpoints that write their answers themselves.
type routes struct {
	a   *API
	mux *http.ServeMux
}

// add adds an endpoint and describes it. An error of the handler is answered, if nothing has been before.
func (r *routes) add(op *huma.Operation, do func(w http.ResponseWriter, r *http.Request) error) {
	if op.Responses["default"] == nil {
		op.Responses["default"] = &huma.Response{
			Description: "Error", Content: map[string]*huma.MediaType{"application/problem+json": {Schema: r.a.schemaOf(Problem{})}},
		}
	}
	r.a.doc.OpenAPI().AddOperation(op)
	path := strings.ReplaceAll(op.Path, "{path}", "{path...}")
	r.mux.HandleFunc(op.Method+" "+path, r.a.plain(do))
}

// plain makes a handler of one that returns an error.
func (a *API) plain(do func(w http.ResponseWriter, r *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := do(w, r); err != nil {
			a.refuse(w, r, err)
		}
	}
}

// nothing answers requests that no endpoint takes.
func (a *API) nothing(mux *http.ServeMux) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var allowed []string
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
			other := &http.Request{Method: method, URL: r.URL, Host: r.Host}
			if route := routeOf(mux, other); route != "" {
				allowed = append(allowed, method)
			}
		}
		if len(allowed) == 0 {
			a.refuse(w, r, problem(http.StatusNotFound, "there is nothing here; /docs describes what is"))
			return
		}
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		a.refuse(w, r, problem(http.StatusMethodNotAllowed, "this takes "+strings.Join(allowed, ", ")+" only"))
	}
}

// routeOf is the pattern that a request matches, without its method; "" if it is nothing's.
func routeOf(mux *http.ServeMux, r *http.Request) string {
	_, pattern := mux.Handler(r)
	if _, path, ok := strings.Cut(pattern, " "); ok {
		return path
	}
	return ""
}

// list makes an empty list of one that is nil, which would be null in JSON.
func list[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}

// param describes a parameter of text.
func param(in, name, description string) *huma.Param {
	return &huma.Param{In: in, Name: name, Description: description, Required: in == "path", Schema: &huma.Schema{Type: huma.TypeString}}
}

// content is a body of one type.
func content(kind string, schema *huma.Schema) map[string]*huma.MediaType {
	return map[string]*huma.MediaType{kind: {Schema: schema}}
}

// answers describes the answer of a request that went well.
func answers(status, description string, content map[string]*huma.MediaType) map[string]*huma.Response {
	return map[string]*huma.Response{status: {Description: description, Content: content}}
}

// public is the security of what needs no credentials.
var public = []map[string][]string{{}}

// isPublic says whether a route needs no identity: probes, the document, and what has a capability of its own.
func isPublic(route string) bool {
	return slices.Contains([]string{"/health", "/ready", mcpCallPath, "/docs", "/docs/docs.js"}, route) || strings.HasPrefix(route, "/openapi")
}
