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

// requester makes the HTTP requests of one connection, with the configured headers and credentials. It is safe for concurrent use.
type requester struct {
	base   *http.Transport
	client *http.Client
	header atomic.Pointer[http.Header] // headers of every request

	credentials credentials.Source // nil: the configured headers
	user        string             // user whose credentials are sent
	used        atomic.Pointer[usedSecrets]
	secrets     []string // secrets that every request carries

	life    context.Context // lifetime of the connection; nil until begin
	end     context.CancelFunc
	streams sync.WaitGroup
}

func newRequester(cfg Config, user string) *requester {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.DialContext = (&net.Dialer{Timeout: connectTimeout, KeepAlive: 30 * time.Second}).DialContext
	base.TLSHandshakeTimeout = connectTimeout
	base.ReadBufferSize, base.WriteBufferSize = 1<<10, 1<<10 // thousands of calls may be in flight, each on a connection of its own
	base.MaxIdleConnsPerHost = 16                            // a program's parallel calls should not pay a handshake each
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

// usedSecrets are the last credentials that were sent, and what finds them and those that are sent all the time.
type usedSecrets struct {
	last []string
	*repeats
}

// secretHeader matches the names of headers that hold credentials.
var secretHeader = startup.Regexp(`(?i)auth|cookie|key|token|secret|passw|credential|session`)

// secretsOf are the credentials in an address: its password, and parameters whose names say so.
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

// begin starts the life of the connection, which ends with ctx or end.
func (r *requester) begin(ctx context.Context) { r.life, r.end = context.WithCancel(ctx) }

// sameOrigin is the error for an address, of a redirect or of an SSE server's endpoint, at an origin that is not the
// configured one. It is not followed, because the configured headers may hold credentials.
func sameOrigin(configured, u *url.URL) error {
	if origin(configured) == origin(u) {
		return nil
	}
	f := newFault(KindUnavailable, "the server sends its clients on to %s://%s, another origin than configured; if that is "+
		"right, put that address into its url", u.Scheme, u.Host)
	f.unsent = true // a redirect that keeps the method asks for the request to be sent again
	return f
}

// origin is scheme, host and port of an address.
func origin(u *url.URL) string {
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// setHeader adds a header to all requests from now on, or removes it. Only the handshake does, which makes one request
// at a time.
func (r *requester) setHeader(name, value string) {
	header := r.header.Load().Clone()
	if header.Set(name, value); value == "" {
		header.Del(name)
	}
	r.header.Store(&header)
}

// do makes one HTTP request, and once more with new credentials if the server refuses the first for its credentials: a request that is
// answered so was not carried out. ctx comes from within, so that the request ends with the connection.
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
			return res, nil // refused as any other request
		}
		refusal := r.refusal(res)
		if err != nil {
			return nil, unauthorized(err, refusal)
		}
	}
}

// refusesSession reports whether a server refuses a request for its session, not for its credentials: it names the session and asks for no
// credentials, as RFC 9110, section 15.5.2 has it. A new session begins without one, so that credentials which are refused too are renewed then.
// The body can still be read.
func (r *requester) refusesSession(res *http.Response) bool {
	if res.StatusCode != http.StatusUnauthorized || res.Header.Get("Www-Authenticate") != "" || r.header.Load().Get(sessionHeader) == "" {
		return false
	}
	body := errorBody(res)
	res.Body = io.NopCloser(bytes.NewReader(body))
	return namesSession(body)
}

// unauthorized is the fault of a request for which there are no credentials. refusal is the server's, nil if the request was not sent.
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

// maxUsed is how many credentials are looked for in what the server sends: requests in flight may have earlier ones.
const maxUsed = 4

// use notes a credential that is sent.
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

// clean is what the server sends without the credentials that it was sent: a server may repeat what it got, in an answer or an error.
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

// within is ctx that ends with the connection, too.
func (r *requester) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(r.life, cancel)
	return ctx, func() { stop(); cancel() }
}

// release waits until nothing of a closed connection is left.
func (r *requester) release() {
	r.streams.Wait()
	r.base.CloseIdleConnections()
}
