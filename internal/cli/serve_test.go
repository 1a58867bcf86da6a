package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/cli"
	"mcp-code-exec-harness/internal/model/fake"
)

// server is harness serve, in this process.
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
	hit chan struct{} // closed when the wanted line is there
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

var listening = regexp.MustCompile(`listening on (https?://\S+)\n`)

// serve starts harness serve on a free port.
func (f *fixture) serve(args ...string) *server {
	f.t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	s := &server{t: f.t, log: &lockedBuffer{hit: make(chan struct{}), re: listening}}
	exit := make(chan int, 1)
	go func() {
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

// do sends a request and returns status and body.
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

// The original's call, over the server as users start it.
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
	for path, want := range map[string]string{
		"/health": `"status":"ok"`, "/ready": `"ready"`, "/openapi.json": `"openapi":"3.1.0"`, "/metrics": "mcp_executions_total",
		"/v1/tasks": got.TaskID, "/v1/tasks/" + got.TaskID: `"succeeded"`, "/v1/tasks/" + got.TaskID + "/events": "event: task.ended",
		"/v1/runs": got.Runs[0], "/v1/runs/" + got.Runs[0]: "6 * 7", "/v1/runs/" + got.Runs[0] + "/journal": `"end"`,
		"/v1/sessions": got.SessionID, "/v1/servers": `"servers"`, "/v1/tools": `"tools"`, "/docs": "openapi.json",
		"/v1/skills?userId=alice": `"skills"`, "/v1/schedules": `"schedules"`, "/v1/tools.d.ts": "",
	} {
		if status, body := s.do("GET", path, ""); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("GET %s: %d %.300s", path, status, body)
		}
	}
	if code := s.stop(); code != 0 {
		t.Errorf("it exited with %d: %s", code, s.log)
	}
}
