package cli_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"mcp-code-exec-harness/internal/cli"
	"mcp-code-exec-harness/internal/testing/fake"
)

// server is a harness serve in this process.
type server struct {
	t    testing.TB
	url  string
	stop func() int
	log  *lockedBuffer
}

// lockedBuffer is a buffer that one goroutine writes and another reads.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
	hit chan struct{} // closed when the text matches re
	re  *regexp.Regexp
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, err := b.buf.Write(p)
	if b.re != nil && b.re.Match(b.buf.Bytes()) {
		close(b.hit)
		b.re = nil
	}
	return n, err
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

var listening = regexp.MustCompile(`listening on (https?://[^\s"]+)["\n]`)

// serve starts harness serve on a free port.
func (f *fixture) serve(args ...string) *server {
	f.t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	s := &server{t: f.t, log: &lockedBuffer{hit: make(chan struct{}), re: listening}}
	exit := make(chan int, 1)
	go func() {
		defer close(exit) // stop does not wait for ever if the server has exited before
		exit <- cli.Main(ctx, cli.World{
			Args: append([]string{"serve", "--listen", "127.0.0.1:0"}, args...), Environ: f.environ, Dir: f.dir, Executable: self(f.t),
			Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: s.log, Now: time.Now,
		})
	}()
	var once sync.Once
	code := -1
	s.stop = func() int {
		once.Do(func() {
			cancel(cli.Signal{Signal: syscall.SIGTERM})
			code = <-exit
		})
		return code
	}
	f.t.Cleanup(func() { s.stop() })
	select {
	case <-s.log.hit:
	case code := <-exit:
		f.t.Fatalf("serve exited with %d: %s", code, s.log)
	}
	s.url = listening.FindStringSubmatch(s.log.String())[1]
	return s
}

// do sends a request, and returns the status and the body of the response.
func (s *server) do(method, path, body string, headers ...string) (int, string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// TestServe sends a task in the original system's format to a started server, and reads the other resources.
func TestServe(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.modelled(fake.Replies(code("return 6 * 7"), fake.Reply{Text: "It is 42."}))
	s := f.serve()
	status, body := s.do("POST", "/task", `{"userId":"alice","task":"What is six times seven?"}`)
	var got struct {
		Message, Text, TaskID, SessionID string
		Output                           int
		Logs, Runs                       []string
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s %v\n%s", status, body, err, s.log)
	}
	if got.Output != 42 || got.Text != "It is 42." || got.Message == "" || len(got.Runs) != 1 {
		t.Errorf("got %s", body)
	}
	token := strings.TrimSpace(f.run("token").want(0).stdout)
	for path, want := range map[string]string{
		"/health": `"status":"ok"`, "/ready": `"ready"`, "/openapi.json": `"openapi":"3.1.0"`, "/metrics": "mcp_executions_total",
		"/v1/tasks": got.TaskID, "/v1/tasks/" + got.TaskID: `"succeeded"`, "/v1/tasks/" + got.TaskID + "/events": "event: task.ended",
		"/v1/runs": got.Runs[0], "/v1/runs/" + got.Runs[0]: "6 * 7", "/v1/runs/" + got.Runs[0] + "/journal": `"end"`,
		"/v1/sessions": got.SessionID, "/v1/servers": `"servers"`, "/v1/tools": `"tools"`, "/docs/api": "openapi.json",
		"/v1/skills?userId=alice": `"skills"`, "/v1/schedules": `"schedules"`, "/v1/tools.d.ts": "",
	} {
		if status, body := s.do("GET", path, "", "Authorization", "Bearer "+token); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("GET %s: %d %.300s", path, status, body)
		}
	}
	if code := s.stop(); code != 0 {
		t.Errorf("it exited with %d: %s", code, s.log)
	}
}

// TestServeRefuses checks configurations that would admit other users or contradict themselves. The server does not start, and the error says what to change.
func TestServeRefuses(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() })
	for name, c := range map[string]struct {
		config string
		keys   bool
		listen string
		code   int
		words  []string
	}{
		"every origin without keys": {"server: {cors: {origins: ['*']}}", false, "127.0.0.1:0", 2, []string{"server.cors.origins", "harness keys create"}},
		"others without keys":       {"", false, "0.0.0.0:0", 2, []string{"server.listen", "harness keys create"}},
		"a proxy without keys":      {"server: {trustedProxies: [127.0.0.1]}", false, "127.0.0.1:0", 2, []string{"server.trustedProxies", "harness keys create"}},
		"a taken port":              {"", true, taken.Addr().String(), 3, []string{"server.listen", taken.Addr().String()}},
		"a weak secret":             {"server: {secret: short}", true, "127.0.0.1:0", 2, []string{"server.secret", "openssl"}},
		"no certificate":            {"server: {tls: {cert: none.pem, key: none.pem}}", true, "127.0.0.1:0", 3, []string{"server.tls", "none.pem"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			f.write("harness.yaml", c.config+"\n")
			if c.keys {
				f.run("keys", "create").want(0)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // ends a server that starts by mistake
			defer cancel()
			r := f.runIn(ctx, "", "serve", "--listen", c.listen).want(c.code)
			for _, word := range c.words {
				if !strings.Contains(r.stderr, word) {
					t.Errorf("it says %s", r.stderr)
				}
			}
		})
	}
}

// TestServeListeners checks a server with a key: requests need the key, web pages of every origin are allowed, and the other listeners serve only their own
// resources.
func TestServeListeners(t *testing.T) {
	t.Parallel()
	f := setup(t)
	inner, metrics := freeAddress(t), freeAddress(t)
	f.write("harness.yaml", "server: {cors: {origins: ['*']}, internalListen: '"+inner+"', metrics: {enabled: true, listen: '"+metrics+"'}}\n")
	key := strings.TrimSpace(f.run("keys", "create", "--user", "alice").want(0).stdout)
	if r := f.run("keys", "create", "--user", "bob", "--log-level", "info").want(0); !strings.Contains(r.stderr, "key_change") || !strings.Contains(r.stderr, "bob") {
		t.Errorf("the log of a new key is %s", r.stderr)
	}
	s := f.serve()
	if status, body := s.do("GET", "/v1/tasks", ""); status != http.StatusUnauthorized {
		t.Errorf("%d %s", status, body)
	}
	if status, body := s.do("GET", "/v1/tasks", "", "Authorization", "Bearer "+key, "Origin", "https://app.example.com"); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := s.do("POST", "/internal/mcp-call", "{}", "Authorization", "Bearer "+key); status != http.StatusNotFound {
		t.Errorf("the internal call is here too: %d", status)
	}
	s.url = "http://" + inner
	if status, body := s.do("POST", "/internal/mcp-call", `{"authToken":"x","toolName":"y"}`); status != http.StatusForbidden {
		t.Errorf("%d %s", status, body)
	}
	s.url = "http://" + metrics
	if status, body := s.do("GET", "/metrics", ""); status != http.StatusOK || !strings.Contains(body, "harness_http_requests_total") {
		t.Errorf("%d %.200s", status, body)
	}
	if strings.Contains(s.log.String(), "no authentication") {
		t.Errorf("it says %s", s.log)
	}
}

// TestServeWithoutKeys checks a server without keys: every program on this machine may send tasks, and everything else needs the local token. The first key
// makes the token invalid.
func TestServeWithoutKeys(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.modelled(fake.Replies(fake.Reply{Text: "Hello."}))
	f.write("harness.yaml", "{}\n")
	s := f.serve()
	if !strings.Contains(s.log.String(), "harness token") {
		t.Errorf("it says %s", s.log)
	}
	ask := func(want int, method, path, body string, headers ...string) {
		t.Helper()
		if status, answer := s.do(method, path, body, headers...); status != want {
			t.Errorf("%s %s: %d, want %d: %s", method, path, status, want, answer)
		}
	}
	token := []string{"Authorization", "Bearer " + strings.TrimSpace(f.run("token").want(0).stdout)}
	if stored := f.read("data/local.token"); !strings.Contains(stored, strings.TrimPrefix(token[1], "Bearer ")) {
		t.Errorf("data/local.token is %q", stored)
	}
	ask(http.StatusOK, "POST", "/task", `{"userId": "alice", "task": "Say hello."}`)
	ask(http.StatusOK, "GET", "/health", "")
	closed := map[string]string{
		"/v1/tasks": "GET", "/v1/runs": "GET", "/v1/tools": "GET", "/v1/servers": "GET", "/v1/skills?userId=alice": "GET", "/metrics": "GET",
	}
	for path, method := range closed {
		ask(http.StatusUnauthorized, method, path, "")
		ask(http.StatusUnauthorized, method, path, "", "Authorization", "Bearer hl_guess")
		ask(http.StatusOK, method, path, "", token...)
	}
	ask(http.StatusUnauthorized, "POST", "/v1/runs", `{"userId": "alice", "code": "return 1"}`)
	ask(http.StatusUnauthorized, "POST", "/v1/tasks", `{"userId": "alice", "task": "Say hello."}`)
	ask(http.StatusUnauthorized, "GET", "/v1/tasks", "", "Authorization", "Bearer hk_bogus")
	var made struct{ ID, Key string }
	f.run("keys", "create", "--json").want(0).value(&made)
	ask(http.StatusUnauthorized, "GET", "/v1/tasks", "", token...)
	ask(http.StatusUnauthorized, "POST", "/task", `{"userId": "alice", "task": "Say hello."}`)
	ask(http.StatusOK, "GET", "/v1/tasks", "", "Authorization", "Bearer "+made.Key)
	f.run("keys", "revoke", made.ID).want(0)
	ask(http.StatusUnauthorized, "GET", "/v1/tasks", "")
	ask(http.StatusUnauthorized, "GET", "/v1/tasks", "", "Authorization", "Bearer "+made.Key)
}

// TestServeTwice checks that a second server on the same store does not print that it listens, because it does not start.
func TestServeTwice(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.serve()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // ends a server that starts by mistake
	defer cancel()
	r := f.runIn(ctx, "", "serve", "--listen", "127.0.0.1:0").want(3)
	if strings.Contains(r.stderr, "listening on") || !strings.Contains(r.stderr, "store.url") {
		t.Errorf("it says %s", r.stderr)
	}
}

// freeAddress returns an address at which no program listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	host := "127.0.0.1"
	if runtime.GOOS == "linux" { // all of 127.0.0.0/8 is loopback, and no other test listens at a random address in it
		host = net.IPv4(127, byte(mathrand.N(256)), byte(mathrand.N(256)), byte(1+mathrand.N(254))).String()
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestServeTLS checks that a server with a certificate uses TLS and sends the header Strict-Transport-Security.
func TestServeTLS(t *testing.T) {
	t.Parallel()
	f := setup(t)
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	f.write("cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})))
	f.write("key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	f.write("harness.yaml", "server: {tls: {cert: cert.pem, key: key.pem}}\n")
	s := f.serve()
	roots := x509.NewCertPool()
	roots.AddCert(must(x509.ParseCertificate(cert)))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots}}}
	resp, err := client.Get(s.url + "/health")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if !strings.HasPrefix(s.url, "https://") || resp.StatusCode != http.StatusOK || resp.Header.Get("Strict-Transport-Security") == "" {
		t.Errorf("%s: %s %s", s.url, resp.Status, resp.Header)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// TestServeTraces checks that a collector gets the spans of a task, the last ones when the server stops.
func TestServeTraces(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	names, parents := map[string]string{}, map[string]string{} // maps by span id
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
					names[string(s.GetSpanId())], parents[string(s.GetSpanId())] = s.GetName(), string(s.GetParentSpanId())
				}
			}
		}
	}))
	defer sink.Close()
	f := setup(t)
	f.environ = append(f.environ, "OTEL_EXPORTER_OTLP_ENDPOINT="+sink.URL)
	f.modelled(fake.Replies(code("return 6 * 7"), fake.Reply{Text: "It is 42."}))
	s := f.serve()
	if status, body := s.do("POST", "/task", `{"userId":"alice","task":"What is six times seven?"}`); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	if code := s.stop(); code != 0 {
		t.Fatalf("it exited with %d: %s", code, s.log)
	}
	mu.Lock()
	defer mu.Unlock()
	var edges []string
	for id, name := range names {
		edges = append(edges, names[parents[id]]+" > "+name)
	}
	for _, want := range []string{" > POST /task", "task > run", "task > chat test-model"} {
		if !slices.Contains(edges, want) {
			t.Errorf("there is no %q in %v", want, edges)
		}
	}
}

// TestServeLogsJSON checks that with log.format json, every line on standard error is a JSON object.
func TestServeLogsJSON(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.environ = append(f.environ, "LOG_FORMAT=json")
	s := f.serve()
	s.do("GET", "/health", "")
	s.stop()
	for line := range strings.Lines(s.log.String()) {
		var entry struct{ Time, Level, Msg string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Time == "" || entry.Level == "" || entry.Msg == "" {
			t.Errorf("a line of the log is %q", line)
		}
	}
}

// TestServePolicy checks that a server that other machines can reach, also through a proxy, has the preset guarded, unless the configuration has a policy.
func TestServePolicy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		config, listen string
		want           bool
	}{
		{"", "0.0.0.0:0", true},
		{"policy: {preset: open}\n", "0.0.0.0:0", false},
		{"server: {trustedProxies: [10.0.0.1]}\n", "127.0.0.1:0", true},
	} {
		config, want := c.config, c.want
		f := setup(t)
		f.write("harness.yaml", "log: {level: info}\n"+config)
		key := strings.TrimSpace(f.run("keys", "create", "--role", "approver").want(0).stdout)
		s := f.serve("--listen", c.listen)
		if got := strings.Contains(s.log.String(), "preset=guarded"); got != want {
			t.Errorf("%q: %s", config, s.log)
		}
		s.url = strings.Replace(s.url, "[::]", "127.0.0.1", 1)
		if status, body := s.do("GET", "/v1/policy", "", "Authorization", "Bearer "+key); status != http.StatusOK || strings.Contains(body, `"preset":"guarded"`) != want {
			t.Errorf("%q: the rules in effect: %d %s", config, status, body)
		}
	}
}
