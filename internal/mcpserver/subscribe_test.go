package mcpserver

import (
	"errors"
	"fmt"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestWatches: the number of a caller's subscriptions is bounded, and each subscription is ended at its server only once.
func TestWatches(t *testing.T) {
	t.Parallel()
	var all watches
	key := func(session *mcp.ServerSession, n int) watchKey { return watchKey{session, fmt.Sprint("test://", n)} }
	first, second := &mcp.ServerSession{}, &mcp.ServerSession{}
	ended := 0
	for n := range maxWatched {
		w := &watch{caller: "alice"}
		if err := all.add(key(first, n), w); err != nil || !all.begin(key(first, n), w, func() { ended++ }) {
			t.Fatalf("subscription %d: %v", n, err)
		}
	}
	if err := all.add(key(second, 0), &watch{caller: "alice"}); !errors.Is(err, errWatched) {
		t.Errorf("one more, in another session, gives %v", err)
	}
	again := &watch{caller: "alice"}
	if err := all.add(key(first, 0), again); err != nil || again.caller != "" {
		t.Errorf("the same again gives %v and counts", err)
	}
	if err := all.add(key(second, 0), &watch{caller: "bob", cancel: func() { ended++ }}); err != nil {
		t.Errorf("another caller gets %v", err)
	}
	for range 2 {
		for n := range maxWatched {
			all.remove(key(first, n))
		}
		all.remove(key(second, 0))
	}
	if ended != maxWatched+1 || len(all.all) != 0 || len(all.of) != 0 {
		t.Errorf("%d have ended, %d and %d are left", ended, len(all.all), len(all.of))
	}
	gone := &watch{caller: "alice"}
	if err := all.add(key(first, 0), gone); err != nil {
		t.Fatal(err)
	}
	gone.cancel = func() {}
	all.remove(key(first, 0))
	if all.begin(key(first, 0), gone, func() {}) {
		t.Error("a subscription begins whose client has gone")
	}
}
