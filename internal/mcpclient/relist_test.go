package mcpclient

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// scripted is a server in memory that notes when its tools are listed.
type scripted struct {
	out    chan jsonrpc.Message
	closed chan struct{}
	began  time.Time
	listed []time.Duration
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
		res.Result = json.RawMessage(`{"tools":[]}`)
	default:
		res.Error = &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: req.Method}
	}
	s.out <- res
	return nil
}

// TestRelistPauses: a server that says all the time that its tools changed is listed at once, then after 1, 2, 4 s and so
// on, at most every 30 s; after a quiet while, at once again. No change goes unheard.
func TestRelistPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := &scripted{out: make(chan jsonrpc.Message, 100), closed: make(chan struct{}), began: time.Now()}
		m := NewManager(Options{})
		s := &server{cfg: Config{Name: "s", Command: "x", StartupTimeout: time.Minute}, m: m}
		if err := m.add(s); err != nil {
			t.Fatal(err)
		}
		c := &conn{transport: TransportStdio}
		c.link = newLink(up)
		if err := s.handshake(t.Context(), c, legacyVersion); err != nil {
			t.Fatal(err)
		}
		s.conn = c
		s.work.Go(func() { s.follow(c) })
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
		if diff := cmp.Diff([]float64{0, 1, 3, 7, 15, 31, 61, 91, 121, 151, 730, 731}, got); diff != "" {
			t.Error(diff)
		}
	})
}
