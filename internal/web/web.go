// Package web is the dashboard: pages for browsers over the HTTP API. The dashboard has no queries, rules or permissions of its own: a page asks the
// API of the same process in the name of its reader, and shows what a client with the same credential would get. Pages are rendered on the server and
// work without JavaScript; the script keeps pages up to date.
//
// If there is no page for a request, the request goes to the API unchanged. A request for a page goes through these steps: ServeHTTP checks host and
// origin, opens the session from the cookie, and calls the page; the page asks the API (client.go) and fills its template (render.go).
package web

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/site"
)

// Options configure a dashboard.
type Options struct {
	// API serves every request for which there is no page. It also identifies the reader of a page, so that each page counts as one request.
	API http.Handler
	// Uncounted is the same API without rate limits. It serves the other requests that a page makes.
	Uncounted http.Handler
	// Key is the secret of 32 bytes with which sessions are sealed. Servers with the same key accept each other's sessions.
	Key []byte
	// Once is shared by the servers with the same key.
	Once Once
	// Hosts are the names under which browsers reach the server, besides localhost, the name of this machine and IP addresses.
	Hosts []string
	// Proxies are the trusted proxies before this server.
	Proxies auth.Proxies
	// Login logs people in at an issuer; nil if there is none.
	Login *auth.Login
	// Session is the limit for the files of a session. Forms show it before files are sent.
	Session Room
	Version string
	Logger  *slog.Logger
	Now     func() time.Time
}

// Once notes what happens at most once: the use of a link, and the end of a session. Its methods are safe for concurrent use.
type Once interface {
	// Count notes a key until it expires, if user is empty and limit is 1. ok is false if the key is noted already.
	Count(ctx context.Context, user, key string, limit int, now, expires time.Time) (ok bool, err error)
	// Reached reports whether Count has noted a key.
	Reached(ctx context.Context, user, key string, limit int) (bool, error)
}

// Server is the dashboard. It is safe for concurrent use.
type Server struct {
	opt      Options
	pages    *http.ServeMux
	sessions *sessions
	origins  *http.CrossOriginProtection
	rendered rendered // cache of the parts of live pages
}

// New returns a dashboard.
func New(opt Options) (*Server, error) {
	sealed, err := newSessions(opt)
	if err != nil {
		return nil, err
	}
	s := &Server{opt: opt, pages: http.NewServeMux(), sessions: sealed, origins: http.NewCrossOriginProtection()}
	s.addPages()
	return s, nil
}

// openPages maps patterns to the pages that need no session.
var openPages = map[string]page{
	"GET /login": (*visit).loginPage, "GET /login/oidc": (*visit).beginLogin, "GET /login/callback": (*visit).finishLogin,
	"POST /login": (*visit).login, "POST /login/links": (*visit).makeLink,
}

// readerPages maps patterns to the pages for readers who are logged in.
var readerPages = map[string]page{
	"GET /{$}": (*visit).now,

	"GET /tasks": (*visit).tasks, "GET /tasks/{id}": (*visit).task, "GET /tasks/{id}/live": (*visit).liveTask,
	"GET /runs": (*visit).runs, "GET /runs/{id}": (*visit).run, "GET /runs/{id}/live": (*visit).liveRun, "GET /runs/{id}/recording": (*visit).recording, "GET /runs/{id}/compare": (*visit).compare, "GET /runs/{id}/calls/{n}": (*visit).call, "GET /runs/{id}/calls/{n}/value": (*visit).value,
	"GET /approvals": (*visit).approvals, "GET /approvals/{id}": (*visit).approval, "GET /approvals/waiting": (*visit).waiting, "GET /security-keys/new": (*visit).newSecurityKey, "GET /doubts": (*visit).doubts,
	"GET /tools": (*visit).tools, "GET /tools/{name}": (*visit).tool,
	"GET /servers": (*visit).servers, "GET /servers/{name}": (*visit).server,
	"GET /sessions": (*visit).sessions, "GET /sessions/{id}": (*visit).session, "GET /sessions/{id}/files/{path...}": (*visit).file,
	"GET /skills": (*visit).skills, "GET /skill": (*visit).skill, "GET /skills/{path...}": (*visit).skillFile, "GET /schedules": (*visit).schedules,
	"GET /policy": (*visit).policy, "GET /policy/presets": (*visit).presets, "GET /policy/flows": (*visit).flows, "GET /privacy": (*visit).privacy, "GET /usage": (*visit).usage, "GET /audit": (*visit).audit, "GET /doctor": (*visit).doctor, "GET /keys": (*visit).keys,

	"POST /tasks": (*visit).newTask, "POST /tasks/{id}/cancel": (*visit).cancelTask,
	"POST /runs": (*visit).newRun, "POST /editor/check": (*visit).checkProgram, "POST /runs/{id}/replay": (*visit).replay, "POST /runs/{id}/calls/{n}": (*visit).reveal, "POST /runs/{id}/calls/{n}/settle": (*visit).settle,
	"POST /approvals": (*visit).decide, "POST /approvals/questions": (*visit).askSecurityKey, "POST /security-keys": (*visit).registerSecurityKey, "POST /security-keys/questions": (*visit).beginSecurityKey, "POST /tools/{name}": (*visit).try,
	"POST /servers": (*visit).addServer, "POST /servers/{name}/{action}": (*visit).changeServer,
	"POST /sessions/{id}/files": (*visit).upload, "POST /skill/{action}": (*visit).changeSkill, "POST /schedules/{id}/end": (*visit).endSchedule,
	"POST /policy/test": (*visit).testPolicy, "POST /policy/check": (*visit).checkPolicy, "POST /policy/simulation": (*visit).simulatePolicy,
	"POST /audit": (*visit).verifyAudit, "POST /doctor": (*visit).examine, "POST /keys/{id}/revoke": (*visit).revokeKey,
	"GET /editor/tools": (*visit).editorTools, "GET /editor/tools/{name}": (*visit).editorTool,
	"POST /logout": (*visit).logout,
}

// addPages adds every page.
func (s *Server) addPages() {
	s.pages.HandleFunc("GET /assets/{file}", serveAsset)
	for pattern, do := range openPages {
		s.pages.HandleFunc(pattern, s.open(do))
	}
	for pattern, do := range readerPages {
		s.pages.HandleFunc(pattern, s.page(do))
	}
}

// Maximum size in bytes of a form without a session, and of a form with a session.
const (
	openForm = 32 << 10
	ownForm  = 2 << 20
)

// writeTime is the time that a browser has to read a page.
const writeTime = 30 * time.Second

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, pattern := s.pages.Handler(r); pattern == "" {
		s.opt.API.ServeHTTP(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", site.ContentPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if s.opt.Proxies.Secure(r) {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime)) //nolint:errcheck // a test's recorder has none
	switch {
	case !s.knownHost(r.Host):
		s.fail(w, nil, http.StatusMisdirectedRequest, errors.New("this server does not know itself by the name in the address: use localhost or its IP address, or add the name to server.hosts"))
	case s.origins.Check(r) != nil:
		s.fail(w, nil, http.StatusForbidden, errors.New("a page of another origin may not do this"))
	default:
		s.pages.ServeHTTP(w, r)
	}
}

// knownHost reports whether a Host header names this server. A web page can make a name of its own resolve to this machine (DNS rebinding), but it
// cannot do that with an IP address.
func (s *Server) knownHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return slices.ContainsFunc(s.opt.Hosts, func(h string) bool { return strings.EqualFold(h, host) })
}

// visit is one request of a reader. Only the goroutine of the request uses it.
type visit struct {
	s      *Server
	w      http.ResponseWriter
	r      *http.Request
	reader session // login of the reader
	me     caller
}

// page answers one request. Its error is shown on an error page.
type page func(*visit) error

// open returns the handler of a page that needs no session.
func (s *Server) open(do page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, openForm)
		s.answer(&visit{s: s, w: w, r: r}, do)
	}
}

// page returns the handler of a page for readers. It redirects a browser without a session to the login.
func (s *Server) page(do page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v := &visit{s: s, w: w, r: r}
		var err error
		v.reader, err = s.sessions.of(r)
		if err == nil {
			err = v.identify()
		}
		var refused *refusal
		switch {
		case errors.Is(err, errNoSession), errors.As(err, &refused) && refused.Status == http.StatusUnauthorized:
			s.sessions.forget(w, r)
			at := "/login"
			if r.Method == http.MethodGet && r.URL.Path != "/" {
				at += "?" + url.Values{"to": {r.URL.RequestURI()}}.Encode()
			}
			http.Redirect(w, r, at, http.StatusSeeOther)
			return
		case err != nil:
			s.answer(v, func(*visit) error { return err })
			return
		}
		if r.Method == http.MethodPost {
			if !strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/") {
				r.Body = http.MaxBytesReader(w, r.Body, ownForm)
				if err := r.ParseForm(); err != nil {
					s.answer(v, func(*visit) error { return errLongForm })
					return
				}
			}
			if !s.sessions.confirms(v.reader, formToken(r)) {
				s.answer(v, func(*visit) error {
					return &refusal{Status: http.StatusForbidden, Detail: "the form is of another session: load the page again"}
				})
				return
			}
		}
		s.answer(v, do)
	}
}

// formToken returns the token of a form. A form with files has it in the address, because its body is not read at once.
func formToken(r *http.Request) string {
	if strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/") {
		return r.URL.Query().Get("csrf")
	}
	return r.PostForm.Get("csrf")
}

func (s *Server) answer(v *visit, do page) {
	err := do(v)
	if err == nil {
		return
	}
	var refused *refusal
	if errors.As(err, &refused) {
		if after := refused.after; after != "" {
			v.w.Header().Set("Retry-After", after)
		}
		s.fail(v.w, v, refused.Status, err)
		return
	}
	s.opt.Logger.ErrorContext(v.r.Context(), "a page failed", "path", v.r.URL.Path, "error", err)
	s.fail(v.w, v, http.StatusInternalServerError, errors.New("the page failed; the log of the server says why"))
}
