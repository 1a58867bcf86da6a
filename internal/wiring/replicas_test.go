package wiring_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/testing/fake"
	"mcp-code-exec-harness/internal/testing/generated"
	"mcp-code-exec-harness/internal/testing/postgrestest"
	"mcp-code-exec-harness/internal/testing/proxytest"
	"mcp-code-exec-harness/internal/testing/redistest"
)

const (
	replicaUsers    = 4
	tasksOfSession  = 5
	unfinishedTasks = 64              // maximum number of unfinished tasks at the same time
	requestTime     = 3 * time.Second // time after which a client asks another replica
	silence         = 5 * time.Second // time without a byte after which a client watches at another replica
)

// replicaProgram is a program of a task. It writes with tools whose repetition the upstream server notices, and never repeats a write itself.
const replicaProgram = `
const task = %d, part = %d, to = %s
const write = async (tool, k) => {
  try { await callMCPTool('up__' + tool, {task, part, k, to}); return k + ' done' } catch (e) {
    if (!(e instanceof InDoubtError)) throw e
    return k + ' in doubt'
  }
}
await callMCPTool('up__read', {task, part})
const first = await write('send', 1)
const rest = await Promise.all([write('send', 2), write('put', 3)])
await callMCPTool('up__read', {task, part})
return [first, ...rest]`

// writesOfPart are the writes of replicaProgram.
var writesOfPart = []string{"send 1", "send 2", "put 3"}

// cluster is several replicas of the harness that share a store, and their clients.
type cluster struct {
	t        *testing.T
	server   *postgrestest.Server
	url      string // URL of the store, without a proxy
	replicas []*replica
	random   *rand.Rand
	ctx      context.Context
	ended    chan struct{} // receives a value for each task that has ended
	client   *http.Client

	mu     sync.Mutex
	writes []arrival
	dead   map[string]time.Time // time from which others could take a process for dead, by application_name
	tasks  []*accepted
}

// replica is a harness that is started several times; each process is one life.
type replica struct {
	name    string
	dir     string
	proxy   *proxytest.Proxy // proxy between this replica and PostgreSQL
	lives   int
	process atomic.Pointer[served] // process of the current life; requests read it while disturb changes it
	config  string                 // configuration file, with %s in place of the name of the life
}

// arrival is a write that came to the upstream server.
type arrival struct {
	tool, key, to string
	task, part, k int
}

// accepted is a task that a replica has accepted.
type accepted struct {
	n             int
	user, session string
	id            string
	events        []task.Event // events that its watcher has received
	resumed       int          // number of times that its watcher has connected again
}

// TestReplicas works tasks with three replicas on one store. Meanwhile the replicas are killed, frozen, cut off and restarted, and PostgreSQL is restarted.
// Every accepted task ends once, no send is repeated, a put is repeated only with the same key, the tasks of a session stay in order, and watchers get each
// event once.
func TestReplicas(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("processes are stopped by signals")
	}
	c := newCluster(t)
	began := time.Now()
	var clients sync.WaitGroup
	total := generated.Count(100, 2000)
	c.ended = make(chan struct{}, total)
	free := make(chan struct{}, unfinishedTasks)
	for i := range total / tasksOfSession {
		seed := c.random.Uint64()
		clients.Go(func() {
			random := rand.New(rand.NewPCG(seed, 0))
			for n := range tasksOfSession {
				select {
				case free <- struct{}{}:
				case <-c.ctx.Done():
					return
				}
				a := &accepted{n: i*tasksOfSession + n, user: fmt.Sprint("user-", i%replicaUsers), session: fmt.Sprint("session-", i)}
				if !c.submit(random, a) {
					return
				}
				watcher := rand.New(rand.NewPCG(seed, uint64(n)+1))
				clients.Go(func() {
					c.watch(watcher, a)
					c.ended <- struct{}{}
					<-free
				})
			}
		})
	}
	done := make(chan struct{})
	go func() { clients.Wait(); close(done) }()
	counts := c.disturb(done)
	select {
	case <-done:
	case <-c.ctx.Done():
		<-done
	}
	took := time.Since(began).Round(time.Millisecond)
	c.finish()
	t.Logf("%d tasks in %s; faults: %v; %v", total, took, counts, c.check(total))
	for _, r := range c.replicas {
		if t.Failed() {
			t.Logf("%s said\n%s", r.life(), tail(problems(r.process.Load().stderr.String()), 20000))
		}
	}
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	seed := generated.Seed(t)
	c := &cluster{t: t, random: rand.New(rand.NewPCG(seed, 0)), dead: map[string]time.Time{}}
	c.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // so that no request gets a connection to a dead process
	// A server that is stopped must not lose what it has acknowledged, so synchronous_commit stays on.
	c.server = postgrestest.Start(t, "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "track_commit_timestamp=on")
	c.url = c.server.Schema(t)
	redis := redistest.Start(t)
	dir := t.TempDir()
	model := fake.Serve(modelOfReplicas)
	t.Cleanup(model.Close)
	up := newUpstream(t, "up")
	up.on = c.call
	address, err := url.Parse(c.url)
	if err != nil {
		t.Fatal(err)
	}
	query := address.Query()
	socket := filepath.Join(query.Get("host"), ".s.PGSQL.5432")
	for i := range 3 {
		r := &replica{name: fmt.Sprint("replica-", i+1), dir: t.TempDir()}
		r.proxy = proxytest.Start(t, "tcp", "127.0.0.1:0", "unix", socket)
		r.config = fmt.Sprintf(`
server: {rateLimit: {enabled: false}, shutdownTimeout: 2s, workers: 16}
model: {provider: anthropic, name: claude-test, apiKey: k, baseUrl: %q}
store: {url: "postgres://postgres@%s/postgres?sslmode=disable&search_path=%s&application_name=%%s"}
pii: {vault: redis, keyFile: %q}
redis: {url: %q}
skills: {dir: %q}
workspace: {dir: %q}
sandbox: {callTimeout: 10m}
mcpServers:
  up: {url: %q}
`, model.URL, r.proxy.Addr(), query.Get("search_path"), filepath.Join(dir, "pii.key"), redis.URL, filepath.Join(dir, "skills"), filepath.Join(dir, "workspace"), up.entry.URL)
		c.replicas = append(c.replicas, r)
	}
	c.start(c.replicas[0]) // creates the tables
	c.kill(c.replicas[0])  // the history contains every later process from its start
	c.execute(historyTriggers)
	for _, r := range c.replicas {
		c.start(r)
	}
	limit := patience
	if generated.Long() {
		limit = 9 * time.Minute
	}
	var end context.CancelFunc
	c.ctx, end = context.WithTimeout(t.Context(), limit)
	t.Cleanup(end)
	return c
}

// taskOfReplica matches the text of a task. The groups are the task's number, and an address whose token is in the vault.
var taskOfReplica = regexp.MustCompile(`Do task-(\d+) for (.+?) please`)

// modelOfReplicas answers requests for a task as the model: first with two programs, then with a text.
func modelOfReplicas(r fake.Request) fake.Reply {
	var found []string
	turn := 0
	for _, m := range r.Messages {
		if m.Role == "user" {
			if of := taskOfReplica.FindStringSubmatch(m.Text); of != nil {
				found, turn = of, 0 // earlier tasks of the session come first
			}
		}
		if m.Role == "assistant" {
			turn++
		}
	}
	if found == nil {
		return fake.Reply{Status: http.StatusBadRequest, Message: "there is no task"}
	}
	if turn == 2 {
		return fake.Reply{Text: "Task " + found[1] + " is done."}
	}
	n, _ := strconv.Atoi(found[1])
	to, _ := json.Marshal(found[2])
	input, _ := json.Marshal(map[string]string{"code": fmt.Sprintf(replicaProgram, n, turn+1, to)})
	return fake.Reply{Calls: []fake.Call{{Name: "execute_code", Input: string(input)}}}
}

// call implements the tools of the upstream server. It records writes.
func (c *cluster) call(_ context.Context, tool, key string, args json.RawMessage) (string, error) {
	var a struct {
		Task, Part, K int
		To            string
	}
	if err := json.Unmarshal(args, &a); err != nil {
		c.t.Error(err)
	}
	if tool != "read" {
		c.mu.Lock()
		c.writes = append(c.writes, arrival{tool, key, a.To, a.Task, a.Part, a.K})
		c.mu.Unlock()
	}
	time.Sleep(time.Duration(a.Task%20) * time.Millisecond) // the latency of a server
	return "{}", nil
}

func (c *cluster) start(r *replica) {
	c.t.Helper()
	r.lives++
	write(c.t, r.dir, "harness.yaml", fmt.Sprintf(r.config, r.life()))
	process := serve(c.t, r.dir, unwatched)
	if process.died() {
		c.t.Fatalf("%s does not start: %s", r.life(), &process.stderr)
	}
	r.process.Store(process)
}

// life names a process of a replica.
func (r *replica) life() string { return fmt.Sprint(r.name, ".", r.lives) }

func (c *cluster) kill(r *replica) {
	c.lose(r)
	r.process.Load().kill()
}

// lose records that others may take a replica for dead from now on.
func (c *cluster) lose(r *replica) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, before := c.dead[r.life()]; !before {
		c.dead[r.life()] = time.Now()
	}
}

// connect connects to the store without a proxy.
func (c *cluster) connect(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, c.url) }

func (c *cluster) execute(statements string) {
	c.t.Helper()
	db, err := c.connect(c.t.Context())
	if err == nil {
		_, err = db.Exec(c.t.Context(), statements)
		db.Close(context.WithoutCancel(c.t.Context()))
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// request sends a request to a replica. After an error, another try may succeed.
func (c *cluster) request(ctx context.Context, r *replica, method, path string, headers map[string]string, body []byte) (*http.Response, error) {
	process := r.process.Load()
	req, err := http.NewRequestWithContext(ctx, method, process.url+path, bytes.NewReader(body))
	if err != nil {
		c.t.Error(err)
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Authorization", "Bearer "+process.token())
	return c.client.Do(req)
}

// submit sends a task to replicas until one accepts it, always with the same idempotency key. It returns false if the test ends first.
func (c *cluster) submit(random *rand.Rand, a *accepted) bool {
	body, err := json.Marshal(map[string]any{
		"userId": a.user, "sessionId": a.session, "task": fmt.Sprintf("Do task-%d for ann.%d@example.com please", a.n, a.n),
	})
	if err != nil {
		c.t.Error(err)
	}
	for c.ctx.Err() == nil {
		if a.id, err = c.submitOnce(random, fmt.Sprint("key-", a.n), body); err == nil {
			c.mu.Lock()
			c.tasks = append(c.tasks, a)
			c.mu.Unlock()
			// A second request, maybe to another replica, must name the same task.
			if again, err := c.submitOnce(random, fmt.Sprint("key-", a.n), body); err == nil && again != a.id {
				c.t.Errorf("the key of task %d names %s and %s", a.n, a.id, again)
			}
			return true
		}
		c.pause()
	}
	return false
}

// pause lets a client wait before it tries again.
func (c *cluster) pause() {
	select {
	case <-c.ctx.Done():
	case <-time.After(50 * time.Millisecond):
	}
}

func (c *cluster) submitOnce(random *rand.Rand, key string, body []byte) (id string, err error) {
	ctx, cancel := context.WithTimeout(c.ctx, requestTime)
	defer cancel()
	resp, err := c.request(ctx, c.any(random), http.MethodPost, "/v1/tasks", map[string]string{"Idempotency-Key": key}, body)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var of task.Task
	if resp.StatusCode >= http.StatusInternalServerError {
		return "", errors.New(resp.Status)
	}
	text, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return "", err
	case resp.StatusCode >= 300 || json.Unmarshal(text, &of) != nil || of.ID == "":
		c.t.Errorf("a task is answered with %s: %s", resp.Status, text)
		return "", errors.New(resp.Status)
	}
	return of.ID, nil
}

func (c *cluster) any(random *rand.Rand) *replica { return c.replicas[random.IntN(len(c.replicas))] }

// watch receives the events of a task until its end, from one replica after another. Each replica is asked for the events after the last one received.
func (c *cluster) watch(random *rand.Rand, a *accepted) {
	for c.ctx.Err() == nil {
		if c.watchAt(c.any(random), a, 1+random.IntN(40)) {
			return
		}
		a.resumed++
		c.pause()
	}
	c.t.Errorf("task %d, %s, has not ended; its events: %d", a.n, a.id, len(a.events))
}

// watchAt receives at most the given number of events from a replica. It reports whether the task has ended.
func (c *cluster) watchAt(r *replica, a *accepted, most int) (ended bool) {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	silent := time.AfterFunc(silence, cancel)
	defer silent.Stop()
	headers := map[string]string{}
	if len(a.events) > 0 {
		headers["Last-Event-ID"] = fmt.Sprint(len(a.events))
	}
	resp, err := c.request(ctx, r, http.MethodGet, "/v1/tasks/"+a.id+"/events", headers, nil)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode >= http.StatusInternalServerError:
		return false
	case resp.StatusCode != http.StatusOK:
		c.t.Errorf("the events of task %d after %d are answered with %s", a.n, len(a.events), resp.Status)
		return false
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	var e task.Event
	for lines.Scan() {
		silent.Reset(silence)
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			e.ID, _ = strconv.ParseInt(value, 10, 64)
		case "event":
			e.Type = value
		case "data":
			e.Data = json.RawMessage(value)
		case "":
			if e.ID > 0 {
				if e.ID != int64(len(a.events))+1 {
					c.t.Errorf("task %d: event %d follows event %d", a.n, e.ID, len(a.events))
					return true
				}
				a.events = append(a.events, e)
				if most--; e.Type == task.EventEnded {
					return true
				}
			}
			if e = (task.Event{}); most <= 0 {
				return false
			}
		}
	}
	return false
}

// progress waits until n more tasks have ended, for at most 10 seconds.
func (c *cluster) progress(n int, done <-chan struct{}) {
	most := time.After(10 * time.Second)
	for range n {
		select {
		case <-c.ended:
		case <-done:
			return
		case <-most:
			return
		}
	}
}

// disturb causes faults in a random order, and returns the number of faults of each kind. A short test has each kind once; a long test continues
// until all tasks have ended.
func (c *cluster) disturb(done <-chan struct{}) map[string]int {
	faults := map[string]func(r *replica){
		"killed":    func(r *replica) { c.kill(r); c.progress(2, done); c.start(r) },
		"frozen":    func(r *replica) { c.signal(r, syscall.SIGSTOP); c.expire(r); c.signal(r, syscall.SIGCONT) },
		"held":      func(r *replica) { r.proxy.Hold(); c.expire(r); r.proxy.Release() },
		"cut off":   func(r *replica) { r.proxy.Hold(); c.expire(r); r.proxy.Cut(); r.proxy.Release() },
		"cut":       func(r *replica) { r.proxy.Cut() },
		"slow":      func(r *replica) { r.proxy.Delay(20 * time.Millisecond); c.progress(5, done); r.proxy.Delay(0) },
		"postgres":  func(*replica) { c.restartServer() },
		"restarted": func(r *replica) { c.stop(r); c.start(r) },
	}
	counts := map[string]int{}
	for kinds := slices.Sorted(maps.Keys(faults)); ; {
		c.random.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
		for _, kind := range kinds {
			c.progress(2+c.random.IntN(generated.Count(6, 40)), done)
			select {
			case <-done:
				return counts
			case <-c.ctx.Done():
				return counts
			default:
			}
			r := c.any(c.random)
			c.t.Logf("%s: %s", kind, r.life())
			faults[kind](r)
			counts[kind]++
		}
		if !generated.Long() {
			return counts
		}
	}
}

func (c *cluster) signal(r *replica, s syscall.Signal) {
	c.t.Helper()
	if err := r.process.Load().cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// expire waits until the other replicas have freed the tasks of a replica that cannot renew its lease. It ends the lease early in a short test, and
// sometimes in a long test.
func (c *cluster) expire(r *replica) {
	c.t.Helper()
	c.lose(r)
	early := !generated.Long() || c.random.IntN(2) == 0
	deadline := time.Now().Add(40 * time.Second)
	for {
		free, err := func() (free bool, err error) {
			db, err := c.connect(c.ctx)
			if err != nil {
				return false, err
			}
			defer db.Close(context.WithoutCancel(c.ctx))
			const owner = "(SELECT owner FROM history WHERE what = 'register' AND process = $1)"
			if early {
				if _, err := db.Exec(c.ctx, "UPDATE processes SET expires = now() - interval '1 second' WHERE id = "+owner, r.life()); err != nil {
					return false, err
				}
			}
			err = db.QueryRow(c.ctx, "SELECT NOT EXISTS (SELECT 1 FROM tasks WHERE ended IS NULL AND owner = "+owner+")", r.life()).Scan(&free)
			return free, err
		}()
		switch {
		case free:
			return
		case time.Now().After(deadline):
			c.t.Fatalf("the tasks of %s are not freed: %v", r.life(), err)
		}
		c.pause()
	}
}

func (c *cluster) restartServer() {
	c.t.Helper()
	c.server.Kill()
	if err := c.server.Restart(); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) stop(r *replica) {
	c.t.Helper()
	if code := r.process.Load().stop(); code != 0 {
		c.t.Errorf("%s exits with %d: %s", r.life(), code, &r.process.Load().stderr)
	}
}

// finish stops all replicas.
func (c *cluster) finish() {
	for _, r := range c.replicas {
		c.stop(r)
	}
}

// problems returns the lines of a log whose level is not INF.
func problems(log string) string {
	lines := strings.SplitAfter(log, "\n")
	return strings.Join(slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, " INF ") }), "")
}

func tail(text string, most int) string { return text[max(0, len(text)-most):] }
