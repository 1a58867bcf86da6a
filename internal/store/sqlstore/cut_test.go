package sqlstore

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/testing/postgrestest"
	"mcp-code-exec-harness/internal/testing/storetest"
)

// cutter is a proxy before a server that cuts a connection at one of the pieces that pass.
type cutter struct {
	left  atomic.Int64 // pieces that pass before the next cut; negative: no cut
	cuts  atomic.Int64
	going sync.WaitGroup
}

// cutting starts a proxy before the socket of a server, and returns the directory of its own socket.
func cutting(t *testing.T, server string) (c *cutter, dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "cut") // the path of t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	if err != nil {
		t.Fatal(err)
	}
	c = &cutter{}
	c.left.Store(-1)
	t.Cleanup(func() {
		l.Close()
		c.going.Wait()
		os.RemoveAll(dir)
	})
	c.going.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			back, err := net.Dial("unix", filepath.Join(server, ".s.PGSQL.5432"))
			if err != nil {
				client.Close()
				continue
			}
			c.going.Go(func() { c.pass(client, back) })
			c.going.Go(func() { c.pass(back, client) })
		}
	})
	return c, dir
}

func (c *cutter) pass(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	piece := make([]byte, 64<<10)
	for {
		n, err := from.Read(piece)
		if err != nil {
			return
		}
		if c.left.Add(-1) == 0 {
			c.cuts.Add(1)
			return
		}
		if _, err := to.Write(piece[:n]); err != nil {
			return
		}
	}
}

// TestPostgresCut cuts connections at each point of a transaction, also between a COMMIT and its answer: each task is created once, and has each of its
// steps once.
func TestPostgresCut(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, postgrestest.Fast...)
	address, err := url.Parse(server.Schema(t))
	if err != nil {
		t.Fatal(err)
	}
	query := address.Query()
	c, dir := cutting(t, query.Get("host"))
	query.Set("host", dir)
	address.RawQuery = query.Encode()
	s := openServer(t, address.String(), Options{})
	uncut := 0 // number of the last points at which nothing was cut
	for n := int64(0); uncut < 3; n++ {
		before := c.cuts.Load()
		id := fmt.Sprint("task_", n)
		c.left.Store(n + 1)
		_, created, err := s.CreateTask(t.Context(), storetest.New(id, "ann", fmt.Sprint("s", n)))
		c.left.Store(-1)
		if err != nil || !created {
			t.Errorf("cut at %d: created: %v, %v", n, created, err)
			continue
		}
		claimed, err := s.Claim(t.Context(), id, s.now())
		if err != nil {
			t.Errorf("claim %s: %v", id, err)
			continue
		}
		c.left.Store(n + 1)
		_, err = s.Commit(t.Context(), id, claimed.Fence, task.Change{Steps: []task.Step{{}}, Events: []task.Event{{Type: "x", Data: []byte("1")}}})
		c.left.Store(-1)
		steps, failed := s.Steps(t.Context(), id)
		events, also := s.Events(t.Context(), id, 0, 0)
		if err != nil || failed != nil || also != nil || len(steps) != 1 || len(events) != 2 { // one event is of the creation
			t.Errorf("cut at %d: %d steps, %d events, %v, %v, %v", n, len(steps), len(events), err, failed, also)
		}
		if uncut++; c.cuts.Load() > before {
			uncut = 0
		}
	}
	if c.cuts.Load() < 10 {
		t.Errorf("only %d connections were cut", c.cuts.Load())
	}
}
