package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/telemetry"
)

// outer is what every request passes first, on the internal listener too.
func (a *API) outer(mux *http.ServeMux, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		rec := &recorder{ResponseWriter: w}
		v := &visit{route: routeOf(mux, r), header: w.Header(), from: a.client(r), answer: rec}
		a.all.begin()
		defer a.all.end()
		a.busy.begin()
		v.wait = sync.OnceFunc(a.busy.end)
		defer v.wait()
		ctx, end := telemetry.StartRequest(a.opt.Tracer.With(context.WithValue(r.Context(), visitKey{}, v)), r, v.route)
		r = r.WithContext(ctx)
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if r.TLS != nil {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		defer func() {
			failed := recover()
			// Where something was written, the client must see that it is cut off.
			abort := failed != nil && (failed == http.ErrAbortHandler || rec.status != 0) //nolint:errorlint // net/http compares so
			if failed != nil && !abort {
				a.refuse(rec, r, fault())
			}
			if failed != nil && failed != http.ErrAbortHandler { //nolint:errorlint // as above
				a.opt.Logger.ErrorContext(logged(ctx), "request panicked", "error", failed, "stack", string(debug.Stack()))
			}
			took := time.Since(began)
			a.opt.Metrics.HTTP(v.route, r.Method, rec.code(), took)
			end(nil, slog.Int("http.response.status_code", rec.code()), slog.String("harness.task.id", v.task), slog.String("harness.run.id", v.run))
			a.opt.Logger.DebugContext(logged(ctx), "request", "method", r.Method, "route", v.route, "status", rec.code(), "ms", took.Milliseconds())
			if abort {
				panic(http.ErrAbortHandler)
			}
		}()
		next.ServeHTTP(rec, r)
	})
}

// authenticate finds out who sent a request.
func (a *API) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		v := visitOf(ctx)
		if isPublic(v.route) {
			next.ServeHTTP(w, r)
			return
		}
		v.authenticate = func(ctx context.Context) (auth.Identity, error) { return a.opt.Auth.Authenticate(ctx, r) }
		if r.Header.Get("Authorization") == "" && isStream(v.route) && r.URL.Query().Has(ticketParam) {
			v.authenticate = a.tickets.redeem(r.URL.Query().Get(ticketParam))
		}
		var err error
		v.identity, err = v.authenticate(ctx)
		if role := roleFor(v.route); err == nil && !v.identity.May(role) {
			err = v.identity.Require(auth.User)
		}
		if err != nil {
			a.authFailed(ctx, err)
			a.refuse(w, r, err)
			return
		}
		if err := a.count(ctx, a.opt.Requests, v.identity.Caller()); err != nil {
			a.refuse(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// bound lets a caller have so many reads, and streams of events, at the same time.
func (a *API) bound(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := visitOf(r.Context())
		var limit *slots
		switch {
		case isStream(v.route):
			limit = a.streams
		case r.Method == http.MethodGet && !isPublic(v.route):
			limit = a.reads
		}
		if limit != nil {
			leave, err := limit.enter(r.Context(), v.identity.Caller())
			if err != nil {
				a.refuse(w, r, err)
				return
			}
			defer leave()
		}
		next.ServeHTTP(w, r)
	})
}

// checkQuery refuses query parameters that the document does not know for an operation, and text that is no UTF-8.
func (a *API) checkQuery(next http.Handler) http.Handler {
	known := map[string][]string{}
	for path, item := range a.doc.OpenAPI().Paths {
		for method, op := range map[string]*huma.Operation{"GET": item.Get, "PUT": item.Put, "POST": item.Post, "DELETE": item.Delete} {
			if op == nil {
				continue
			}
			names := []string{}
			for _, p := range op.Parameters {
				if p.In == "query" {
					names = append(names, p.Name)
				}
			}
			known[method+" "+strings.ReplaceAll(path, "{path}", "{path...}")] = names
		}
	}
	known["GET "+shortSocketPath] = known["GET "+socketPath]
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		names, documented := known[r.Method+" "+visitOf(r.Context()).route]
		query, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil || !utf8.ValidString(r.URL.Path) {
			a.refuse(w, r, problem(http.StatusBadRequest, "the address is not well formed"))
			return
		}
		for name, values := range query {
			switch {
			case !utf8.ValidString(name + strings.Join(values, "")):
				err = problem(http.StatusBadRequest, "the query is not valid UTF-8")
			case documented && len(names) == 0:
				err = problem(http.StatusBadRequest, "this takes no query parameters")
			case documented && !slices.Contains(names, name):
				err = problem(http.StatusBadRequest, "unknown query parameter; there are "+strings.Join(names, ", "))
			}
		}
		if err != nil {
			a.refuse(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// roleFor is the least role that a route takes.
func roleFor(route string) auth.Role {
	if route == "/task" || route == "/task/stream" {
		return auth.Anonymous
	}
	return auth.User
}

// authFailed tells of a request that nobody vouches for. An issuer that does not answer is nobody's attempt.
func (a *API) authFailed(ctx context.Context, err error) {
	if !errors.Is(err, auth.ErrUnauthenticated) && !errors.Is(err, auth.ErrForbidden) && !errors.Is(err, auth.ErrCapability) {
		return
	}
	a.opt.Metrics.AuthFailed()
	a.audit(ctx, telemetry.Event{Type: telemetry.AuthFailure, Severity: telemetry.Medium, Details: map[string]any{"reason": err.Error()}})
}

// readBody reads the body before the handler, so that one place bounds its size and time.
func (a *API) readBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		if encoding := r.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
			a.refuse(w, r, problem(http.StatusUnsupportedMediaType, "send the body without Content-Encoding"))
			return
		}
		if a.opt.BodyLimit > 0 {
			r.Body = http.MaxBytesReader(w, r.Body, a.opt.BodyLimit)
		}
		text, err := io.ReadAll(r.Body)
		var large *http.MaxBytesError
		var slow net.Error
		switch {
		case errors.As(err, &large):
			err = problem(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes (server.bodyLimit)", large.Limit))
		case errors.As(err, &slow) && slow.Timeout():
			err = problem(http.StatusRequestTimeout, "the body took too long to arrive (server.readTimeout)")
		case err != nil:
			err = problem(http.StatusBadRequest, "the body could not be read")
		case visitOf(r.Context()).route != skillPath && !utf8.Valid(text):
			err = problem(http.StatusBadRequest, "the body is not valid UTF-8")
		}
		if err != nil {
			a.refuse(w, r, err)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(text))
		next.ServeHTTP(w, r)
	})
}
