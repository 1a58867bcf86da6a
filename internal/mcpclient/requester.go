package mcpclient

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mcp-code-exec-harness/internal/credentials"
	"mcp-code-exec-harness/internal/startup"
)

const (
	connectTimeout = 10 * time.Second
	maxRedirects   = 10
)

// MaxUnused is how long an unused HTTP connection is kept. Node.js and Uvicorn close theirs after 5 seconds; a call that is sent at that moment is
// lost, and its outcome is unknown.
const MaxUnused = 3 * time.Second

// requester makes the HTTP requests of one connection, with the configured headers and credentials. It is safe for concurrent use.
type requester struct {
	base   *http.Transport
	client *http.Client
	header atomic.Pointer[http.Header] // headers of every request

	credentials credentials.Source // source of the credentials; nil if the configured headers authorize requests
	user        string             // user whose credentials are sent
	used        atomic.Pointer[usedSecrets]
	secrets     []string // secrets that every request contains

	life    context.Context // lifetime of the connection; nil until begin
	end     context.CancelFunc
	streams sync.WaitGroup
}

func newRequester(cfg Config, user string) *requester {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.DialContext = (&net.Dialer{Timeout: connectTimeout, KeepAlive: 30 * time.Second}).DialContext
	base.TLSHandshakeTimeout = connectTimeout
	base.IdleConnTimeout = MaxUnused
	base.ReadBufferSize, base.WriteBufferSize = 1<<10, 1<<10 // small, because thousands of calls may each have a connection
	base.MaxIdleConnsPerHost = 16                            // a program's parallel calls reuse connections
	r := &requester{base: base, client: &http.Client{Transport: base}, credentials: cfg.Credentials, user: user}
	header := make(http.Header)
	for name, value := range cfg.Headers {
		header.Set(name, value)
		if secretHeader().MatchString(name) {
			r.secrets = append(r.secrets, value[strings.LastIndexByte(value, ' ')+1:]) // the value without its scheme
		}
	}
	r.secrets = append(r.secrets, secretsOf(cfg.URL)...)
	r.header.Store(&header)
	r.used.Store(&usedSecrets{repeats: newRepeats(r.secrets)})
	return r
}

// usedSecrets holds the credentials that were sent last, and a filter for them and for the secrets of every request.
type usedSecrets struct {
	last []string
	*repeats
}

// secretHeader matches the names of headers that hold credentials.
var secretHeader = startup.Regexp(`(?i)auth|cookie|key|token|secret|passw|credential|session`)

// secretsOf returns the credentials in an address: its password, and parameters whose names suggest a credential.
func secretsOf(address string) (secrets []string) {
	u, err := url.Parse(address)
	if err != nil {
		return nil
	}
	if password, given := u.User.Password(); given {
		secrets = append(secrets, password)
	}
	for name, values := range u.Query() {
		if secretHeader().MatchString(name) || secretParam().MatchString(name) {
			secrets = append(secrets, values...)
		}
	}
	return secrets
}

// secretParam matches further names of parameters that hold credentials.
var secretParam = startup.Regexp(`(?i)^(code|sig|signature|pat|access|pwd)$`)

// begin sets the lifetime of the connection, which ends when ctx ends or r.end is called.
func (r *requester) begin(ctx context.Context) { r.life, r.end = context.WithCancel(ctx) }

// sameOrigin returns an error if the address of a redirect or of an SSE server's endpoint has another origin than the
// configured one. Such an address gets no request, because the configured headers may hold credentials.
func sameOrigin(configured, u *url.URL) error {
	if origin(configured) == origin(u) {
		return nil
	}
	f := newFault(KindUnavailable, "the server sends its clients on to %s://%s, another origin than configured; if that is "+
		"right, put that address into its url", u.Scheme, u.Host)
	f.unsent = true // a redirect that keeps the method tells that the request was not carried out
	return f
}

// origin returns scheme, host and port of an address.
func origin(u *url.URL) string {
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// setHeader sets a header of all later requests; an empty value removes the header. Only the handshake calls setHeader, and the
// handshake makes one request at a time.
func (r *requester) setHeader(name, value string) {
	header := r.header.Load().Clone()
	if header.Set(name, value); value == "" {
		header.Del(name)
	}
	r.header.Store(&header)
}

// do makes one HTTP request. If the server refuses its credentials, do sends it again with new ones: the refused request was not
// carried out. The ctx of a request on a connection ends with the connection.
func (r *requester) do(ctx context.Context, method, address string, body []byte, header ...string) (*http.Response, error) {
	if r.credentials == nil {
		return r.once(ctx, method, address, body, header)
	}
	for again := false; ; again = true {
		name, value, err := r.credentials.Header(ctx, r.user)
		if err != nil {
			return nil, unauthorized(err, nil)
		}
		r.use(value)
		res, err := r.once(ctx, method, address, body, append(header[:len(header):len(header)], name, value))
		if err != nil || res.StatusCode != http.StatusUnauthorized && res.StatusCode != http.StatusForbidden {
			return res, err
		}
		if r.refusesSession(res) {
			return res, nil
		}
		err = r.credentials.Refused(ctx, r.user, value, again, res.StatusCode, res.Header)
		if err == nil && again || errors.Is(err, credentials.ErrNotMeant) {
			return res, nil // the server refuses the request itself, not the credentials
		}
		refusal := r.refusal(res)
		if err != nil {
			return nil, unauthorized(err, refusal)
		}
	}
}

// refusesSession reports whether a server refuses a request because of its session and not because of its credentials: the response mentions the
// session and lacks the header that must ask for credentials (RFC 9110, section 15.5.2). If the credentials are invalid as well, do renews them in
// the handshake of the next session: the requests of a handshake name no session, so refusesSession is false for them. The body of res can still be
// read afterwards.
func (r *requester) refusesSession(res *http.Response) bool {
	if res.StatusCode != http.StatusUnauthorized || res.Header.Get("Www-Authenticate") != "" || r.header.Load().Get(sessionHeader) == "" {
		return false
	}
	body := errorBody(res)
	res.Body = io.NopCloser(bytes.NewReader(body))
	return namesSession(body)
}

// unauthorized returns the fault of a request without valid credentials. refusal is the server's refusal, nil if the request was not sent.
func unauthorized(err error, refusal *Refusal) error {
	f := &fault{kind: KindUnavailable, msg: "its credentials cannot be had: " + err.Error(), unsent: true, refusal: refusal, err: err}
	if needs, is := errors.AsType[*credentials.NeedsLogin](err); is {
		f.kind, f.msg = KindNeedsLogin, needs.Error()
	}
	if refusal != nil {
		f.status = refusal.Status
		if refusal.Said != "" {
			f.msg += "; " + refusal.Error()
		}
	}
	return f
}

// maxUsed is the number of recent credentials to search for in responses: requests in flight may have earlier ones.
const maxUsed = 4

// use records a credential that is about to be sent.
func (r *requester) use(value string) {
	secret := value[strings.LastIndexByte(value, ' ')+1:] // the value without its scheme
	for {
		old := r.used.Load()
		if slices.Contains(old.last, secret) || secret == "" {
			return
		}
		last := append([]string{secret}, old.last[:min(len(old.last), maxUsed-1)]...)
		if r.used.CompareAndSwap(old, &usedSecrets{last, newRepeats(slices.Concat(r.secrets, last))}) {
			return
		}
	}
}

// clean removes credentials from data of the server, because an answer or an error of the server may repeat the credentials of a request.
func (r *requester) clean(data []byte) []byte { return r.used.Load().clean(data) }

// once makes one HTTP request.
func (r *requester) once(ctx context.Context, method, address string, body []byte, header []string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = r.header.Load().Clone()
	for i := 0; i < len(header); i += 2 {
		if header[i+1] != "" || strings.HasPrefix(header[i], mirrorPrefix) {
			req.Header.Set(header[i], header[i+1])
		}
	}
	return r.client.Do(req)
}

// within returns a context that ends with ctx or with the connection.
func (r *requester) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(r.life, cancel)
	return ctx, func() { stop(); cancel() }
}

// release waits for the streams of a closed connection and closes the idle HTTP connections.
func (r *requester) release() {
	r.streams.Wait()
	r.base.CloseIdleConnections()
}
