package mcpclient

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// TestStreamOfNotifications: of what a server says by itself over HTTP the SDK gets what it is for, and not without limit.
func TestStreamOfNotifications(t *testing.T) {
	t.Parallel()
	const (
		changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
		logged  = `{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"x"}}`
		ping    = `{"jsonrpc":"2.0","id":%d,"method":"ping"}`
	)
	event := func(fields ...string) string { return strings.Join(fields, "\n") + "\n\n" }
	pings := func(n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(event("data: " + fmt.Sprintf(ping, i)))
		}
		return b.String()
	}
	for name, c := range map[string]struct {
		in, want string
		err      error
	}{
		"passed on":       {event("id: 1", "data: "+changed), event("data: " + changed), io.EOF},
		"not needed":      {strings.Repeat(event("data: "+logged), 100), "", io.EOF},
		"not heard yet":   {strings.Repeat(event("data: "+changed), 100), event("data: " + changed), io.EOF},
		"other events":    {event("event: noise", "data: x"), "", io.EOF},
		"a retry":         {event("id: 1", "retry: 2000"), "", io.EOF},
		"open requests":   {pings(maxInbound), pings(maxInbound), io.EOF},
		"flood":           {pings(maxInbound + 1), pings(maxInbound), errInboundFlood},
		"too large":       {"data: " + strings.Repeat("x", 2*maxAside), "", tooLargeError(maxAside)},
		"too many fields": {strings.Repeat("data: x\n", maxAside/4), "", tooLargeError(maxAside)},
		"not a message":   {event("data: {") + event(`data: {"jsonrpc":"2.0","id":null,"error":{"code":1}}`) + event("data: "+changed), event("data: " + changed), io.EOF},
		"nobody's answer": {event(`data: {"jsonrpc":"2.0","id":1,"result":{}}`), "", io.EOF},
		"endless":         {strings.Repeat(event("data: "+logged), 2*maxBurst), "", errFlood},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWire(t.Context(), Config{URL: "http://localhost"}, 8<<20, true, &inbound{})
			got, err := io.ReadAll(newEventBody(io.NopCloser(strings.NewReader(c.in)), w, stream{limit: maxAside}))
			if string(got) != c.want {
				t.Errorf("got %.300q, want %.300q", got, c.want)
			}
			if err == nil {
				err = io.EOF
			}
			if !errors.Is(err, c.err) {
				t.Errorf("ended with %v, want %v", err, c.err)
			}
		})
	}
}

// TestStreamOfAnAnswer: what the SDK needs to resume a stream is passed on, and no wait that is too short.
func TestStreamOfAnAnswer(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"id: 1\nretry: 2000\n\n":                                        "id: 1\nretry: 2000\n\n",
		"id: 1\nretry: 1\n\n":                                           "id: 1\n\n",
		"id: 1\nretry: -9999999999999999999\n\n":                        "id: 1\n\n",
		"id: 1\ndata: {\"jsonrpc\":\"2.0\",\"id\":8,\"result\":{}}\n\n": "id: 1\n\n", // of another call
	} {
		w := newWire(t.Context(), Config{URL: "http://localhost"}, 8<<20, true, &inbound{})
		ex := newExchange(t.Context(), newMemory(1<<20), "", "")
		id, _ := jsonrpc.MakeID(float64(7))
		got, err := io.ReadAll(newEventBody(io.NopCloser(strings.NewReader(in)), w, stream{ex: ex, id: id, limit: 1000}))
		if string(got) != want || err != nil {
			t.Errorf("got %q, %v of %q, want %q", got, err, in, want)
		}
	}
}

func TestInbound(t *testing.T) {
	t.Parallel()
	w := newWire(t.Context(), Config{URL: "http://localhost"}, 1<<20, true, &inbound{})
	passes := func(text string) bool {
		t.Helper()
		data, err := w.message([]byte(text), stream{})
		if err != nil {
			t.Fatal(err)
		}
		return data != nil
	}
	const changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	if !passes(changed) || passes(changed) {
		t.Error("a change is told not once")
	}
	w.inbound.heard()
	if !passes(changed) {
		t.Error("a change after the first was heard is lost")
	}
	for range 10 * maxInbound {
		if !passes(`{"jsonrpc":"2.0","id":"p","method":"ping"}`) {
			t.Fatal("a request is lost")
		}
		w.inbound.answered()
	}
}
