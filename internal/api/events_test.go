package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/task"
)

// event is an event as a client of the stream sees it.
type event struct {
	ID   int64
	Type string
	Data string
}

// stream is an open stream of events.
type stream interface {
	// next waits for an event. At the end of the stream it returns io.EOF.
	next() (event, error)
	close()
}

// sse is a stream of server-sent events, read by the rules of the WHATWG.
type sse struct {
	resp   *http.Response
	lines  *bufio.Reader
	beats  chan struct{} // receives a value for each comment
	cancel context.CancelFunc
	check  func(event)
}

func (w *world) sse(id string, after int64) stream {
	w.t.Helper()
	return w.follow("/v1/tasks/"+id+"/events", "TaskEvent", after)
}

// follow opens a stream whose events have a schema of the document.
func (w *world) follow(path, schema string, after int64) stream {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, w.url+path, nil)
	if after > 0 {
		req.Header.Set("Last-Event-ID", strconv.FormatInt(after, 10))
	}
	resp, err := client.Do(req) //nolint:bodyclose // close does
	if err != nil {
		w.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		w.t.Fatalf("%s %s", resp.Status, resp.Header)
	}
	return &sse{resp, bufio.NewReader(resp.Body), make(chan struct{}, 1000), cancel, func(e event) { w.contract.event(w.t, schema, e) }}
}

func (s *sse) next() (e event, err error) {
	for {
		line, err := s.lines.ReadString('\n')
		if err != nil {
			return e, err
		}
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" && e.Type == "":
		case line == "":
			s.check(e)
			return e, nil
		case name == "":
			beat(s.beats)
		case name == "id":
			if e.ID, err = strconv.ParseInt(value, 10, 64); err != nil {
				return e, err
			}
		case name == "event":
			e.Type = value
		case name == "data" && e.Data == "":
			e.Data = value
		default:
			return e, fmt.Errorf("line %q", line)
		}
	}
}

// beat sends a value unless the channel is full.
func beat(beats chan<- struct{}) {
	select {
	case beats <- struct{}{}:
	default:
	}
}

func (s *sse) close() {
	s.cancel()
	s.resp.Body.Close()
}

// socket is a stream of events over WebSocket.
type socket struct {
	conn *websocket.Conn
	ctx  context.Context
}

func (w *world) socket(id string, after int64) stream {
	return w.pinged(id, after, nil)
}

func (w *world) pinged(id string, after int64, ping func()) stream {
	w.t.Helper()
	at := fmt.Sprintf("%s/v1/tasks/%s/events/ws?after=%d", w.url, id, after)
	conn, _, err := websocket.Dial(w.t.Context(), at, &websocket.DialOptions{ //nolint:bodyclose // it is nil, or the connection
		HTTPClient: client, OnPingReceived: func(context.Context, []byte) bool {
			if ping != nil {
				ping()
			}
			return true
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	conn.SetReadLimit(1 << 24)
	return &socket{conn, w.t.Context()}
}

func (s *socket) next() (e event, err error) {
	_, text, err := s.conn.Read(s.ctx)
	if websocket.CloseStatus(err) == websocket.StatusNormalClosure {
		return e, io.EOF
	}
	if err != nil {
		return e, err
	}
	var sent struct {
		ID   int64
		Type string
		Time time.Time
		Data json.RawMessage
	}
	err = json.Unmarshal(text, &sent)
	return event{sent.ID, sent.Type, string(sent.Data)}, err
}

func (s *socket) close() { s.conn.CloseNow() }

// stored returns the stored events of a task that has ended.
func (w *world) stored(id string) (all []event) {
	w.t.Helper()
	for after := int64(0); ; {
		events, err := w.tasks.Past(w.t.Context(), id, after)
		if err != nil {
			w.t.Fatal(err)
		}
		if len(events) == 0 {
			return all
		}
		for _, e := range events {
			all = append(all, event{e.ID, e.Type, string(e.Data)})
			after = e.ID
		}
	}
}

// chatty is a task with some 500 stored events over half a second.
const chatty = `RUN<<for (let i = 0; i < 200; i++) { console.log('line ' + i); await utils.sleep(1) }>>`

// Clients that lose their connection at random points and come back see every stored event exactly once and in order,
// over both kinds of stream, while the task is running and afterwards.
func TestResume(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{})
	id := w.do("POST", "/v1/tasks", map[string]string{"userId": "alice", "task": chatty}).want(http.StatusAccepted).field("id")
	var clients sync.WaitGroup
	seen := make([][]event, 6)
	for i := range seen {
		clients.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 7)) //nolint:gosec // where to break off
			open := w.sse
			if i%2 == 1 {
				open = w.socket
			}
			var last int64
			for ended := false; !ended; {
				s := open(id, last)
				for left := random.IntN(60) + 1; left > 0 && !ended; left-- {
					e, err := s.next()
					if err != nil {
						t.Errorf("client %d: %v", i, err)
						ended = true
						break
					}
					if e.ID != 0 {
						seen[i] = append(seen[i], e)
						last = e.ID
					}
					ended = e.Type == task.EventEnded
				}
				s.close()
			}
		})
	}
	clients.Wait()
	want := w.stored(id)
	if len(want) < 400 {
		t.Fatalf("there are only %d events", len(want))
	}
	for i, got := range seen {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("client %d: %s", i, diff)
		}
	}
	// After the last event, both kinds of stream say that nothing follows. Over SSE the answer is 204, because an EventSource reconnects after any other one.
	end := strconv.FormatInt(want[len(want)-1].ID, 10)
	w.do("GET", "/v1/tasks/"+id+"/events", nil, "Last-Event-ID", end).want(http.StatusNoContent)
	w.do("GET", "/v1/tasks/"+id+"/events?after="+end, nil).want(http.StatusNoContent)
	w.do("GET", "/v1/tasks/"+id+"/events?after=1"+end, nil).want(http.StatusNoContent)
	s := w.socket(id, want[len(want)-1].ID)
	defer s.close()
	if e, err := s.next(); !errors.Is(err, io.EOF) {
		t.Errorf("got %v %v", e, err)
	}
	for _, bad := range []string{"x", "-1", "1.5", "99999999999999999999"} {
		w.do("GET", "/v1/tasks/"+id+"/events", nil, "Last-Event-ID", bad).want(http.StatusBadRequest)
		w.do("GET", "/v1/tasks/"+id+"/events?after="+bad, nil).want(http.StatusBadRequest)
	}
	w.do("GET", "/v1/tasks/"+id+"/events/ws", nil).want(http.StatusUpgradeRequired)
}

// Deltas of an answer come while the model writes it, and have no ids.
func TestDeltas(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{})
	id := w.do("POST", "/v1/tasks", map[string]string{"userId": "alice", "task": "HOLD<<some words of an answer>>"}).want(http.StatusAccepted).field("id")
	for _, s := range []stream{w.sse(id, 0), w.socket(id, 0)} {
		defer s.close()
		for { // both streams are open before the model answers
			e, err := s.next()
			if err != nil {
				t.Fatal(err)
			}
			if e.Type == task.EventStarted {
				break
			}
		}
		if _, ok := s.(*socket); ok {
			w.gate.open()
			var text string
			for {
				e, err := s.next()
				if err != nil {
					break
				}
				var d struct{ Text string }
				if e.Type == task.EventDelta && e.ID == 0 && json.Unmarshal([]byte(e.Data), &d) == nil {
					text += d.Text
				}
			}
			if text != "some words of an answer" {
				t.Errorf("got %q", text)
			}
		}
	}
}

// A stream without events shows that it is alive.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{options: func(o *api.Options) { o.Heartbeat = 20 * time.Millisecond }})
	id := w.do("POST", "/v1/tasks", map[string]string{"userId": "alice", "task": "HOLD<<x>>"}).want(http.StatusAccepted).field("id")
	pings := make(chan struct{}, 1000)
	first, second := w.sse(id, 0), w.pinged(id, 0, func() { beat(pings) })
	for _, s := range []stream{first, second} {
		defer s.close()
		go func() {
			for {
				if _, err := s.next(); err != nil {
					return
				}
			}
		}()
	}
	for range 3 {
		<-first.(*sse).beats
		<-pings
	}
	// /task/stream sends comments, too. Clients of the original system skip them.
	body, _ := json.Marshal(map[string]string{"userId": "alice", "task": "HOLD<<x>>"})
	resp, err := client.Post(w.url+"/task/stream", "application/json", strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	if line, err := lines.ReadString('\n'); err != nil || !strings.HasPrefix(line, ":") {
		t.Errorf("got %q %v", line, err)
	}
	w.gate.open()
	rest, err := io.ReadAll(lines)
	if text, _, done := readChunks(t, strings.TrimPrefix(string(rest), "\n")); err != nil || text != "x" || !done {
		t.Errorf("got %q %v", rest, err)
	}
}

// A client that does not read delays neither the task nor other clients, and misses no event when it reads again.
func TestSlowClient(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{flags: map[string]string{"sandbox.maxOutput": "8MiB"}})
	const big = `RUN<<for (let i = 0; i < 450; i++) { console.log('x'.repeat(8000) + i); if (i % 50 == 0) await utils.sleep(1) }>>`
	id := w.do("POST", "/v1/tasks", map[string]any{"userId": "alice", "task": big, "runAt": time.Now().Add(300 * time.Millisecond)}).
		want(http.StatusAccepted).field("id")
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.(*net.TCPConn).SetReadBuffer(128 << 10)
	fmt.Fprintf(conn, "GET /v1/tasks/%s/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n", id, localToken)
	quick := w.sse(id, 0)
	defer quick.close()
	read := func(s stream) (all []event) {
		for {
			e, err := s.next()
			if err != nil {
				return all
			}
			if e.ID != 0 {
				all = append(all, e)
			}
		}
	}
	got := read(quick)
	want := w.stored(id)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the quick client: %.1000s", diff)
	}
	if len(want) < 450 {
		t.Fatalf("there are only %d events", len(want))
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if diff := cmp.Diff(want, read(&sse{resp, bufio.NewReader(resp.Body), make(chan struct{}, 1000), func() {}, func(event) {}})); diff != "" {
		t.Errorf("the slow client: %.1000s", diff)
	}
}

// The events of a run come once and in order, after the last one that the client has. After the last event of the run, there are none.
func TestRunEvents(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{})
	id := w.do("POST", "/v1/runs", map[string]any{"userId": "alice", "code": "console.log('a'); await fs.writeFile('/workspace/x', 'y'); console.log('b'); return 1"}).want(http.StatusOK).field("runId")
	at := "/v1/runs/" + id + "/events"
	all := w.do("GET", at, nil).want(http.StatusOK).body
	var ids []string
	for line := range strings.Lines(all) {
		if value, ok := strings.CutPrefix(line, "id: "); ok {
			ids = append(ids, strings.TrimSpace(value))
		}
	}
	if !slices.Equal(ids, []string{"2", "3", "4", "5", "6", "7"}) && !slices.Equal(ids, []string{"2", "3", "4", "5", "6"}) {
		t.Errorf("the events are %v: %s", ids, all)
	}
	for _, text := range []string{"event: run.log\ndata: {\"line\":2,\"level\":\"log\",\"text\":\"b\"}", "event: run.ended\ndata: {\"status\":\"succeeded\"}", `"name":"fs.writeFile"`} {
		if !strings.Contains(all, text) {
			t.Errorf("the events have no %s: %s", text, all)
		}
	}
	for i, last := range ids {
		if i == len(ids)-1 {
			w.do("GET", at, nil, "Last-Event-ID", last).want(http.StatusNoContent)
			w.do("GET", at+"?after="+last, nil).want(http.StatusNoContent)
			break
		}
		if rest := w.do("GET", at, nil, "Last-Event-ID", last).want(http.StatusOK).body; rest != all[strings.Index(all, "id: "+ids[i+1]+"\n"):] {
			t.Errorf("behind %s: %s", last, rest)
		}
	}
	w.do("GET", at, nil, "Last-Event-ID", "x").want(http.StatusBadRequest)
	w.do("GET", "/v1/runs/run_none/events", nil).want(http.StatusNotFound)
}

// The stream of a run that waits for a person says so, and goes on when the person has decided.
func TestRunEventsWait(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{servers: []*config.MCPServer{badServer(t, "bad", "normal")}})
	id := w.do("POST", "/v1/runs", map[string]any{"userId": "alice", "code": asks(1)}).want(http.StatusOK).field("runId")
	s := w.follow("/v1/runs/"+id+"/events", "RunEvent", 0)
	defer s.close()
	seen := map[string]string{}
	for seen["run.ended"] == "" {
		e, err := s.next()
		if err != nil {
			t.Fatalf("%v after %v", err, seen)
		}
		if e.Type == "run.status" && seen[e.Type] == "" {
			var all api.ApprovalList
			w.do("GET", "/v1/approvals", nil).want(http.StatusOK).json(&all)
			w.do("POST", "/v1/approvals/"+all.Approvals[0].ID, map[string]any{"decision": "approve"}).want(http.StatusOK)
		}
		seen[e.Type] += e.Data
	}
	if !strings.Contains(seen["run.status"], "waiting_approval") || !strings.Contains(seen["run.call"], "bad__echo") {
		t.Errorf("got %v", seen)
	}
}

// The streams of a user open one after another, each in a turn of the user's reads. An open stream has no turn.
func TestStreamsOpenInTurn(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{})
	run := "/v1/runs/" + w.do("POST", "/v1/runs", map[string]any{"code": "return 1"}).want(http.StatusOK).field("runId")
	held := "/v1/tasks/" + w.do("POST", "/v1/tasks", map[string]string{"userId": "alice", "task": "HOLD<<x>>"}).want(http.StatusAccepted).field("id")
	open := func(ctx context.Context, path string) (*http.Response, error) {
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, w.url+path, nil)
		req.Header.Set("Authorization", "Bearer "+localToken)
		return client.Do(req)
	}
	end, err := w.h.Computing().Begin(t.Context(), "local")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{run, held} {
		early, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if resp, err := open(early, path+"/events"); err == nil {
			resp.Body.Close()
			t.Errorf("%s: a stream is opened while the user has another turn: %s", path, resp.Status)
		}
		cancel()
	}
	end()
	for range 3 {
		resp, err := open(t.Context(), held+"/events?after=1000000") // no event is written to this stream
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatal(resp.Status)
		}
		w.do("GET", run, nil).want(http.StatusOK)
	}
}
