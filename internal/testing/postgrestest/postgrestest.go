// Package postgrestest starts PostgreSQL servers for tests. Only tests import it.
package postgrestest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"mcp-code-exec-harness/internal/process"
)

// Server is a running PostgreSQL server with the database postgres. It listens on a Unix socket.
type Server struct {
	dir     string
	bin     string
	args    []string
	cmd     *exec.Cmd
	done    chan struct{} // closed when the process has ended
	schemas atomic.Int64
}

// Fast are arguments for a server that is fast, but loses everything in a power failure.
var Fast = []string{"-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off"}

// Start starts a server with additional arguments, and ends it with the test. If PostgreSQL is not installed, the test is skipped, or fails if
// CI=true.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s, err := Run(args...)
	switch {
	case errors.Is(err, ErrMissing) && os.Getenv("CI") != "true":
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// ErrMissing reports that PostgreSQL is not installed.
var ErrMissing = errors.New("PostgreSQL is missing: install it with apt-get install postgresql")

// Run starts a server with additional arguments. The caller must call Close.
func Run(args ...string) (*Server, error) {
	bin := find()
	if bin == "" {
		return nil, ErrMissing
	}
	dir, err := os.MkdirTemp("", "pg") // a short path, because the path of a Unix socket is limited to about 100 bytes
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, bin: bin, args: args}
	if err := s.initialise(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := s.Restart(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

func (s *Server) initialise() error {
	if os.Getuid() == 0 {
		if out, err := exec.Command("chown", "postgres", s.dir).CombinedOutput(); err != nil {
			return fmt.Errorf("chown: %w: %s", err, out)
		}
	}
	out, err := s.command("initdb", "--pgdata", s.data(), "--username", "postgres", "--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync").CombinedOutput()
	if err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return nil
}

// Close ends the server and removes its files.
func (s *Server) Close() {
	s.Kill()
	_ = os.RemoveAll(s.dir)
}

// find returns the directory of PostgreSQL's programs: those in PATH, or the newest that are installed on Debian. It returns "" if there are none.
func find() string {
	if path, err := exec.LookPath("postgres"); err == nil {
		return filepath.Dir(path)
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres") // paths on Debian
	if len(found) == 0 {
		return ""
	}
	return filepath.Dir(slices.Max(found))
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// command returns a command that executes one of PostgreSQL's programs. They refuse to run as root, so root executes them as postgres.
func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	if os.Getuid() == 0 {
		cmd = exec.Command("setpriv", append([]string{"--reuid=postgres", "--regid=postgres", "--pdeathsig=KILL", "--clear-groups", "--", filepath.Join(s.bin, name)}, args...)...)
	}
	cmd.Dir = s.dir
	return cmd
}

// Restart starts the server for the first time, or again after Kill.
func (s *Server) Restart() error {
	args := []string{"-D", s.data(), "-k", s.dir, "-c", "listen_addresses=", "-c", "max_connections=400", "-c", "shared_buffers=64MB", "-c", "log_min_messages=log"}
	cmd := s.command("postgres", append(args, s.args...)...)
	out, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := process.Start(cmd); err != nil {
		return err
	}
	s.cmd, s.done = cmd, make(chan struct{})
	ready := make(chan string, 1) // receives "" when the server is ready, or its output if it has ended
	go func() {
		defer close(s.done)
		var log strings.Builder
		lines := bufio.NewScanner(out)
		for waiting := true; lines.Scan(); {
			if waiting {
				log.WriteString(lines.Text() + "\n")
			}
			if waiting && strings.Contains(lines.Text(), "ready to accept connections") {
				ready <- ""
				waiting = false
			}
		}
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
		select {
		case ready <- log.String():
		default:
		}
	}()
	if log := <-ready; log != "" {
		return fmt.Errorf("postgres has ended:\n%s", log)
	}
	return nil
}

// Kill ends the server at once, without a checkpoint.
func (s *Server) Kill() {
	_ = s.cmd.Process.Signal(syscall.SIGQUIT)
	<-s.done
}

// PID returns the process ID of the server's main process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Written holds the amounts of data that a server has written so far.
type Written struct {
	Log          int64 // bytes of the write-ahead log
	Tables       int64 // bytes of all tables, with their indexes
	Transactions int64
}

// Written returns the amounts of data that the server has written so far.
func (s *Server) Written() (w Written, err error) {
	c, err := pgx.Connect(context.Background(), s.URL(nil))
	if err != nil {
		return w, err
	}
	defer c.Close(context.Background()) //nolint:errcheck // it has only read
	err = c.QueryRow(context.Background(), `SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint, (SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r')::bigint,
		(SELECT xact_commit FROM pg_stat_database WHERE datname = current_database())`).Scan(&w.Log, &w.Tables, &w.Transactions)
	return w, err
}

// Schema creates an empty schema, and returns a URL with the schema as the search path. The schema is removed with the server.
func (s *Server) Schema(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test%d", s.schemas.Add(1))
	s.exec(t, "CREATE SCHEMA "+name)
	return s.URL(url.Values{"search_path": {name}})
}

// URL returns the URL of the database postgres, with additional parameters.
func (s *Server) URL(parameters url.Values) string {
	query := url.Values{"host": {s.dir}}
	for name, values := range parameters {
		query[name] = values
	}
	return "postgres://postgres@/postgres?" + query.Encode()
}

func (s *Server) exec(t testing.TB, statement string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), s.URL(nil))
	must(t, err)
	defer c.Close(context.WithoutCancel(t.Context())) //nolint:errcheck // the statement is done
	_, err = c.Exec(t.Context(), statement)
	must(t, err)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
