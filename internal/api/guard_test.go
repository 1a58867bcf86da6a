package api_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/telemetry"
)

// Pages of other origins are refused unless their origin is configured. "*" allows all origins if the request has a key.
func TestOrigins(t *testing.T) {
	t.Parallel()
	const ours, other = "https://app.example.com", "https://evil.example.com"
	body := map[string]string{"userId": "alice", "code": "return 1"}
	for name, c := range map[string]struct {
		origins []string
		origin  string
		key     bool
		allowed string // expected header Access-Control-Allow-Origin
		status  int
	}{
		"none configured":         {nil, other, true, "", 403},
		"no browser":              {nil, "", true, "", 200},
		"the configured one":      {[]string{ours}, ours, true, ours, 200},
		"another":                 {[]string{ours}, other, true, "", 403},
		"all, with a key":         {[]string{"*"}, other, true, "*", 200},
		"all, without a key":      {[]string{"*"}, other, false, "", 403},
		"one and all, that one":   {[]string{ours, "*"}, ours, true, ours, 200},
		"one and all, another":    {[]string{ours, "*"}, other, true, "*", 200},
		"configured, without key": {[]string{ours}, ours, false, ours, 401},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, setting{keys: true, options: func(o *api.Options) { o.Origins = c.origins }})
			headers := []string{}
			if c.origin != "" {
				headers = append(headers, "Origin", c.origin, "Sec-Fetch-Site", "cross-site")
			}
			if c.key {
				headers = append(headers, "Authorization", "Bearer "+w.key(""))
			}
			r := w.do("POST", "/v1/runs", body, headers...).want(c.status)
			if got := r.header.Get("Access-Control-Allow-Origin"); got != c.allowed {
				t.Errorf("allowed is %q, want %q", got, c.allowed)
			}
			if r.header.Get("Access-Control-Allow-Credentials") != "" {
				t.Error("credentials are allowed")
			}
			preflight := w.do("OPTIONS", "/v1/runs", nil, append(headers[:len(headers):len(headers)],
				"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization")...)
			if c.allowed == "" && c.key && (preflight.status < 400 || preflight.header.Get("Access-Control-Allow-Origin") != "") {
				t.Errorf("preflight: %d %s", preflight.status, preflight.header)
			}
			if c.allowed != "" && (preflight.status != 204 || !strings.Contains(preflight.header.Get("Access-Control-Allow-Headers"), "Authorization")) {
				t.Errorf("preflight: %d %s", preflight.status, preflight.header)
			}
			if len(c.origins) > 0 && !strings.Contains(strings.Join(r.header.Values("Vary"), ","), "Origin") {
				t.Error("caches are not told that the answer is for an origin")
			}
		})
	}
}

// A form of another site, for which a browser sends no preflight request, is refused, even without authentication.
func TestCrossSiteForms(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{})
	for _, headers := range [][]string{
		{"Origin", "https://evil.example.com"}, {"Sec-Fetch-Site", "cross-site"}, {"Origin", "null"}, {"Sec-Fetch-Site", "same-site"},
	} {
		for _, path := range []string{"/v1/tools", "/v1/tools/mock__echo", "/v1/tasks"} { // a read is also work for the server
			w.do("GET", path, nil, headers...).want(http.StatusForbidden)
		}
		w.do("GET", "/health", nil, headers...).want(http.StatusOK)
		headers = append(headers, "Content-Type", "text/plain")
		for _, path := range []string{"/task", "/task/stream", "/v1/tasks", "/v1/runs", "/v1/servers", "/internal/mcp-call"} {
			w.do("POST", path, `{"userId":"alice","task":"SAY<<x>>","code":"return 1"}`, headers...).want(http.StatusForbidden)
		}
		w.do("PUT", "/v1/skills/x.js?userId=alice", "x", headers...).want(http.StatusForbidden)
		w.do("DELETE", "/v1/skills/x.js?userId=alice", nil, headers...).want(http.StatusForbidden)
	}
	if tasks := w.do("GET", "/v1/tasks", nil).want(http.StatusOK); strings.Contains(tasks.body, "task_") {
		t.Errorf("they left %s", tasks.body)
	}
}

// A server without authentication refuses names that can belong to a web page, because a page may make its name resolve to this machine (DNS rebinding). A
// server with authentication accepts any name.
func TestHost(t *testing.T) {
	t.Parallel()
	open, closed := setup(t, setting{}), setup(t, setting{keys: true})
	key := closed.key("alice")
	for host, allowed := range map[string]bool{
		"localhost": true, "LOCALHOST:3000": true, "127.0.0.1": true, "127.0.0.1:80": true, "[::1]:3000": true, "a.localhost": true, "localhost.": true,
		"evil.example.com": false, "evil.example.com:3000": false, "localhost.evil.example.com": false, "127.0.0.1.evil.example.com": false, "harness": false,
	} {
		want := http.StatusOK
		if !allowed {
			want = http.StatusForbidden
		}
		open.do("POST", "/task", map[string]string{"userId": "alice", "task": "SAY<<x>>"}, "Host", host, "Origin", "http://"+host, "Authorization", "").want(want)
		closed.as(key, "GET", "/v1/tasks", nil, "Host", host).want(http.StatusOK)
	}
}

// Every answer has the security headers.
func TestSecurityHeaders(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{})
	for _, r := range []*reply{
		w.do("GET", "/health", nil).want(200), w.do("GET", "/openapi.json", nil).want(200), w.do("GET", "/nothing", nil).want(404),
		w.do("POST", "/task", "{}").want(400), w.do("GET", "/v1/tasks", nil).want(200), w.do("DELETE", "/v1/tasks", nil).want(405), w.do("GET", "/v1/tasks/x", nil).want(404),
	} {
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
			"Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got := r.header.Get(name); got != want {
				t.Errorf("%s: %s is %q", r.what, name, got)
			}
		}
		if csp := r.header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") {
			t.Errorf("%s: the policy is %q", r.what, csp)
		}
		if r.header.Get("Access-Control-Allow-Origin") != "" || r.header.Get("Link") != "" || strings.Contains(r.body, `"$schema":"http`) {
			t.Errorf("%s: %s %.200s", r.what, r.header, r.body)
		}
	}
	if allow := w.do("DELETE", "/v1/tasks", nil).header.Get("Allow"); allow != "GET, POST" {
		t.Errorf("allowed is %q", allow)
	}
}

// Requests that are too large or too slow are refused before a handler gets them.
func TestLimits(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{
		options: func(o *api.Options) { o.BodyLimit = 2 << 20 },
		serve:   api.ServeOptions{HeaderLimit: 8 << 10},
	})
	large := fmt.Sprintf(`{"userId":"alice","code":"return 1 //%s"}`, strings.Repeat("x", 3<<20))
	for _, path := range []string{"/task", "/task/stream", "/v1/runs", "/v1/tasks", "/v1/schedules"} {
		if r := w.do("POST", path, large).want(http.StatusRequestEntityTooLarge); !strings.Contains(r.field("error"), "server.bodyLimit") {
			t.Errorf("%s: %s", path, r.body)
		}
	}
	w.do("PUT", "/v1/skills/big.js?userId=alice", large).want(http.StatusRequestEntityTooLarge)
	// A body below the limit is accepted.
	w.do("POST", "/v1/runs", fmt.Sprintf(`{"userId":"alice","code":"return 1 //%s"}`, strings.Repeat("x", 3<<19))).want(http.StatusOK)
	if r := w.do("GET", "/health", nil, "X-Long", strings.Repeat("x", 20<<10)); r.status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("long headers: %d", r.status)
	}
	t.Run("a client that reads the refusal and sends on", func(t *testing.T) {
		conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(time.Minute))
		fmt.Fprintf(conn, "POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", localToken, 6<<20)
		if got, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.HasPrefix(got, "HTTP/1.1 413") {
			t.Fatalf("got %q %v", got, err)
		}
		if n, err := conn.Write(make([]byte, 6<<20)); err != nil {
			t.Errorf("after %d bytes: %v", n, err)
		}
	})
	impatient := setup(t, setting{serve: api.ServeOptions{ReadTimeout: 5 * time.Second}})
	t.Run("a program that takes longer than a request may take to arrive", func(t *testing.T) {
		t.Parallel()
		impatient.do("POST", "/v1/runs", map[string]string{"userId": "alice", "code": "await utils.sleep(5500); return 1"}).want(http.StatusOK)
	})
	for name, c := range map[string]struct{ sent, want string }{
		"headers that do not end": {"GET /health HTTP/1.1\r\nHost: localhost\r\nX-A: ", ""},
		"a body that does not":    {"POST /task HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{", "HTTP/1.1 408"},
		"a chunk that does not":   {"POST /task HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{", "HTTP/1.1 408"},
		"half a body":             {"POST /task HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "HTTP/1.1 400"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", strings.TrimPrefix(impatient.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprint(conn, c.sent)
			conn.SetReadDeadline(time.Now().Add(2 * time.Minute))
			got, err := bufio.NewReader(conn).ReadString('\n')
			if errors.Is(err, io.EOF) {
				err = nil // the server has closed the connection
			}
			if err != nil || !strings.HasPrefix(got, c.want) {
				t.Errorf("got %q %v", got, err)
			}
		})
	}
}

// panicking is an authenticator that panics.
type panicking struct{ *auth.Authenticator }

func (panicking) Authenticate(context.Context, *http.Request) (auth.Identity, error) {
	panic("a fault with a secret")
}

// unreachable is an authenticator whose issuer does not answer.
type unreachable struct{ *auth.Authenticator }

func (unreachable) Authenticate(context.Context, *http.Request) (auth.Identity, error) {
	return auth.Identity{}, fmt.Errorf("%w: dial tcp 10.1.2.3: refused", auth.ErrUnavailable)
}

// A panic is answered with 500 and logged, and the server continues. An issuer that does not answer is no refused credential.
func TestFaults(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{options: func(o *api.Options) { o.Auth = panicking{} }})
	for range 2 {
		if r := w.do("GET", "/v1/tasks", nil).want(http.StatusInternalServerError); strings.Contains(r.body, "secret") {
			t.Errorf("got %s", r.body)
		}
	}
	if log := w.log.String(); !strings.Contains(log, "a fault with a secret") || !strings.Contains(log, "guard.go") {
		t.Error("the log does not tell of it, or not where")
	}
	down := setup(t, setting{options: func(o *api.Options) { o.Auth = unreachable{} }})
	if r := down.do("GET", "/v1/tasks", nil).want(http.StatusServiceUnavailable); strings.Contains(r.body, "10.1.2.3") {
		t.Errorf("got %s", r.body)
	}
	if strings.Contains(down.log.String(), "auth_failure") {
		t.Error("an issuer that is down is said to be an attack")
	}
}

// The rate limit applies to each caller, whichever users the requests name. The answer says when to try again.
func TestRateLimit(t *testing.T) {
	t.Parallel()
	limiter, err := auth.NewLimiter(3, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	w := setup(t, setting{options: func(o *api.Options) { o.Limiter = limiter }})
	ask := func(user, path string) *reply {
		return w.do("POST", path, map[string]string{"userId": user, "task": "SAY<<x>>", "code": "return 1", "cron": "@yearly"})
	}
	ask("alice", "/task").want(http.StatusOK)
	ask("alice", "/v1/tasks").want(http.StatusAccepted)
	if r := ask("alice", "/v1/runs").want(http.StatusOK); r.header.Get("RateLimit-Limit") != "3" || r.header.Get("RateLimit-Remaining") != "0" || r.header.Get("RateLimit-Reset") == "" || r.header.Get("Retry-After") != "" {
		t.Errorf("got %s", r.header)
	}
	for _, path := range []string{"/task", "/task/stream", "/v1/tasks", "/v1/runs", "/v1/schedules"} {
		r := ask("alice", path).want(http.StatusTooManyRequests)
		after, err := strconv.Atoi(r.header.Get("Retry-After"))
		if err != nil || after < 1 || after > 1200 || r.header.Get("RateLimit-Remaining") != "0" {
			t.Errorf("%s: Retry-After is %d %v", path, after, err)
		}
	}
	ask("bob", "/v1/runs").want(http.StatusTooManyRequests) // another user, the same caller
	w.do("GET", "/v1/tasks", nil).want(http.StatusOK)       // reads do not count against this limit
	log := w.log.String()
	if n := strings.Count(log, `"eventType":"rate_limit"`); n != 6 || !strings.Contains(log, `"principal":"local"`) {
		t.Errorf("the audit tells of %d refusals", n)
	}
	if metrics := w.do("GET", "/metrics", nil).want(http.StatusOK); !strings.Contains(metrics.body, "harness_rate_limited_total 6") ||
		!strings.Contains(metrics.body, `harness_http_requests_total{code="429",method="POST",route="/v1/runs"} 2`) {
		t.Error("the metrics do not count them")
	}
}

// The audit log has the address of a client that failed to authenticate. X-Forwarded-For counts only if the peer is a trusted proxy.
func TestClientAddress(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		proxies   []string
		forwarded []string
		want      string
	}{
		"direct":              {nil, nil, "127.0.0.1"},
		"forged":              {nil, []string{"203.0.113.7"}, "127.0.0.1"},
		"behind a proxy":      {[]string{"127.0.0.0/8"}, []string{"203.0.113.7"}, "203.0.113.7"},
		"forged behind one":   {[]string{"127.0.0.0/8"}, []string{"198.51.100.1, 203.0.113.7"}, "203.0.113.7"},
		"two proxies":         {[]string{"127.0.0.0/8", "10.0.0.0/8"}, []string{"203.0.113.7, 10.0.0.1"}, "203.0.113.7"},
		"two headers":         {[]string{"127.0.0.0/8", "10.0.0.0/8"}, []string{"203.0.113.7", "10.0.0.1"}, "203.0.113.7"},
		"nonsense":            {[]string{"127.0.0.0/8"}, []string{"<script>"}, "127.0.0.1"},
		"version 6":           {[]string{"127.0.0.0/8"}, []string{"2001:db8::1"}, "2001:db8::1"},
		"a proxy from inside": {[]string{"127.0.0.0/8"}, []string{"127.0.0.5"}, "127.0.0.5"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, setting{keys: true, options: func(o *api.Options) {
				for _, p := range c.proxies {
					o.Proxies = append(o.Proxies, netip.MustParsePrefix(p))
				}
			}})
			req, _ := http.NewRequest(http.MethodGet, w.url+"/v1/tasks", nil)
			req.Header["X-Forwarded-For"] = c.forwarded
			w.send(req).want(http.StatusUnauthorized)
			if log := w.log.String(); !strings.Contains(log, `"address":"`+c.want+`"`) {
				t.Errorf("the log is %s", log)
			}
		})
	}
}

// The span of a request is a child of the caller's span. Below it are the run, or the task with its turns, its run and the called tools.
func TestSpans(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	const other = "1af7651916cd43dd8448eb211c80319c" // the trace of the second request
	spans := map[string]*otlp.Span{}
	sink := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var req collector.ExportTraceServiceRequest
		if err := proto.Unmarshal(body, &req); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, rs := range req.GetResourceSpans() {
			for _, ss := range rs.GetScopeSpans() {
				for _, s := range ss.GetSpans() {
					name := s.GetName()
					if trace := fmt.Sprintf("%x", s.GetTraceId()); trace == other {
						name = trace + " " + name
					}
					spans[name] = s
				}
			}
		}
	}))
	defer sink.Close()
	tracer, err := telemetry.NewTracer(telemetry.TracingOptions{Endpoint: sink.URL, Client: client})
	if err != nil {
		t.Fatal(err)
	}
	w := setup(t, setting{
		servers: []*config.MCPServer{badServer(t, "bad", "normal")}, options: func(o *api.Options) { o.Tracer = tracer },
	})
	run := w.do("POST", "/v1/runs", map[string]string{"userId": "alice", "code": "return 1"}, "traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").
		want(http.StatusOK).field("runId")
	w.do("GET", "/v1/runs/"+run, nil).want(http.StatusOK)
	id := w.do("POST", "/v1/tasks", map[string]string{"userId": "alice", "task": "RUN<<await callMCPTool('bad__echo', {})>>"}, "traceparent", "00-"+other+"-b7ad6b7169203331-01").
		want(http.StatusAccepted).field("id")
	if got, err := w.tasks.Wait(t.Context(), id); err != nil || got.Status != task.Succeeded {
		t.Fatalf("%+v, %v", got, err)
	}
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	if err := tracer.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	for child, parent := range map[string]string{
		"run": "POST /v1/runs", other + " task": other + " POST /v1/tasks", other + " chat test-model": other + " task",
		other + " run": other + " task", other + " execute_tool bad__echo": other + " run",
	} {
		if spans[child] == nil || spans[parent] == nil || string(spans[child].GetParentSpanId()) != string(spans[parent].GetSpanId()) {
			t.Fatalf("%s is not below %s: %v", child, parent, spans)
		}
	}
	for _, a := range spans[other+" execute_tool bad__echo"].GetAttributes() {
		if a.GetKey() == "harness.call" && a.GetValue().GetIntValue() != 1 {
			t.Errorf("the call has the number %s", a)
		}
	}
	if log := w.log.String(); !regexp.MustCompile(`"eventType":"tool_call"[^}]*"userId":"alice"[^}]*"sessionId":"sess_[^}]*"tool":"echo"`).MatchString(log) {
		t.Errorf("the audit event of the call does not say whose it is: %s", log)
	}
	request := spans["POST /v1/runs"]
	if fmt.Sprintf("%x", request.GetTraceId()) != "0af7651916cd43dd8448eb211c80319c" || !strings.Contains(request.String(), run) {
		t.Errorf("got %s", request)
	}
	if spans["GET /v1/runs/{id}"] == nil {
		t.Errorf("got %v", spans)
	}
	// Log lines of a request have the id of its run.
	if log := w.log.String(); !strings.Contains(log, `"route":"/v1/runs/{id}","status":200,"ms":`) || !strings.Contains(log, `"run":"`+run+`"`) {
		t.Errorf("the log is %s", log)
	}
}

// Endpoints that are switched off answer 404, and are not in the document.
func TestSwitches(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{options: func(o *api.Options) { o.Health, o.InternalElsewhere = false, true }})
	for _, path := range []string{"/health", "/ready"} {
		w.do("GET", path, nil).want(http.StatusNotFound)
	}
	w.do("POST", "/internal/mcp-call", "{}").want(http.StatusNotFound)
	for _, o := range w.contract.operations() {
		if o.Path == "/health" || o.Path == "/ready" || o.Path == "/internal/mcp-call" {
			t.Errorf("the document has %s", o.Path)
		}
	}
	// The handler for the separate listener serves only /internal/mcp-call.
	inner := httptest.NewServer(api.New(api.Options{Harness: w.h, Tasks: w.tasks, Auth: &auth.Authenticator{}, Capabilities: w.caps, Logger: discard, Now: time.Now}).Internal())
	defer inner.Close()
	run := w.do("POST", "/v1/runs", map[string]string{"userId": "alice", "code": "return 1"}).want(http.StatusOK).field("runId")
	token, _, err := w.caps.Issue(auth.Capability{RunID: run, User: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		method, path, body string
		want               int
	}{
		{"POST", "/internal/mcp-call", `{"authToken":"x","toolName":"y"}`, 403},
		{"POST", "/internal/mcp-call", "{}", 400},
		{"POST", "/internal/mcp-call", `{"authToken":"` + token + `","toolName":"none"}`, 404},
		{"GET", "/v1/tasks", "", 404},
		{"POST", "/task", "{}", 404},
		{"GET", "/internal/mcp-call", "", 405},
	} {
		req, _ := http.NewRequest(c.method, inner.URL+c.path, strings.NewReader(c.body))
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("%s %s: %d, want %d", c.method, c.path, resp.StatusCode, c.want)
		}
	}
}
