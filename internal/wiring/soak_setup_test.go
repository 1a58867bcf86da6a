package wiring_test

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/store/sqlstore"
	"mcp-code-exec-harness/internal/testing/fake"
	"mcp-code-exec-harness/internal/testing/misbehave"
)

// soaked is harness serve in its own process. The test process contains the parts with which it communicates: a model that follows instructions in tasks, a
// server of tools, and receivers of webhooks. It also has a server of tools that misbehaves, as a child process.
type soaked struct {
	*served
	commands io.Writer
	answers  *bufio.Scanner
	model    *fake.Server
	up       *upstream
	hooks    string            // address of receivers of webhooks: /ok accepts them, /no refuses them, and /never does not respond
	keys     map[string]string // keys by user
	client   *http.Client

	mu      sync.Mutex
	reached map[string]chan struct{} // channels of reaches, by name
}

// soakConfig is the configuration without the servers of tools. The memory of programs is small, so that a program that allocates without end ends soon.
const soakConfig = `
server: {webhooks: {allowPrivate: true, maxAttempts: 2}, workers: 64, rateLimit: %s}
model: {provider: anthropic, name: claude-test, apiKey: k, baseUrl: %q, maxRetries: 0}
store: {url: "sqlite:harness.db"}
skills: {dir: skills, maxBytes: 1MiB}
workspace: {dir: workspace, maxBytes: 4MiB}
sandbox: {pool: 8, memory: 32MiB}
log: {level: error}
%s
mcpServers:
  up: {url: %q}
  bad: {command: %q, env: {MISBEHAVE: %s, MISBEHAVE_PIDS: pids}, timeout: 500ms}
`

// soak starts harness serve with a key for each user. limits is the value of server.rateLimit; more is further configuration.
func soak(t testing.TB, limits, more string, users ...string) *soaked {
	t.Helper()
	s := &soaked{keys: map[string]string{}, reached: map[string]chan struct{}{}, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}}
	t.Cleanup(s.client.CloseIdleConnections)
	s.model = fake.Serve(s.obey)
	t.Cleanup(s.model.Close)
	hooks := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/no":
			w.WriteHeader(http.StatusInternalServerError)
		case "/never":
			<-r.Context().Done()
		}
	}))
	t.Cleanup(hooks.Close)
	s.hooks = hooks.URL
	s.up = newUpstream(t, "up")
	s.up.on = s.call
	dir := t.TempDir()
	write(t, dir, "harness.yaml", fmt.Sprintf(soakConfig, limits, s.model.URL, more, s.up.entry.URL, self(t), misbehave.Normal))
	store, err := sqlstore.Open(t.Context(), "sqlite:"+filepath.Join(dir, "harness.db"), sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range users {
		if _, s.keys[user], err = auth.NewKeys(store).Create(t.Context(), auth.NewKey{User: user}); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	s.served = prepare(t, dir, unwatched, "serve", "--listen", "127.0.0.1:0")
	if err := os.Mkdir(filepath.Join(dir, "tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.cmd.Env = append(s.cmd.Env, "TMPDIR="+filepath.Join(dir, "tmp"))
	if s.commands, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	s.cmd.Stdout = nil
	answers, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.answers = bufio.NewScanner(answers)
	s.answers.Buffer(nil, 16<<20)
	s.start()
	s.steer("clock 0s") // From now on, the process ends with the test.
	s.listens()
	return s
}

// steer sends a command to the served process; see steering.
func (s *soaked) steer(command string) (f figures) {
	s.t.Helper()
	if _, err := io.WriteString(s.commands, command+"\n"); err != nil {
		s.t.Fatal(err)
	}
	if !s.answers.Scan() {
		s.t.Fatalf("no answer to %s: %v\n%s", command, s.answers.Err(), &s.stderr)
	}
	if err := json.Unmarshal(s.answers.Bytes(), &f); err != nil {
		s.t.Fatal(err)
	}
	return f
}

// restart moves the clock of the harness forward, and restarts the harness in the same process.
func (s *soaked) restart(later time.Duration) {
	s.t.Helper()
	s.steer("clock " + later.String())
	s.steer("restart")
	s.listens()
}

var (
	taskOrder = regexp.MustCompile(`(?s)(RUN|SAY|HOLD|DENY)(\d*)<<(.*?)>>`)
	errGone   = errors.New("the caller has gone")
)

// obey is the model. It follows the instruction in the task: RUN3<<a program>> runs the program in three turns and then answers "Done."; SAY<<a text>>
// answers with the text; HOLD<<a name>> reaches the name and never answers; the provider refuses DENY<<>>.
func (s *soaked) obey(r fake.Request) fake.Reply {
	order, turns := []string(nil), 0
	for _, m := range r.Messages {
		switch {
		case m.Role == "user" && taskOrder.MatchString(m.Text):
			order, turns = taskOrder.FindStringSubmatch(m.Text), 0 // the instruction of the session's last task
		case m.Role == "assistant":
			turns++
		}
	}
	use := fake.Usage{Input: 100, Output: 10}
	switch {
	case order == nil:
		return fake.Reply{Text: "Nothing to do.", Usage: use}
	case order[1] == "RUN":
		if most, _ := strconv.Atoi(order[2]); turns < max(most, 1) {
			return program(order[3])
		}
		return fake.Reply{Text: "Done.", Usage: use}
	case order[1] == "DENY":
		return fake.Reply{Status: http.StatusUnauthorized}
	case order[1] == "HOLD":
		s.reach(order[3])
		return fake.Reply{Wait: make(chan struct{})}
	}
	return fake.Reply{Text: order[3], Usage: use}
}

// call is the server of tools. It echoes the arguments. For {"reach": name} it also reaches the name; for {"hold": name} it reaches the name and does not
// answer.
func (s *soaked) call(ctx context.Context, _, _ string, args json.RawMessage) (string, error) {
	s.up.mu.Lock()
	s.up.calls = nil // The recorded calls are not used, and there would be many.
	s.up.mu.Unlock()
	var a struct{ Reach, Hold string }
	err := json.Unmarshal(args, &a)
	s.reach(a.Reach + a.Hold)
	if err != nil || a.Hold == "" {
		return string(args), err
	}
	<-ctx.Done()
	return "", errGone
}

// reach closes the channel of a name.
func (s *soaked) reach(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.reached[name]; at != nil {
		close(at)
		delete(s.reached, name)
	}
}

// reaches returns a name that is not in use, and a channel that is closed when the name is reached.
func (s *soaked) reaches() (name string, at <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := 0; ; i++ {
		name = fmt.Sprint("name-", i)
		if s.reached[name] == nil {
			s.reached[name] = make(chan struct{})
			return name, s.reached[name]
		}
	}
}

// response is a response whose body was read to its end.
type response struct {
	status int
	header http.Header
	body   []byte
}

// ask sends a request of a user. body is sent as JSON; a text is sent as it is.
func (s *soaked) ask(ctx context.Context, user, method, path string, body any, headers ...string) (r response, err error) {
	var text io.Reader
	switch body := body.(type) {
	case nil:
	case string:
		text = strings.NewReader(body)
	default:
		encoded, err := json.Marshal(body)
		if err != nil {
			return r, err
		}
		text = bytes.NewReader(encoded)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, text)
	if err != nil {
		return r, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+s.keys[user])
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return r, err
	}
	defer resp.Body.Close()
	r.status, r.header = resp.StatusCode, resp.Header
	r.body, err = io.ReadAll(resp.Body)
	return r, err
}

// field decodes one field of an object.
func field[T any](r response, name string) (value T) {
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(r.body, &fields) // A body that is not an object lacks the field.
	_ = json.Unmarshal(fields[name], &value)
	return value
}

// holdings are the amounts of resources that a served harness holds, by name.
type holdings map[string]int64

// process adds the resources of the process, and returns the stacks of its goroutines.
func (h holdings) process(s *soaked) (stacks string) {
	f := s.steer("figures")
	h["goroutines"], h["live heap"] = int64(f.Goroutines), int64(f.Heap)
	pid := s.cmd.Process.Pid
	if fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)); err == nil {
		h["descriptors"] = int64(len(fds))
		h["processes"] = int64(len(children(pid)))
		h["memory"] = processMemory(pid)
	}
	return f.Stacks
}

// processMemory returns the memory of one process in bytes. Shared pages count in part, and pages of files, which the system can reclaim, do not count. It
// returns 0 if the system does not report the memory.
func processMemory(pid int) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	_, rest, _ := strings.Cut(string(text), "\nPss_Anon:")
	var kib int64
	fmt.Sscan(rest, &kib)
	return kib << 10
}

// disk adds what is stored on disk. For databases it adds their numbers of rows too.
func (h holdings) disk(s *soaked) {
	s.t.Helper()
	for _, dir := range []string{"workspace", "skills", "tmp"} {
		files, bytes := tree(filepath.Join(s.cmd.Dir, dir))
		h["files in "+dir], h["bytes in "+dir] = files, bytes
	}
	path := filepath.Join(s.cmd.Dir, "harness.db")
	h["database"], h["log of the database"] = fileSize(path), fileSize(path+"-wal")
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro&_pragma=busy_timeout(10000)")
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close()
	count := func(name, query string) {
		var n int64
		if err := db.QueryRowContext(s.t.Context(), query).Scan(&n); err != nil {
			s.t.Fatal(err)
		}
		h[name] = n
	}
	for _, table := range strings.Fields("runs journal blobs blob_refs sessions session_uses tasks steps events idempotency webhooks schedules keys owners") {
		count("rows of "+table, "SELECT count(*) FROM "+table)
	}
	count("unfinished runs", "SELECT count(*) FROM runs WHERE ended IS NULL")
	count("unfinished tasks", "SELECT count(*) FROM tasks WHERE ended IS NULL")
	count("free pages", "SELECT freelist_count FROM pragma_freelist_count")
	count("pages", "SELECT page_count FROM pragma_page_count")
}

func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// tree returns the number of files below a directory and their total size. It skips files that are deleted during the walk.
func tree(dir string) (files, size int64) {
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return nil
		}
		files++
		if info, err := e.Info(); err == nil && !info.IsDir() {
			size += info.Size()
		}
		return nil
	})
	return files, size
}

// above lists the resources that exceed before by more than 5 %. slack is the variation that is allowed for each resource.
func (h holdings) above(before, slack holdings) (more []string) {
	for name, n := range h {
		if n > before[name]+max(before[name]/20, slack[name]) {
			more = append(more, fmt.Sprintf("%s: %d, and before %d", name, n, before[name]))
		}
	}
	return more
}
