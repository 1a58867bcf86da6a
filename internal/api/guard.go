package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
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

// step checks a request before its endpoint is called. The returned error becomes the answer; errAnswered means that the step has written the answer.
type step func(w http.ResponseWriter, r *http.Request) error

var errAnswered = errors.New("answered")

// serve returns the handler of all requests: it records a request, sets the headers of the answer, runs the steps, and calls the endpoint.
func (a *API) serve(mux *http.ServeMux, steps ...step) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		rec := &recorder{ResponseWriter: w}
		v := &visit{route: routeOf(mux, r), from: a.opt.Proxies.Client(r), answer: rec, leave: func() {}, decoded: func() {}}
		v.id = pathID(v.route, r.URL.Path)
		v.conn, _ = r.Context().Value(connKey{}).(*counted)
		a.requests.Add(1)
		defer a.requests.Add(-1)
		a.busy.Add(1)
		v.detach = sync.OnceFunc(func() { a.busy.Add(-1) })
		defer v.detach()
		body := r.Body
		defer func() {
			if rec.code() >= 400 && v.identity.May(auth.User) {
				rec.discard(r, body)
			}
		}()
		defer func() {
			rec.endTurn()
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
		if a.opt.Proxies.Secure(r) {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		defer func() {
			failed := recover()
			// If the answer has begun, the connection is cut off, so that the client sees that the answer is incomplete.
			abort := failed != nil && (failed == http.ErrAbortHandler || rec.status != 0) //nolint:errorlint // net/http compares with ==, too
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
				if !v.identity.May(auth.User) && r.ContentLength != 0 {
					h.Set("Connection", "close") // keeps net/http from waiting for the rest of the body
				}
				if !errors.Is(err, errAnswered) {
					a.refuse(rec, r, err)
				}
				return
			}
		}
		defer v.conn.serve()()
		mux.ServeHTTP(rec, r)
	})
}

// authenticate identifies the sender of a request.
func (a *API) authenticate(_ http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	v := visitOf(ctx)
	if isPublic(v.route) || isOpenIndex(v.route, r) {
		if v.route != mcpCallPath { // readBody checks the credential of this route
			a.paceOpen(ctx)
		}
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
	if v.identity.May(auth.User) {
		v.conn.identified()
	}
	return nil
}

// countRequest counts a request against the limit of all requests.
func (a *API) countRequest(_ http.ResponseWriter, r *http.Request) error {
	if v := visitOf(r.Context()); !isPublic(v.route) && !isOpenIndex(v.route, r) {
		return a.count(r.Context(), a.opt.Requests, v.identity.Caller())
	}
	return nil
}

// openBody is the maximum size in bytes of a body without credentials.
const openBody = 4 << 10

// checkOpenBody refuses the body of a request without credentials if the body is longer than openBody, or if the request only reads. Two kinds of
// bodies are limited later, when readBody reads them: bodies of /task on a harness without keys, and bodies that come with a capability.
func (a *API) checkOpenBody(_ http.ResponseWriter, r *http.Request) error {
	v := visitOf(r.Context())
	switch {
	case v.identity.May(auth.User) || r.ContentLength == 0:
		return nil
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		return problem(http.StatusBadRequest, "send no body with "+r.Method)
	case v.route == taskPath || v.route == taskStreamPath || v.route == mcpCallPath || r.ContentLength <= openBody && r.ContentLength > 0:
		return nil
	}
	return problem(http.StatusRequestEntityTooLarge, fmt.Sprintf("a body without credentials has at most %d bytes", openBody))
}

// authFailed counts and audits a refused credential. It ignores other errors, for example if the issuer does not answer.
func (a *API) authFailed(ctx context.Context, err error) {
	if !errors.Is(err, auth.ErrUnauthenticated) && !errors.Is(err, auth.ErrForbidden) && !errors.Is(err, auth.ErrCapability) {
		return
	}
	a.opt.Metrics.AuthFailed()
	v := visitOf(ctx)
	a.refusals.note(addressBlock(v.from).String(), a.event(ctx, telemetry.Event{
		Type: telemetry.AuthFailure, Severity: telemetry.Medium, Details: map[string]any{"reason": err.Error()},
	}))
	a.paceOpen(ctx)
}

// takeSlot limits the reads, the transfers of files and the streams of events that are served at the same time, for each caller and for all callers.
func (a *API) takeSlot(_ http.ResponseWriter, r *http.Request) (err error) {
	v := visitOf(r.Context())
	var limit *bound
	switch {
	case isFile(v.route) && r.Method != http.MethodDelete:
		limit = a.transfers
	case v.route == skillIndexPath:
		limit = a.packing
	case isStream(v.route) || v.route == mcpPath && r.Method == http.MethodGet:
		limit = a.streams
	case (r.Method == http.MethodGet || r.Method == http.MethodHead) && !isPublic(v.route):
		limit = a.reads
	default:
		return nil
	}
	leave, err := limit.enter(r.Context(), v.identity.Caller())
	if err != nil {
		return err
	}
	v.leave = leave
	events := v.route == eventsPath || v.route == runEventsPath
	if r.Method == http.MethodPut || limit == a.streams && !events || v.route == searchPath { // Catalog.Search takes the turn of a search itself
		return nil
	}
	return a.takeTurn(r.Context())
}

// takeTurn waits for the caller's turn to compute an answer.
func (a *API) takeTurn(ctx context.Context) error {
	v := visitOf(ctx)
	if strings.HasPrefix(v.route, "/v1/tools") {
		a.opt.Harness.EnsureTools(ctx, v.identity.User) // called before the turn begins, because EnsureTools waits for servers and not for a processor
	}
	wait, cancel := context.WithTimeout(ctx, slotWait)
	defer cancel()
	end, err := a.opt.Harness.Computing().Begin(wait, cmp.Or(v.identity.User, v.identity.Principal))
	if err != nil {
		return problem(http.StatusTooManyRequests, "reads of this caller wait for others of it, or of other callers: read less at the same time, or try again later")
	}
	v.answer.computed = end
	return nil
}

// checkQuery returns a step that refuses query parameters which the document does not list for the operation, and text that is not UTF-8.
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
				return problem(http.StatusBadRequest, "unknown query parameter; this endpoint has none")
			case documented && !slices.Contains(names, name):
				return problem(http.StatusBadRequest, "unknown query parameter; there are "+strings.Join(names, ", "))
			}
		}
		return nil
	}
}

// readBody reads the body before the endpoint is called, so that one place limits its size and time. Bodies that are files are read by their
// endpoints.
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
	caller := cmp.Or(v.identity.Caller(), v.from.String())
	var text []byte
	if v.route == mcpCallPath {
		var err error
		if text, err = a.readCapability(r); err != nil {
			return err
		}
		caller = v.capability.Identity().Caller()
	}
	text, arrived, err := a.receive(w, r, caller, text)
	var large *http.MaxBytesError
	var slow net.Error
	var refused *Problem
	switch {
	case errors.As(err, &refused):
		return err
	case errors.As(err, &large):
		return problem(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes (server.bodyLimit)", a.opt.BodyLimit))
	case errors.As(err, &slow) && slow.Timeout():
		return problem(http.StatusRequestTimeout, "the body took too long to arrive (server.readTimeout)")
	case err != nil:
		return problem(http.StatusBadRequest, "the body could not be read")
	case !utf8.Valid(text):
		return problem(http.StatusBadRequest, "the body is not valid UTF-8")
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	rest := func() {}
	if len(text) >= largeBody {
		end, err := a.large.enter(r.Context(), caller)
		if err != nil {
			arrived()
			return err
		}
		rest = func() { time.AfterFunc(bodyRest*time.Duration(len(text))/(1<<20), end) }
	}
	leave, err := a.bodies.enter(r.Context(), caller)
	if err != nil {
		rest()
		arrived()
		return err
	}
	v.decoded = sync.OnceFunc(func() {
		leave()
		rest()
		arrived()
	})
	return nil
}

// bodyUnit is the unit in bytes in which the memory for arriving bodies is counted.
const bodyUnit = 64 << 10

// receive reads a body; begin is the part that was read before. If the body has more than openBody bytes, receive reserves memory from the caller's
// share until done is called. If the length of the body is declared, it reserves this length before it reads. If the length is unknown, it first
// reserves one unit, and then the maximum length if the body is longer than one unit.
func (a *API) receive(w http.ResponseWriter, r *http.Request, caller string, begin []byte) (text []byte, done func(), err error) {
	v := visitOf(r.Context())
	var held []func()
	release := func() {
		for _, leave := range held {
			leave()
		}
	}
	defer func() {
		if err != nil {
			release()
		}
	}()
	limit := a.opt.BodyLimit
	if limit > 0 && r.ContentLength > limit {
		return nil, nil, &http.MaxBytesError{Limit: limit}
	}
	if limit > 0 {
		r.Body = http.MaxBytesReader(w, r.Body, limit-int64(len(begin)))
	}
	share := a.arriving
	if !v.identity.May(auth.User) && v.capability.RunID == "" {
		share = a.open
	}
	take := func(size int64) error {
		leave, err := share.enterN(r.Context(), caller, int(min((size+bodyUnit-1)/bodyUnit, int64(share.each))))
		if err == nil {
			held = append(held, leave)
		}
		return err
	}
	first := r.ContentLength
	if first < 0 {
		first = bodyUnit
	}
	if first > openBody {
		if err := take(first); err != nil {
			return nil, nil, err
		}
	}
	text, err = io.ReadAll(io.MultiReader(bytes.NewReader(begin), io.LimitReader(r.Body, first-int64(len(begin)))))
	if err != nil || r.ContentLength >= 0 || int64(len(text)) < first {
		return text, release, err
	}
	if err := take(cmp.Or(limit, largestBody) - first); err != nil {
		return nil, nil, err
	}
	more, err := io.ReadAll(r.Body)
	return append(text, more...), release, err
}

// largestBody is the length that is assumed for a body of unknown length if server.bodyLimit is not set.
const largestBody = 1 << 30

// readCapability checks the credential of /internal/mcp-call, before the rest of the body is read. The credential is in a header or at the beginning
// of the body. readCapability returns the part of the body that it has read.
func (a *API) readCapability(r *http.Request) (begin []byte, err error) {
	v := visitOf(r.Context())
	begin, err = io.ReadAll(io.LimitReader(r.Body, openBody))
	if err != nil {
		return nil, problem(http.StatusBadRequest, "the body could not be read")
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		token = memberOf(begin, "authToken")
	}
	switch {
	case token == "" && len(begin) == openBody:
		return nil, problem(http.StatusRequestEntityTooLarge, fmt.Sprintf("put authToken at the beginning: a body without credentials has at most %d bytes", openBody))
	case token == "":
		return nil, problem(http.StatusBadRequest, noCapability)
	}
	if v.capability, err = a.opt.Capabilities.Check(token); err == nil {
		err = a.current(r.Context(), v.capability)
	}
	if errors.Is(err, auth.ErrCapability) {
		v.capability = auth.Capability{}
		a.authFailed(r.Context(), err)
		return nil, problem(http.StatusForbidden, "Invalid auth token")
	}
	if err == nil {
		v.conn.identified()
	}
	return begin, err
}

// memberOf returns the string in a member of a JSON object. text begins with the object; the end of the object may be missing. memberOf returns
// an empty string if it does not find the member.
func memberOf(text []byte, name string) string {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return ""
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return ""
		}
		if strings.EqualFold(fmt.Sprint(key), name) { // the case of the key does not matter
			var value string
			_ = d.Decode(&value)
			return value
		}
		var other json.RawMessage
		if d.Decode(&other) != nil {
			return ""
		}
	}
	return ""
}
