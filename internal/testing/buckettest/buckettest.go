// Package buckettest starts servers with the protocol of Amazon S3 for tests. Only tests import it.
package buckettest

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/bucket"
	"mcp-code-exec-harness/internal/process"
)

// Server is a running versitygw with one bucket, whose objects are files of a temporary directory.
type Server struct {
	Endpoint string
	Name     string // name of the bucket

	dir, address string
	cmd          *exec.Cmd
	done         chan struct{} // closed when the process has ended
}

// The keys of the bucket.
const (
	AccessKey = "access"
	SecretKey = "test-secret"
)

// server returns the path of versitygw. The first call on a machine compiles it, which takes minutes.
var server = sync.OnceValues(func() (string, error) {
	_, file, _, _ := runtime.Caller(0)
	module := filepath.Join(filepath.Dir(file), "../../../tools/bucket/go.mod")
	if !filepath.IsAbs(file) { // compiled with -trimpath
		out, err := exec.Command("go", "env", "GOMOD").Output()
		if err != nil {
			return "", err
		}
		module = filepath.Join(filepath.Dir(strings.TrimSpace(string(out))), "tools/bucket/go.mod")
	}
	cmd := exec.Command("go", "tool", "-modfile="+module, "-n", "versitygw")
	cmd.Env, cmd.Stderr = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath"), os.Stderr // .ci/run compiles it with the same settings.
	out, err := cmd.Output()
	return string(bytes.TrimSpace(out)), err
})

// Start starts a server on a local port and ends it with the test. If the server cannot be compiled, the test is skipped, or fails if CI=true.
func Start(t testing.TB) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Name: "files", dir: t.TempDir(), address: l.Addr().String()}
	s.Endpoint = "http://" + s.address
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(s.dir, s.Name), 0o700); err != nil {
		t.Fatal(err)
	}
	s.Restart(t)
	t.Cleanup(s.Kill)
	return s
}

// Restart starts the server again at the same address, after Kill.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	path, err := server()
	if err != nil {
		const message = "versitygw cannot be compiled: go tool -modfile=tools/bucket/go.mod -n versitygw says why: "
		if os.Getenv("CI") == "true" {
			t.Fatal(message, err)
		}
		t.Skip(message, err)
	}
	cmd := exec.Command(path, "--access", AccessKey, "--secret", SecretKey, "--port", s.address, "--quiet", "posix", s.dir)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := process.Start(cmd); err != nil {
		t.Fatal(err)
	}
	s.cmd, s.done = cmd, make(chan struct{})
	go func() {
		defer close(s.done)
		_ = cmd.Wait()
	}()
	for { // the server says nothing when it listens
		conn, err := net.Dial("tcp", s.address)
		if err == nil {
			_ = conn.Close()
			return
		}
		select {
		case <-s.done:
			t.Fatalf("versitygw has ended:\n%s", log.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Kill ends the server at once, like a power failure.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill()
	<-s.done
}

// Pause freezes the server, so that it does not answer until Kill. It reports whether this worked.
func (s *Server) Pause() bool { return process.Freeze(s.cmd.Process, true) }

// Options returns the options that reach the bucket.
func (s *Server) Options(prefix string) bucket.Options {
	return bucket.Options{Endpoint: s.Endpoint, Bucket: s.Name, Region: "us-east-1", Prefix: prefix, AccessKey: AccessKey, SecretKey: SecretKey}
}
