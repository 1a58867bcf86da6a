package postgrestest

import (
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"mcp-code-exec-harness/internal/testing/proxytest"
)

// socket is the name of the Unix socket in a server's directory.
const socket = ".s.PGSQL.5432"

// Behind starts a proxy for the server, and returns a URL that reaches a schema through the proxy. schema is a URL from Schema. The proxy
// ends with the test.
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
