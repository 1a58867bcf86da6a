package mcpserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/runs"
)

// page is a local web page on which this machine's user decides about calls. The address of a request contains a secret, which the client shows
// to its user but not to its model.
type page struct {
	runs func() *runs.Service
	// presence returns the Presence that tells whether an approval needs a passphrase.
	presence func() *approval.Presence
	resume   func(approval.Request) // resumes the run or task of a request for which no client waits
	mu       sync.Mutex
	server   *http.Server
	base     string            // prefix of addresses
	links    map[string]linked // links by secret
	// awaited counts the callers that resume a run once its request is decided, by request.
	awaited map[string]int
	next    chan struct{} // closed by the next decision
}

func newPage(runs func() *runs.Service, presence func() *approval.Presence, resume func(approval.Request)) *page {
	return &page{runs: runs, presence: presence, resume: resume, links: map[string]linked{}, awaited: map[string]int{}, next: make(chan struct{})}
}

// await registers the caller as one that resumes the run of a request once the request is decided. done ends the registration.
func (p *page) await(request string) (done func()) {
	add := func(n int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.awaited[request] += n; p.awaited[request] == 0 {
			delete(p.awaited, request)
		}
	}
	add(1)
	return func() { add(-1) }
}

// changed returns a channel that the next decision closes.
func (p *page) changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next
}

// decided informs the waiting callers of a decision, or resumes the run if no caller waits for this request.
func (p *page) decided(r approval.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.next)
	p.next = make(chan struct{})
	if p.awaited[r.ID] == 0 {
		p.resume(r)
	}
}

// linked is the request that an address shows, with its user.
type linked struct {
	who     auth.Identity
	request string
}

const (
	maxLinks    = 1000 // maximum number of addresses; a further one replaces one of them
	pageTimeout = 10 * time.Second
)

// link returns the address of a request. The first call starts the page's server.
func (p *page) link(who auth.Identity, request string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server == nil {
		var config net.ListenConfig
		l, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		p.base = "http://" + l.Addr().String() + "/"
		p.server = &http.Server{
			Handler: http.NewCrossOriginProtection().Handler(p), ReadTimeout: pageTimeout, WriteTimeout: pageTimeout, MaxHeaderBytes: 16 << 10,
		}
		go p.server.Serve(l) // Serve returns after close
	}
	for secret, l := range p.links {
		if l.request == request {
			return p.base + secret, nil
		}
	}
	if len(p.links) >= maxLinks {
		for secret := range p.links {
			delete(p.links, secret)
			break
		}
	}
	secret := rand.Text()
	p.links[secret] = linked{who, request}
	return p.base + secret, nil
}

func (p *page) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server != nil {
		p.server.Close()
	}
}

// ServeHTTP implements http.Handler.
func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	p.mu.Lock()
	l, known := p.links[strings.TrimPrefix(r.URL.Path, "/")]
	known = known && "http://"+r.Host+"/" == p.base // the host must be this machine's address, not a name that resolves to this machine (DNS rebinding)
	p.mu.Unlock()
	if !known || r.Method != http.MethodGet && r.Method != http.MethodPost {
		http.Error(w, "There is nothing here.", http.StatusNotFound)
		return
	}
	request, err := p.runs().Approval(r.Context(), l.who, l.request)
	r.Body = http.MaxBytesReader(w, r.Body, 1<<10)
	confirm, wrong := false, ""
	if err == nil {
		confirm, err = p.presence().Required(r.Context())
	}
	if decision := r.PostFormValue("decision"); err == nil && r.Method == http.MethodPost && (decision == "approve" || decision == "deny") {
		d := approval.Decision{Approve: decision == "approve" && request.Whole(), Seen: request.Sight()}
		switch {
		case d.Approve && r.PostForm.Has("seen") && d.Seen.Digest != r.PostFormValue("seen"):
			wrong = "the request is not what was shown; this is how it is now"
		case d.Approve && confirm:
			d.Sign, err = p.presence().Unlock(r.PostFormValue("passphrase"))
		}
		if err == nil && wrong == "" {
			var decided approval.Request
			if decided, err = p.runs().Decide(r.Context(), l.who, l.request, d); err == nil {
				request = decided
				p.decided(request)
			}
		}
		switch {
		case errors.Is(err, approval.ErrPassphrase), errors.Is(err, approval.ErrAttempts), errors.Is(err, approval.ErrNoKey):
			wrong, err = err.Error(), nil
		case errors.Is(err, approval.ErrDecided):
			request, err = p.runs().Approval(r.Context(), l.who, l.request)
		}
	}
	if err != nil {
		http.Error(w, "The request cannot be shown: "+err.Error(), http.StatusInternalServerError)
		return
	}
	if request, err = p.runs().Replaced(r.Context(), request, true); err != nil {
		http.Error(w, "The request cannot be shown: "+err.Error(), http.StatusInternalServerError)
		return
	}
	_ = pageText.Execute(w, map[string]any{"Request": request, "Waiting": request.Status == approval.Waiting, "Whole": request.Whole(), "Confirm": confirm, "Wrong": wrong, "Seen": request.Sight().Digest})
}

// names returns the names of a request's tools.
func names(r *approval.Request) string {
	var all []string
	seen := map[string]bool{}
	for _, c := range r.Calls {
		if !seen[c.Tool] && len(all) < maxNames {
			all = append(all, c.Tool)
		}
		seen[c.Tool] = true
	}
	return strings.Join(all, ", ")
}

var pageText = template.Must(template.New("page").Funcs(template.FuncMap{"text": func(v any) string { return clip.Visible(fmt.Sprintf("%s", v)) }}).Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Approval</title>
<style>body{font:16px/1.5 system-ui;max-width:50rem;margin:2rem auto;padding:0 1rem}pre{white-space:pre-wrap;word-break:break-all;background:#eee;color:#000;padding:.7rem}button{font:inherit;padding:.4rem 1.2rem;margin-right:1rem}</style>
<h1>{{if .Waiting}}A program wants to make these calls{{else}}It is {{.Request.Status}}{{end}}</h1>
{{range .Request.Calls}}<h2>{{text .Tool}}</h2>{{with .Description}}<p>{{text .}}</p>{{end}}{{with .Reason}}<p>{{text .}}</p>{{end}}{{with .Changed}}<p>Changed since it was approved: {{text .}}</p>{{end}}
<pre>{{if .Args}}{{text .Args}}{{else}}{{.ArgsBytes}} bytes; harness approvals show {{$.Request.ID}} shows them{{end}}</pre>{{with .Replaced}}<ul>{{range .}}<li>{{text .Token}} {{if .Embedded}}is part of{{else}}is{{end}} {{text .Path}} and is replaced by <code>{{text .Value}}</code>{{if .Written}}, written <code>{{text .Written}}</code> for {{.Language}}{{end}}{{with .Warning}}. <strong>Warning: {{text .}}.</strong>{{end}}</li>{{end}}</ul>{{end}}{{with .Values}}<ul>{{range .}}<li>{{text .Path}} {{text .From}}</li>{{end}}</ul>{{end}}{{with .Unread}}<p>Where tokens are replaced, and by what, cannot be told: {{text .}}</p>{{end}}{{end}}
{{if .Waiting}}{{with .Wrong}}<p role="alert">Not approved: {{.}}</p>{{end}}<form method="post">{{if .Whole}}<input type="hidden" name="seen" value="{{.Seen}}">{{if .Confirm}}<p><label>Passphrase, to approve <input type="password" name="passphrase" autocomplete="off" autofocus></label></p>{{end}}<button name="decision" value="approve">Approve</button>{{end}}<button name="decision" value="deny">Deny</button></form>
<p>Run {{.Request.Run}}. Tokens such as pii_1e@d1.pii.invalid and [PHONE_1] stand for personal data.</p>{{else}}<p>You can close this page.</p>{{end}}
</html>
`))
