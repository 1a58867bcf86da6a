package mcpserver

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/auth"
)

// TestSessionsOfOwner bounds the sessions of a credential that acts for many users; another credential has room.
func TestSessionsOfOwner(t *testing.T) {
	t.Parallel()
	server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	connect := func() *mcp.ServerSession {
		_, transport := mcp.NewInMemoryTransports()
		session, err := server.Connect(t.Context(), transport, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = session.Close() })
		return session
	}
	var s sessions
	first := connect()
	for i := range maxOfOwner {
		session := first
		if i > 0 {
			session = connect()
		}
		if err := s.add(auth.Identity{Principal: "greedy", User: fmt.Sprint(i)}, session); err != nil {
			t.Fatalf("session %d: %v", i, err)
		}
	}
	another := auth.Identity{Principal: "greedy", User: "another"}
	if err := s.add(another, connect()); !errors.Is(err, errSessions) {
		t.Errorf("one more: %v", err)
	}
	if err := s.add(auth.Identity{Principal: "modest"}, connect()); err != nil {
		t.Errorf("another credential: %v", err)
	}
	_ = first.Close()
	again := connect()
	for deadline := time.Now().Add(time.Minute); s.add(another, again) != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("an ended session still counts")
		}
	}
}
