package api

import (
	_ "embed"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"mcp-code-exec-harness/internal/part"
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
	r.mux.HandleFunc("GET /docs", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; connect-src 'self'; "+
			"base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Write(docsPage)
	})
	r.mux.HandleFunc("GET "+rootPath, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/docs", http.StatusSeeOther) })
	r.mux.HandleFunc("GET /docs/docs.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
		w.Write(docsScript)
	})
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
