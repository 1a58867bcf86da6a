// Package redistest starts Redis servers for tests. Only tests import it.
package redistest

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/process"
)

// Server is a running redis-server.
type Server struct {
	URL string // address without a database

	cmd    *exec.Cmd
	done   chan struct{} // closed when the process has ended
	listen []string      // arguments with the listening address
	args   []string
	dir    string
}

// Databases is the number of databases of a server. Tests that share a server may use one database each.
const Databases = 256

// Start starts a server on a Unix socket, with further arguments, and ends it with the test. If redis-server is not installed, the
// test is skipped, or fails if CI=true.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	dir, err := os.MkdirTemp("", "redis") // the path of t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	s := &Server{URL: "unix://" + socket, listen: []string{"--port", "0", "--unixsocket", socket}, args: args, dir: dir}
	s.Restart(t)
	t.Cleanup(s.Kill)
	return s
}

// StartTLS starts a server that listens with TLS on a local port and requires a password.
func StartTLS(t testing.TB, certFile, keyFile, password string) (s *Server, address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return Start(t, "--bind", "127.0.0.1", "--tls-port", port, "--tls-cert-file", certFile, "--tls-key-file", keyFile,
		"--tls-auth-clients", "no", "--requirepass", password), address
}

// Restart starts the server again at the same address, after Kill.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		const message = "redis-server is missing: install it with apt-get install redis-server"
		if os.Getenv("CI") == "true" {
			t.Fatal(message)
		}
		t.Skip(message)
	}
	args := append([]string{"--dir", s.dir, "--save", "", "--daemonize", "no", "--databases", strconv.Itoa(Databases)}, s.listen...)
	cmd := exec.Command(path, append(args, s.args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(cmd); err != nil {
		t.Fatal(err)
	}
	s.cmd, s.done = cmd, make(chan struct{})
	ready := make(chan string, 1) // receives "" when the server is ready, or its output if it has ended
	go func() {
		defer close(s.done)
		var log strings.Builder
		lines := bufio.NewScanner(out)
		for waiting := true; lines.Scan(); {
			log.WriteString(lines.Text() + "\n")
			if waiting && strings.Contains(lines.Text(), "eady to accept connections") {
				ready <- ""
				waiting = false
			}
		}
		_ = cmd.Wait()
		select {
		case ready <- log.String():
		default:
		}
	}()
	if log := <-ready; log != "" {
		t.Fatalf("redis-server has ended:\n%s", log)
	}
}

// Pause freezes the server, so that it does not answer until Kill. It reports whether this worked.
func (s *Server) Pause() bool { return process.Freeze(s.cmd.Process, true) }

// Kill ends the server at once, like a power failure.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill()
	<-s.done
}
