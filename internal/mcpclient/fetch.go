package mcpclient

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"mcp-code-exec-harness/internal/netguard"
	"mcp-code-exec-harness/internal/openapi"
)

// TransportBuiltIn is the transport of servers inside this process: those with Config.Fetch or Config.Within.
const TransportBuiltIn = "built-in"

// Fetch configures the built-in server that makes HTTP requests for programs.
type Fetch struct {
	Allow        netguard.Hosts // hosts that programs may send requests to
	AllowPrivate bool           // allows addresses of this machine and of private networks
}

func (f Fetch) reaches(ip netip.Addr) bool { return f.AllowPrivate || netguard.Public(ip) }

// fetcher is the built-in server that makes HTTP requests. It implements service.
type fetcher struct {
	Fetch
	*requester
	limit int // maximum size of an answer in bytes
}

// builtIn connects to the built-in server that makes HTTP requests.
func (s *server) builtIn(ctx context.Context) (*conn, error) {
	r := newRequester(Config{}, "")
	r.base.Proxy = nil // a proxy would resolve host names itself and so bypass the check of addresses
	r.base.DialContext = netguard.Dialer(connectTimeout, s.cfg.Fetch.reaches)
	r.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c := &conn{transport: TransportBuiltIn, local: &local{service: &fetcher{Fetch: *s.cfg.Fetch, requester: r, limit: s.m.opts.MaxResult}}}
	c.link = newLink(c.local)
	return c, s.handshake(ctx, c, legacyVersion)
}

func (f *fetcher) release() { f.base.CloseIdleConnections() }

func (f *fetcher) describe() (Info, string) {
	return Info{Name: "http", Title: "HTTP requests"}, "Makes HTTP requests to these hosts: " + strings.Join(f.Allow, ", ")
}

// fetchMethods maps the tools of a fetcher to their HTTP methods.
var fetchMethods = map[string][]string{
	"fetch": {http.MethodGet, http.MethodHead},
	"send":  {http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete},
}

const (
	maxFetchHeaders = 64
	fetchAnswer     = "Returns {status, headers, body}, whatever the status is; body is the value of JSON, else a text. Redirects are not followed: " +
		"headers.location says where to. Content that is no text becomes a file: {file, mimeType, bytes}. The global fetch(url, init) does the same, gives a " +
		"Response, and follows redirects."
)

func (f *fetcher) tools() []Tool {
	input := func(method, rest string) json.RawMessage {
		return json.RawMessage(`{"type":"object","properties":{"url":{"type":"string","description":"http or https address"},"method":` + method +
			`,"headers":{"type":"object","additionalProperties":{"type":"string"}}` + rest + `},"required":["url"],"additionalProperties":false}`)
	}
	output := json.RawMessage(`{"type":"object","properties":{"status":{"type":"integer"},"headers":{"type":"object","additionalProperties":{"type":"string"}},"body":{},"notJSON":{"const":true,"description":"body is a text, although its type is JSON"}}}`)
	return []Tool{
		{
			Name: "fetch", Title: "Get from an address", Description: "Gets what is at an HTTP address. " + fetchAnswer,
			InputSchema: input(`{"enum":["GET","HEAD"],"default":"GET"}`, ""), OutputSchema: output,
			Annotations: Annotations{ReadOnly: new(true), Destructive: new(false), Idempotent: new(true), OpenWorld: new(true)},
		},
		{
			Name: "send", Title: "Send to an address", Description: "Sends an HTTP request that may change something. A body that is no text is sent as JSON. " + fetchAnswer,
			InputSchema: input(`{"enum":["POST","PUT","PATCH","DELETE"],"default":"POST"}`, `,"body":{"description":"text, a JSON value, or {base64}"}`), OutputSchema: output,
			Annotations: Annotations{ReadOnly: new(false), OpenWorld: new(true)},
		},
	}
}

// fetchInput is the input of both tools of a fetcher.
type fetchInput struct {
	URL     string            `json:"url"`
	Method  string            `json:"method"`
	Headers map[string]string `json:"headers"`
	Body    json.RawMessage   `json:"body"`
}

// check returns the address to request, or the reason why the request is not allowed.
func (f *fetcher) check(in fetchInput, tool string) (*url.URL, error) {
	u, err := url.Parse(in.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || len(in.URL) > maxSaid {
		return nil, errors.New("url is not an http or https address")
	}
	host, err := netguard.Host(u.Hostname())
	if err != nil {
		return nil, errors.New("url names no host")
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	switch {
	case u.User != nil:
		return nil, errors.New("url may not hold a user; give the header Authorization")
	case !f.Allow.Permit(host, port):
		return nil, fmt.Errorf("the host %q at port %s is not one that network.allow names, which the operator sets", host, port)
	case netguard.Named(host, f.reaches):
		return nil, netguard.ErrPrivate
	case !slices.Contains(fetchMethods[tool], in.Method):
		return nil, fmt.Errorf("method must be one of %s", strings.Join(fetchMethods[tool], ", "))
	case len(in.Headers) > maxFetchHeaders:
		return nil, fmt.Errorf("there are more than %d headers", maxFetchHeaders)
	}
	for name, value := range in.Headers {
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) || openapi.Reserved(name) {
			return nil, fmt.Errorf("the header %q cannot be sent", name)
		}
	}
	u.Host, u.Fragment = net.JoinHostPort(host, port), ""
	if port == map[string]string{"http": "80", "https": "443"}[u.Scheme] {
		u.Host = strings.TrimSuffix(u.Host, ":"+port)
	}
	return u, nil
}

// content returns the body to send, and the media type that applies if the program gives none.
func (in fetchInput) content() (body []byte, mediaType string, err error) {
	var text string
	var file struct {
		Base64 *string `json:"base64"`
	}
	switch {
	case !present(in.Body):
		return nil, "", nil
	case json.Unmarshal(in.Body, &text) == nil:
		return []byte(text), "text/plain; charset=utf-8", nil
	case isObject(in.Body) && json.Unmarshal(in.Body, &file) == nil && file.Base64 != nil:
		body, err = base64.StdEncoding.DecodeString(*file.Base64)
		if err != nil {
			err = errors.New("body.base64 is not valid")
		}
		return body, "application/octet-stream", err
	}
	return in.Body, typeJSON, nil
}

func (f *fetcher) call(ctx context.Context, tool string, args json.RawMessage, ex *exchange) (json.RawMessage, error) {
	in := fetchInput{}
	notMade := func(err error) (json.RawMessage, error) {
		return failedResult("the request was not made: "+err.Error(), nil)
	}
	if err := json.Unmarshal(args, &in); err != nil || fetchMethods[tool] == nil {
		return notMade(errors.New("the input has a wrong shape"))
	}
	if in.Method == "" {
		in.Method = fetchMethods[tool][0]
	}
	u, err := f.check(in, tool)
	if err != nil {
		return notMade(err)
	}
	body, mediaType, err := in.content()
	if err != nil {
		return notMade(err)
	}
	header := []string{"Content-Type", mediaType}
	for _, name := range slices.Sorted(maps.Keys(in.Headers)) {
		header = append(header, name, in.Headers[name])
	}
	given := make(http.Header)
	for name, value := range in.Headers {
		given.Set(name, value)
	}
	res, err := f.do(ex.traced(ctx, given), in.Method, u.String(), body, header...)
	switch {
	case errors.Is(err, netguard.ErrPrivate):
		return notMade(netguard.ErrPrivate)
	case err != nil && ctx.Err() == nil && !ex.sent.Load():
		return notMade(errors.New("the host cannot be reached"))
	case err != nil:
		return nil, withoutAddress(err)
	}
	defer func() { _ = res.Body.Close() }()
	if in.Method == http.MethodHead {
		res.Body, res.ContentLength = io.NopCloser(strings.NewReader("")), 0
	}
	data, err := (&stream{limit: f.limit, charge: ex.charge}).whole(ctx, res)
	if err != nil {
		return nil, err
	}
	return f.result(openapi.Read(res.StatusCode, res.Header, data), res.Header, u)
}

// result returns the tool result for an answer. The constant fetchAnswer describes the form of the result.
func (f *fetcher) result(a openapi.Answer, header http.Header, address *url.URL) (json.RawMessage, error) {
	b := append(make([]byte, 0, resultSize(a)), `{"content":[`...)
	if a.Data != nil && a.Status < http.StatusMultipleChoices {
		return bounded(append(appendFile(b, a, address), `]}`...), f.limit)
	}
	headers := map[string]string{}
	for name, values := range header {
		if len(headers) < maxFetchHeaders {
			headers[strings.ToLower(name)] = strings.Join(values, ", ")
		}
	}
	b = append(b, `],"structuredContent":{"status":`...)
	b = append(appendJSON(b, a.Status), `,"headers":`...)
	b = append(appendJSON(b, headers), `,"body":`...)
	if a.JSON != nil {
		b = append(b, a.JSON...)
	} else {
		b = appendJSON(b, a.Text)
	}
	if a.Text != "" && openapi.IsJSON(a.MediaType) {
		b = append(b, `,"notJSON":true`...)
	}
	return bounded(append(b, `}}`...), f.limit)
}
