package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// waitingUsers is the number of users. Each has so few runs of each kind that a server accepts all of their calls at once.
	waitingUsers = 40
	// waitingAlone is the number of runs that are answered one after another, to measure how soon a run continues. The remaining runs are answered
	// together.
	waitingAlone = 200
	// waitingRunners is the number of runners of the server. Their memory counts as memory of the server.
	waitingRunners = 16
)

const waitingConfig = `
server: {rateLimit: {enabled: false}}
store: {url: "sqlite:harness.db"}
sandbox: {pool: %d, parkAfter: 1ms, callTimeout: 2h, maxWall: 2h, timeout: 10s}
policy: {rules: [{tools: ["slow__write"], action: ask}]}
log: {level: error}
mcpServers:
  slow: {url: %q}
`

// manyWaiting measures the memory of harness serve, including its runners, while very many runs wait: half of them for a slow tool, half for
// an approval. Each run is answered, in random order, and has to return the right value.
func (b *bench) manyWaiting(ctx context.Context) (f Figure, err error) {
	n := map[Effort]int{Full: 10_000, Quick: 300, Once: 60}[b.opt.Effort]
	s, err := b.serve(ctx)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	f = Figure{Unit: "MiB", Budget: 1024}
	began := time.Now()
	runs := make([]*waitingRun, n)
	for i := range runs {
		runs[i] = &waitingRun{s: s, n: i, slow: i%2 == 0, done: make(chan error, 1)}
	}
	b.opt.Progress(fmt.Sprintf("%d runs begin to wait", n))
	if err := s.begin(ctx, runs); err != nil {
		return f, err
	}
	waits, waiting := time.Since(began), s.seen()
	rand.Shuffle(n, func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
	alone := min(waitingAlone, n/3)
	var took []time.Duration
	for _, r := range runs[:alone] {
		at := time.Now()
		if err := errors.Join(r.answer(ctx), r.ended(ctx)); err != nil {
			return f, err
		}
		took = append(took, time.Since(at))
	}
	slices.Sort(took)
	b.opt.Progress(fmt.Sprintf("%d runs are answered together", n-alone))
	began = time.Now()
	rest := runs[alone:]
	if err := together(16, func(worker int) error {
		for i := worker; i < len(rest); i += 16 {
			if err := rest[i].answer(ctx); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return f, err
	}
	for _, r := range rest {
		if err := r.ended(ctx); err != nil {
			return f, err
		}
	}
	f.P50 = s.seen()
	f.Note = fmt.Sprintf("peak of resident memory with %d runs and %d runners; %.0f MiB until all waited, after %.0f s; one goes on in %.0f ms (p95), all others together in %.0f s",
		n, waitingRunners, waiting, waits.Seconds(), took[len(took)*95/100].Seconds()*1000, time.Since(began).Seconds())
	return f, nil
}

// waitingServer is harness serve in a process of its own. The bench itself serves the slow tool.
type waitingServer struct {
	dir     string
	cmd     *exec.Cmd
	url     string
	token   string
	clients []*http.Client // clients at several addresses, because the server limits the connections of one address
	tool    *httptest.Server
	said    bytes.Buffer // output of the process before it began to listen

	mu   sync.Mutex
	free map[int]chan struct{} // channels by number of a call; each is closed when the call may be answered
	came chan struct{}         // receives a value for each call of the tool wait that arrives

	stop    chan struct{}
	watched chan struct{}
	peak    atomic.Int64 // greatest memory seen, in KiB
}

func (b *bench) serve(ctx context.Context) (_ *waitingServer, err error) {
	s := &waitingServer{free: map[int]chan struct{}{}, came: make(chan struct{}, 1<<16), stop: make(chan struct{}), watched: make(chan struct{})}
	if s.dir, err = os.MkdirTemp("", "harness-bench-waiting-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	s.serveTool()
	text := fmt.Sprintf(waitingConfig, waitingRunners, s.tool.URL)
	if err := os.WriteFile(filepath.Join(s.dir, "harness.yaml"), []byte(text), 0o600); err != nil {
		return nil, err
	}
	command := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, b.opt.Executable, args...)
		cmd.Dir = s.dir
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "HARNESS_CACHE_DIR=" + b.opt.CacheDir}
		return cmd
	}
	token, err := command("token").Output()
	if err != nil {
		return nil, fmt.Errorf("harness token: %w", err)
	}
	s.token = strings.TrimSpace(string(token))
	s.cmd = command("serve", "--listen", "127.0.0.1:0")
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(stderr)
	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+`)
	for s.url == "" && lines.Scan() {
		s.url = address.FindString(lines.Text())
		fmt.Fprintln(&s.said, lines.Text())
	}
	if s.url == "" {
		return nil, fmt.Errorf("harness serve does not listen: %s", &s.said)
	}
	go func() { _, _ = io.Copy(io.Discard, stderr) }()
	for i := range 4 {
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(i+1))}}
		s.clients = append(s.clients, &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 16}})
	}
	go s.watch()
	return s, nil
}

// serveTool serves two tools: wait, whose calls are answered on demand, and write, which needs an approval by policy.
func (s *waitingServer) serveTool() {
	server := mcp.NewServer(&mcp.Implementation{Name: "slow", Version: "1"}, nil)
	answer := func(args json.RawMessage) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(args)}}, StructuredContent: args}
	}
	schema := json.RawMessage(`{"type":"object"}`)
	server.AddTool(&mcp.Tool{Name: "wait", InputSchema: schema, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var in struct{ N int }
			if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
				return nil, err
			}
			s.came <- struct{}{}
			select {
			case <-s.of(in.N):
				return answer(req.Params.Arguments), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})
	server.AddTool(&mcp.Tool{Name: "write", InputSchema: schema}, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return answer(req.Params.Arguments), nil
	})
	s.tool = httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{JSONResponse: true}))
}

func (s *waitingServer) of(n int) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free[n] == nil {
		s.free[n] = make(chan struct{})
	}
	return s.free[n]
}

// begin starts runs and returns when all of them are waiting.
func (s *waitingServer) begin(ctx context.Context, runs []*waitingRun) error {
	asked := make(chan error, len(runs))
	places := make(chan struct{}, 64) // limits the number of runs that have begun and do not wait yet
	go func() {
		for _, r := range runs {
			select {
			case places <- struct{}{}:
			case <-ctx.Done():
				return
			}
			go r.execute(ctx, asked)
		}
	}()
	for range runs {
		var err error
		select {
		case err = <-asked: // the run waits for an approval, or failed
		case <-s.came:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		<-places
	}
	return nil
}

// close ends the process and removes its files.
func (s *waitingServer) close() error {
	s.stopWatching()
	s.mu.Lock()
	for n, free := range s.free {
		select {
		case <-free:
		default:
			close(s.free[n])
		}
	}
	s.mu.Unlock()
	if s.cmd != nil && s.cmd.Process != nil {
		_ = s.cmd.Process.Kill() // the process may have ended
		_ = s.cmd.Wait()
	}
	for _, c := range s.clients {
		c.CloseIdleConnections()
	}
	s.tool.CloseClientConnections()
	s.tool.Close()
	return os.RemoveAll(s.dir)
}

// watch measures the memory of the process and its children until stopWatching.
func (s *waitingServer) watch() {
	defer close(s.watched)
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		s.peak.Store(max(s.peak.Load(), int64(resident(s.cmd.Process.Pid))))
		select {
		case <-ticker.C:
		case <-s.stop:
			return
		}
	}
}

// stopWatching ends watch. After that, the result of seen no longer changes.
func (s *waitingServer) stopWatching() {
	select {
	case <-s.stop:
	default:
		close(s.stop)
	}
	if s.url != "" {
		<-s.watched
	}
}

// seen returns the greatest memory that was measured, in MiB.
func (s *waitingServer) seen() float64 { return float64(s.peak.Load()) / 1024 }

// resident returns the memory of a process and its descendants, in KiB. Shared pages are divided among the processes that share them.
func resident(pid int) (kib float64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid)) // the process may have ended
	if _, rest, ok := bytes.Cut(text, []byte("\nPss:")); ok {
		_, _ = fmt.Sscan(string(rest[:min(len(rest), 40)]), &kib)
	}
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		children, _ := os.ReadFile(task)
		for _, child := range strings.Fields(string(children)) {
			n, err := strconv.Atoi(child)
			if err == nil && !bytes.Equal(commandOf(n), commandOf(pid)) { // before its exec, a child shares the memory of its parent
				kib += resident(n)
			}
		}
	}
	return kib
}

// commandOf returns the command line of a process.
func commandOf(pid int) []byte {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // the process may have ended
	return text
}

// waitingRun is one run of a waitingServer.
type waitingRun struct {
	s        *waitingServer
	n        int
	slow     bool // whether the run waits for a slow tool, not for an approval
	id       string
	approval string
	done     chan error // result of a slow run
}

// execute executes the run. waits receives nil when the run waits for an approval, or the error of a run that fails before it waits.
func (r *waitingRun) execute(ctx context.Context, waits chan<- error) {
	tool := "write"
	if r.slow {
		tool = "wait"
	}
	code := fmt.Sprintf("const rows = Array.from({length: 100}, (_, i) => i); const {n} = await callMCPTool('slow__%s', {n: %d}); return n + rows.length", tool, r.n)
	var out outcome
	err := r.do(ctx, http.MethodPost, "/v1/runs", map[string]any{"userId": fmt.Sprint("user-", r.n/2%waitingUsers), "code": code}, &out)
	r.id, r.approval = out.RunID, out.Approval.ID
	if r.slow {
		if err == nil {
			err = r.check(out)
		}
		if r.done <- err; err == nil {
			return
		}
	} else if err == nil && out.Status != "waiting_approval" {
		err = fmt.Errorf("run %d does not wait: %+v", r.n, out)
	}
	waits <- err
}

// answer lets the run continue: it answers the call of the slow tool, or approves the call that waits for an approval.
func (r *waitingRun) answer(ctx context.Context) error {
	if r.slow {
		close(r.s.of(r.n))
		return nil
	}
	return r.do(ctx, http.MethodPost, "/v1/approvals/"+r.approval, map[string]any{"decision": "approve"}, nil)
}

// ended waits until the run has ended, and checks its outcome.
func (r *waitingRun) ended(ctx context.Context) error {
	if r.slow {
		select {
		case err := <-r.done:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for {
		var out outcome
		if err := r.do(ctx, http.MethodGet, "/v1/runs/"+r.id, nil, &out); err != nil {
			return err
		}
		if out.Status != "waiting_approval" && out.Status != "running" {
			return r.check(out)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (r *waitingRun) check(out outcome) error {
	if want := strconv.Itoa(r.n + 100); out.Status != "succeeded" || string(out.Output) != want {
		return fmt.Errorf("run %d ended as %+v, want %s", r.n, out, want)
	}
	return nil
}

// outcome has the fields of a run's outcome that the bench needs.
type outcome struct {
	RunID    string
	Status   string
	Output   json.RawMessage
	Error    json.RawMessage
	Approval struct{ ID string }
}

func (r *waitingRun) do(ctx context.Context, method, path string, in, into any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, r.s.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+r.s.token)
	resp, err := r.s.clients[r.n/2%len(r.s.clients)].Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s %s: %s %s", method, path, resp.Status, text)
	case into == nil:
		return nil
	}
	return json.Unmarshal(text, into)
}
