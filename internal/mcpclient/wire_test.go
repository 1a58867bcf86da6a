package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// readStream reads a stream and returns the messages that the SDK gets from it, one per line.
func readStream(t *testing.T, in string, s *stream) (passed string, err error) {
	t.Helper()
	w := newWeb(Config{URL: "http://localhost"}, "", 8<<20, true)
	w.link = newLink(w)
	s.pace, s.lines = newPace(), newLines(strings.NewReader(in), s.limit)
	ended := make(chan error, 1)
	go func() { ended <- w.read(s) }()
	for {
		select {
		case msg := <-w.link.messages:
			data, err := jsonrpc.EncodeMessage(msg)
			if err != nil {
				t.Fatal(err)
			}
			passed += string(data) + "\n"
		case err := <-ended:
			return passed, err
		}
	}
}

// TestStreamOfNotifications: the SDK gets the unsolicited messages of an HTTP server that are meant for it, up to the rate limit.
func TestStreamOfNotifications(t *testing.T) {
	t.Parallel()
	const (
		changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
		logged  = `{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"x"}}`
		ping    = `{"jsonrpc":"2.0","id":%d,"method":"ping"}`
	)
	event := func(fields ...string) string { return strings.Join(fields, "\n") + "\n\n" }
	pings := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, fmt.Sprintf(ping, i))
		}
		return b.String()
	}
	tooLarge := event("data: "+strings.Repeat("x", 2*maxAside)) + event("data: "+changed)
	for name, c := range map[string]struct {
		in, want, err string
	}{
		"passed on":            {event("id: 1", "data: "+changed), changed + "\n", "EOF"},
		"not needed":           {strings.Repeat(event("data: "+logged), 100), "", "EOF"},
		"not heard yet":        {strings.Repeat(event("data: "+changed), 100), changed + "\n", "EOF"},
		"other events":         {event("event: noise", "data: x"), "", "EOF"},
		"a retry":              {event("id: 1", "retry: 2000"), "", "EOF"},
		"open requests":        {pings(maxInbound, "data: %s\n\n"), pings(maxInbound, "%s\n"), "EOF"},
		"flood":                {pings(maxInbound+1, "data: %s\n\n"), pings(maxInbound, "%s\n"), errInboundFlood.Error()},
		"too large":            {tooLarge, changed + "\n", "EOF"},
		"endless line":         {"data: " + strings.Repeat("x", 17*maxAside), "", "a line of more than 16777216 bytes"},
		"too many fields":      {strings.Repeat("data: x\n", 3*maxAside), "", "an event of more than 16777216 bytes"},
		"not a message":        {event("data: {") + event(`data: {"jsonrpc":"2.0","id":null,"error":{"code":1}}`) + event("data: "+changed), changed + "\n", "EOF"},
		"answer to no request": {event(`data: {"jsonrpc":"2.0","id":1,"result":{}}`), "", "EOF"},
		"endless":              {strings.Repeat(event("data: "+logged), maxBurst+1), "", errFlood.Error()},
		"endless nothing":      {strings.Repeat(event(": ping"), maxBurst+1), "", errFlood.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // no time passes, so the rate limit allows no further messages on a slow machine
				got, err := readStream(t, c.in, &stream{limit: maxAside})
				if got != c.want {
					t.Errorf("got %.300q, want %.300q", got, c.want)
				}
				if !strings.Contains(err.Error(), c.err) {
					t.Errorf("ended with %v, want %v", err, c.err)
				}
			})
		})
	}
}

// TestStreamOfAnAnswer: the state that is needed to resume a stream is kept, and a pause that is too short is ignored.
func TestStreamOfAnAnswer(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]time.Duration{
		"id: 1\nretry: 2000\n\n":                                        2 * time.Second,
		"id: 1\nretry: 1\n\n":                                           0,
		"id: 1\nretry: -9999999999999999999\n\n":                        0,
		"id: 1\ndata: {\"jsonrpc\":\"2.0\",\"id\":8,\"result\":{}}\n\n": 0, // the answer to another call
	} {
		id, _ := jsonrpc.MakeID(float64(7))
		s := &stream{call: &jsonrpc.Request{ID: id}, charge: &charge{memory: newMemory(1 << 20)}, limit: 1000}
		got, err := readStream(t, in, s)
		if got != "" || !errors.Is(err, io.EOF) || s.lastID != "1" || s.retry != want {
			t.Errorf("got %q, %v of %q, id %q and retry %s, want %s", got, err, in, s.lastID, s.retry, want)
		}
	}
}

// nowhere is a carrier without a server.
type nowhere struct{}

func (nowhere) open(context.Context, *link) error                      { return nil }
func (nowhere) send(context.Context, jsonrpc.Message, *exchange) error { return nil }
func (nowhere) close()                                                 {}

func TestInbound(t *testing.T) {
	t.Parallel()
	l := newLink(nowhere{})
	passes := func(text string) bool {
		t.Helper()
		msg, err := jsonrpc.DecodeMessage([]byte(text))
		if err == nil {
			msg, err = l.incoming(msg, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		return msg != nil
	}
	const changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	if !passes(changed) || passes(changed) {
		t.Error("a change is told not once")
	}
	l.changeHandled()
	if !passes(changed) {
		t.Error("a change after the first was heard is lost")
	}
	for range 10 * maxInbound {
		if !passes(`{"jsonrpc":"2.0","id":"p","method":"ping"}`) {
			t.Fatal("a request is lost")
		}
		if err := l.Write(t.Context(), &jsonrpc.Response{}); err != nil {
			t.Fatal(err)
		}
	}
}
