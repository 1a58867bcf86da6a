package api

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/auth"
)

// A caller's slots are its own, and those of all are shared; what waits gets a slot when one is left.
func TestSlots(t *testing.T) {
	t.Parallel()
	s := newBound("reads", 2, 3, 0)
	enter := func(caller string, want int) (leave func()) {
		t.Helper()
		leave, err := s.enter(t.Context(), caller)
		var p *Problem
		if errors.As(err, &p); err != nil && p.Status != want || err == nil && want != 0 {
			t.Errorf("%s: %v, want %d", caller, err, want)
		}
		return leave
	}
	first := enter("alice", 0)
	enter("alice", 0)
	enter("alice", http.StatusTooManyRequests)
	enter("bob", 0)
	enter("bob", http.StatusServiceUnavailable)
	first()
	enter("bob", 0)
	s.wait = time.Minute
	left := newBound("reads", 1, 1, time.Minute)
	leave, err := left.enter(t.Context(), "alice")
	if err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() {
		leave, err := left.enter(t.Context(), "alice")
		if err == nil {
			leave()
		}
		waited <- err
	}()
	leave()
	if err := <-waited; err != nil {
		t.Error(err)
	}
	if left.Held("alice") != 0 {
		t.Errorf("callers that have left are kept: %+v", left)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.enter(gone, "bob"); err == nil {
		t.Error("a caller that went away gets a slot")
	}
}

// A client has writeTimeout for each chunk, and has to keep leastRate over the whole answer; a stream has no whole.
func TestWriteDeadline(t *testing.T) {
	t.Parallel()
	began := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		after   time.Duration
		written int64
		stream  bool
		want    time.Duration
	}{
		{0, 0, false, 30 * time.Second},
		{29 * time.Second, 64 << 10, false, 32 * time.Second},
		{29 * time.Second, 64 << 20, false, 59 * time.Second},
		{time.Hour, 64 << 10, false, 32 * time.Second},
		{time.Hour, 64 << 10, true, time.Hour + 30*time.Second},
	} {
		p := &pace{began: began, bytes: c.written, stream: c.stream}
		if got := p.deadline(began.Add(c.after)).Sub(began); got != c.want {
			t.Errorf("%s after the beginning, with %d bytes written, it is %s, want %s", c.after, c.written, got, c.want)
		}
	}
}

// Connections above the bound of an address, or of all, are closed; a closed one makes room.
func TestConnections(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &connections{Listener: inner, each: 2, all: 8, from: map[netip.Addr]int{}}
	accepted := make(chan net.Conn, 8)
	go func() {
		defer close(accepted)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	dial := func() net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	dial()
	dial()
	first := <-accepted
	<-accepted
	over := dial()
	over.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := over.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
		t.Errorf("the third connection is not closed: %v", err)
	}
	first.Close()
	first.Close()
	dial()
	second := <-accepted
	if l.n != 2 {
		t.Errorf("%d connections are counted", l.n)
	}
	second.Close()
	l.Close()
	for range accepted {
	}
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// A caller's small bodies are decoded a few at a time, large ones one after another with a pause. Bodies of other callers do not wait for them.
func TestLargeBodies(t *testing.T) {
	t.Parallel()
	a := &API{bodies: newBound("bodies", 2, 3, 0), large: newBound("large bodies", 1, 4, 0)}
	read := func(user string, size, want int) *visit {
		t.Helper()
		v := &visit{identity: auth.Identity{User: user}, from: netip.MustParseAddr("10.0.0.1")}
		r := httptest.NewRequestWithContext(context.WithValue(t.Context(), visitKey{}, v), http.MethodPost, "/v1/runs", strings.NewReader(strings.Repeat("x", size)))
		err := a.readBody(httptest.NewRecorder(), r)
		var p *Problem
		if errors.As(err, &p); err != nil && p.Status != want || err == nil && want != 0 {
			t.Errorf("%d bytes of %s: %v, want %d", size, user, err, want)
		}
		return v
	}
	first := read("alice", largeBody, 0)
	read("alice", largeBody, http.StatusTooManyRequests)
	small := read("alice", largeBody-1, 0)
	read("alice", largeBody-1, http.StatusTooManyRequests)
	nobody := read("", largeBody, 0) // of a client without an identity
	read("", largeBody, http.StatusTooManyRequests)
	read("bob", largeBody, http.StatusServiceUnavailable)
	for _, v := range []*visit{first, small, nobody} {
		v.decoded()
	}
	a.large.wait = time.Minute
	v := read("cid", 2*largeBody, 0)
	ended := time.Now()
	v.decoded()
	if read("cid", largeBody, 0); time.Since(ended) < bodyRest/4 {
		t.Errorf("the rest after 256 KiB took %s", time.Since(ended))
	}
}
