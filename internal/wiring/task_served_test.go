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

// servedVar makes TestServed the real harness with its value as arguments, one in each line; killVar is the commit of
// its store at which it kills itself: "before 7" or "after 7". With unwatched it does not count commits: the hook that does so
// replaces SQLite's own, which keeps the write-ahead log short.
const (
	servedVar = "HARNESS_TEST_SERVED"
	killVar   = "HARNESS_TEST_KILL"
	unwatched = "unwatched"
)

// TestServed is harness serve, or another command, as a process; it does nothing unless another test starts it. It ends
// by saying how many commits its store has made.
func TestServed(t *testing.T) {
	args := os.Getenv(servedVar)
	if args == "" {
		return
	}
	var before, after atomic.Int64
	when, number, _ := strings.Cut(os.Getenv(killVar), " ")
	at, _ := strconv.ParseInt(number, 10, 64) // 0: never
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

// steering is what a test changes of a served process while it runs. Each line of its standard input is a command, which is
// answered with a line of JSON:
//
//	clock 24h   moves the clock forward
//	restart     ends the harness and starts it again in the same process
//	figures     says what the process holds after a garbage collection
type steering struct {
	ahead   atomic.Int64 // nanoseconds by which the clock is ahead of time
	steered bool         // there was a command

	mu      sync.Mutex
	end     context.CancelFunc // ends the harness
	restart bool
}

// figures are what a served process says of itself.
type figures struct {
	Goroutines int
	Heap       uint64 // bytes
	Stacks     string // of the goroutines
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

// obey executes commands until there are no more. Where there were some, the test has ended then, and the harness ends, too.
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
			pprof.Lookup("goroutine").WriteTo(&stacks, 1) // to memory
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
	ended  chan struct{} // closed when it has ended
	url    string        // of harness serve
}

// watched is a buffer that sends each address that a server says it listens on.
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

// prepare is command without the start.
func prepare(t testing.TB, dir, kill string, args ...string) *served {
	t.Helper()
	s := &served{t: t, ended: make(chan struct{}), cmd: exec.Command(self(t), "-test.run=^TestServed$")}
	s.stderr.address = make(chan string, 1)
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = dir, &s.stdout, &s.stderr
	s.cmd.Env = append(os.Environ(), servedVar+"="+strings.Join(args, "\n"), killVar+"="+kill, "HARNESS_CACHE_DIR="+cache, "HOME="+dir)
	return s
}

// start starts a prepared command.
func (s *served) start() {
	s.t.Helper()
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		s.cmd.Wait() // ProcessState says how it ended
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

// kill ends the process without a chance to say goodbye, and waits until it is gone.
func (s *served) kill() {
	s.cmd.Process.Kill() // it may have ended
	<-s.ended
}

// stop ends a server politely, and returns the exit code; -1 says that it was killed before.
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

// wait returns the exit code; -1 is a signal.
func (s *served) wait() int {
	s.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(patience):
		s.t.Fatalf("it does not end: %s", &s.stderr)
	}
	return s.cmd.ProcessState.ExitCode()
}

// died says that it has ended.
func (s *served) died() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// token is the local token.
func (s *served) token() string {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.cmd.Dir, "data", "local.token"))
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// do sends a request; an error is one of the connection.
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
	req.Close = true // so that a new server on the same port does not get an old connection
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

// end returns a task when it has ended; an error is one of the connection.
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

// events are all stored events of a task that has ended; an error is one of the connection.
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

// write puts a file into a directory.
func write(t testing.TB, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
