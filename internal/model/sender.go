package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// maxErrorBody is how much of an error's body is read.
const maxErrorBody = 64 << 10

// sender sends one attempt's request. It is what all providers' libraries are given as their HTTP client, so that
// silence, cancellation and errors are the same with all of them.
type sender struct {
	cfg    Config
	client *http.Client
}

func newSender(cfg Config) *sender {
	client := http.Client{}
	if cfg.HTTPClient != nil {
		client = *cfg.HTTPClient
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &sender{cfg: cfg, client: &client}
}

// errSilent ends a request whose server was silent for too long.
var errSilent = errors.New("the server was silent for too long")

// Do returns a response with status 2xx whose body ends with an *Error if it does not end well, or an *Error.
func (s *sender) Do(req *http.Request) (*http.Response, error) {
	caller := req.Context()
	ctx, cancel := context.WithCancelCause(caller)
	timer := time.AfterFunc(s.cfg.Timeout, func() { cancel(errSilent) })
	end := func() {
		timer.Stop()
		cancel(nil)
	}
	res, err := s.client.Do(req.WithContext(ctx))
	if err != nil {
		err = s.lost(ctx, err, false)
		end()
		return nil, err
	}
	body := &liveBody{sender: s, body: res.Body, ctx: ctx, timer: timer, end: end}
	res.Body = body
	kind := res.Header.Get("Content-Type")
	if res.StatusCode/100 == 2 && (kind == "" || strings.HasPrefix(kind, "text/event-stream")) {
		return res, nil
	}
	defer body.Close()
	if res.StatusCode/100 == 2 { // a proxy's page, or a server that does not stream
		e := (&failure{status: res.StatusCode, message: "the server answers with " + clean(kind) + " instead of a stream"}).newError(s.cfg)
		e.Remedy = "check " + urlSettings(s.cfg.Provider)
		return nil, e
	}
	if location := res.Header.Get("Location"); location != "" && res.StatusCode/100 == 3 {
		f := failure{status: res.StatusCode, message: "the server redirects to " + withoutSecrets(location)}
		e := f.newError(s.cfg)
		e.Remedy = "set " + urlSettings(s.cfg.Provider) + " to the address that answers itself"
		return nil, e
	}
	text, err := io.ReadAll(io.LimitReader(body, maxErrorBody))
	if err != nil && caller.Err() != nil {
		return nil, err
	}
	f := parseFailure(res.StatusCode, text)
	if after := retryAfter(res.Header, time.Now()); after > 0 {
		f.after = after
	}
	return nil, f.newError(s.cfg)
}

// lost is the error for a connection that failed; begun says that the answer had begun.
func (s *sender) lost(ctx context.Context, err error, begun bool) error {
	e := &Error{Kind: KindUnavailable, Provider: s.cfg.Provider, Model: s.cfg.Name}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errSilent):
		e.Kind, e.Message = KindTimeout, fmt.Sprintf("the server was silent for %s", s.cfg.Timeout)
	case cause != nil:
		return cause
	default:
		if begun {
			e.Kind = KindCut
		}
		e.Message = s.reason(err)
	}
	e.Remedy = remedy(e.Kind, s.cfg)
	return e
}

// reason is the text of a failed connection without addresses: users see it, and the network behind the harness is not theirs.
func (s *sender) reason(err error) string {
	var address *url.Error
	var connection *net.OpError
	var name *net.DNSError
	switch {
	case errors.As(err, &name):
		return "the server's name cannot be resolved"
	case errors.As(err, &connection):
		err = fmt.Errorf("%s: %w", connection.Op, connection.Err)
	case errors.As(err, &address):
		err = address.Err
	}
	text := clean(err.Error())
	if u, err := url.Parse(s.cfg.BaseURL); err == nil && u.Hostname() != "" {
		text = strings.ReplaceAll(text, u.Hostname(), "the server")
	}
	return text
}

// withoutSecrets is an address without user, query and fragment.
func withoutSecrets(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "another address"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// liveBody is a response's body that ends when its server is silent for too long.
type liveBody struct {
	sender *sender
	body   io.ReadCloser
	ctx    context.Context
	timer  *time.Timer
	end    func()
}

func (b *liveBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	if err == nil {
		b.timer.Reset(b.sender.cfg.Timeout)
		return n, nil
	}
	if errors.Is(err, io.EOF) && b.ctx.Err() == nil {
		return n, err
	}
	return n, b.sender.lost(b.ctx, err, true)
}

func (b *liveBody) Close() error {
	b.end()
	return b.body.Close()
}

// cut is the error of a stream that ended before the turn did.
func (s *sender) cut(why string) error {
	if why == "" {
		why = "the stream ended before the turn did"
	}
	e := &Error{Kind: KindCut, Provider: s.cfg.Provider, Model: s.cfg.Name, Message: clean(why)}
	e.Remedy = remedy(e.Kind, s.cfg)
	return e
}

// broken is the error of a stream that could not be read to its end. Our own errors and the context's pass unchanged.
func (s *sender) broken(err error) error {
	var known *Error
	if errors.As(err, &known) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return s.cut("read the stream: " + err.Error())
}
