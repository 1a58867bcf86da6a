package wiring_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/testing/fake"
)

// The programs that the model writes. They check writes that are in doubt, and send a write again only if it did not arrive.
const (
	repairing = `
const certain = async (send, sent, what) => {
  for (;;) {
    try { return await send() } catch (e) { if (!(e instanceof InDoubtError)) throw e }
    if ((await sent()).includes(what)) return
  }
}
const post = (what) => certain(() => callMCPTool('up__send', {what}), () => callMCPTool('up__read', {sent: true}), what)
const mail = (what) => certain(() => callMCPTool('mailer__send', {to: 'a@example.com', subject: what, body: 'x'}),
  async () => (await callMCPTool('mailer__list_outbox')).messages.map((m) => m.subject), what)
`
	firstProgram = repairing + `
await callMCPTool('up__read', {n: 0})
const {n} = await callMCPTool('up__read', {n: 1})
await fs.writeFile('/workspace/log.txt', 'a')
await post('one')
await fs.appendFile('/workspace/log.txt', 'b')
console.log('first', n)
return {n}`
	secondProgram = repairing + `
await mail('mail')
await Promise.all([post('two'), post('three')])
await fs.appendFile('/workspace/log.txt', 'c')
await callMCPTool('up__put', {k: 1})
const {n} = await callMCPTool('up__read', {n: 2})
return {n, log: await fs.readFile('/workspace/log.txt')}`
)

// turnsOfCrash is the number of turns of the model.
const turnsOfCrash = 4

// world holds the parts with which a harness that is killed works. They are all in the test process.
type world struct {
	t      *testing.T
	dir    string
	model  *fake.Server
	up     *upstream
	victim *served

	// The harness is killed at the point kill of its first life, or at the point with the number every of each life.
	kill  string
	every int
	// hold makes the harness wait at a point. The test receives a value from holding, and sends one to let the harness continue.
	hold     string
	holding  chan struct{}
	lives    int
	callback string // URL of the task's callback

	mu     sync.Mutex
	passed []string // points outside of the harness, in order
	count  int      // number of points in this life
	turns  []int    // turns for which the model was asked
	posts  []string // texts that up__send received
	hooks  []string // event ids of webhooks
}

// strike records a point, and kills the harness if it has to die there. It reports whether the harness is dead.
func (w *world) strike(point string) bool {
	w.mu.Lock()
	held := point == w.hold
	if held {
		w.hold = "" // The harness waits only once.
	}
	w.mu.Unlock()
	if held {
		w.holding <- struct{}{}
		select {
		case <-w.holding:
		case <-w.t.Context().Done(): // the test has failed
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.passed = append(w.passed, point)
	w.count++
	if dies := point == w.kill && w.lives == 1 || w.every > 0 && w.count == w.every; !dies {
		return false
	}
	w.victim.kill()
	return true
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	return newWorldOf(t, dir, storeURL(t, dir))
}

// newWorldOf does the same as newWorld with a directory and a store.
func newWorldOf(t *testing.T, dir, store string) *world {
	t.Helper()
	w := &world{t: t, dir: dir, holding: make(chan struct{})}
	w.model = fake.Serve(w.turn)
	t.Cleanup(w.model.Close)
	front := httptest.NewUnstartedServer(http.HandlerFunc(w.relay))
	front.Config.SetKeepAlivesEnabled(false) // opens a connection for each request
	front.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			w.strike(fmt.Sprintf("model %d dialled", len(w.asked())+1))
		}
	}
	front.Start()
	t.Cleanup(front.Close)
	hooks := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		w.strike("webhook comes")
		w.mu.Lock()
		w.hooks = append(w.hooks, r.Header.Get("X-Harness-Event-Id"))
		w.mu.Unlock()
		w.strike("webhook came")
	}))
	t.Cleanup(hooks.Close)
	w.up = newUpstream(t, "up")
	w.up.on = w.call
	write(t, w.dir, "harness.yaml", fmt.Sprintf(`
server: {rateLimit: {enabled: false}, webhooks: {allowPrivate: true}}
model: {provider: anthropic, name: claude-test, apiKey: k, baseUrl: %q}
store: {url: %q}
skills: {dir: skills}
workspace: {dir: workspace}
sandbox: {callTimeout: 10m}
mcpServers:
  up: {url: %q}
  mailer: {command: %q, args: [__demo-server, mailer, %q]}
`, front.URL, store, w.up.entry.URL, self(t), w.dir))
	w.callback = hooks.URL
	return w
}

// turn is the model. Its reply depends only on the request.
func (w *world) turn(r fake.Request) fake.Reply {
	if strings.Contains(fmt.Sprint(r.Last()), "Say hello.") {
		return fake.Reply{Text: "Hello."}
	}
	turn := 1
	for _, m := range r.Messages {
		if m.Role == "assistant" {
			turn++
		}
	}
	w.mu.Lock()
	w.turns = append(w.turns, turn)
	w.mu.Unlock()
	run := func(code string) fake.Call {
		input, err := json.Marshal(map[string]string{"code": code})
		if err != nil {
			w.t.Error(err)
		}
		return fake.Call{Name: "execute_code", Input: string(input)}
	}
	use := fake.Usage{Input: 100, Output: 10}
	switch turn {
	case 1:
		return fake.Reply{Thinking: "To begin with.", Calls: []fake.Call{run(firstProgram)}, Usage: use}
	case 2:
		return fake.Reply{Text: "Let me look.", Usage: use, Calls: []fake.Call{
			{Name: "search_tools", Input: `{"query":"send mail"}`}, {Name: "get_tool_details", Input: `{"names":["up__put"]}`},
		}}
	case 3:
		return fake.Reply{Thinking: "Go on.", Text: "And now the rest.", Calls: []fake.Call{run(secondProgram)}, Usage: use}
	default:
		return fake.Reply{Text: "The log is " + regexp.MustCompile(`abc\w*`).FindString(fmt.Sprint(r.Last())) + ".", Usage: use}
	}
}

// relay is a proxy in front of the model's server. It can kill the harness in the middle of an answer.
func (w *world) relay(to http.ResponseWriter, from *http.Request) {
	req, err := http.NewRequestWithContext(from.Context(), from.Method, w.model.URL+from.URL.Path, from.Body)
	if err != nil {
		w.t.Error(err)
		return
	}
	req.Header = from.Header.Clone()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return // The harness is gone.
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return
	}
	n := len(w.asked())
	if w.strike(fmt.Sprintf("model %d asked", n)) {
		return
	}
	to.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
	to.WriteHeader(resp.StatusCode)
	for i, part := range [][]byte{body[:len(body)/2], body[len(body)/2:]} {
		to.Write(part)
		if http.NewResponseController(to).Flush() != nil || w.strike(fmt.Sprintf("model %d answered %d/2", n, i+1)) {
			return
		}
	}
}

// call is the server of tools.
func (w *world) call(_ context.Context, tool, key string, args json.RawMessage) (string, error) {
	var a struct {
		What string
		Sent bool
	}
	if err := json.Unmarshal(args, &a); err != nil {
		return "", err
	}
	point := tool + " " + string(args)
	if w.strike(point + " comes") {
		return "", errors.New("the harness is dead")
	}
	answer := string(args)
	w.mu.Lock()
	switch {
	case tool == "send":
		w.posts = append(w.posts, a.What)
	case a.Sent:
		list, err := json.Marshal(append([]string{}, w.posts...))
		if err != nil {
			w.t.Error(err)
		}
		answer = string(list)
	}
	w.mu.Unlock()
	w.strike(point + " done")
	return answer, nil
}

// live begins a life of the harness. start starts its process, which kills itself at the commit kill.
func (w *world) live(start func(kill string) *served) {
	w.t.Helper()
	eventually(w.t, "nothing of the last life is left", func() bool { return w.up.conns.Load() == 0 && !mentioned(w.dir) })
	w.mu.Lock()
	defer w.mu.Unlock() // No point outside of the harness may come before the process is known.
	if w.lives++; w.lives > 50 {
		w.t.Fatalf("it does not end; the last life said\n%s", &w.victim.stderr)
	}
	kill := ""
	if w.lives == 1 {
		kill = w.kill
	}
	w.count = 0
	w.victim = start(kill)
}

func (w *world) serve(kill string) *served { return serve(w.t, w.dir, kill) }

// ask lets the harness work a task. It starts the harness again when it dies, and stops it at the end.
func (w *world) ask() (task.Task, []task.Event) {
	w.t.Helper()
	for {
		w.live(w.serve)
		got, events, err := w.work()
		if code := w.victim.stop(); err == nil && code == 0 {
			return got, events
		} else if code != -1 {
			w.t.Fatalf("it lived on, and %v\n%s", err, &w.victim.stderr)
		}
		if w.lives > 1 && w.every == 0 {
			w.t.Fatalf("it died twice\n%s", &w.victim.stderr)
		}
	}
}

// work submits the task in each life. It returns the task and its events when the task has ended and its callback was delivered. An error is the error of a
// server that died.
func (w *world) work() (got task.Task, events []task.Event, err error) {
	w.t.Helper()
	died := errors.New("it died")
	if w.victim.died() {
		return got, nil, died
	}
	err = w.victim.do(http.MethodPost, "/v1/tasks", "once", map[string]any{
		"userId": "ann", "task": "Do it.", "sessionId": "s", "callbackUrl": w.callback,
	}, &got)
	if err == nil {
		got, err = w.victim.end(got.ID)
	}
	if err != nil {
		return got, nil, err
	}
	eventually(w.t, "the callback is told, or the harness dead", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.hooks) > 0 || w.victim.died()
	})
	if w.victim.died() {
		return got, nil, died
	}
	events, err = w.victim.events(got.ID)
	return got, events, err
}

// asked returns the turns for which the model was asked.
func (w *world) asked() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.turns)
}
