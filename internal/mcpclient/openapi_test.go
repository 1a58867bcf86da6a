package mcpclient_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/credentials"
	"mcp-code-exec-harness/internal/mcpclient"
)

// shop is an HTTP service with an OpenAPI document at /openapi.json.
type shop struct {
	*httptest.Server
	document string

	mu       sync.Mutex
	answer   func(w http.ResponseWriter, r *http.Request)
	requests []string
}

const shopDocument = `{"openapi":"3.1.0","info":{"title":"Shop","version":"3","description":"Sells things."},
"components":{"securitySchemes":{"query":{"type":"apiKey","in":"query","name":"api_key"},"login":{"type":"http","scheme":"basic"}}},
"paths":{
 "/items/{id}":{
  "get":{"operationId":"getItem","security":[{"query":[],"login":[]},{}],"parameters":[{"name":"id","in":"path","required":true,"schema":{"type":"integer"}}],
   "responses":{"200":{"content":{"application/json":{"schema":{"type":"object","properties":{"id":{"type":"integer"}}}}}}}},
  "put":{"operationId":"putItem","requestBody":{"content":{"application/json":{"schema":{"type":"object"}}}}},
  "delete":{"operationId":"deleteItem"}},
 "/items":{
  "get":{"operationId":"list_items","parameters":[{"name":"page","in":"query","schema":{"type":"integer"}}],
   "responses":{"200":{"content":{"application/json":{"schema":{"type":"array","items":{"type":"integer"}}}}}}},
  "head":{"operationId":"count"},
  "post":{"operationId":"addItem","requestBody":{"content":{"application/json":{}}}}}
}}`

func newShop(t testing.TB) *shop {
	t.Helper()
	s := &shop{document: shopDocument}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/openapi.json" {
			_, _ = io.WriteString(w, s.document)
			return
		}
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.requests = append(s.requests, strings.TrimSpace(r.Method+" "+r.RequestURI+" "+string(body)))
		answer := s.answer
		s.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *shop) received() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := s.requests
	s.requests = nil
	return got
}

func (s *shop) config() mcpclient.Config {
	return mcpclient.Config{Name: "shop", OpenAPI: s.URL + "/openapi.json", StartupTimeout: patience, Timeout: patience}
}

// set sets the handler of all later requests.
func (s *shop) set(answer func(w http.ResponseWriter, r *http.Request)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

func (s *shop) says(status int, body string, header ...string) {
	s.set(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

func TestOpenAPI(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	m := setup(t, mcpclient.Options{}, s.config())
	listed := m.EnsureTools(ctxFor(t), "")[0]
	if listed.State != mcpclient.StateReady || listed.Transport != "openapi" || listed.ServerInfo.Title != "Shop" || !strings.HasPrefix(listed.Instructions, "Sells things.\n") {
		t.Errorf("%+v", listed.Status)
	}
	var tools []string
	for _, tool := range listed.Tools {
		a, _ := json.Marshal(tool.Annotations)
		tools = append(tools, tool.Name+" "+string(a))
	}
	want := []string{
		`getItem {"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true}`, `putItem {"readOnlyHint":false,"destructiveHint":true,"idempotentHint":true}`,
		`deleteItem {"readOnlyHint":false,"destructiveHint":true,"idempotentHint":true}`, `list_items {"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true}`,
		`count {"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true}`, `addItem {"readOnlyHint":false,"idempotentHint":false}`,
	}
	if diff := cmp.Diff(want, tools); diff != "" {
		t.Error(diff)
	}
	for _, c := range []struct {
		tool, args, request string
		status              int
		body                string
		header              []string
		want                string
	}{
		{"getItem", `{"id":7}`, "GET /items/7", 200, `{"id":7,"n":1e400}`, nil, `{"_meta":{"http":{"headers":{},"status":200}},"content":[],"structuredContent":{"id":7,"n":1e400}}`},
		{
			"list_items", `{"page":2}`, "GET /items?page=2", 200, `[1,2]`,
			[]string{"Link", `</items?page=3>; rel="next"`, "Set-Cookie", "secret=1"},
			`{"_meta":{"http":{"headers":{"link":"\u003c/items?page=3\u003e; rel=\"next\""},"status":200}},"content":[],"structuredContent":{"result":[1,2]}}`,
		},
		{"addItem", `{"body":{"a":1}}`, `POST /items {"a":1}`, 201, `[3]`, []string{"Location", "/items/9"}, `{"_meta":{"http":{"headers":{"location":"/items/9"},"status":201}},"content":[{"text":"[3]","type":"text"}]}`},
		{"deleteItem", `{"id":"7"}`, "DELETE /items/7", 204, ``, nil, `{"_meta":{"http":{"headers":{},"status":204}},"content":[]}`},
		{"count", `{}`, "HEAD /items", 200, ``, []string{"X-Total-Count", "9", "Content-Length", "999999999999"}, `{"_meta":{"http":{"headers":{"x-total-count":"9"},"status":200}},"content":[]}`},
		{"addItem", `{}`, "POST /items", 303, ``, []string{"Location", "/items/9"}, `{"_meta":{"http":{"headers":{"location":"/items/9"},"status":303}},"content":[]}`},
		{"getItem", `{"id":7}`, "GET /items/7", 200, "\x00\x01", []string{"Content-Type", "application/pdf", "Content-Disposition", "attachment; filename=a.pdf"}, `{"_meta":{"http":{"headers":{},"status":200}},"content":[{"resource":{"blob":"AAE=","mimeType":"application/pdf","uri":"file:///a.pdf"},"type":"resource"}]}`},
		{
			"getItem", `{"id":7}`, "GET /items/7", 404, `{"why":"gone"}`, nil,
			`{"content":[{"text":"it answered HTTP 404 Not Found: {\"why\":\"gone\"}","type":"text"}],"isError":true,"structuredContent":{"body":{"why":"gone"},"headers":{},"status":404}}`,
		},
		{
			"addItem", `{}`, "POST /items", 429, `slow down`,
			[]string{"Retry-After", "3"},
			`{"content":[{"text":"it answered HTTP 429 Too Many Requests; retry after 3 seconds: slow down","type":"text"}],"isError":true,"structuredContent":{"body":"slow down","headers":{"retry-after":"3"},"status":429}}`,
		},
		{
			"getItem", `{"id":7}`, "GET /items/7", 503, ``, nil,
			`{"content":[{"text":"it answered HTTP 503 Service Unavailable","type":"text"}],"isError":true,"structuredContent":{"body":"","headers":{},"status":503}}`,
		},
		{"getItem", `{"id":"../7"}`, "", 200, ``, nil, `{"content":[{"text":"the request was not made: id: it may not hold /, \\ or control characters, which could lead to another path of the service","type":"text"}],"isError":true}`},
	} {
		s.says(c.status, c.body, c.header...)
		res, err := m.Call(ctxFor(t), "shop", c.tool, json.RawMessage(c.args), mcpclient.CallOptions{})
		if err != nil {
			t.Errorf("%s: %v", c.tool, err)
			continue
		}
		if diff := cmp.Diff(decoded(t, c.want), decoded(t, string(res.Raw))); diff != "" {
			t.Errorf("%s: %s", c.tool, diff)
		}
		if got := strings.Join(s.received(), "; "); got != c.request {
			t.Errorf("it received %s; want %s", got, c.request)
		}
	}
}

// TestOpenAPIDoubt: a request that may have had its effect is in doubt and is never sent twice.
func TestOpenAPIDoubt(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	m := setup(t, mcpclient.Options{MaxResult: 1 << 20}, s.config())
	hangUp := func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = c.Close()
		}
	}
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request){
		"500":      func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "oops", http.StatusInternalServerError) },
		"504":      func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "oops", http.StatusGatewayTimeout) },
		"408":      func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "oops", http.StatusRequestTimeout) },
		"hangs up": hangUp,
		"too large": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(bytes.Repeat([]byte("x"), 2<<20))
		},
		"says a length too large": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "99999999999") },
		"is too large as base64": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "image/png")
			_, _ = w.Write(make([]byte, 1000<<10))
		},
		"breaks off": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "{")
		},
	} {
		s.set(answer)
		_, err := m.Call(ctxFor(t), "shop", "addItem", json.RawMessage(`{"body":1}`), mcpclient.CallOptions{})
		failed, ok := errors.AsType[*mcpclient.CallError](err)
		if !ok || !failed.InDoubt() {
			t.Errorf("%s: %v", name, err)
		}
		if got := s.received(); len(got) != 1 {
			t.Errorf("%s: it received %q", name, got)
		}
	}
	for status, doubt := range map[int]bool{400: false, 401: false, 409: false, 429: false, 501: false, 307: false, 502: true} {
		s.says(status, `no`, "Location", "http://127.0.0.1:1/elsewhere")
		res, err := m.Call(ctxFor(t), "shop", "putItem", json.RawMessage(`{"id":"1"}`), mcpclient.CallOptions{})
		if failed, is := errors.AsType[*mcpclient.CallError](err); is != doubt || is && !failed.InDoubt() || !is && !res.IsError {
			t.Errorf("%d: %v", status, err)
		}
		if got := s.received(); len(got) != 1 {
			t.Errorf("%d: it received %q", status, got)
		}
	}
	for _, status := range []int{301, 302, 303} { // The change was made, and the header gives the address of its result.
		s.says(status, ``, "Location", "/items/7")
		if res, err := m.Call(ctxFor(t), "shop", "addItem", json.RawMessage(`{"body":1}`), mcpclient.CallOptions{}); err != nil || res.IsError {
			t.Errorf("%d: %+v, %v", status, res, err)
		}
		if got := s.received(); len(got) != 1 {
			t.Errorf("%d: it received %q", status, got)
		}
	}
	// A cancelled call ends at once, and the service notices the cancellation.
	arrived, gone := make(chan struct{}), make(chan struct{})
	s.set(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
		close(gone)
	})
	ctx, cancel := context.WithCancel(ctxFor(t))
	go func() {
		<-arrived
		cancel()
	}()
	_, err := m.Call(ctx, "shop", "addItem", json.RawMessage(`{}`), mcpclient.CallOptions{})
	if failed, ok := errors.AsType[*mcpclient.CallError](err); !ok || failed.Kind != mcpclient.KindCancelled || !failed.InDoubt() {
		t.Errorf("cancelled: %v", err)
	}
	<-gone
	s.set(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	s.received()
	for timeout := 50 * time.Millisecond; ; timeout *= 2 { // on a busy machine the timeout may end before the request is sent
		_, err = m.Call(ctxFor(t), "shop", "addItem", json.RawMessage(`{}`), mcpclient.CallOptions{Timeout: timeout})
		failed, ok := errors.AsType[*mcpclient.CallError](err)
		if !ok || failed.Kind != mcpclient.KindTimeout {
			t.Fatalf("timed out: %v", err)
		}
		if failed.InDoubt() {
			break
		}
		if got := s.received(); len(got) > 0 || timeout > time.Minute {
			t.Fatalf("timed out after %s: %v, and the service has received %q", timeout, err, got)
		}
	}
}

// TestOpenAPICredentials: only the configured origin gets the credentials, and no answer shows them.
func TestOpenAPICredentials(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	other := newShop(t)
	other.answer = func(w http.ResponseWriter, r *http.Request) { t.Errorf("another origin got %v", r.Header) }
	cfg := s.config()
	cfg.Security = map[string]string{"query": "query-secret+1", "login": "ann:login-secret"}
	cfg.Headers = map[string]string{"X-Own-Token": "own-secret-header", "Cookie": "a=b"}
	m := setup(t, mcpclient.Options{}, cfg)
	basic := base64.StdEncoding.EncodeToString([]byte("ann:login-secret"))
	s.set(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("api_key") != "query-secret+1" || r.Header.Get("Authorization") != "Basic "+basic || r.Header.Get("X-Own-Token") != "own-secret-header" || r.Header.Get("Cookie") != "a=b" {
			t.Errorf("request %s %v", r.URL, r.Header)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Link", r.RequestURI)
		_ = json.NewEncoder(w).Encode(map[string]any{"id": 1, "url": r.URL.String(), "header": r.Header})
	})
	res, err := m.Call(ctxFor(t), "shop", "getItem", json.RawMessage(`{"id":1}`), mcpclient.CallOptions{})
	if err != nil {
		t.Fatal(err)
	}
	secrets := []string{"query-secret", "login-secret", basic, "own-secret-header"}
	for _, secret := range secrets {
		if strings.Contains(string(res.Raw), secret) {
			t.Errorf("%q is in %s", secret, res.Raw)
		}
	}
	if strings.Count(string(res.Raw), "[credential]") < 4 {
		t.Errorf("%s", res.Raw)
	}
	// A redirect to another origin is not followed, whatever the method. The errors do not show the address.
	for _, status := range []int{301, 302, 307, 308} {
		s.set(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL+"/x?"+r.URL.RawQuery, status)
		})
		res, err := m.Call(ctxFor(t), "shop", "getItem", json.RawMessage(`{"id":1}`), mcpclient.CallOptions{})
		if err != nil || !res.IsError || !strings.Contains(string(res.Raw), "not followed") || strings.Contains(string(res.Raw), "query-secret") {
			t.Errorf("%d: %v %s", status, err, res.Raw)
		}
	}
	s.set(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/items/1" {
			http.Redirect(w, r, "/items/2", http.StatusFound)
			return
		}
		_, _ = io.WriteString(w, "{}")
	})
	if res, err := m.Call(ctxFor(t), "shop", "getItem", json.RawMessage(`{"id":1}`), mcpclient.CallOptions{}); err != nil || res.IsError {
		t.Errorf("redirect at the same origin: %v", err)
	}
	s.CloseClientConnections()
	s.Close()
	_, err = m.Call(ctxFor(t), "shop", "getItem", json.RawMessage(`{"id":1}`), mcpclient.CallOptions{})
	if failed, ok := errors.AsType[*mcpclient.CallError](err); !ok || strings.Contains(fmt.Sprintf("%v %v %+v", err, failed.Err, failed), "query-secret") {
		t.Errorf("%v", err)
	}
}

// TestOpenAPIDocuments: a document may come from several sources, and the source limits which address of the service the document can give.
func TestOpenAPIDocuments(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.says(200, `{}`)
	at := func(server string) string {
		return strings.Replace(shopDocument, `"paths"`, `"servers":[{"url":"`+server+`"}],"paths"`, 1)
	}
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "openapi.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, c := range map[string]struct {
		document string // text of the document
		change   func(*mcpclient.Config)
		want     string // expected request, or the reason why the server does not start
	}{
		"beside the service":      {shopDocument, nil, "GET /items/1"},
		"with a path":             {at("/v1/"), nil, "GET /v1/items/1"},
		"at another origin":       {at("http://169.254.169.254/latest"), nil, "at http://169.254.169.254:80, another origin than its own"},
		"of another kind":         {at("file:///etc"), nil, "does not say where the service is"},
		"given":                   {at("https://evil.example.com"), func(c *mcpclient.Config) { c.URL = s.URL + "/v2" }, "GET /v2/items/1"},
		"in a file":               {"", func(c *mcpclient.Config) { c.OpenAPI = file(at(s.URL + "/v3")) }, "GET /v3/items/1"},
		"in a file that says not": {"", func(c *mcpclient.Config) { c.OpenAPI = file(shopDocument) }, "put its address into url"},
		"in a file without TLS": {"", func(c *mcpclient.Config) {
			c.OpenAPI, c.Headers = file(at("http://example.com")), map[string]string{"Authorization": "Bearer x"}
		}, "without TLS"},
		"absent":                   {"", func(c *mcpclient.Config) { c.OpenAPI = filepath.Join(t.TempDir(), "none.yaml") }, "none.yaml"},
		"no document":              {"<html>", nil, "no OpenAPI 3 document"},
		"with an unknown scheme":   {shopDocument, func(c *mcpclient.Config) { c.Security = map[string]string{"quary": "x"} }, `has no security scheme "quary"; it has login, query`},
		"too large":                {strings.Repeat(" ", 17<<20), nil, "more than"},
		"of a thousand references": {strings.Replace(shopDocument, `{"type":"integer"}`, `{"$ref":"http://169.254.169.254/x.json"}`, 1), nil, "GET /items/1"},
	} {
		t.Run(name, func(t *testing.T) {
			s.document = c.document
			cfg := s.config()
			if c.change != nil {
				c.change(&cfg)
			}
			m := setup(t, mcpclient.Options{}, cfg)
			s.received()
			_, err := m.Call(ctxFor(t), "shop", "getItem", json.RawMessage(`{"id":1}`), mcpclient.CallOptions{})
			got := strings.Join(s.received(), "; ")
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("%s; want %s", got, c.want)
			}
		})
	}
}

// TestOpenAPIPerUser: the requests of each user have that user's key only.
func TestOpenAPIPerUser(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	var mu sync.Mutex
	var keys []string
	s.set(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		keys = append(keys, r.Header.Get("X-Key"))
		mu.Unlock()
		_, _ = io.WriteString(w, "it was "+r.Header.Get("X-Key"))
	})
	cfg := s.config()
	cfg.PerUser, cfg.Credentials = true, &credentials.Keys{Server: "shop", HeaderIn: "X-Key", ByUser: map[string]string{"ann": "the-key-of-ann", "ben": "the-key-of-ben"}}
	m := setup(t, mcpclient.Options{}, cfg)
	for _, user := range []string{"ann", "ben", "ann"} {
		res, err := m.Call(ctxFor(t), "shop", "deleteItem", json.RawMessage(`{"id":"1"}`), mcpclient.CallOptions{User: user})
		if err != nil || res.Content[0].Text != "it was [credential]" {
			t.Errorf("%s: %v %+v", user, err, res)
		}
	}
	if diff := cmp.Diff([]string{"the-key-of-ann", "the-key-of-ben", "the-key-of-ann"}, keys); diff != "" {
		t.Error(diff)
	}
	if _, err := m.Call(ctxFor(t), "shop", "deleteItem", json.RawMessage(`{"id":"1"}`), mcpclient.CallOptions{User: "cleo"}); err == nil {
		t.Error("a user without a key")
	}
}
