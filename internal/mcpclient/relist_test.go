package mcpclient

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// scripted is a server in memory that records when its tools are listed. It answers each call after a given number of progress reports.
type scripted struct {
	out     chan jsonrpc.Message
	closed  chan struct{}
	began   time.Time
	listed  []time.Duration
	reports int
	tools   string        // tools of the next list; empty stands for []
	answer  string        // result or error of calls; empty stands for {"content":[]}
	pause   time.Duration // pause before each report
}

// connect connects a manager to the server.
func (s *scripted) connect(t *testing.T, opts Options) (*Manager, *server) {
	t.Helper()
	s.out, s.closed, s.began = make(chan jsonrpc.Message, 100), make(chan struct{}), time.Now()
	m := NewManager(opts)
	up := &server{cfg: Config{Name: "s", Command: "x", StartupTimeout: time.Minute}, m: m, calls: newCallSlots()}
	if err := m.add(up); err != nil {
		t.Fatal(err)
	}
	c := &conn{transport: TransportStdio}
	c.link = newLink(s)
	if err := up.handshake(t.Context(), c, legacyVersion); err != nil {
		t.Fatal(err)
	}
	up.conn = c
	up.work.Go(func() { up.follow(c) })
	t.Cleanup(func() {
		if err := up.shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return m, up
}

func (s *scripted) open(_ context.Context, l *link) error {
	go func() {
		for {
			select {
			case msg := <-s.out:
				_ = l.deliver(msg, nil)
			case <-s.closed:
				return
			}
		}
	}()
	return nil
}

func (s *scripted) close() { close(s.closed) }

func (s *scripted) send(_ context.Context, msg jsonrpc.Message, _ *exchange) error {
	req, ok := msg.(*jsonrpc.Request)
	if !ok || !req.IsCall() {
		return nil
	}
	res := &jsonrpc.Response{ID: req.ID}
	switch req.Method {
	case "initialize":
		res.Result = json.RawMessage(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"s","version":"1"}}`)
	case "tools/list":
		s.listed = append(s.listed, time.Since(s.began))
		res.Result = json.RawMessage(`{"tools":` + cmp.Or(s.tools, "[]") + `}`)
	case "tools/call":
		go s.call(req)
		return nil
	default:
		res.Error = &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: req.Method}
	}
	s.out <- res
	return nil
}

func (s *scripted) call(req *jsonrpc.Request) {
	var params struct {
		Meta struct {
			Token json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	}
	_ = json.Unmarshal(req.Params, &params) // the SDK encoded the parameters, so they are valid
	for range s.reports {
		if await(s.closed, s.pause) {
			return
		}
		s.out <- &jsonrpc.Request{Method: methodProgress, Params: json.RawMessage(`{"progressToken":` + string(params.Meta.Token) + `,"progress":1}`)}
	}
	var failed jsonrpc.Error
	if json.Unmarshal([]byte(s.answer), &failed) == nil && failed.Code != 0 {
		s.out <- &jsonrpc.Response{ID: req.ID, Error: &failed}
		return
	}
	s.out <- &jsonrpc.Response{ID: req.ID, Result: json.RawMessage(cmp.Or(s.answer, `{"content":[]}`))}
}

// TestProgressKeepsACallAlive: each report restarts the timeout, up to the maximum duration of a call.
func TestProgressKeepsACallAlive(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		up   scripted
		want string
		took time.Duration
	}{
		"in time":        {scripted{reports: 10, pause: 900 * time.Millisecond}, "", 9 * time.Second},
		"too slow":       {scripted{reports: 10, pause: 1100 * time.Millisecond}, "no answer within 1s", time.Second},
		"at the maximum": {scripted{reports: 1000, pause: 900 * time.Millisecond}, "no answer within 10s", 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m, _ := tc.up.connect(t, Options{MaxCall: 10 * time.Second})
				began := time.Now()
				_, err := m.Call(t.Context(), "s", "work", nil, CallOptions{Timeout: time.Second})
				if took := time.Since(began); took != tc.took {
					t.Errorf("it took %s", took)
				}
				failed, is := errors.AsType[*CallError](err)
				if tc.want == "" && err != nil || tc.want != "" && (!is || failed.Kind != KindTimeout || !strings.Contains(err.Error(), tc.want)) {
					t.Errorf("got %v, want %q", err, tc.want)
				}
			})
		})
	}
}

// TestRelistPauses: if a server reports changed tools all the time, its tools are listed at once, then after 1, 2, 4 s and so on, with pauses of at most 30
// s. After a quiet period they are listed at once again. No change is missed.
func TestRelistPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := &scripted{}
		_, s := up.connect(t, Options{})
		changed := func() { up.out <- &jsonrpc.Request{Method: methodToolsChanged} }
		for time.Since(up.began) < 130*time.Second {
			changed()
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(10 * time.Minute)
		changed()
		time.Sleep(500 * time.Millisecond)
		changed()
		time.Sleep(time.Minute)
		if err := s.shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		var got []float64
		for _, at := range up.listed {
			got = append(got, at.Seconds())
		}
		if diff := gocmp.Diff([]float64{0, 1, 3, 7, 15, 31, 61, 91, 121, 151, 730, 731}, got); diff != "" {
			t.Error(diff)
		}
	})
}

// TestToolGone: if a server answers that it lacks a tool, its tools are listed again, once for each tool and connection. If the server no longer lists the
// tool, the tool is reported as gone, and the call counts as not carried out. Any other answer stays unchanged.
func TestToolGone(t *testing.T) {
	t.Parallel()
	const had, has = `[{"name":"work","inputSchema":{"type":"object"}}]`, `[{"name":"labour","inputSchema":{"type":"object"}}]`
	for name, tc := range map[string]struct {
		answer, now string
		gone        bool
		lists       int
	}{
		"an error of JSON-RPC":       {`{"code":-32602,"message":"Unknown tool: work"}`, has, true, 1},
		"a result":                   {`{"content":[{"type":"text","text":"MCP error -32602: Tool work not found"}],"isError":true}`, has, true, 1},
		"a tool that is still there": {`{"content":[{"type":"text","text":"Unknown tool: work"}],"isError":true}`, had, false, 1},
		"another error":              {`{"content":[{"type":"text","text":"no customer 42"}],"isError":true}`, has, false, 0},
		"no error":                   {`{"content":[{"type":"text","text":"Unknown tool: work"}]}`, has, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				up := &scripted{tools: had, answer: tc.answer}
				m, s := up.connect(t, Options{MaxCall: time.Minute})
				if err := s.relist(t.Context(), s.conn); err != nil {
					t.Fatal(err)
				}
				up.tools = tc.now
				for i := range 2 {
					_, err := m.Call(t.Context(), "s", "work", nil, CallOptions{Timeout: time.Second})
					failed, _ := errors.AsType[*CallError](err)
					if gone := failed != nil && failed.Kind == KindRefused && !failed.InDoubt() && strings.Contains(failed.Error(), "no longer has it"); gone != (tc.gone && i == 0) {
						t.Errorf("call %d: %v", i+1, err)
					}
				}
				if len(up.listed)-1 != tc.lists {
					t.Errorf("the tools were listed %d times", len(up.listed)-1)
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				var known []string
				if s.listing != nil {
					for _, tool := range s.listing.Tools {
						known = append(known, tool.Name)
					}
				}
				if tc.gone && strings.Join(known, " ") != "labour" {
					t.Errorf("known are the tools %q", known)
				}
			})
		})
	}
}
