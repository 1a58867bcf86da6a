package web_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/cli"
	"mcp-code-exec-harness/internal/testing/child"
	"mcp-code-exec-harness/internal/testing/fake"
)

// shared is a directory with what all tests use: the compiled engine, which takes half a second to make.
var shared string

// TestMain makes the test binary a worker or demo server if its arguments ask for that.
func TestMain(m *testing.M) {
	if code, ok := cli.Hidden(os.Args[1:], os.Stdin, os.Stdout, os.Stderr); ok {
		os.Exit(code)
	}
	var err error
	if shared, err = os.MkdirTemp("", "harness-web-test-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(shared)
	os.Exit(code)
}

// world is a harness serve with its dashboard, an MCP server whose answers tests choose, and a fake model.
type world struct {
	t       testing.TB
	dir     string
	url     string
	token   string // the local token; empty if there are keys
	environ []string
	tools   *toolServer
	out     *serverLog
	ahead   atomic.Int64 // time by which the clock of the harness is ahead, in nanoseconds
	stop    func()       // stops the server
}

const configuration = `
store: {url: "sqlite:%[1]s/harness.db"}
skills: {dir: "%[1]s/skills"}
workspace: {dir: "%[1]s/workspace"}
policy: {rules: [{tools: "*__write*", action: ask, reason: "writes are asked about"}, {tools: "*__send_*", action: ask, reason: "what is sent is asked about"}]}
quarantine: off
mcpServers:
  notes: {url: "%[2]s"}
`

// serverLog is the output of the server. It signals the line with the address.
type serverLog struct {
	mu    sync.Mutex
	text  bytes.Buffer
	ready chan string
}

var listening = regexp.MustCompile(`listening on (http://\S+)`)

// Write implements io.Writer.
func (l *serverLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	if at := listening.FindSubmatch(l.text.Bytes()); at != nil && l.ready != nil {
		l.ready <- string(at[1])
		l.ready = nil
	}
	return len(p), nil
}

func (l *serverLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func setup(t testing.TB, keys bool, settings ...string) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{t: t, dir: dir, tools: newToolServer(t)}
	model := fake.Serve(func(r fake.Request) fake.Reply {
		if strings.Contains(string(r.Raw), "Report the sales") {
			return reports(r)
		}
		if r.Last().Role == "tool" {
			return fake.Reply{Text: "There are **2** notes. " + payload, Usage: fake.Usage{Input: 200, Output: 9}}
		}
		code := "const all = await tools.notes.list({});\nreturn all"
		input, _ := json.Marshal(map[string]string{"code": code})
		return fake.Reply{Text: "I look.", Calls: []fake.Call{{Name: "execute_code", Input: string(input)}}, Usage: fake.Usage{Input: 100, Output: 20}}
	})
	t.Cleanup(model.Close)
	w.environ = []string{
		"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "HARNESS_CACHE_DIR=" + filepath.Join(shared, "cache"),
		"OPENAI_API_KEY=sk-test", "OPENAI_MODEL=test-model", "OPENAI_BASE_URL=" + model.URL + "/v1",
	}
	text := configuration + strings.Join(settings, "\n")
	if strings.Contains(text, "no server") {
		text = strings.Replace(text, "mcpServers:\n  notes:", "# without", 1)
	}
	if strings.Contains(text, "\nworkspace: small") {
		text = strings.Replace(strings.Replace(text, "\nworkspace: small", "", 1), "workspace: {", "workspace: {maxBytes: 4KiB, ", 1)
	}
	if strings.Contains(strings.Join(settings, ""), "quarantine: ") {
		text = strings.Replace(text, "quarantine: off\n", "", 1)
	}
	if err := os.WriteFile(filepath.Join(dir, "harness.yaml"), fmt.Appendf(nil, text+"\n", filepath.ToSlash(dir), w.tools.url), 0o600); err != nil {
		t.Fatal(err)
	}
	w.command("trust", dir)
	if keys {
		w.key("boss", "admin", "")
	} else {
		w.token = strings.TrimSpace(w.command("token"))
	}
	w.serve("127.0.0.1:0")
	t.Cleanup(func() { w.stop() })
	return w
}

// serve starts the server at an address.
func (w *world) serve(at string) {
	w.t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	out := &serverLog{ready: make(chan string, 1)}
	w.out = out
	ready, exit := out.ready, make(chan int, 1)
	go func() { exit <- w.main(ctx, io.Discard, out, "serve", "--listen", at) }()
	w.stop = func() {
		cancel(nil)
		<-exit
	}
	select {
	case w.url = <-ready:
	case code := <-exit:
		w.stop = func() {}
		w.t.Fatalf("serve ended with %d: %s", code, out)
	}
}

func (w *world) main(ctx context.Context, stdout, stderr io.Writer, args ...string) int {
	return cli.Main(ctx, cli.World{
		Args: args, Environ: w.environ, Dir: w.dir, Executable: child.Executable(w.t), Stdin: strings.NewReader(""), Stdout: stdout, Stderr: stderr,
		Now: w.now,
	})
}

// now is the clock of the harness.
func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }

// command returns the output of a command.
func (w *world) command(args ...string) string {
	w.t.Helper()
	var stdout, stderr bytes.Buffer
	if code := w.main(context.Background(), &stdout, &stderr, args...); code != 0 {
		w.t.Fatalf("harness %s: exit code %d\n%s", strings.Join(args, " "), code, stderr.String())
	}
	return stdout.String()
}

// key creates an API key. An empty user means a key for all users.
func (w *world) key(name, role, user string) string {
	w.t.Helper()
	args := []string{"keys", "create", name, "--role", role, "--json"}
	if user != "" {
		args = append(args, "--user", user)
	}
	var made struct {
		Key   string `json:"key"`
		Value string `json:"value"`
	}
	if err := json.Unmarshal([]byte(w.command(args...)), &made); err != nil {
		w.t.Fatal(err)
	}
	return made.Key + made.Value
}

// api sends JSON to the HTTP API, decodes the response, and returns the status.
func (w *world) api(token, method, path string, body, into any) int {
	w.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, bytes.NewReader(text))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodGet {
		r.Body, r.ContentLength = nil, 0
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	if into != nil {
		if err := json.Unmarshal(got, into); err != nil {
			w.t.Fatalf("%s %s: %d %s", method, path, answer.StatusCode, got)
		}
	}
	return answer.StatusCode
}

// store uploads a file with the API.
func (w *world) store(path, text string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPut, w.url+path, strings.NewReader(text))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+w.token)
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer got.Body.Close()
	if said, _ := io.ReadAll(got.Body); got.StatusCode >= 300 {
		w.t.Fatalf("%s: %d %s", path, got.StatusCode, said)
	}
}

// run executes a program, and returns the id and the status of its run.
func (w *world) run(token, code string) (id, status string) {
	w.t.Helper()
	var out struct {
		RunID  string `json:"runId"`
		Status string `json:"status"`
	}
	if got := w.api(token, "POST", "/v1/runs", map[string]any{"code": code}, &out); got != http.StatusOK {
		w.t.Fatalf("run: %d", got)
	}
	return out.RunID, out.Status
}

// reader is a browser without a screen. It keeps cookies and follows no redirects.
type reader struct {
	w      *world
	client *http.Client
	form   string // token of forms
}

// login logs in with a credential.
func (w *world) login(credential string) *reader {
	w.t.Helper()
	jar, _ := cookiejar.New(nil)
	r := &reader{w: w, client: &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	if got := r.post("/login", "key", credential); got.status != http.StatusSeeOther {
		w.t.Fatalf("log in: %d %s", got.status, got.text)
	}
	at := regexp.MustCompile(`name="csrf" value="([^"]+)"`).FindStringSubmatch(r.get("/").text)
	if at == nil {
		w.t.Fatal("the page has no form")
	}
	r.form = at[1]
	return r
}

type answer struct {
	status int
	text   string
	header http.Header
}

func (r *reader) do(method, path, kind string, body io.Reader, header ...string) answer {
	r.w.t.Helper()
	q, err := http.NewRequestWithContext(r.w.t.Context(), method, r.w.url+path, body)
	if err != nil {
		r.w.t.Fatal(err)
	}
	if kind != "" {
		q.Header.Set("Content-Type", kind)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			q.Host = header[i+1]
		}
		q.Header.Set(header[i], header[i+1])
	}
	got, err := r.client.Do(q)
	if err != nil {
		r.w.t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		r.w.t.Fatal(err)
	}
	return answer{got.StatusCode, string(text), got.Header}
}

func (r *reader) get(path string, header ...string) answer {
	r.w.t.Helper()
	return r.do(http.MethodGet, path, "", nil, header...)
}

// post sends a form with the session's token.
func (r *reader) post(path string, fields ...string) answer {
	r.w.t.Helper()
	form := url.Values{"csrf": {r.form}}
	for i := 0; i < len(fields); i += 2 {
		form.Add(fields[i], fields[i+1])
	}
	return r.do(http.MethodPost, path, "application/x-www-form-urlencoded", strings.NewReader(form.Encode()))
}

// toolServer is an MCP server over HTTP whose texts are payloads.
type toolServer struct {
	url string
	mu  sync.Mutex
	// written has the texts of calls of the tool write.
	written []string
	mood    string // description of the tool of /moody
}

func newToolServer(t testing.TB) *toolServer {
	s := &toolServer{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Name      string          `json:"name"`
				Arguments json.RawMessage `json:"arguments"`
			} `json:"params"`
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&q) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		if q.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		object := map[string]any{"type": "object"}
		var result any = map[string]any{}
		switch q.Method {
		case "initialize":
			result = map[string]any{
				"protocolVersion": "2025-06-18", "capabilities": map[string]any{"tools": map[string]any{}},
				"serverInfo": map[string]string{"name": "notes " + payload, "version": payload}, "instructions": "Use notes. " + payload,
			}
		case "tools/list":
			if r.URL.Path == "/moody" {
				s.mu.Lock()
				result = map[string]any{"tools": []map[string]any{{"name": "tell", "description": "Tells. " + s.mood, "inputSchema": object}}}
				s.mu.Unlock()
				break
			}
			all := []map[string]any{
				{"name": "list", "description": "Lists all notes. " + payload, "inputSchema": object, "annotations": map[string]any{"readOnlyHint": true, "title": payload}},
				{"name": "write", "description": "Writes a note. " + payload, "inputSchema": map[string]any{"type": "object", "properties": map[string]any{
					"title": map[string]string{"type": "string", "description": payload}, "text": map[string]string{"type": "string"},
				}}},
				{"name": "read", "description": "Reads a note.", "inputSchema": object, "annotations": map[string]any{"readOnlyHint": true}},
				{"name": "lose", "description": "Gives no answer.", "inputSchema": object},
				{"name": "large", "description": "All notes at once.", "inputSchema": object, "annotations": map[string]any{"readOnlyHint": true}},
				{"name": "fail", "description": "Fails.", "inputSchema": object, "annotations": map[string]any{"readOnlyHint": true}},
				{"name": payloads[1], "description": payload, "inputSchema": object},
			}
			for i, p := range payloads { // lists show only the beginning of a description
				all = append(all, map[string]any{"name": fmt.Sprintf("about%d", i), "description": p, "inputSchema": map[string]any{"type": "object", "properties": map[string]any{
					p: map[string]any{"type": "string", "description": p, "enum": []string{p}},
				}}})
			}
			result = map[string]any{"tools": all}
		case "tools/call":
			text, failed := `[{"id":1,"title":"`+"<b>first</b>"+`"},{"id":2,"title":"second"}]`, false
			switch q.Params.Name {
			case "write":
				s.mu.Lock()
				s.written = append(s.written, string(q.Params.Arguments))
				s.mu.Unlock()
				text = "written"
			case "read":
				text = strings.Join(payloads, "\n") + "\nann@example.org\nsecond line"
			case "lose":
				panic(http.ErrAbortHandler)
			case "large":
				text = strings.Repeat("text of a note ", (8<<20-1<<10)/15)
				var asked struct{ Count int }
				if json.Unmarshal(q.Params.Arguments, &asked) == nil && asked.Count > 0 {
					text = manyNotes(asked.Count)
				}
			case "fail":
				text, failed = "no notes today: "+payload, true
			}
			result = map[string]any{"content": []map[string]string{{"type": "text", "text": text}}, "isError": failed}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": q.ID, "result": result})
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// manyNotes returns a JSON value with many items, and with payloads as keys.
func manyNotes(count int) string {
	texts, items := map[string]string{}, make([]map[string]any, count)
	for _, p := range payloads {
		texts[p] = p
	}
	for i := range items {
		items[i] = map[string]any{"id": i, "title": payloads[i%len(payloads)], "tags": []string{"a", "b"}}
	}
	text, _ := json.Marshal(map[string]any{"items": items, "texts": texts}) // texts and numbers can always be encoded
	return string(text)
}

// change changes the description of the tool of /moody.
func (s *toolServer) change(mood string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mood = mood
}

// notes returns the texts of calls of the tool write.
func (s *toolServer) notes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.written...)
}

// eventually waits until is returns true, for changes by other goroutines that send no signal.
func (w *world) eventually(what string, is func() bool) {
	w.t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("it does not come to pass that %s; the server says:\n%.4000s", what, w.out)
		}
	}
}
