package mcpserver

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/auth"
)

// TestSessionsOfOwner: the sessions of a credential that acts for many users are bounded, and another credential can still begin sessions.
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
	s := newSessions()
	first := connect()
	for i := range maxOfOwner {
		session := first
		if i > 0 {
			session = connect()
		}
		if _, err := s.add(auth.Identity{Principal: "greedy", User: fmt.Sprint(i)}, session); err != nil {
			t.Fatalf("session %d: %v", i, err)
		}
	}
	another := auth.Identity{Principal: "greedy", User: "another"}
	if _, err := s.add(another, connect()); !errors.Is(err, errSessions) {
		t.Errorf("one more: %v", err)
	}
	if _, err := s.add(auth.Identity{Principal: "modest"}, connect()); err != nil {
		t.Errorf("another credential: %v", err)
	}
	_ = first.Close()
	again := connect()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, err := s.add(another, again); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("an ended session still counts")
		}
	}
}

// TestSessionsInTurn: if a caller has the maximum number of sessions, further ones begin one at a time, with a pause after each. Another caller does not
// wait.
func TestSessionsInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSessions()
		server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
		begin := func(caller string) error {
			_, transport := mcp.NewInMemoryTransports()
			session, err := server.Connect(t.Context(), transport, nil)
			if err != nil {
				t.Error(err)
				return err
			}
			t.Cleanup(func() { _ = session.Close() })
			return s.begin(t.Context(), auth.Identity{Principal: caller}, session)
		}
		for i := range maxOwnSession + 1 {
			if err := begin("greedy"); err != nil {
				t.Fatalf("session %d: %v", i, err)
			}
		}
		began := time.Now()
		var refused atomic.Int32
		var wg sync.WaitGroup
		for range maxEnding + 5 {
			wg.Go(func() {
				if begin("greedy") != nil {
					refused.Add(1)
				}
			})
		}
		synctest.Wait()
		if err := begin("modest"); err != nil || time.Since(began) != 0 {
			t.Errorf("another caller waited %s: %v", time.Since(began), err)
		}
		wg.Wait()
		if took := time.Since(began); refused.Load() != 5 || took != maxEnding*sessionPause {
			t.Errorf("%d sessions are refused, and the others begin within %s", refused.Load(), took)
		}
	})
}
