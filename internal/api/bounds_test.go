package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/telemetry"
)

// A bound limits the slots of each caller and of all callers. A waiting request gets a slot when one becomes free.
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

// A client has writeTimeout for each chunk, and has to keep leastRate over the whole answer. leastRate does not apply to streams.
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

// dialed holds both ends of a connection. server is nil if the listener has closed the connection at once.
type dialed struct {
	client net.Conn
	server *counted
}

// closed reports whether the server has closed a connection.
func (d dialed) closed() bool {
	d.client.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	_, err := d.client.Read(make([]byte, 1))
	return !isTimeout(err)
}

// counts returns the number of connections of a listener with and without a credential.
func counts(l *connections) (known, fresh int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known.n, l.new.n
}

// dialer returns a listener with limits, and a function that connects to it.
func dialer(t *testing.T, limits connectionLimits, trusted func(netip.Addr) bool) (l *connections, dial func(from string) dialed) {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l = listenBounded(inner, limits, trusted)
	accepted := make(chan *counted)
	go func() {
		defer close(accepted)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn.(*counted)
		}
	}()
	t.Cleanup(func() {
		l.Close()
		for c := range accepted {
			c.Close()
		}
	})
	return l, func(from string) dialed {
		t.Helper()
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		conn, err := d.DialContext(t.Context(), "tcp", inner.Addr().String())
		if err != nil {
			if runtime.GOOS == "linux" {
				t.Fatal(err)
			}
			t.Skip("this system has one address of loopback, run this test on Linux: ", err)
		}
		t.Cleanup(func() { conn.Close() })
		select {
		case c := <-accepted:
			t.Cleanup(func() { c.Close() })
			return dialed{conn, c}
		case <-time.After(100 * time.Millisecond): // the listener has closed the connection at once
			return dialed{conn, nil}
		}
	}
}

// At the limit of an address, a new connection displaces the oldest idle connection of that address. At the limit of all addresses, it displaces the oldest
// idle connection of the address that has the most. Connections that had a credential or that are being served stay.
func TestConnections(t *testing.T) {
	t.Parallel()
	l, dial := dialer(t, connectionLimits{newEach: 3, newAll: 5, knownEach: 2, knownAll: 3}, nil)
	first, second, third := dial("127.0.0.1"), dial("127.0.0.1"), dial("127.0.0.1")
	done := first.server.serve()
	fourth := dial("127.0.0.1")
	if first.closed() || !second.closed() || third.closed() || fourth.closed() {
		t.Error("of an address that is full, not its oldest idle connection gives way")
	}
	fifth, sixth := dial("127.0.0.2"), dial("127.0.0.2")
	seventh := dial("127.0.0.3")
	if !third.closed() || fifth.closed() || sixth.closed() || seventh.server == nil {
		t.Error("an address with one connection is kept out by one with three")
	}
	fourth.server.identified()
	for range 6 {
		dial("127.0.0.1")
	}
	if known, fresh := counts(l); fourth.closed() || first.closed() || known != 1 || fresh > 5 {
		t.Errorf("one with a credential, or one that is served, gives way: %d known, %d new", known, fresh)
	}
	done()
	first.server.Close()
	first.server.Close()
	if known, fresh := counts(l); known < 0 || fresh < 0 {
		t.Error("a connection that is closed twice counts twice")
	}
	a, b := dial("127.0.0.2"), dial("127.0.0.2")
	a.server.identified()
	b.server.identified()
	c := dial("127.0.0.2")
	c.server.identified()
	if known, _ := counts(l); !a.closed() || b.closed() || c.closed() || known != 3 {
		t.Errorf("beyond the bound of an address with credentials not its oldest gives way: %d", known)
	}
}

// A new connection is closed if all others are being served. Connections of a proxy are limited only by the limit of all known connections.
func TestConnectionsThatStay(t *testing.T) {
	t.Parallel()
	l, dial := dialer(t, connectionLimits{newEach: 2, newAll: 4, knownEach: 2, knownAll: 6}, func(peer netip.Addr) bool {
		return peer == netip.MustParseAddr("127.0.0.9")
	})
	for range 2 {
		dial("127.0.0.1").server.serve()
	}
	if late := dial("127.0.0.1"); late.server != nil || !late.closed() {
		t.Error("a connection takes the place of one that is being served")
	}
	for range 6 {
		dial("127.0.0.9").server.serve()
	}
	if known, fresh := counts(l); known != 6 || fresh != 2 {
		t.Errorf("%d known, %d new", known, fresh)
	}
}

// All addresses of a network that one host may own count as one address.
func TestAddressBlock(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"192.0.2.7": "192.0.2.7", "::ffff:192.0.2.7": "192.0.2.7", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::", "fe80::1%eth0": "fe80::",
	} {
		if got := addressBlock(netip.MustParseAddr(address)).String(); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}

// The first refusals have a line each in the audit log. Later ones are counted for each address, or together if there are too many addresses, so that the
// number of lines is limited.
func TestRefusals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lines []telemetry.Event
		r := &refusals{now: time.Now, write: func(e telemetry.Event) { lines = append(lines, e) }}
		written := func() []telemetry.Event { // r writes while it holds the lock
			r.mu.Lock()
			defer r.mu.Unlock()
			return slices.Clone(lines)
		}
		refuse := func(address, reason string, times int) {
			for range times {
				r.note(address, telemetry.Event{Type: telemetry.AuthFailure, Details: map[string]any{"address": address, "reason": reason}})
			}
		}
		refuse("192.0.2.1", "a bad key", 7000)
		for i := range 5000 {
			refuse(fmt.Sprintf("198.51.100.%d", i), "no credential", 1)
		}
		if n := len(written()); n != refusalSingles {
			t.Errorf("%d single lines", n)
		}
		time.Sleep(refusalWindow + time.Second)
		synctest.Wait()
		total, named := int64(0), false
		all := written()
		for _, e := range all {
			n, counted := e.Details["count"].(int64)
			if !counted {
				n = 1
			}
			total += n
			named = named || e.Details["address"] == "192.0.2.1" && n == 7000-refusalSingle
		}
		if total != 12_000 || !named || len(all) > refusalSingles+refusalCounted+1 {
			t.Errorf("%d refusals in %d lines, the first address named: %t", total, len(all), named)
		}
		refuse("192.0.2.1", "a bad key", 1)
		if len(written()) != len(all)+1 {
			t.Error("the next minute does not begin anew")
		}
		r.flush()
	})
}

// Requests without credentials from one address are delayed once it has sent many. Requests from another address are not.
func TestOpenPace(t *testing.T) {
	t.Parallel()
	var p openPace
	now := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	longest, closed := time.Duration(0), 0
	for range 5000 {
		wait, ok := p.wait(a, now)
		if longest = max(longest, wait); !ok {
			closed++
		}
	}
	if wait, ok := p.wait(b, now); wait != 0 || !ok || longest != openWait || closed != 5000-openBurst-int(openWait/openEvery) {
		t.Errorf("another address waits %s, %t; the longest wait is %s, %d were closed", wait, ok, longest, closed)
	}
	if wait, _ := p.wait(a, now.Add(openWait+openBurst*openEvery)); wait != 0 {
		t.Errorf("later it waits %s", wait)
	}
	for i := range uint32(3 * openPaced) {
		p.wait(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), now)
	}
	if len(p.next) > openPaced+1 {
		t.Errorf("%d addresses are kept", len(p.next))
	}
	if wait, ok := p.wait(netip.MustParseAddr("198.51.100.1"), now.Add(time.Hour)); wait != 0 || !ok || len(p.next) > 1 {
		t.Errorf("an hour later a new address waits %s, %t, beside %d", wait, ok, len(p.next))
	}
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// A caller's small bodies are decoded a few at a time, large ones one after another with a pause. Bodies of other callers do not wait for them.
func TestLargeBodies(t *testing.T) {
	t.Parallel()
	a := &API{bodies: newBound("bodies", 2, 3, 0), large: newBound("large bodies", 1, 4, 0), arriving: newBound("memory", 100, 100, 0), open: newBound("memory", 100, 100, 0)}
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
	nobody := read("", largeBody, 0) // the body of a client without an identity
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
