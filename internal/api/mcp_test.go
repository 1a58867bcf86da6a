package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/config"
)

// bearerTransport sends a key with every request.
type bearerTransport string

func (key bearerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(key))
	return http.DefaultTransport.RoundTrip(r)
}

// mcpClient connects a client of the official SDK.
func (w *world) mcpClient(key string, opt *mcp.ClientOptions) *mcp.ClientSession {
	w.t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, opt)
	session, err := client.Connect(w.t.Context(), &mcp.StreamableClientTransport{
		Endpoint: w.url + "/mcp", HTTPClient: &http.Client{Transport: bearerTransport(key)},
	}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = session.Close() })
	return session
}

// mcpRun is the structured content of execute_code.
type mcpRun struct {
	RunID, Status string
	Output        json.RawMessage
	Error         *struct{ Kind, Message string }
	Approval      *struct{ ID string }
}

// execute calls execute_code.
func (w *world) execute(session *mcp.ClientSession, args map[string]any) (out mcpRun, text string) {
	w.t.Helper()
	r, err := session.CallTool(w.t.Context(), &mcp.CallToolParams{Name: "execute_code", Arguments: args})
	if err != nil {
		w.t.Fatal(err)
	}
	raw, err := json.Marshal(r.StructuredContent)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		w.t.Fatalf("%v in %s", err, raw)
	}
	for _, c := range r.Content {
		if part, ok := c.(*mcp.TextContent); ok {
			text += part.Text
		}
	}
	return out, text
}

// TestMCP connects two users to one gateway. Neither sees anything of the other.
func TestMCP(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{keys: true})
	const value = "ada.lovelace@example.org"
	alice, bob := w.mcpClient(w.key("alice"), nil), w.mcpClient(w.key("bob"), nil)
	out, text := w.execute(alice, map[string]any{"code": "await fs.writeFile('/workspace/a.txt', '" + secret + "'); return '" + value + "'"})
	if string(out.Output) != `"pii_1e@d1.pii.invalid"` || strings.Contains(text, value) {
		t.Fatalf("alice gets %+v\n%s", out, text)
	}
	if again, _ := w.execute(alice, map[string]any{"code": "return [await fs.readFile('/workspace/a.txt'), await pii.domain('pii_1e@d1.pii.invalid')]"}); string(again.Output) != `["`+secret+`","example.org"]` {
		t.Errorf("alice's next run gets %+v", again)
	}
	for _, args := range []map[string]any{
		{"code": "return [await fs.exists('/workspace/a.txt'), await pii.domain('pii_1e@d1.pii.invalid').catch(() => 'unknown')]"},
		{"runId": out.RunID},
	} {
		got, text := w.execute(bob, args)
		if strings.Contains(text+string(got.Output), secret) || strings.Contains(text, "example.org") || got.RunID == out.RunID {
			t.Errorf("bob sends %v and gets %+v\n%s", args, got, text)
		}
	}
	if same, _ := w.execute(alice, map[string]any{"runId": out.RunID}); string(same.Output) != string(out.Output) {
		t.Errorf("alice fetches %+v", same)
	}
}

// TestMCPLargeProgram executes a program with a long string, without a session and in one.
func TestMCPLargeProgram(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{keys: true})
	key := w.key("alice")
	code := "return '" + strings.Repeat(`\u0041"`, 50_000) + "'.length"
	if out, text := w.execute(w.mcpClient(key, nil), map[string]any{"code": code}); string(out.Output) != "100000" {
		t.Errorf("without a session: %s %.300s", out.Output, text)
	}
	accept := []string{"Accept", "application/json, text/event-stream"}
	id := w.as(key, "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
		accept...).want(http.StatusOK).header.Get("Mcp-Session-Id")
	call, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": map[string]any{"name": "execute_code", "arguments": map[string]any{"code": code}}})
	if err != nil {
		t.Fatal(err)
	}
	if r := w.as(key, "POST", "/mcp", string(call), append(accept, "Mcp-Session-Id", id)...).want(http.StatusOK); !strings.Contains(r.body, `"output":100000`) {
		t.Errorf("in a session: %.300s", r.body)
	}
}

// TestMCPAccept has clients that accept only one media type, or send no Accept header. Each gets an answer of a type that it accepts.
func TestMCPAccept(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{keys: true})
	key := w.key("alice")
	const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	const call = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"execute_code","arguments":{"code":"console.log('method'); return {method: 42}"},"_meta":{"progressToken":1}}}`
	for accept, kind := range map[string]string{
		"application/json": "application/json", "text/event-stream": "text/event-stream", "application/json, text/event-stream": "text/event-stream",
		"*/*": "text/event-stream", "": "text/event-stream", "Text/Event-Stream;q=0.9": "text/event-stream", "application/json;charset=utf-8": "application/json",
	} {
		headers := func(more ...string) []string {
			if accept == "" {
				return append(more, "Accept", "")
			}
			return append(more, "Accept", accept)
		}
		begun := w.as(key, "POST", "/mcp", initialize, headers()...).want(http.StatusOK)
		session := begun.header.Get("Mcp-Session-Id")
		w.as(key, "POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, headers("Mcp-Session-Id", session)...).want(http.StatusAccepted)
		for _, r := range []*reply{
			begun, w.as(key, "POST", "/mcp", call, headers()...).want(http.StatusOK), w.as(key, "POST", "/mcp", call, headers("Mcp-Session-Id", session)...).want(http.StatusOK),
		} {
			got, _, _ := strings.Cut(r.header.Get("Content-Type"), ";")
			if got != kind || r != begun && !strings.Contains(r.body, `"output":{"method":42}`) || kind == "application/json" && !json.Valid([]byte(r.body)) {
				t.Errorf("Accept %q: %s, %.300s", accept, got, r.body)
			}
		}
	}
	if r := w.as(key, "POST", "/mcp", initialize, "Accept", "text/html"); r.status < 400 {
		t.Errorf("Accept text/html: %d", r.status)
	}
}

// TestMCPEmptyLists checks that lists without elements are empty and not null, because clients refuse null.
func TestMCPEmptyLists(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{options: func(o *api.Options) { o.MCPMode = "direct" }})
	for method, want := range map[string]string{"tools/list": `"tools":[]`, "resources/list": `"resources":[]`, "resources/templates/list": `"resourceTemplates":[`, "prompts/list": `"prompts":[`} {
		r := w.do("POST", "/mcp", `{"jsonrpc":"2.0","id":2,"method":"`+method+`"}`, "Accept", "application/json, text/event-stream").want(http.StatusOK)
		if !strings.Contains(r.body, want) {
			t.Errorf("%s gives %s", method, r.body)
		}
	}
}

// TestMCPSessions has clients of older protocol versions, which use sessions. A session belongs to one user, and the number of sessions of a user is limited.
func TestMCPSessions(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{keys: true})
	alice, bob := w.key("alice"), w.key("bob")
	accept := []string{"Accept", "application/json, text/event-stream"}
	const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	const list = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	w.do("POST", "/mcp", initialize, accept...).want(http.StatusUnauthorized)
	first := w.as(alice, "POST", "/mcp", initialize, accept...).want(http.StatusOK).header.Get("Mcp-Session-Id")
	in := func(id string) []string { return append([]string{"Mcp-Session-Id", id}, accept...) }
	w.as(alice, "POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, in(first)...).want(http.StatusAccepted)
	if r := w.as(alice, "POST", "/mcp", list, in(first)...).want(http.StatusOK); !strings.Contains(r.body, "execute_code") {
		t.Errorf("alice's session lists %s", r.body)
	}
	w.as(bob, "POST", "/mcp", list, in(first)...).want(http.StatusNotFound)
	w.as(bob, "DELETE", "/mcp", nil, in(first)...).want(http.StatusNotFound)
	if r := w.as(bob, "POST", "/mcp", list, accept...).want(http.StatusOK); !strings.Contains(r.body, "execute_code") {
		t.Errorf("a request without a session lists %s", r.body)
	}
	last := first
	for range 50 {
		last = w.as(alice, "POST", "/mcp", initialize, accept...).want(http.StatusOK).header.Get("Mcp-Session-Id")
	}
	w.eventually("the oldest session has ended", func() bool {
		return w.as(alice, "POST", "/mcp", list, in(first)...).status == http.StatusNotFound
	})
	answered := make(chan *reply, 1)
	go func() {
		answered <- w.as(alice, "POST", "/mcp", `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"execute_code","arguments":{"code":"await utils.sleep(600000)"}}}`, in(last)...)
	}()
	runIs := func(status string) func() bool {
		return func() bool {
			var list api.RunList
			w.as(alice, "GET", "/v1/runs", nil).want(http.StatusOK).json(&list)
			return len(list.Runs) == 1 && list.Runs[0].Status == status
		}
	}
	w.eventually("the run has begun", runIs("running"))
	listening, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer listening.Close()
	fmt.Fprintf(listening, "GET /mcp HTTP/1.1\r\nHost: harness\r\nAuthorization: Bearer %s\r\nAccept: text/event-stream\r\nMcp-Session-Id: %s\r\n\r\n", alice, last)
	_ = listening.SetReadDeadline(time.Now().Add(time.Minute)) // idle connections stay open for longer than this
	stream := bufio.NewReader(listening)
	if line, err := stream.ReadString('\n'); err != nil || !strings.Contains(line, "200 OK") {
		t.Fatalf("the session's messages: %s %v", line, err)
	}
	w.as(bob, "DELETE", "/mcp", nil, in(last)...).want(http.StatusNotFound)
	w.as(alice, "DELETE", "/mcp", nil, in(last)...).want(http.StatusNoContent)
	w.eventually("the run has ended with its session", runIs("cancelled"))
	<-answered
	if _, err := io.Copy(io.Discard, stream); err != nil {
		t.Errorf("the connection of the session's messages stays open: %v", err)
	}
}

// TestMCPListening checks that the number of streams on which a caller waits for changes is limited, and that other callers are not affected.
func TestMCPListening(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{keys: true, options: func(o *api.Options) { o.MCPMode = "direct" }})
	alice, bob := w.key("alice"), w.key("bob")
	const listen = `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	open := func(key string) string {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+"/mcp", strings.NewReader(listen))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{
			"Authorization": "Bearer " + key, "Accept": "application/json, text/event-stream", "Content-Type": "application/json",
			"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen",
		} {
			r.Header.Set(name, value)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { answer.Body.Close() })
		first, _ := bufio.NewReader(answer.Body).ReadString('}')
		return first
	}
	for range 50 {
		if first := open(alice); !strings.Contains(first, "acknowledged") {
			t.Fatalf("it listens with %s", first)
		}
	}
	if first := open(alice); !strings.Contains(first, "too many times") {
		t.Errorf("once more: %s", first)
	}
	if first := open(bob); !strings.Contains(first, "acknowledged") {
		t.Errorf("another caller: %s", first)
	}
}

// TestMCPLimit checks that programs of MCP clients count against the same limit as other requests for work.
func TestMCPLimit(t *testing.T) {
	t.Parallel()
	limiter, err := auth.NewLimiter(1, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	w := setup(t, setting{keys: true, options: func(o *api.Options) { o.Limiter = limiter }})
	key := w.key("alice")
	session := w.mcpClient(key, nil)
	w.execute(session, map[string]any{"code": "return 1"})
	r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "execute_code", Arguments: map[string]any{"code": "return 1"}})
	if err != nil || !r.IsError || !strings.Contains(r.Content[0].(*mcp.TextContent).Text, "server.rateLimit") {
		t.Errorf("the second program gets %+v, %v", r, err)
	}
	w.as(key, "POST", "/v1/runs", map[string]any{"code": "return 1"}).want(http.StatusTooManyRequests)
}

// TestMCPCancel checks that a run ends when its client cancels the request.
func TestMCPCancel(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{servers: []*config.MCPServer{badServer(t, "bad", "normal")}})
	steps := make(chan string, 100)
	session := w.mcpClient(localToken, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { steps <- r.Params.Message },
	})
	ctx, cancel := context.WithCancel(t.Context())
	params := &mcp.CallToolParams{Name: "execute_code", Arguments: map[string]any{"code": "await callMCPTool('bad__echo', {}); await utils.sleep(600000)"}}
	params.SetProgressToken("p")
	ended := make(chan error, 1)
	go func() {
		_, err := session.CallTool(ctx, params)
		ended <- err
	}()
	for strings.HasPrefix(<-steps, "running") { // until the run calls a tool
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the call ends with %v", err)
	}
	w.eventually("the run is cancelled", func() bool {
		var list api.RunList
		w.as(localToken, "GET", "/v1/runs", nil).want(http.StatusOK).json(&list)
		return len(list.Runs) == 1 && list.Runs[0].Status == "cancelled"
	})
}

// When a client reads a file, the audit log has a line about the call, with the id of the run whose journal contains the call.
func TestMCPFile(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{})
	client := w.mcpClient(localToken, nil)
	if out, text := w.execute(client, map[string]any{"code": "await fs.writeFile('/workspace/a.txt', 'seen')", "sessionId": "s"}); out.Error != nil || out.Status != "succeeded" {
		t.Fatalf("%+v: %s", out, text)
	}
	read, err := client.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "workspace://s/a.txt"})
	if err != nil || read.Contents[0].Text != "seen" {
		t.Fatalf("%+v, %v", read, err)
	}
	var lines []string
	for line := range strings.Lines(w.log.String()) {
		if strings.Contains(line, `"tool_call"`) {
			lines = append(lines, line)
		}
	}
	if len(lines) != 1 || !strings.Contains(lines[0], `"server":"session"`) || !strings.Contains(lines[0], `"tool":"resources/read"`) || !strings.Contains(lines[0], `"run":"run_`) {
		t.Errorf("the audit log has %q", lines)
	}
}

// TestMCPResource checks that a client without a credential finds the issuer of tokens.
func TestMCPResource(t *testing.T) {
	t.Parallel()
	idp := newIssuer(t)
	for audience, resource := range map[string]string{"harness": "", "https://harness.example/mcp": "https://harness.example/mcp", "https://harness.example": "https://harness.example"} {
		w := setup(t, setting{issuer: idp.issuer(t), options: func(o *api.Options) { o.Issuer, o.Audience = idp.url, audience }})
		if resource == "" {
			resource = w.url + "/mcp"
		}
		at, err := url.Parse(resource)
		if err != nil {
			t.Fatal(err)
		}
		metadata := "/.well-known/oauth-protected-resource" + at.Path
		challenge := w.do("POST", "/mcp", `{}`).want(http.StatusUnauthorized).header.Get("WWW-Authenticate")
		if want := `resource_metadata="` + at.Scheme + "://" + at.Host + metadata + `"`; !strings.HasSuffix(challenge, want) {
			t.Errorf("the challenge is %s, want %s", challenge, want)
		}
		if other := w.do("GET", "/v1/runs", nil).want(http.StatusUnauthorized).header.Get("WWW-Authenticate"); strings.Contains(other, "resource_metadata") {
			t.Errorf("another endpoint has %s", other)
		}
		var got struct {
			Resource string   `json:"resource"`
			Servers  []string `json:"authorization_servers"`
		}
		w.do("GET", metadata, nil).want(http.StatusOK).json(&got)
		if got.Resource != resource || len(got.Servers) != 1 || got.Servers[0] != idp.url {
			t.Errorf("the metadata are %+v", got)
		}
		w.as(idp.token(t, nil), "POST", "/mcp", `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, "Accept", "application/json, text/event-stream").want(http.StatusOK)
	}
	setup(t, setting{keys: true}).do("GET", "/.well-known/oauth-protected-resource/mcp", nil).want(http.StatusNotFound)

	w := setup(t, setting{issuer: idp.issuer(t), options: func(o *api.Options) {
		o.Issuer, o.Proxies = idp.url, auth.Proxies{netip.MustParsePrefix("127.0.0.0/8")}
	}})
	for scheme, want := range map[string]string{"https": "https", "http": "http"} {
		req, _ := http.NewRequest(http.MethodPost, w.url+"/mcp", strings.NewReader("{}"))
		req.Host = "harness.example"
		req.Header.Set("X-Forwarded-Proto", scheme)
		got := w.send(req).want(http.StatusUnauthorized).header
		if challenge := got.Get("WWW-Authenticate"); !strings.HasSuffix(challenge, `resource_metadata="`+want+`://harness.example/.well-known/oauth-protected-resource/mcp"`) {
			t.Errorf("behind a proxy that has received %s, the challenge is %s", scheme, challenge)
		}
		if secured := got.Get("Strict-Transport-Security") != ""; secured != (want == "https") {
			t.Errorf("behind a proxy that has received %s: Strict-Transport-Security: %v", scheme, secured)
		}
	}
}
