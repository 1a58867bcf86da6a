package api_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"mcp-code-exec-harness/internal/api"
)

// A server that stops waits for pending requests, ends streams so that clients know to reconnect, and does not hang.
func TestShutdown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		grace time.Duration
		sleep string // time in milliseconds that the program sleeps
	}{"in time": {2 * time.Minute, "1500"}, "too slow": {100 * time.Millisecond, "300000"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, setting{flags: map[string]string{"server.shutdownTimeout": "100ms"}, serve: api.ServeOptions{Grace: c.grace}})
			id := w.do("POST", "/v1/tasks", map[string]string{"userId": "alice", "task": "HOLD<<x>>"}).want(http.StatusAccepted).field("id")
			events, sock := w.sse(id, 0), w.socket(id, 0)
			defer events.close()
			defer sock.close()
			type result struct {
				reply *reply
				err   error
			}
			post := func(path, body string) <-chan result {
				done := make(chan result, 1)
				go func() {
					resp, err := client.Post(w.url+path, "application/json", strings.NewReader(body))
					if err != nil {
						done <- result{nil, err}
						return
					}
					defer resp.Body.Close()
					text, err := io.ReadAll(resp.Body)
					done <- result{&reply{w.t, path, resp.StatusCode, resp.Header, string(text)}, err}
				}()
				return done
			}
			sync := post("/task", `{"userId": "alice", "task": "HOLD<<x>>"}`)
			chunks := post("/task/stream", `{"userId": "alice", "task": "HOLD<<x>>"}`)
			queued := post("/task", `{"userId": "alice", "task": "SAY<<x>>", "sessionId": "s"}`)
			run := post("/v1/runs", `{"userId": "alice", "code": "await fs.writeFile('/workspace/a', ''); await utils.sleep(`+c.sleep+`); return 'ran'"}`)
			w.eventually("everything is under way", func() bool {
				return len(w.model.Requests()) >= 4 && strings.Contains(w.do("GET", "/v1/runs?status=running", nil).body, "run_")
			})
			const wentAway = 499
			listed := make(chan bool) // whether a connected client was answered as if it had disconnected
			go func() {
				for {
					resp, err := client.Get(w.url + "/v1/tasks")
					if err == nil {
						resp.Body.Close()
					}
					if err != nil || resp.StatusCode == wentAway {
						listed <- err == nil
						return
					}
				}
			}()
			if err := w.stop(); err != nil {
				t.Error(err)
			}
			if <-listed {
				t.Errorf("a client that waited was answered with %d", wentAway)
			}
			for _, s := range []stream{events, sock} {
				var err error
				for err == nil {
					_, err = s.next()
				}
				if _, ok := s.(*sse); ok && !errors.Is(err, io.EOF) {
					t.Errorf("the stream ends with %v", err)
				} else if !ok && websocket.CloseStatus(err) != websocket.StatusGoingAway {
					t.Errorf("the socket ends with %v", err)
				}
			}
			if r := <-sync; r.err != nil || r.reply.status != http.StatusServiceUnavailable || !strings.Contains(r.reply.body, "task_") {
				t.Errorf("/task: %v %+v", r.err, r.reply)
			}
			if r := <-chunks; r.err != nil || strings.Contains(r.reply.body, "[DONE]") {
				t.Errorf("/task/stream: %v %+v", r.err, r.reply)
			}
			<-queued
			r := <-run
			if name == "in time" && (r.err != nil || !strings.Contains(r.reply.body, `"output":"ran"`)) {
				t.Errorf("the run was cut: %v %+v", r.err, r.reply)
			} else if name == "too slow" && (r.err != nil || !strings.Contains(r.reply.body, `"status":"cancelled"`)) {
				t.Errorf("the run was not answered as cancelled: %v %+v", r.err, r.reply)
			}
			if strings.Contains(w.log.String(), "a request does not end") {
				t.Error("a request did not end")
			}
		})
	}
}
