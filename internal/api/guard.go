package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/auth"
)

// guard is what every request passes before its handler: who it is from, and that it may come at all.
func (a *API) guard(next http.Handler) http.Handler {
	cross := http.NewCrossOriginProtection()
	for _, origin := range a.opt.Origins {
		cross.AddTrustedOrigin(origin) // checked by the configuration
	}
	cross.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.refuse(w, r, problem(http.StatusForbidden, "a page of another origin may not do this (server.cors.origins)"))
	}))
	return a.outer(a.cors(cross.Handler(a.authenticate(next))))
}

// outer is what the internal listener has too.
func (a *API) outer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		rec := &recorder{ResponseWriter: w}
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Cache-Control", "no-store")
		if r.TLS != nil {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		if a.opt.BodyLimit > 0 {
			r.Body = http.MaxBytesReader(rec, r.Body, a.opt.BodyLimit)
		}
		defer func() {
			if failed := recover(); failed != nil {
				if err, ok := failed.(error); ok && errors.Is(err, http.ErrAbortHandler) {
					panic(failed)
				}
				a.opt.Logger.ErrorContext(r.Context(), "request panicked", "error", failed, "stack", string(debug.Stack()))
				if rec.status == 0 {
					a.refuse(rec, r, problem(http.StatusInternalServerError, "a fault of the harness; its log says more"))
				}
			}
			took := time.Since(began)
			a.opt.Metrics.HTTP(r.Pattern, r.Method, rec.code(), took)
			a.opt.Logger.DebugContext(r.Context(), "request", "method", r.Method, "path", r.URL.Path, "status", rec.code(), "ms", took.Milliseconds())
		}()
		next.ServeHTTP(rec, r)
	})
}

// recorder remembers the status.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && status >= 200 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController flush, and WebSocket take the connection over.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *recorder) code() int {
	if r.status == 0 {
		return http.StatusOK
	}
	return r.status
}

// cors lets pages of configured origins call.
func (a *API) cors(next http.Handler) http.Handler {
	if len(a.opt.Origins) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin := r.Header.Get("Origin")
		w.Header().Add("Vary", "Origin")
		if origin != "" && slices.Contains(a.opt.Origins, origin) {
			h := w.Header()
			h.Set("Access-Control-Allow-Origin", origin)
			h.Set("Access-Control-Expose-Headers", "Location, Retry-After")
			if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
				h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, DELETE")
				h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, Last-Event-ID")
				h.Set("Access-Control-Max-Age", "600")
				w.WriteHeader(http.StatusNoContent)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// open says whether a path needs no identity: probes, the document, and what has a capability of its own.
func open(r *http.Request) bool {
	switch r.URL.Path {
	case "/health", "/ready", "/openapi.json", "/openapi.yaml", "/docs", "/internal/mcp-call":
		return true
	}
	return strings.HasPrefix(r.URL.Path, "/docs/")
}

func (a *API) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if open(r) {
			next.ServeHTTP(w, r)
			return
		}
		id, err := a.opt.Auth.Authenticate(r.Context(), r)
		if err != nil {
			a.opt.Metrics.AuthFailed()
			a.opt.Logger.WarnContext(r.Context(), "request refused", "path", r.URL.Path, "error", err)
			a.refuse(w, r, err)
			return
		}
		if !id.May(auth.User) && !id.May(auth.Admin) && !id.May(auth.Approver) {
			a.refuse(w, r, fmt.Errorf("%w: it takes a role", auth.ErrForbidden))
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), identityKey{}, id)))
	})
}
