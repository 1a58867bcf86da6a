package n8n

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/mcpclient"
)

const (
	connectTimeout = 10 * time.Second
	maxAnswer      = 32 << 20 // maximum size in bytes of an answer of the instance
	maxQuoted      = 500      // maximum number of bytes of an answer that a message quotes
)

// api makes requests to the public API of an instance.
type api struct {
	base   *url.URL
	key    string
	client *http.Client
}

func newAPI(base *url.URL, key string) *api {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: connectTimeout}).DialContext
	transport.IdleConnTimeout = mcpclient.MaxUnused
	return &api{base: base, key: key, client: &http.Client{Transport: transport, CheckRedirect: stay}}
}

// stay prevents the client from following redirects: the API sends none, and the key is meant for the configured address only.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// request is a request to the instance. Any method other than GET may change something.
type request struct {
	method string
	path   string // path below /api/v1
	query  url.Values
	body   any
	sent   func() // called when the header of a request that may change something has been written
}

// get sends a GET request and decodes the answer.
func (a *api) get(ctx context.Context, path string, query url.Values, into any) error {
	return a.do(ctx, request{method: http.MethodGet, path: path, query: query}, into)
}

// do sends a request and decodes the answer. If n8n did not carry out the request, the error is a *refusal. If n8n could not be reached, the
// connection broke or the outcome is unknown, the error is a *mcpclient.WithinError.
func (a *api) do(ctx context.Context, r request, into any) error {
	if a.key == "" {
		return refusef(http.StatusUnauthorized, "n8n.apiKey is not set: make a key in n8n under Settings, n8n API, and set it there or as N8N_API_KEY")
	}
	at := a.base.JoinPath("/api/v1", r.path)
	at.RawQuery = r.query.Encode()
	x := exchange{client: a.client, method: r.method, address: at, header: http.Header{"X-N8n-Api-Key": {a.key}, "Accept": {"application/json"}}, sent: r.sent}
	if r.body != nil {
		body, err := json.Marshal(r.body)
		if err != nil {
			return err
		}
		x.body = body
		x.header.Set("Content-Type", "application/json")
	}
	status, header, body, err := x.do(ctx)
	if err != nil {
		return err
	}
	if status < 300 && isJSON(header) {
		if err := decode(body, into); err != nil {
			return x.unclear(status, fmt.Sprintf("n8n answered %s %s with JSON of another form than that of its API: %v", r.method, at.Path, err))
		}
		return nil
	}
	return x.failure(status, header, body, a.key)
}

// exchange is one HTTP request and its state.
type exchange struct {
	client  *http.Client
	method  string
	address *url.URL
	header  http.Header
	body    []byte
	sent    func()
	writes  bool        // whether even a GET or HEAD request may have an effect
	out     atomic.Bool // whether the header was written
}

func (x *exchange) reads() bool {
	return !x.writes && (x.method == http.MethodGet || x.method == http.MethodHead)
}

func (x *exchange) do(ctx context.Context) (int, http.Header, []byte, error) {
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() {
		x.out.Store(true)
		if !x.reads() && x.sent != nil {
			x.sent()
		}
	}})
	req, err := http.NewRequestWithContext(traced, x.method, x.address.String(), bytes.NewReader(x.body))
	if err != nil {
		return 0, nil, nil, err
	}
	req.Header = x.header
	res, err := x.client.Do(req)
	if err != nil {
		return 0, nil, nil, x.broken(ctx, err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = fmt.Errorf("the answer is larger than %d bytes; ask for less at once", maxAnswer)
	}
	if err != nil {
		return 0, nil, nil, x.broken(ctx, err)
	}
	return res.StatusCode, res.Header, body, nil
}

// broken returns the error for a request without an answer.
func (x *exchange) broken(ctx context.Context, err error) error {
	if inner, is := errors.AsType[*url.Error](err); is {
		err = inner.Err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	where := x.address.Scheme + "://" + x.address.Host
	if !x.out.Load() {
		return &mcpclient.WithinError{
			Kind: mcpclient.KindUnavailable, Unsent: true, Err: err,
			Message: fmt.Sprintf("n8n cannot be reached at %s: %v; see that it runs, or correct n8n.url", where, err),
		}
	}
	message := fmt.Sprintf("n8n at %s ended the connection before it answered: %v", where, err)
	if !x.reads() {
		message += "; whether it did what was asked is unknown"
	}
	return &mcpclient.WithinError{Kind: mcpclient.KindConnectionLost, Message: message, Err: err}
}

// unclear returns the error for an answer that does not show what was done: a *mcpclient.WithinError, or a *refusal for a request that only
// reads.
func (x *exchange) unclear(status int, message string) error {
	if x.reads() {
		return refusef(status, "%s", message)
	}
	return &mcpclient.WithinError{Kind: mcpclient.KindHTTP, Message: message + "; whether n8n did what was asked is unknown"}
}

// failure returns the error for an answer other than a success.
func (x *exchange) failure(status int, header http.Header, body []byte, key string) error {
	var said struct {
		Message string `json:"message"`
		Hint    string `json:"hint"`
	}
	if key != "" {
		body = bytes.ReplaceAll(body, []byte(key), []byte("[credential]"))
	}
	_ = json.Unmarshal(body, &said) // any other text is not an error message of n8n
	what := x.method + " " + x.address.Path
	if !isJSON(header) && (status < 300 || looksHTML(header, body)) {
		text := fmt.Sprintf("HTTP %d with a page of HTML instead of JSON to %s: something before n8n, such as a proxy or a login, or n8n.url is not that of its API",
			status, what)
		if status < 300 || status >= 500 {
			return x.unclear(status, text)
		}
		return &refusal{text, object{"status": status}}
	}
	message := clip.Words(cmp.Or(said.Message, strings.TrimSpace(string(body)), http.StatusText(status)), maxQuoted)
	data := object{"status": status, "message": message}
	switch {
	case status == http.StatusUnauthorized:
		return &refusal{"n8n refused the API key (401): it is wrong, expired or deleted; make one under Settings, n8n API, and set n8n.apiKey", data}
	case status == http.StatusForbidden:
		return &refusal{fmt.Sprintf("n8n refused %s (403): %s; the API key lacks the scope for it, or its user the rights", what, message), data}
	case status == http.StatusNotFound:
		return &refusal{fmt.Sprintf("not found (404): %s: %s", what, message), data}
	case status == http.StatusTooManyRequests:
		text := "n8n asks to be called less often (429); nothing was done"
		if after := header.Get("Retry-After"); after != "" {
			data["retryAfter"] = after
			text += "; retry after " + after + " (seconds, or a date)"
		}
		return &refusal{text, data}
	case status >= 500 || status == http.StatusRequestTimeout:
		return x.unclear(status, fmt.Sprintf("n8n failed with HTTP %d on %s: %s", status, what, message))
	case status >= 300 && status < 400:
		return &refusal{fmt.Sprintf("n8n redirects %s to %s, which is not followed; set n8n.url to the address that it redirects to", what, header.Get("Location")), data}
	}
	return &refusal{fmt.Sprintf("n8n refused %s (%d): %s", what, status, message), data}
}

func isJSON(header http.Header) bool {
	kind, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	return kind == "application/json" || strings.HasSuffix(kind, "+json")
}

func looksHTML(header http.Header, body []byte) bool {
	return strings.Contains(header.Get("Content-Type"), "html") || bytes.HasPrefix(bytes.TrimSpace(body), []byte("<"))
}

// page is one page of a list.
type page[T any] struct {
	Data       []T    `json:"data"`
	NextCursor string `json:"nextCursor"`
}

// pageSize is the maximum number of elements that n8n returns at once.
const pageSize = 250

// list reads at most limit elements of a list, from an offset on. It also requests the pages before the offset, because n8n's cursors are opaque.
func list[T any](ctx context.Context, a *api, path string, query url.Values, offset, limit int) ([]T, error) {
	all := []T{}
	if query == nil {
		query = url.Values{}
	}
	query.Set("limit", fmt.Sprint(min(pageSize, offset+limit)))
	for {
		var p page[T]
		if err := a.get(ctx, path, query, &p); err != nil {
			return nil, err
		}
		skip := min(offset, len(p.Data))
		offset -= skip
		all = append(all, p.Data[skip:]...)
		if p.NextCursor == "" || len(p.Data) == 0 || len(all) >= limit {
			return all[:min(len(all), limit)], nil
		}
		query.Set("cursor", p.NextCursor)
	}
}
