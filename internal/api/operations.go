package api

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"mime"
	"net/http"
	"path"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"mcp-code-exec-harness/internal/part"
	"mcp-code-exec-harness/internal/site"
)

//go:embed docs.html
var docsPage []byte

//go:embed docs.js
var docsScript []byte

// addOperations adds the endpoints for operators, and the pages that show the document.
func (a *API) addOperations(r *routes) {
	object := content("application/json", &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true})
	if a.opt.Health {
		r.add(&huma.Operation{
			OperationID: "health", Method: http.MethodGet, Path: "/health", Tags: []string{"operations"}, Summary: "The server answers",
			Security: public, Responses: answers("200", "OK", object),
		}, a.health)
		ready := answers("200", "OK", object)
		ready["503"] = &huma.Response{Description: "One of them does not work", Content: object}
		r.add(&huma.Operation{
			OperationID: "ready", Method: http.MethodGet, Path: "/ready", Tags: []string{"operations"},
			Description: "checks names each part; effects says what follows from a part that does not work. A part that has not answered within 2 seconds does not work.",
			Summary:     "Store, vault, queue, sandbox and skills work", Security: public, Responses: ready,
		}, a.ready)
	}
	metrics := a.opt.Metrics.Handler()
	r.add(&huma.Operation{
		OperationID: "metrics", Method: http.MethodGet, Path: "/metrics", Tags: []string{"operations"}, Summary: "Metrics for Prometheus",
		Description: "Takes the role admin.", Responses: answers("200", "Metrics", content("text/plain", &huma.Schema{Type: huma.TypeString})),
	}, func(w http.ResponseWriter, r *http.Request) error {
		if err := admin(r.Context()); err != nil {
			return err
		}
		metrics.ServeHTTP(w, r)
		return nil
	})
	for _, from := range []string{rootPath, "/docs"} { // pages have relative links
		r.mux.HandleFunc("GET "+from, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/docs/", http.StatusSeeOther) })
	}
	r.mux.HandleFunc("GET "+docsPath, a.plain(serveDocs))
}

// docsPath is the route of the documents and of the page that shows the OpenAPI document.
const docsPath = "/docs/{path...}"

// serveDocs answers with a file of the documents.
func serveDocs(w http.ResponseWriter, r *http.Request) error {
	name := cmp.Or(r.PathValue("path"), "index.html")
	var text []byte
	var err error
	switch name {
	case "api":
		name, text = "api.html", docsPage
	case "docs.js":
		text = docsScript
	default:
		text, err = site.File(name)
	}
	switch {
	case err != nil && name == "index.html": // this program is built without the documents
		http.Redirect(w, r, "/docs/api", http.StatusSeeOther)
		return nil
	case err != nil:
		return problem(http.StatusNotFound, "no such document; see /docs")
	}
	sum := sha256.Sum256(text)
	h := w.Header()
	h.Set("Content-Security-Policy", site.ContentPolicy)
	h.Set("Cache-Control", "no-cache")
	h.Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	h.Set("ETag", `"`+base64.RawURLEncoding.EncodeToString(sum[:12])+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
	return nil
}

func (a *API) health(w http.ResponseWriter, _ *http.Request) error {
	answer(w, http.StatusOK, map[string]string{"status": "ok", "timestamp": a.opt.Now().UTC().Format(originalTime)})
	return nil
}

// originalTime is the time layout of JavaScript's toISOString.
const originalTime = "2006-01-02T15:04:05.000Z"

// ready checks the parts that tasks need, and answers whether they work.
func (a *API) ready(w http.ResponseWriter, r *http.Request) error {
	checks, effects, ok := map[string]string{}, map[string]string{}, true
	if a.stopping.Load() {
		a.refused.Store(true)
		checks["server"], effects["server"], ok = "stopping", "it takes no new work, and ends what it works", false
	} else {
		a.probed.Store(time.Now().UnixNano())
	}
	probes := a.opt.Harness.Probes()
	errs := append(part.CheckAll(r.Context(), probes), a.opt.Tasks.Working())
	probes = append(probes, part.Probe{Name: "queue", Effect: "this server works no tasks"})
	for i, p := range probes {
		checks[p.Name] = "ok"
		if err := errs[i]; err != nil {
			a.opt.Logger.ErrorContext(r.Context(), "not ready", "part", p.Name, "error", err)
			checks[p.Name], effects[p.Name], ok = "failed", p.Effect, false
		}
	}
	status, word := http.StatusOK, "ready"
	if !ok {
		status, word = http.StatusServiceUnavailable, "not ready"
	}
	body := map[string]any{"status": word, "checks": checks, "timestamp": a.opt.Now().UTC().Format(time.RFC3339)}
	if len(effects) > 0 {
		body["effects"] = effects
	}
	answer(w, status, body)
	return nil
}
