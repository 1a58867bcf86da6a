package api_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/task"
)

// Malformed and unknown input is refused with a message that names it.
func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{})
	for name, c := range map[string]struct {
		method, path, body string
		headers            []string
		status             int
		says               string
	}{
		"a long name of a tool":     {"GET", "/v1/tools/mock" + strings.Repeat("_", 1100) + "echo", "", nil, 400, "path.name"},
		"a long name of a server":   {"GET", "/v1/tools.d.ts?server=" + strings.Repeat("x", 1100), "", nil, 400, "query.server"},
		"unknown parameter":         {"GET", "/v1/tasks?staus=failed", "", nil, 400, "status"},
		"unknown parameter, plain":  {"GET", "/v1/skills?user=alice", "", nil, 400, "userId"},
		"parameters of none":        {"POST", "/v1/runs?async=1", `{"userId":"a","code":"return 1"}`, nil, 400, "this endpoint has none"},
		"a malformed query":         {"GET", "/v1/tasks?userId=%zz", "", nil, 400, "not well formed"},
		"a query of other bytes":    {"GET", "/v1/tasks?userId=%ff", "", nil, 400, "UTF-8"},
		"a path of other bytes":     {"GET", "/v1/tasks/%ff", "", nil, 400, "not well formed"},
		"a body of other bytes":     {"POST", "/v1/tasks", "{\"userId\":\"a\",\"task\":\"\xff\"}", nil, 400, "UTF-8"},
		"a body of /task":           {"POST", "/task", "{\"userId\":\"a\",\"task\":\"\xff\"}", nil, 400, "UTF-8"},
		"a compressed body":         {"POST", "/v1/tasks", "x", []string{"Content-Encoding", "gzip"}, 415, "Content-Encoding"},
		"a bad duration":            {"POST", "/v1/runs", `{"userId":"a","code":"return 1","timeout":"soon"}`, nil, 400, "30s"},
		"a bad duration in a field": {"POST", "/v1/tasks", `{"userId":"a","task":"x","budget":{"wall":"1 day"}}`, nil, 400, "body.budget"},
		"no path to save":           {"PUT", "/v1/skills", "x", nil, 405, "GET"},
		"no path to delete":         {"DELETE", "/v1/skills", "", nil, 405, "GET"},
		"an unknown tier":           {"POST", "/v1/runs", `{"userId":"a","code":"return 1","sandbox":"none"}`, nil, 400, "wasm"},
		"a weaker tier":             {"POST", "/v1/runs", `{"userId":"a","code":"return 1","sandbox":"process"}`, nil, 400, "wasm"},
		"session .":                 {"POST", "/v1/sessions", `{"userId":"a","id":"."}`, nil, 400, "session id"},
		"session ..":                {"POST", "/v1/runs", `{"userId":"a","code":"return 1","sessionId":".."}`, nil, 400, "session id"},
		"keys in another case":      {"POST", "/v1/runs", `{"userId":"a","CODE":"return 1"}`, nil, 400, "code"},
		"keys in two cases":         {"POST", "/v1/servers", `{"name":"ok","NAME":"../x","url":"http://127.0.0.1:1/mcp"}`, nil, 201, `"ok"`},
		"input of no session":       {"POST", "/v1/runs", `{"userId":"a","code":"return 1","input":{"path":"x"}}`, nil, 400, "sessionId"},
		"input that is not there":   {"POST", "/v1/runs", `{"userId":"a","code":"return 1","sessionId":"s","input":{"path":"x"}}`, nil, 400, "no such file"},
		"input from elsewhere":      {"POST", "/v1/runs", `{"userId":"a","code":"return 1","sessionId":"s","input":{"path":"../../x"}}`, nil, 400, "leaves its directory"},
		"input of another format":   {"POST", "/v1/runs", `{"userId":"a","code":"return 1","sessionId":"s","input":{"path":"x","format":"xml"}}`, nil, 400, "body.input"},
		"the configured tier":       {"POST", "/v1/runs", `{"userId":"a","code":"return 1","sandbox":"wasm"}`, nil, 200, `"sandbox":"wasm"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := w.do(c.method, c.path, c.body, c.headers...)
			if r.status != c.status || !strings.Contains(r.body, c.says) {
				t.Errorf("%d %s", r.status, r.body)
			}
		})
	}
}

// The limit of all requests counts requests of any kind, separately for each caller.
func TestRequestLimit(t *testing.T) {
	t.Parallel()
	limiter, err := auth.NewLimiter(3, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	w := setup(t, setting{keys: true, options: func(o *api.Options) { o.Requests = limiter }})
	alice, bob := w.key("alice"), w.key("bob")
	for range 3 {
		w.as(alice, "GET", "/v1/tools", nil).want(http.StatusOK)
	}
	if r := w.as(w.key("alice"), "GET", "/v1/tools/x", nil).want(http.StatusTooManyRequests); r.header.Get("RateLimit-Limit") != "3" || r.header.Get("Retry-After") == "" {
		t.Errorf("another key of the same user: %s", r.header)
	}
	w.as(bob, "GET", "/v1/tools", nil).want(http.StatusOK)
}

// A request that is repeated with its Idempotency-Key creates nothing a second time.
func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{keys: true})
	alice, bob := w.key("alice"), w.key("bob")
	for path, body := range map[string]map[string]string{
		"/v1/runs":      {"code": "console.log('ran'); return Math.random()"},
		"/v1/schedules": {"task": "SAY<<x>>", "cron": "@yearly"},
	} {
		first := w.as(alice, "POST", path, body, "Idempotency-Key", "k")
		if first.status >= 300 {
			t.Fatalf("%s: %d %s", path, first.status, first.body)
		}
		if again := w.as(alice, "POST", path, body, "Idempotency-Key", "k").want(first.status); again.body != first.body {
			t.Errorf("%s: again it is\n%s, it was\n%s", path, again.body, first.body)
		}
		other := map[string]string{"code": "return 2", "task": "another", "cron": "@daily"}
		w.as(alice, "POST", path, other, "Idempotency-Key", "k").want(http.StatusUnprocessableEntity)
		for _, r := range []*reply{
			w.as(alice, "POST", path, body, "Idempotency-Key", "k2").want(first.status), w.as(bob, "POST", path, body, "Idempotency-Key", "k").want(first.status),
		} {
			if r.body == first.body {
				t.Errorf("%s: another key, or another caller, gets %s", path, r.body)
			}
		}
	}
}

// Location is the address of the created thing, which has the fields that were sent.
func TestLocations(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{})
	schedule := w.do("POST", "/v1/schedules", map[string]any{
		"userId": "alice", "task": "x", "cron": "@yearly", "callbackUrl": "http://127.0.0.1:1/done", "context": map[string]int{"n": 1},
	}).want(http.StatusCreated)
	r := w.do("GET", schedule.header.Get("Location"), nil).want(http.StatusOK)
	if r.body != schedule.body || r.field("callbackUrl") != "http://127.0.0.1:1/done" || !strings.Contains(r.body, `"context":{"n":1}`) {
		t.Errorf("made as\n%s, shown as\n%s", schedule.body, r.body)
	}
	server := w.do("POST", "/v1/servers", map[string]string{"name": "far", "url": "http://127.0.0.1:1/mcp"}).want(http.StatusCreated)
	if r := w.do("GET", server.header.Get("Location"), nil).want(http.StatusOK); r.field("name") != "far" {
		t.Errorf("got %s", r.body)
	}
	w.do("GET", "/v1/servers/none", nil).want(http.StatusNotFound)
	session := w.do("POST", "/v1/sessions", map[string]string{"userId": "alice"}).want(http.StatusCreated)
	if r := w.do("GET", session.header.Get("Location"), nil).want(http.StatusOK); r.field("createdAt") != session.field("createdAt") {
		t.Errorf("the time it was made is %s and %s", r.field("createdAt"), session.field("createdAt"))
	}
	made := w.do("POST", "/v1/tasks", map[string]string{"userId": "alice", "task": "HOLD<<x>>"}).want(http.StatusAccepted)
	for range 2 { // cancelling a second time is no error
		w.do("POST", made.header.Get("Location")+"/cancel", nil).want(http.StatusOK)
		if _, err := w.tasks.Wait(t.Context(), made.field("id")); err != nil {
			t.Fatal(err)
		}
	}
	if r := w.do("GET", made.header.Get("Location"), nil).want(http.StatusOK); r.field("status") != string(task.Cancelled) || r.field("createdAt") != made.field("createdAt") {
		t.Errorf("got %s", r.body)
	}
}

// A journal comes in pages that join without gaps.
func TestJournalPages(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{})
	run := w.do("POST", "/v1/runs", map[string]string{
		"userId": "alice", "code": "for (let i = 0; i < 4; i++) await fs.writeFile('/workspace/a', i + 'x'.repeat(700000)); return 'done'",
	}).want(http.StatusOK).field("runId")
	var seqs []int64
	pages := 0
	for cursor := "0"; cursor != ""; pages++ {
		var page struct {
			Records []struct {
				Seq int64
			}
			Next int64
		}
		r := w.do("GET", "/v1/runs/"+run+"/journal?limit=3&cursor="+cursor, nil).want(http.StatusOK).json(&page)
		if len(page.Records) == 0 || len(page.Records) > 3 || len(r.body) > 3<<20 {
			t.Fatalf("a page has %d records and %d bytes", len(page.Records), len(r.body))
		}
		for _, record := range page.Records {
			seqs = append(seqs, record.Seq)
		}
		cursor = ""
		if page.Next != 0 {
			cursor = strconv.FormatInt(page.Next, 10)
		}
	}
	for i, seq := range seqs {
		if seq != int64(i+1) {
			t.Fatalf("the records are %v", seqs)
		}
	}
	if pages < 3 {
		t.Errorf("there are %d pages", pages)
	}
	if whole := w.do("GET", "/v1/runs/"+run, nil).want(http.StatusOK); whole.field("output") != "done" || len(whole.body) > 4096 {
		t.Errorf("the run is shown with %d bytes", len(whole.body))
	}
}

// A ticket opens one stream of its caller, once.
func TestTickets(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{keys: true})
	alice, bob := w.key("alice"), w.key("bob")
	id := w.as(alice, "POST", "/v1/tasks", map[string]string{"task": "SAY<<x>>"}).want(http.StatusAccepted).field("id")
	if _, err := w.tasks.Wait(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	ticket := func(key string) string {
		return w.as(key, "POST", "/v1/tickets", nil).want(http.StatusCreated).field("ticket")
	}
	one := ticket(alice)
	for i, want := range []int{http.StatusOK, http.StatusUnauthorized} {
		if r := w.do("GET", "/v1/tasks/"+id+"/events?ticket="+one, nil).want(want); i == 0 && !strings.Contains(r.body, "event: task.ended") {
			t.Errorf("the stream is %s", r.body)
		}
	}
	w.do("GET", "/v1/tasks/"+id+"/events?ticket="+ticket(bob), nil).want(http.StatusNotFound)
	w.do("GET", "/v1/tasks/"+id+"/events?ticket=ht_guess", nil).want(http.StatusUnauthorized)
	w.do("GET", "/v1/tasks/"+id+"?ticket="+ticket(alice), nil).want(http.StatusUnauthorized) // a ticket opens only streams
	w.do("POST", "/v1/tickets", nil).want(http.StatusUnauthorized)
	conn, _, err := websocket.Dial(t.Context(), w.url+"/v1/tasks/"+id+"/events/ws?ticket="+ticket(alice), &websocket.DialOptions{HTTPClient: client}) //nolint:bodyclose // it is nil, or the connection
	if err != nil {
		t.Fatal(err)
	}
	conn.CloseNow()
	w.do("GET", "/v1/tasks/"+id+"/events/ws?ticket="+ticket(bob), nil).want(http.StatusNotFound)
	for range 97 { // two of alice's first three tickets are used; the third is not, because it was sent to another endpoint
		ticket(alice)
	}
	var refused *reply
	w.eventually("a caller has too many tickets", func() bool { // expired tickets do not count
		refused = w.as(alice, "POST", "/v1/tickets", nil)
		return refused.status != http.StatusCreated
	})
	if refused.want(http.StatusTooManyRequests); !strings.Contains(refused.body, "100 tickets") {
		t.Errorf("it says %s", refused.body)
	}
	ticket(bob)
}

// The streams of a key end when it is revoked.
func TestStreamsOfRevokedKeys(t *testing.T) {
	t.Parallel()
	t.Run("looked for", func(t *testing.T) {
		t.Parallel()
		streamsOfRevokedKeys(t, func() {}, func(o *api.Options) { o.Recheck = 10 * time.Millisecond })
	})
	t.Run("told", func(t *testing.T) {
		t.Parallel()
		told := make(chan struct{})
		streamsOfRevokedKeys(t, func() { close(told) }, func(o *api.Options) {
			o.Recheck = time.Hour
			o.KeysRevoked = func(ctx context.Context, f func()) error {
				<-told
				for ctx.Err() == nil { // a stream that has just begun may miss one call
					f()
					time.Sleep(10 * time.Millisecond)
				}
				return nil
			}
		})
	})
}

// streamsOfRevokedKeys opens streams and revokes their key; tell is called afterwards.
func streamsOfRevokedKeys(t *testing.T, tell func(), options func(*api.Options)) {
	w := setup(t, setting{keys: true, options: options})
	key, value, err := w.keys.Create(t.Context(), auth.NewKey{User: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	id := w.as(value, "POST", "/v1/tasks", map[string]string{"task": "HOLD<<x>>"}).want(http.StatusAccepted).field("id")
	ticket := w.as(value, "POST", "/v1/tickets", nil).want(http.StatusCreated).field("ticket")
	const streams = 4
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan struct{}, streams)
	follow := func(method, path, body string, headers ...string) {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, method, w.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", "application/json, text/event-stream")
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		answer, err := client.Do(r)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%s %s: %v, %v", method, path, answer, err)
		}
		t.Cleanup(func() { answer.Body.Close() })
		go func() {
			_, _ = io.Copy(io.Discard, answer.Body)
			ended <- struct{}{}
		}()
	}
	bearer := "Bearer " + value
	follow("GET", "/v1/tasks/"+id+"/events", "", "Authorization", bearer)
	follow("GET", "/v1/tasks/"+id+"/events?ticket="+ticket, "")
	session := w.as(value, "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
		"Accept", "application/json, text/event-stream").want(http.StatusOK).header.Get("Mcp-Session-Id")
	follow("GET", "/mcp", "", "Authorization", bearer, "Mcp-Session-Id", session)
	follow("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`,
		"Authorization", bearer, "Content-Type", "application/json", "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen")
	conn, _, err := websocket.Dial(ctx, w.url+"/v1/tasks/"+id+"/events/ws", &websocket.DialOptions{ //nolint:bodyclose // it is nil, or the connection
		HTTPClient: client, HTTPHeader: http.Header{"Authorization": {"Bearer " + value}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	if _, _, err := conn.Read(ctx); err != nil {
		t.Fatal(err)
	}
	if err := w.keys.Revoke(t.Context(), key.ID); err != nil {
		t.Fatal(err)
	}
	tell()
	for err == nil {
		_, _, err = conn.Read(ctx)
	}
	if websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("the socket ends with %v", err)
	}
	for range streams {
		select {
		case <-ended:
		case <-ctx.Done():
			t.Fatal("a stream of a revoked key goes on")
		}
	}
}

// A server that stops answers a probe of /ready with 503 before it closes its listener, and takes no work from then on.
func TestDrain(t *testing.T) {
	t.Parallel()
	const grace = 2 * time.Minute
	w := setup(t, setting{flags: map[string]string{"server.shutdownTimeout": grace.String()}, serve: api.ServeOptions{Grace: grace}})
	w.eventually("the sandbox is open", func() bool { return w.do("GET", "/ready", nil).status == http.StatusOK })
	w.do("POST", "/v1/tasks", map[string]string{"userId": "alice", "task": "HOLD<<x>>"}).want(http.StatusAccepted)
	w.eventually("a task is in work, which the server waits for", func() bool { return len(w.model.Requests()) > 0 })
	stopped := make(chan error, 1)
	go func() { stopped <- w.stop() }()
	var refused *reply
	w.eventually("/ready says that the server stops", func() bool {
		refused = w.do("POST", "/v1/runs", map[string]string{"userId": "alice", "code": "return 1"})
		return refused.status == http.StatusServiceUnavailable
	})
	if refused.header.Get("Retry-After") == "" {
		t.Errorf("the refusal is %s", refused.header)
	}
	w.do("GET", "/ready", nil).want(http.StatusServiceUnavailable)
	w.gate.open()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// A program runs in the tier that the request names.
func TestSandboxOfRequests(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{flags: map[string]string{"sandbox.tier": "process"}})
	if _, missing, err := w.h.Tiers().Walls(t.Context(), "process"); err != nil || len(missing) > 0 {
		unavailable(t, fmt.Sprint("install Node.js 20 or newer (https://nodejs.org), on Linux with user namespaces: ", missing, err))
	}
	for tier, want := range map[string]string{`"sandbox":"wasm",`: "wasm", "": "process"} {
		r := w.do("POST", "/v1/runs", `{"userId":"a",`+tier+`"code":"return 1"}`)
		if r.status != 200 || !strings.Contains(r.body, `"sandbox":"`+want+`"`) {
			t.Errorf("%q: %d %s", tier, r.status, r.body)
		}
	}
}
