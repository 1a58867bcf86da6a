package postgrestest

import (
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"mcp-code-exec-harness/internal/testing/proxytest"
)

// socket is the name of a server's socket in its directory.
const socket = ".s.PGSQL.5432"

// Behind returns the URL of a schema behind a proxy, which ends with the test.
func (s *Server) Behind(t testing.TB, schema string) (behind string, proxy *proxytest.Proxy) {
	t.Helper()
	address, err := url.Parse(schema)
	must(t, err)
	dir, err := os.MkdirTemp("", "pg") // the path of t.TempDir is too long for a socket
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	proxy = proxytest.Start(t, "unix", filepath.Join(dir, socket), "unix", filepath.Join(s.dir, socket))
	query := address.Query()
	query.Set("host", dir)
	address.RawQuery = query.Encode()
	return address.String(), proxy
}
