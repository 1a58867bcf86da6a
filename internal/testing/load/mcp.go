package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	mcpUsers       = 20
	clientsOfUser  = 5
	mcpPause       = 500 * time.Millisecond // pause between two calls of a client
	initialization = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"m","version":"1"}}}`
)

// keyTransport sends a key with every request.
type keyTransport struct {
	http.RoundTripper
	key string
}

func (t keyTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+t.key)
	return t.RoundTripper.RoundTrip(r)
}

// clientOf returns an HTTP client with a new key of a user.
func (s *server) clientOf(ctx context.Context, user string) (*http.Client, error) {
	key, err := exec.CommandContext(ctx, s.cmd.Path, "keys", "create", "--config", s.file(), "--user", user, user).Output()
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return &http.Client{Transport: keyTransport{s.http.Transport, strings.TrimSpace(string(key))}}, nil
}

func (s *server) connect(ctx context.Context, client *http.Client) (*mcp.ClientSession, error) {
	return mcp.NewClient(&mcp.Implementation{Name: "load", Version: "1"}, nil).
		Connect(ctx, &mcp.StreamableClientTransport{Endpoint: s.url + "/mcp", HTTPClient: client}, nil)
}

// mcpBesideAHostileClient compares the latency of the calls of 100 MCP clients alone with their latency beside a hostile client, in rounds of
// the given length. The result is the ratio of the 99th percentiles.
func mcpBesideAHostileClient(rounds int, length time.Duration) func(context.Context, *server) (figures, error) {
	return func(ctx context.Context, s *server) (f figures, err error) {
		var sessions []*mcp.ClientSession
		for u := range mcpUsers {
			client, err := s.clientOf(ctx, fmt.Sprint("user", u))
			if err != nil {
				return f, err
			}
			for range clientsOfUser {
				session, err := s.connect(ctx, client)
				if err != nil {
					return f, err
				}
				defer session.Close()
				sessions = append(sessions, session)
			}
		}
		mallory, err := s.clientOf(ctx, "mallory")
		if err != nil {
			return f, err
		}
		var took [2][]time.Duration
		for round := range 2 * rounds {
			attacking, end := context.WithCancel(ctx)
			var wg sync.WaitGroup
			if round%2 == 1 {
				for _, attack := range mcpAttacks {
					wg.Go(func() {
						for n := 0; attacking.Err() == nil; n++ {
							attack(attacking, s, mallory, n)
						}
					})
				}
			}
			times, err := mcpCalls(ctx, sessions, length)
			end()
			wg.Wait()
			if err != nil {
				return f, err
			}
			took[round%2] = append(took[round%2], times...)
		}
		for i := range took {
			slices.Sort(took[i])
		}
		alone, beside := at(took[0], 0.99), at(took[1], 0.99)
		f.value = float64(beside) / float64(alone)
		f.note = fmt.Sprintf("alone p50 %s, p99 %s of %d; beside p50 %s, p99 %s of %d; server at most %d MiB",
			at(took[0], 0.5), alone, len(took[0]), at(took[1], 0.5), beside, len(took[1]), peak(s.cmd.Process.Pid)>>20)
		return f, nil
	}
}

// mcpCalls lets all clients make short runs with a tool call for the given time, and returns the durations of the calls.
func mcpCalls(ctx context.Context, sessions []*mcp.ClientSession, length time.Duration) (all []time.Duration, err error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	began := time.Now()
	for c, session := range sessions {
		wg.Go(func() {
			for i := c; time.Since(began) < length; i++ {
				asked := time.Now()
				want := fmt.Sprintf(`"output":"client %d call %d"`, c, i)
				r, e := session.CallTool(ctx, &mcp.CallToolParams{Name: "execute_code", Arguments: map[string]any{
					"code": fmt.Sprintf("return (await callMCPTool('load__echo', {text: 'client %d call %d'})).text", c, i),
				}})
				if e == nil && !strings.Contains(fmt.Sprint(r.StructuredContent), fmt.Sprintf("client %d call %d", c, i)) {
					e = fmt.Errorf("a client wants %s and gets %+v", want, r.StructuredContent)
				}
				mu.Lock()
				all, err = append(all, time.Since(asked)), errors.Join(err, e)
				mu.Unlock()
				if e != nil {
					return
				}
				time.Sleep(mcpPause)
			}
		})
	}
	wg.Wait()
	return all, err
}

// mcpAttacks are attacks of one client on the others. They are made at the same time, repeatedly.
var mcpAttacks = []func(ctx context.Context, s *server, client *http.Client, n int){
	func(ctx context.Context, s *server, client *http.Client, n int) { // floods
		session, err := s.connect(ctx, client)
		if err != nil {
			return
		}
		defer session.Close()
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				_, _ = session.CallTool(ctx, &mcp.CallToolParams{Name: "execute_code", Arguments: map[string]any{"code": fmt.Sprintf("for (;;) {} // %d %d", n, i)}})
			})
		}
		wg.Wait()
	},
	func(ctx context.Context, s *server, client *http.Client, n int) { // sends giant programs
		for _, code := range []string{strings.Repeat("+(1", 50_000), fmt.Sprintf("const n%d = '%s'", n, strings.Repeat("x", 7<<20))} {
			// The SDK's client would decode the message several times, on the same processors as the measured server.
			_, _ = s.post(ctx, client, "", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"execute_code","arguments":{"code":"`+code+`"}}}`)
		}
	},
	func(ctx context.Context, s *server, client *http.Client, _ int) { // opens sessions, and listens without reading
		id, err := s.post(ctx, client, "", initialization)
		if err != nil || id == "" {
			return
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/mcp", nil)
		if err != nil {
			return
		}
		r.Header.Set("Accept", "text/event-stream")
		r.Header.Set("Mcp-Session-Id", id)
		if answer, err := client.Do(r); err == nil {
			context.AfterFunc(ctx, func() { answer.Body.Close() })
		}
	},
	func(ctx context.Context, s *server, client *http.Client, n int) { // cancels everything
		session, err := s.connect(ctx, client)
		if err != nil {
			return
		}
		defer session.Close()
		for i := range 20 {
			short, cancel := context.WithTimeout(ctx, time.Duration(i+1)*5*time.Millisecond)
			_, _ = session.CallTool(short, &mcp.CallToolParams{Name: "execute_code", Arguments: map[string]any{"code": fmt.Sprintf("await utils.sleep(60000) // %d", n)}})
			cancel()
		}
	},
}

// post sends one message and returns the id of the session that the message belongs to or begins.
func (s *server) post(ctx context.Context, client *http.Client, session, message string) (id string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/mcp", strings.NewReader(message))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	answer, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.Header.Get("Mcp-Session-Id"), err
}
