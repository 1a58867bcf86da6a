package api

import (
	"bytes"
	"cmp"
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

// step checks a request before its endpoint is called. An error is the answer; errAnswered says that the step has answered.
type step func(w http.ResponseWriter, r *http.Request) error

var errAnswered = errors.New("answered")

// serve is what every request passes: its record, the headers of the answer, the steps, and the endpoint.
func (a *API) serve(mux *http.ServeMux, steps ...step) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		rec := &recorder{ResponseWriter: w}
		v := &visit{route: routeOf(mux, r), from: a.client(r), answer: rec, leave: func() {}, decoded: func() {}}
		a.requests.Add(1)
		defer a.requests.Add(-1)
		a.busy.Add(1)
		v.detach = sync.OnceFunc(func() { a.busy.Add(-1) })
		defer v.detach()
		defer func() {
			v.leave()
			v.decoded()
		}()
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
			// An answer that was begun is cut off, so that the client sees that it is not whole.
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
		for _, check := range steps {
			if err := check(rec, r); err != nil {
				if !errors.Is(err, errAnswered) {
					a.refuse(rec, r, err)
				}
				return
			}
		}
		mux.ServeHTTP(rec, r)
	})
}

// authenticate finds out who sent a request, and counts it against the limit of all requests.
func (a *API) authenticate(_ http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	v := visitOf(ctx)
	if isPublic(v.route) {
		return nil
	}
	v.authenticate = func(ctx context.Context) (auth.Identity, error) { return a.opt.Auth.Authenticate(ctx, r) }
	if r.Header.Get("Authorization") == "" && isStream(v.route) && r.URL.Query().Has(ticketParam) {
		v.authenticate = a.tickets.redeem(r.URL.Query().Get(ticketParam))
	}
	var err error
	v.identity, err = v.authenticate(ctx)
	least := auth.User
	if v.route == taskPath || v.route == taskStreamPath {
		least = auth.Anonymous
	}
	if err == nil && !v.identity.May(least) {
		err = v.identity.Require(auth.User)
	}
	if err != nil {
		a.authFailed(ctx, err)
		return err
	}
	return a.count(ctx, a.opt.Requests, v.identity.Caller())
}

// authFailed counts and audits a refused credential. An issuer that does not answer is no such refusal.
func (a *API) authFailed(ctx context.Context, err error) {
	if !errors.Is(err, auth.ErrUnauthenticated) && !errors.Is(err, auth.ErrForbidden) && !errors.Is(err, auth.ErrCapability) {
		return
	}
	a.opt.Metrics.AuthFailed()
	a.audit(ctx, telemetry.Event{Type: telemetry.AuthFailure, Severity: telemetry.Medium, Details: map[string]any{"reason": err.Error()}})
}

// takeSlot bounds the reads, the transfers of files, and the streams of events that a caller and all callers have at the same time.
func (a *API) takeSlot(_ http.ResponseWriter, r *http.Request) (err error) {
	v := visitOf(r.Context())
	var limit *bound
	switch {
	case isFile(v.route) && r.Method != http.MethodDelete:
		limit = a.transfers
	case isStream(v.route) || v.route == mcpPath && r.Method == http.MethodGet:
		limit = a.streams
	case (r.Method == http.MethodGet || r.Method == http.MethodHead) && !isPublic(v.route):
		limit = a.reads
	default:
		return nil
	}
	leave, err := limit.enter(r.Context(), v.identity.Caller())
	if err == nil {
		v.leave = leave
	}
	return err
}

// checkQuery refuses query parameters that the document does not name for an operation, and text that is not UTF-8.
func (a *API) checkQuery() step {
	known := map[string][]string{}
	a.operations(func(method, path string, op *huma.Operation) {
		names := []string{}
		for _, p := range op.Parameters {
			if p.In == "query" {
				names = append(names, p.Name)
			}
		}
		known[method+" "+strings.ReplaceAll(path, "{path}", "{path...}")] = names
	})
	known["GET "+shortSocketPath] = known["GET "+socketPath]
	return func(_ http.ResponseWriter, r *http.Request) error {
		names, documented := known[r.Method+" "+visitOf(r.Context()).route]
		query, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil || !utf8.ValidString(r.URL.Path) {
			return problem(http.StatusBadRequest, "the address is not well formed")
		}
		for name, values := range query {
			switch {
			case !utf8.ValidString(name + strings.Join(values, "")):
				return problem(http.StatusBadRequest, "the query is not valid UTF-8")
			case documented && len(names) == 0:
				return problem(http.StatusBadRequest, "this takes no query parameters")
			case documented && !slices.Contains(names, name):
				return problem(http.StatusBadRequest, "unknown query parameter; there are "+strings.Join(names, ", "))
			}
		}
		return nil
	}
}

// readBody reads the body before the endpoint, so that one place bounds its size and time. Files are read by their endpoints.
func (a *API) readBody(w http.ResponseWriter, r *http.Request) error {
	v := visitOf(r.Context())
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return problem(http.StatusUnsupportedMediaType, "send the body without Content-Encoding")
	}
	if isFile(v.route) {
		return nil
	}
	if a.opt.BodyLimit > 0 {
		r.Body = http.MaxBytesReader(w, r.Body, a.opt.BodyLimit)
	}
	text, err := io.ReadAll(r.Body)
	var large *http.MaxBytesError
	var slow net.Error
	switch {
	case errors.As(err, &large):
		return problem(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes (server.bodyLimit)", large.Limit))
	case errors.As(err, &slow) && slow.Timeout():
		return problem(http.StatusRequestTimeout, "the body took too long to arrive (server.readTimeout)")
	case err != nil:
		return problem(http.StatusBadRequest, "the body could not be read")
	case !utf8.Valid(text):
		return problem(http.StatusBadRequest, "the body is not valid UTF-8")
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	caller := cmp.Or(v.identity.Caller(), v.from.String())
	rest := func() {}
	if len(text) >= largeBody {
		end, err := a.large.enter(r.Context(), caller)
		if err != nil {
			return err
		}
		rest = func() { time.AfterFunc(bodyRest*time.Duration(len(text))/(1<<20), end) }
	}
	leave, err := a.bodies.enter(r.Context(), caller)
	if err != nil {
		rest()
		return err
	}
	v.decoded = sync.OnceFunc(func() {
		leave()
		rest()
	})
	return nil
}
