package mcpclient

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/openapi"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	segment "github.com/segmentio/encoding/json"
)

// rest is the HTTP service that an OpenAPI document describes. It sends requests to one origin only.
type rest struct {
	*requester
	doc        *openapi.Document
	operations map[string]*openapi.Operation
	at         *url.URL // address of the service
	security   map[string]string
	limit      int // maximum size of an answer in bytes
}

// openAPI connects to the service of an OpenAPI document. It only reads the document, and sends no request to the service.
func (s *server) openAPI(ctx context.Context) (*conn, error) {
	r := newRequester(s.cfg, s.user)
	r.client.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if len(via) == maxRedirects || req.Method != via[0].Method || sameOrigin(via[0].URL, req.URL) != nil {
			return http.ErrUseLastResponse // the program sees the target of the redirect
		}
		return nil
	}
	doc, err := s.readDocument(ctx)
	if err != nil {
		return nil, fmt.Errorf("its OpenAPI document: %w", err)
	}
	at, err := s.cfg.serviceURL(doc.Server)
	if err == nil {
		err = doc.CheckCredentials(s.cfg.Security)
	}
	if err != nil {
		return nil, err
	}
	r.secrets = append(r.secrets, doc.Secrets(s.cfg.Security)...)
	r.used.Store(&usedSecrets{repeats: newRepeats(r.secrets)})
	of := &rest{requester: r, doc: doc, operations: map[string]*openapi.Operation{}, at: at, security: s.cfg.Security, limit: s.m.opts.MaxResult}
	for _, op := range doc.Operations {
		of.operations[op.Name] = op
	}
	for _, problem := range doc.Problems {
		s.m.opts.Logger.Warn("operation of an OpenAPI document cannot be used", "server", s.cfg.Name, "error", problem)
	}
	c := &conn{transport: TransportOpenAPI, local: &local{service: of}}
	c.link = newLink(c.local)
	return c, s.handshake(ctx, c, legacyVersion)
}

// parsedDocument is the document of a server that was parsed last. The connections of all users share it.
type parsedDocument struct {
	mu  sync.Mutex
	sum [sha256.Size]byte
	doc *openapi.Document
}

func (s *server) readDocument(ctx context.Context) (*openapi.Document, error) {
	data, err := s.cfg.loadDocument(ctx, s.user)
	if err != nil {
		return nil, err
	}
	p := &s.root().document
	p.mu.Lock()
	defer p.mu.Unlock()
	if sum := sha256.Sum256(data); p.doc == nil || sum != p.sum {
		doc, err := openapi.Parse(data)
		if err != nil {
			return nil, err
		}
		p.doc, p.sum = doc, sum
	}
	return p.doc, nil
}

// loadDocument reads the document. It sends credentials only if the document has the origin of the service.
func (c Config) loadDocument(ctx context.Context, user string) ([]byte, error) {
	if c.Document != nil {
		return c.Document, nil
	}
	at := webAddress(c.OpenAPI)
	if at == nil {
		file, err := os.Open(c.OpenAPI)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }()
		return io.ReadAll(io.LimitReader(file, openapi.MaxDocument+1))
	}
	r := newRequester(Config{Headers: c.Headers, Credentials: c.Credentials}, user)
	if service := webAddress(c.URL); service != nil && origin(service) != origin(at) {
		r = newRequester(Config{}, "")
	}
	defer r.base.CloseIdleConnections()
	r.client.CheckRedirect = followOrigin
	res, err := r.do(ctx, http.MethodGet, at.String(), nil, "Accept", "application/json, application/yaml;q=0.9, */*;q=0.5")
	if err != nil {
		return nil, withoutAddress(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return nil, r.refuse(res)
	}
	return io.ReadAll(io.LimitReader(res.Body, openapi.MaxDocument+1))
}

// webAddress parses an http or https address. It returns nil for any other text.
func webAddress(text string) *url.URL {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil
	}
	return u
}

// serviceURL returns the address of the service: the configured one, or else the one in the document. A document that is fetched over HTTP can name its own
// origin only, so that it decides neither who gets the credentials nor which hosts of the local network get requests.
func (c Config) serviceURL(said string) (*url.URL, error) {
	if c.URL != "" {
		return webAddress(c.URL), nil // validated when the server was added
	}
	u, err := url.Parse(said)
	if err != nil {
		return nil, errors.New("the document's server is no address; put the address of the service into url")
	}
	from := webAddress(c.OpenAPI)
	if from != nil {
		if said == "" { // the document names no server
			u.Path = "/"
		}
		u = from.ResolveReference(u)
	}
	if u = webAddress(u.String()); u == nil {
		return nil, fmt.Errorf("the document does not say where the service is (%q); put its address into url", clip.Text(said, maxExcerpt))
	}
	if from != nil && origin(from) != origin(u) {
		return nil, fmt.Errorf("the document says that the service is at %s, another origin than its own; if that is right, put that address into url", origin(u))
	}
	secret := len(c.Headers) > 0 || len(c.Security) > 0 || c.Credentials != nil
	if secret && u.Scheme != "https" && u.Hostname() != "localhost" && !net.ParseIP(u.Hostname()).IsLoopback() {
		return nil, fmt.Errorf("the document says that the service is at %s, without TLS, so credentials are not sent there; if that is right, put that address into url", origin(u))
	}
	u.User, u.Fragment = nil, ""
	return u, nil
}

// withoutAddress returns an error of an HTTP request without the address, whose query may hold a credential.
func withoutAddress(err error) error {
	if inner, is := errors.AsType[*url.Error](err); is {
		return inner.Err
	}
	return err
}

func (r *rest) release() { r.base.CloseIdleConnections() }

// maxIntro is the maximum number of bytes of the document's description in the instructions.
const maxIntro = 2 << 10

func (r *rest) describe() (Info, string) {
	return Info{Name: clip.Text(r.doc.Title, maxInfo), Title: clip.Text(r.doc.Title, maxInfo), Version: clip.Text(r.doc.Version, maxInfo)},
		strings.TrimSpace(clip.Words(r.doc.Description, maxIntro) + "\n\nAn HTTP service: the body of a request is the property body. " +
			"A refused call throws a ToolError with data: {status, headers, body}. " +
			"(await callMCPTool.raw(name, input))._meta.http has status and headers of an answer, such as link for the next page.")
}

func (r *rest) tools() []Tool {
	all := make([]Tool, len(r.doc.Operations))
	for i, op := range r.doc.Operations {
		all[i] = Tool{
			Name: op.Name, Title: op.Title, Description: op.Description, InputSchema: op.Input, OutputSchema: op.Output,
			Annotations: annotationsOf(op),
		}
	}
	return all
}

// annotationsOf derives the annotations from HTTP's definition of the method. HTTP defines nothing for POST and PATCH, so MCP's defaults
// apply to them.
func annotationsOf(op *openapi.Operation) Annotations {
	a := Annotations{ReadOnly: new(op.ReadOnly()), Idempotent: new(op.Idempotent())}
	switch {
	case op.ReadOnly():
		a.Destructive = new(false)
	case op.Idempotent():
		a.Destructive = new(true)
	}
	return a
}

// call makes the request of an operation.
func (r *rest) call(ctx context.Context, tool string, args json.RawMessage, ex *exchange) (json.RawMessage, error) {
	op := r.operations[tool]
	if op == nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the document has no such operation"}
	}
	req, err := op.Request(r.at, args)
	if err != nil {
		return failedResult("the request was not made: "+err.Error(), nil)
	}
	r.doc.Authorize(op, req, r.security)
	address, err := req.URL()
	if err != nil {
		return failedResult("the request was not made: "+err.Error(), nil)
	}
	res, err := r.do(ex.traced(ctx, req.Header), req.Method, address.String(), req.Body, r.headers(req)...)
	if err != nil {
		return nil, withoutAddress(err)
	}
	defer func() { _ = res.Body.Close() }()
	s := &stream{limit: r.limit, charge: ex.charge}
	// A 301 or 302 after a change is no failure: it may give the address of the result.
	failed := res.StatusCode >= 300 && res.StatusCode != http.StatusNotModified && res.StatusCode != http.StatusSeeOther &&
		(op.ReadOnly() || res.StatusCode != http.StatusMovedPermanently && res.StatusCode != http.StatusFound)
	if failed {
		return refused(op, r.refuse(res))
	}
	if req.Method == http.MethodHead {
		res.ContentLength = 0
	}
	body, err := s.whole(ctx, res)
	if err != nil {
		return nil, err
	}
	r.cleanHeader(res.Header)
	return r.result(op, openapi.Read(res.StatusCode, res.Header, r.clean(body)), address)
}

// headers returns the headers of a request, except those that the configuration sets; names and values alternate.
func (r *rest) headers(req *openapi.Request) (pairs []string) {
	configured := *r.header.Load()
	for name, values := range req.Header {
		if configured.Get(name) == "" && len(values) > 0 {
			pairs = append(pairs, name, values[0])
		}
	}
	cookie := strings.Trim(configured.Get("Cookie")+"; "+req.Cookie(), "; ")
	return append(pairs, "Cookie", cookie)
}

// content is a block of a result.
type content map[string]any

// result returns the result of an operation that succeeded. It copies the answer, which may be large, only once.
func (r *rest) result(op *openapi.Operation, a openapi.Answer, address *url.URL) (json.RawMessage, error) {
	b := append(make([]byte, 0, resultSize(a)), `{"_meta":{"http":`...)
	b = appendJSON(b, map[string]any{"headers": a.Header, "status": a.Status})
	b = append(b, `},"content":[`...)
	switch {
	case a.JSON != nil && op.Wrapped:
		b = append(append(append(b, `],"structuredContent":{"result":`...), a.JSON...), `}}`...)
	case a.JSON != nil && isObject(a.JSON):
		b = append(append(append(b, `],"structuredContent":`...), a.JSON...), '}')
	case a.JSON != nil || a.Text != "":
		b = append(b, `{"type":"text","text":`...)
		b = append(appendJSON(b, cmp.Or(a.Text, string(a.JSON))), `}]}`...)
	case a.Data != nil:
		b = appendFile(b, a, address)
		b = append(b, `]}`...)
	default:
		b = append(b, `]}`...)
	}
	return bounded(b, r.limit)
}

// resultSize estimates the size in bytes of the result for an answer.
func resultSize(a openapi.Answer) int {
	return 4<<10 + len(a.JSON) + len(a.Text)*9/8 + base64.StdEncoding.EncodedLen(len(a.Data))
}

func appendJSON(b []byte, v any) []byte {
	b, _ = segment.Append(b, v, segment.SortMapKeys) // v holds only strings and numbers, so this cannot fail
	return b
}

// appendFile appends binary content as an embedded resource.
func appendFile(b []byte, a openapi.Answer, address *url.URL) []byte {
	uri := url.URL{Scheme: address.Scheme, Host: address.Host, Path: address.Path}
	if a.Name != "" {
		uri = url.URL{Scheme: "file", Path: "/" + a.Name}
	}
	b = append(b, `{"type":"resource","resource":{"uri":`...)
	b = append(appendJSON(b, uri.String()), `,"mimeType":`...)
	b = append(appendJSON(b, a.MediaType), `,"blob":"`...)
	return append(base64.StdEncoding.AppendEncode(b, a.Data), `"}}`...)
}

// bounded returns b, or an error if it is larger than limit.
func bounded(b []byte, limit int) (json.RawMessage, error) {
	if len(b) > limit {
		return nil, tooLarge(limit)
	}
	return b, nil
}

// failedResult returns the result of a call that failed; data is for programs.
func failedResult(text string, data any) (json.RawMessage, error) {
	out := map[string]any{"isError": true, "content": []content{{"type": "text", "text": text}}}
	if data != nil {
		out["structuredContent"] = data
	}
	return json.Marshal(out)
}

// refused returns the result of an operation that did not succeed. It returns f as an error if the operation may change something and its
// outcome is unknown.
func refused(op *openapi.Operation, f *fault) (json.RawMessage, error) {
	if !op.ReadOnly() && leavesOpen(f.status) && f.status >= 400 {
		return nil, f
	}
	return failedResult(f.msg, f.refusal.Data())
}
