package api_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/api"
)

// raw sends bytes over a new connection and returns the status line of the answer, or an empty string if the connection was closed without an answer.
func (w *world) raw(text string) string {
	w.t.Helper()
	conn := w.dial()
	defer conn.Close()
	fmt.Fprint(conn, text)
	conn.SetReadDeadline(time.Now().Add(2 * time.Minute))
	line, _ := bufio.NewReader(conn).ReadString('\n')
	return line
}

func (w *world) dial() net.Conn {
	w.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		w.t.Fatal(err)
	}
	return conn
}

// A request without credentials is answered before its body has arrived. A request that only reads is refused if it has a body.
func TestBodiesWithoutCredentials(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{keys: true})
	head := func(request, length string, headers ...string) string {
		return request + " HTTP/1.1\r\nHost: localhost\r\n" + length + "\r\n" + strings.Join(headers, "\r\n") + "\r\n\r\n"
	}
	const long, chunked = "Content-Length: 5000000", "Transfer-Encoding: chunked"
	for name, c := range map[string]struct{ sent, want string }{
		"no credential":           {head("POST /v1/runs", long), "HTTP/1.1 401"},
		"a bad key":               {head("POST /v1/tasks", long, "Authorization: Bearer hk_bad\r\n"), "HTTP/1.1 401"},
		"chunks":                  {head("POST /task", chunked), "HTTP/1.1 401"},
		"a file":                  {head("PUT /v1/skills/x.js?userId=a", long), "HTTP/1.1 401"},
		"an unknown endpoint":     {head("POST /nothing", long), "HTTP/1.1 401"},
		"MCP":                     {head("POST /mcp", long), "HTTP/1.1 401"},
		"a body that is not read": {head("GET /health", "Content-Length: 10"), "HTTP/1.1 400"},
		"chunks that are not":     {head("GET /openapi.json", chunked), "HTTP/1.1 400"},
		"a probe with a body":     {head("GET /ready", long), "HTTP/1.1 400"},
		"a call without a token":  {head("POST /internal/mcp-call", long) + `{"toolName":"x__y","input":"` + strings.Repeat("x", 4096), "HTTP/1.1 413"},
		"a call with a bad token": {head("POST /internal/mcp-call", long) + `{"authToken":"hc1.x.y","toolName":"x__y","input":"` + strings.Repeat("x", 4096), "HTTP/1.1 403"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			if got := w.raw(c.sent); !strings.HasPrefix(got, c.want) || time.Since(begin) > 20*time.Second {
				t.Errorf("got %q after %s, want %q", got, time.Since(begin), c.want)
			}
		})
	}
	// A body that begins with a valid credential is read completely.
	run := w.as(w.key("alice"), "POST", "/v1/runs", map[string]string{"code": "return 1"}).want(http.StatusOK).field("runId")
	token := w.as(w.key("alice"), "POST", "/v1/runs/"+run+"/capability", nil).want(http.StatusCreated).field("authToken")
	long2 := `{"authToken":"` + token + `","toolName":"none__x","input":{"text":"` + strings.Repeat("x", 100_000) + `"}}`
	w.do("POST", "/internal/mcp-call", long2).want(http.StatusNotFound) // the tool does not exist
}

// heap returns the memory in use, in bytes.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// Many connections without credentials use little memory, do not fill the audit log, and do not lock out callers with a key. Some are idle; others have
// unfinished headers, unfinished bodies or bad keys.
func TestManyConnectionsWithoutCredentials(t *testing.T) { // not in parallel, because the test measures memory
	for _, keys := range []bool{true, false} {
		t.Run(fmt.Sprint("keys ", keys), func(t *testing.T) {
			w := setup(t, setting{keys: keys, options: func(o *api.Options) { o.BodyLimit = 8 << 20 }})
			key := localToken
			if keys {
				key = w.key("alice")
			}
			w.as(key, "POST", "/v1/runs", map[string]string{"userId": "alice", "code": "return 1"}).want(http.StatusOK)
			before, logged := heap(), len(w.log.String())
			part := strings.Repeat("x", 256<<10)
			conns := make([]net.Conn, 1500)
			for i := range conns {
				conns[i] = w.dial()
				conns[i].SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
				switch i % 5 {
				case 0: // the connection stays idle
				case 1:
					fmt.Fprint(conns[i], "POST /task HTTP/1.1\r\nHost: localhost\r\nX-A: ")
				case 2:
					fmt.Fprint(conns[i], "POST /task HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8000000\r\n\r\n{\"userId\":\"", part)
				case 3:
					fmt.Fprint(conns[i], "POST /internal/mcp-call HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n40000\r\n", part)
				case 4:
					fmt.Fprintf(conns[i], "GET /v1/runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer hk_%d\r\n\r\n", i)
				}
			}
			for range 5 {
				w.as(key, "POST", "/v1/runs", map[string]string{"userId": "alice", "code": "return 1"}).want(http.StatusOK)
			}
			if grown := heap() - before; grown > 48<<20 {
				t.Errorf("%d connections without credentials hold %d MiB", len(conns), grown>>20)
			}
			for _, c := range conns {
				c.Close()
			}
			if n := strings.Count(w.log.String()[logged:], `"auth_failure"`); n > 60 {
				t.Errorf("%d lines of refused credentials", n)
			}
		})
	}
}
