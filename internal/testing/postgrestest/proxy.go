package postgrestest

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Fate is what a proxy does with a piece of data that arrives.
type Fate int

const (
	Pass Fate = iota // The proxy passes the data on.
	Cut              // The proxy closes the connection.
	Stop             // The proxy closes the connection, kills the server and restarts it.
)

// Behind returns the URL of a schema behind a proxy, which ends with the test. The proxy calls piece with each piece of data that arrives in either
// direction. piece is called by several goroutines.
func (s *Server) Behind(t testing.TB, schema string, piece func() Fate) string {
	t.Helper()
	address, err := url.Parse(schema)
	must(t, err)
	dir, err := os.MkdirTemp("", "pg")
	must(t, err)
	l, err := net.Listen("unix", filepath.Join(dir, socket))
	must(t, err)
	var going sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		going.Wait()
		_ = os.RemoveAll(dir)
	})
	pass := func(from, to net.Conn) {
		fate := Pass
		for data := make([]byte, 64<<10); fate == Pass; {
			n, err := from.Read(data)
			if err != nil {
				break
			}
			if fate = piece(); fate != Pass {
				break
			}
			if _, err := to.Write(data[:n]); err != nil {
				break
			}
		}
		_, _ = from.Close(), to.Close()
		if fate == Stop {
			s.Kill() // Kill waits for the process of each connection, so the proxy closes the connection before.
			if err := s.Restart(); err != nil {
				t.Error(err)
			}
		}
	}
	going.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("unix", filepath.Join(s.dir, socket))
			if err != nil {
				_ = client.Close()
				continue
			}
			going.Go(func() { pass(client, server) })
			going.Go(func() { pass(server, client) })
		}
	})
	query := address.Query()
	query.Set("host", dir)
	address.RawQuery = query.Encode()
	return address.String()
}

// socket is the name of a server's socket in its directory.
const socket = ".s.PGSQL.5432"
