package wiring_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/cli"
	"mcp-code-exec-harness/internal/task"
)

// servedVar makes TestServed run the real harness. Its value holds the arguments, one in each line. killVar is the commit of the store at which the process
// kills itself: "before 7" or "after 7". With the value unwatched, commits are not counted, because the counting hook replaces SQLite's own hook, which keeps
// the write-ahead log short.
const (
	servedVar = "HARNESS_TEST_SERVED"
	killVar   = "HARNESS_TEST_KILL"
	unwatched = "unwatched"
)

// TestServed is harness serve, or another command, in its own process. It does nothing unless another test starts it. At its end it prints the number of
// commits of its store.
func TestServed(t *testing.T) {
	args := os.Getenv(servedVar)
	if args == "" {
		return
	}
	var before, after atomic.Int64
	when, number, _ := strings.Cut(os.Getenv(killVar), " ")
	at, _ := strconv.ParseInt(number, 10, 64) // 0 means that the process is not killed
	point := func(name string, count *atomic.Int64) func() {
		return func() {
			if n := count.Add(1); name == when && n == at {
				kill(t, os.Getpid())
				select {} // until the signal arrives
			}
		}
	}
	if when != unwatched {
		onCommits(point("before", &before), point("after", &after))
	}
	ctx, stop := cli.WithSignals()
	defer stop()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	code := new(steering).run(ctx, os.Stdin, os.Stdout, func(ctx context.Context, now func() time.Time) int {
		return cli.Main(ctx, cli.World{
			Args: strings.Split(args, "\n"), Environ: os.Environ(), Dir: dir, Executable: self(t), Stdin: strings.NewReader(""),
			Stdout: os.Stdout, Stderr: os.Stderr, Now: now,
		})
	})
	fmt.Fprintf(os.Stderr, "commits: %d %d\n", before.Load(), after.Load())
	os.Exit(code)
}

// steering executes the commands with which a test changes a served process. Each line of the process's standard input is a command, which is
// answered with a line of JSON:
//
//	clock 24h   moves the clock forward
//	restart     ends the harness and starts it again in the same process
//	figures     returns what the process holds after a garbage collection
type steering struct {
	ahead   atomic.Int64 // time by which the clock is ahead, in nanoseconds
	steered bool         // reports that there was a command

	mu      sync.Mutex
	end     context.CancelFunc // ends the harness
	restart bool
}

// figures are the resources that a served process reports.
type figures struct {
	Goroutines int
	Heap       uint64 // size of the heap in bytes
	Stacks     string // stacks of the goroutines
}

// run executes the harness until ctx ends or nothing asks for a restart, and returns its last exit code.
func (s *steering) run(ctx context.Context, commands io.Reader, answers io.Writer, harness func(ctx context.Context, now func() time.Time) int) int {
	started := false
	for {
		life, end := context.WithCancel(ctx)
		s.mu.Lock()
		s.end, s.restart = end, false
		s.mu.Unlock()
		if !started {
			go s.obey(commands, answers)
			started = true
		}
		code := harness(life, func() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) })
		end()
		s.mu.Lock()
		again := s.restart && ctx.Err() == nil
		s.mu.Unlock()
		if !again {
			return code
		}
	}
}

// obey executes commands until its input ends. If there were any commands, the test has ended then, so obey ends the harness too.
func (s *steering) obey(commands io.Reader, answers io.Writer) {
	defer func() {
		if s.steered {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.end()
		}
	}()
	for lines := bufio.NewScanner(commands); lines.Scan(); {
		s.steered = true
		var f figures
		switch name, arg, _ := strings.Cut(lines.Text(), " "); name {
		case "clock":
			by, err := time.ParseDuration(arg)
			if err != nil {
				panic(err)
			}
			s.ahead.Add(int64(by))
		case "restart":
			s.mu.Lock()
			s.restart = true
			s.end()
			s.mu.Unlock()
		case "figures":
			debug.FreeOSMemory()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			var stacks strings.Builder
			pprof.Lookup("goroutine").WriteTo(&stacks, 1) // cannot fail, because it writes to memory
			f = figures{runtime.NumGoroutine(), m.HeapAlloc, stacks.String()}
		default:
			panic("unknown command " + name)
		}
		if err := json.NewEncoder(answers).Encode(f); err != nil {
			panic(err)
		}
	}
}

// served is a process of the harness.
type served struct {
	t      testing.TB
	cmd    *exec.Cmd
	stdout bytes.Buffer
	stderr watched
	ended  chan struct{} // closed when the process has ended
	url    string        // address of harness serve
}

// watched is a buffer that sends each address on which a server says that it listens.
type watched struct {
	mu      sync.Mutex
	text    bytes.Buffer
	address chan string
	seen    int // bytes of text up to the last address
}

var listening = regexp.MustCompile(`listening on (http://\S+)\n`)

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(p)
	rest := w.text.Bytes()[w.seen:]
	if at := listening.FindSubmatchIndex(rest); at != nil {
		w.address <- string(rest[at[2]:at[3]])
		w.seen += at[1]
	}
	return len(p), nil
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// command starts a command of the harness in a directory with a harness.yaml.
func command(t testing.TB, dir, kill string, args ...string) *served {
	t.Helper()
	s := prepare(t, dir, kill, args...)
	s.start()
	return s
}

// prepare does the same as command, but does not start the process.
func prepare(t testing.TB, dir, kill string, args ...string) *served {
	t.Helper()
	s := &served{t: t, ended: make(chan struct{}), cmd: exec.Command(self(t), "-test.run=^TestServed$")}
	s.stderr.address = make(chan string, 1)
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = dir, &s.stdout, &s.stderr
	s.cmd.Env = append(os.Environ(), servedVar+"="+strings.Join(args, "\n"), killVar+"="+kill, "HARNESS_CACHE_DIR="+cache, "HOME="+dir)
	return s
}

// start starts a prepared process.
func (s *served) start() {
	s.t.Helper()
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		s.cmd.Wait() // ProcessState contains the result.
		close(s.ended)
	}()
	s.t.Cleanup(s.kill)
}

// serve starts harness serve, and returns when it listens or has died.
func serve(t testing.TB, dir, kill string) *served {
	t.Helper()
	s := command(t, dir, kill, "serve", "--listen", "127.0.0.1:0")
	s.listens()
	return s
}

// listens returns when the server listens or has died.
func (s *served) listens() {
	s.t.Helper()
	select {
	case s.url = <-s.stderr.address:
	case <-s.ended:
	case <-time.After(patience):
		s.t.Fatalf("harness serve does not listen: %s", &s.stderr)
	}
}

// kill kills the process, and waits until it has ended.
func (s *served) kill() {
	s.cmd.Process.Kill() // The process may have ended before.
	<-s.ended
}

// stop asks a server to end, and returns its exit code, or -1 if it was killed before.
func (s *served) stop() int {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Error(err)
	}
	code := s.wait()
	if code > 0 {
		s.t.Errorf("harness serve exited with %d: %s", code, &s.stderr)
	}
	return code
}

// wait waits for the end of the process, and returns its exit code, or -1 if a signal ended it.
func (s *served) wait() int {
	s.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(patience):
		s.t.Fatalf("it does not end: %s", &s.stderr)
	}
	return s.cmd.ProcessState.ExitCode()
}

// died reports whether the process has ended.
func (s *served) died() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// token returns the local token.
func (s *served) token() string {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.cmd.Dir, "data", "local.token"))
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// do sends a request. An error is an error of the connection.
func (s *served) do(method, path, key string, body, into any) error {
	s.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, bytes.NewReader(text))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Close = true // A new server on the same port must not get an old connection.
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+s.token())
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		s.t.Fatalf("%s %s: %s %s\n%s", method, path, resp.Status, answer, &s.stderr)
	}
	if err := json.Unmarshal(answer, into); err != nil {
		s.t.Fatalf("%s %s: %v: %s", method, path, err, answer)
	}
	return nil
}

// end waits until a task has ended, and returns it. An error is an error of the connection.
func (s *served) end(id string) (got task.Task, err error) {
	s.t.Helper()
	deadline := time.Now().Add(2 * patience)
	for !got.Status.Ended() && err == nil {
		if time.Now().After(deadline) {
			s.t.Fatalf("the task does not end, it is %s\n%s", got.Status, &s.stderr)
		}
		time.Sleep(10 * time.Millisecond)
		err = s.do(http.MethodGet, "/v1/tasks/"+id, "", nil, &got)
	}
	return got, err
}

// events returns all stored events of a task that has ended. An error is an error of the connection.
func (s *served) events(id string) (all []task.Event, err error) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+"/v1/tasks/"+id+"/events", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.token())
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	for block := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		var e task.Event
		for line := range strings.SplitSeq(block, "\n") {
			name, value, _ := strings.Cut(line, ": ")
			switch name {
			case "id":
				if e.ID, err = strconv.ParseInt(value, 10, 64); err != nil {
					s.t.Fatalf("the id of an event: %v", err)
				}
			case "event":
				e.Type = value
			case "data":
				e.Data = json.RawMessage(value)
			}
		}
		if e.ID > 0 {
			all = append(all, e)
		}
	}
	return all, nil
}

// write writes a file into a directory.
func write(t testing.TB, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
