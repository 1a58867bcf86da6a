package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evanw/esbuild/pkg/api"

	"mcp-code-exec-harness/internal/testing/fake"
	"mcp-code-exec-harness/internal/testing/npmtest"
)

// clientPrograms are the programs that check the clients, by language.
var clientPrograms = map[string]func(t *testing.T) (dir string, command []string){
	"python": func(t *testing.T) (string, []string) {
		return clientDir("python"), []string{need(t, "python3"), "check.py"}
	},
	"typescript": func(t *testing.T) (string, []string) {
		return clientDir("typescript"), []string{need(t, "node"), "check.mjs"}
	},
	"go": func(t *testing.T) (string, []string) {
		path, err := buildClient()
		if err != nil {
			t.Fatal(err)
		}
		return ".", []string{path}
	},
}

// buildClient builds the program that checks the client in Go once, and returns its path.
var buildClient = sync.OnceValues(func() (string, error) {
	path := filepath.Join(shared, "check-client")
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	cmd := exec.Command("go", "build", "-o", path, "./check")
	cmd.Dir, cmd.Env = clientDir("go"), append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the client in Go: %w: %s", err, out)
	}
	return path, nil
})

func clientDir(language string) string { return filepath.Join("..", "..", "clients", language) }

// need returns the path of a program. Without it, the test is skipped, or fails if CI=true.
func need(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("install ", program)
	}
	return path
}

const clientSettings = `policy:
  - {tools: mailer__send, action: ask}
server:
  webhooks: {secret: 6f1c0d9ae2b84c35b7e05d2a91f3c8e4, allowPrivate: true}
`

// clientKeys creates the keys of a client's program and returns its environment.
func (f *fixture) clientKeys(language string) []string {
	f.t.Helper()
	environ := os.Environ()
	for name, args := range map[string][]string{
		"HARNESS_KEY": {"--user", language}, "HARNESS_APPROVER": {"--user", language, "--role", "approver"}, "HARNESS_ADMIN": {"--role", "admin"},
	} {
		made := f.run(append([]string{"keys", "create"}, args...)...).want(0)
		environ = append(environ, name+"="+strings.TrimSpace(made.stdout))
	}
	return environ
}

// TestClients runs the programs that check the clients in TypeScript, Go and Python against a server: all that docs/API_EXAMPLES.md shows, errors, lost
// answers, and streams that are cut behind each byte. Every request has to be one that the server's OpenAPI document describes.
func TestClients(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.modelled(shopkeeper)
	f.write("harness.yaml", clientSettings)
	f.addDemo("database", "mailer")
	f.run("trust", f.dir).want(0)
	environs := map[string][]string{}
	for language := range clientPrograms {
		environs[language] = f.clientKeys(language)
	}
	s := f.serve()
	p := newClientProxy(t, s.url)
	recorded, key := f.record(s)
	webhook := s.webhook(key)
	p.recorded = recorded.text
	for language, program := range clientPrograms {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			dir, command := program(t)
			events := filepath.Join(t.TempDir(), "events.json")
			if err := os.WriteFile(events, recorded.events, 0o600); err != nil {
				t.Fatal(err)
			}
			environ := append(environs[language], "HARNESS_URL="+p.url, "EVENTS="+events, "TASK="+recorded.task, fmt.Sprintf("CUTS=%d", len(recorded.text)+1))
			environ = append(environ, webhook...)
			for _, what := range []string{"all", "stream"} {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				cmd := exec.CommandContext(ctx, command[0], append(command[1:], what)...)
				cmd.Dir, cmd.Env = dir, environ
				if out, err := cmd.CombinedOutput(); err != nil || !bytes.HasSuffix(out, []byte("ok\n")) {
					t.Errorf("%s: %v\n%s", what, err, out)
				}
			}
			if cuts := p.cutsOf(language); cuts != len(recorded.text)+1 {
				t.Errorf("%d streams were cut, of %d", cuts, len(recorded.text)+1)
			}
		})
	}
}

// TestClientsRestart kills a server in the middle of tasks and starts it again. The clients, which follow the tasks' events, get each event once and the
// results, and a run that waits for a person goes on.
func TestClientsRestart(t *testing.T) {
	t.Parallel()
	f := setup(t)
	type program struct {
		*exec.Cmd
		language string
		stdin    io.WriteCloser
		stdout   *bufio.Reader
		stderr   bytes.Buffer
	}
	var all []*program
	for language, command := range clientPrograms {
		t.Run(language, func(t *testing.T) {
			dir, args := command(t)
			p := &program{Cmd: exec.Command(args[0], append(args[1:], "restart")...), language: language}
			p.Dir = dir
			all = append(all, p)
		})
	}
	asked, again := make(chan bool, 10), make(chan struct{})
	f.modelled(func(r fake.Request) fake.Reply {
		if r.Last().Role == "tool" { // the task has executed a program, and this is its second turn
			asked <- true
			return fake.Reply{Text: "42 orders came in today.", Wait: again}
		}
		return shopkeeper(r)
	})
	f.write("harness.yaml", clientSettings)
	f.addDemo("mailer")
	f.run("trust", f.dir).want(0)
	address := freeAddress(t)
	for _, p := range all {
		p.Env = append(f.clientKeys(p.language), "HARNESS_URL=http://"+address)
	}
	server := f.serveAt(address)
	for _, p := range all {
		var err error
		if p.stdin, err = p.StdinPipe(); err != nil {
			t.Fatal(err)
		}
		stdout, err := p.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		p.stdout, p.Stderr = bufio.NewReader(stdout), &p.stderr
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Process.Kill() })
	}
	for _, p := range all {
		if line, err := p.stdout.ReadString('\n'); line != "ready\n" {
			_ = p.Wait()
			t.Fatalf("%s: %v %s%s", p.language, err, line, &p.stderr)
		}
		<-asked
	}
	if err := server.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = server.Wait() // it was killed
	close(again)
	f.serveAt(address)
	for _, p := range all {
		_, _ = io.WriteString(p.stdin, "\n")
	}
	for _, p := range all {
		rest, _ := io.ReadAll(p.stdout)
		if err := p.Wait(); err != nil || string(rest) != "ok\n" {
			t.Errorf("%s: %v\n%s%s", p.language, err, rest, &p.stderr)
		}
	}
}

// TestClientsReadmes executes the examples in the READMEs of the clients as programs of users, who have the clients as packages.
func TestClientsReadmes(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.modelled(shopkeeper)
	f.write("harness.yaml", clientSettings)
	f.addDemo("mailer")
	f.run("trust", f.dir).want(0)
	environ := f.clientKeys("reader")
	s := f.serve()
	for language, run := range map[string]func(t *testing.T, dir, program string) *exec.Cmd{
		"python": func(t *testing.T, dir, program string) *exec.Cmd {
			f.write("python/example.py", program)
			cmd := exec.Command(need(t, "python3"), "example.py")
			cmd.Env = append(environ, "PYTHONPATH="+dir)
			return cmd
		},
		"typescript": func(t *testing.T, dir, program string) *exec.Cmd {
			node := need(t, "node")
			made := api.Transform(program, api.TransformOptions{Loader: api.LoaderTS, Format: api.FormatESModule, Target: api.ES2022})
			if len(made.Errors) > 0 {
				t.Fatal(made.Errors)
			}
			f.write("typescript/example.mjs", string(made.Code)) // Node.js before 22.18 does not run TypeScript
			f.write("typescript/example.ts", program)
			for _, file := range []string{"package.json", "harness.js", "harness.d.ts", "types.d.ts"} {
				text, err := os.ReadFile(filepath.Join(dir, file))
				if err != nil {
					t.Fatal(err)
				}
				f.write("typescript/node_modules/mcp-code-exec-harness-client/"+file, string(text))
			}
			tsc := exec.Command(node, filepath.Join(npmtest.TypeScript(t), "node_modules", "typescript", "bin", "tsc"), "--strict", "--noEmit", "--target", "es2022",
				"--module", "preserve", "--moduleResolution", "bundler", "--typeRoots", "none", "--pretty", "false", "example.ts")
			tsc.Dir = filepath.Join(f.dir, "typescript")
			if out, err := tsc.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
			return exec.Command(node, "example.mjs")
		},
		"go": func(t *testing.T, dir, program string) *exec.Cmd {
			f.write("go/example.go", program)
			f.write("go/go.mod", "module example\n\ngo 1.23\n\nrequire mcp-code-exec-harness/clients/go v0.0.0\n\nreplace mcp-code-exec-harness/clients/go => "+dir+"\n")
			cmd := exec.Command("go", "run", ".")
			cmd.Env = append(environ, "CGO_ENABLED=0", "GOWORK=off")
			return cmd
		},
	} {
		t.Run(language, func(t *testing.T) {
			dir, err := filepath.Abs(clientDir(language))
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join(dir, "README.md"))
			if err != nil {
				t.Fatal(err)
			}
			block := clientExample.FindSubmatch(text)
			if block == nil {
				t.Fatal("the README has no example")
			}
			cmd := run(t, dir, string(block[1]))
			if cmd.Env == nil {
				cmd.Env = environ
			}
			cmd.Env = append(cmd.Env, "HARNESS_URL="+s.url)
			cmd.Dir = filepath.Join(f.dir, language)
			out, err := cmd.CombinedOutput()
			if want := clientExampleShows; err != nil || !want.Match(out) {
				t.Errorf("%v: the example shows\n%s\nwant %s", err, out, want)
			}
		})
	}
}

var (
	clientExample      = regexp.MustCompile("(?s)```(?:python|typescript|go)\n(?:#|//) example\\.\\w+\n(.*?)```")
	clientExampleShows = regexp.MustCompile(`^42\nlog: .*counting.*\n42 orders came in today\.\n"?sent"?\n404 not_found - check the id and the key: .*\n$`)
)

// serveAt starts a server in a process of its own, and kills it at the end of the test.
func (f *fixture) serveAt(address string) *exec.Cmd {
	f.t.Helper()
	cmd := f.process("serve", "--listen", address)
	log := &lockedBuffer{hit: make(chan struct{}), re: listening}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	select {
	case <-log.hit:
	case <-time.After(patience):
		f.t.Fatalf("the server does not start: %s", log)
	}
	return cmd
}

// recording is the stream of events of a task that has ended.
type recording struct {
	task   string
	text   []byte
	events []byte // JSON list of [id, type, data]
}

// record records the events of a task whose texts have characters of several bytes.
func (f *fixture) record(s *server) (r recording, key string) {
	f.t.Helper()
	key = strings.TrimSpace(f.run("keys", "create", "--user", "recorded").want(0).stdout)
	header := []string{"Authorization", "Bearer " + key}
	status, text := s.do("POST", "/task", `{"userId": "recorded", "task": "Grüße 😀 an alle"}`, header...)
	var made struct{ TaskID string }
	if err := json.Unmarshal([]byte(text), &made); err != nil || status != http.StatusOK {
		f.t.Fatalf("%d %s", status, text)
	}
	_, text = s.do("GET", "/v1/tasks/"+made.TaskID+"/events", "", header...)
	var events [][]any
	for _, block := range eventBlock.FindAllStringSubmatch(text, -1) {
		id, _ := strconv.Atoi(block[1])
		events = append(events, []any{id, block[2], json.RawMessage(block[3])})
	}
	if len(events) < 3 || len(text) > 8<<10 {
		f.t.Fatalf("%d events in %d bytes: %s", len(events), len(text), text)
	}
	list, err := json.Marshal(events)
	if err != nil {
		f.t.Fatal(err)
	}
	return recording{made.TaskID, []byte(text), list}, key
}

// webhook returns a webhook of the server as variables of a program.
func (s *server) webhook(key string) (environ []string) {
	s.t.Helper()
	got := make(chan []string, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- []string{
			"WEBHOOK_BODY=" + string(body), "WEBHOOK_TIMESTAMP=" + r.Header.Get("X-Harness-Timestamp"), "WEBHOOK_SIGNATURE=" + r.Header.Get("X-Harness-Signature"),
		}
	}))
	defer receiver.Close()
	if status, text := s.do("POST", "/v1/tasks", `{"task": "Say hello.", "callbackUrl": "`+receiver.URL+`"}`, "Authorization", "Bearer "+key); status != http.StatusAccepted {
		s.t.Fatalf("%d %s", status, text)
	}
	select {
	case environ = <-got:
	case <-time.After(patience):
		s.t.Fatal("there is no webhook")
	}
	return append(environ, "WEBHOOK_SECRET=6f1c0d9ae2b84c35b7e05d2a91f3c8e4")
}

var eventBlock = regexp.MustCompile(`id: (\d+)\nevent: (\S+)\ndata: (.*)\n\n`)

// clientProxy passes requests on to a server, checks them against the server's document, and breaks connections where a path begins with how.
type clientProxy struct {
	t        *testing.T
	url      string
	server   *url.URL
	document *apiDocument
	recorded []byte

	mu   sync.Mutex
	once map[string]bool // paths whose connection has been broken
}

func newClientProxy(t *testing.T, server string) *clientProxy {
	t.Helper()
	at, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	p := &clientProxy{t: t, server: at, document: readDocument(t, server), once: map[string]bool{}}
	pass := httputil.NewSingleHostReverseProxy(at)
	pass.FlushInterval = -1
	pass.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	pass.ErrorLog = discardLog
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/openapi.json" { // the document does not describe itself
			p.document.check(t, r)
		}
		pass.ServeHTTP(w, r)
	})
	broken := func(how string, first func(w http.ResponseWriter, r *http.Request)) {
		mux.HandleFunc("/"+how+"/{client}/", func(w http.ResponseWriter, r *http.Request) {
			prefix := "/" + how + "/" + r.PathValue("client")
			if p.first(prefix) {
				first(w, stripped(r, prefix))
				return
			}
			http.StripPrefix(prefix, pass).ServeHTTP(w, r)
		})
	}
	broken("limited", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		http.Error(w, `{"detail": "too many requests"}`, http.StatusTooManyRequests)
	})
	broken("lost", func(_ http.ResponseWriter, r *http.Request) {
		pass.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	})
	broken("upload", func(_ http.ResponseWriter, r *http.Request) {
		p.cutUpload(r, 9)
		panic(http.ErrAbortHandler)
	})
	broken("download", func(w http.ResponseWriter, r *http.Request) {
		whole := httptest.NewRecorder()
		pass.ServeHTTP(whole, r)
		for name, values := range whole.Header() {
			w.Header()[name] = values
		}
		_, _ = w.Write(whole.Body.Bytes()[:9])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	mux.HandleFunc("/cut/{client}/{byte}/", p.cut)
	s := httptest.NewUnstartedServer(mux)
	s.Config.ErrorLog = discardLog
	s.Start()
	t.Cleanup(s.Close)
	p.url = s.URL
	return p
}

// first reports whether this is the first call for a path.
func (p *clientProxy) first(path string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() { p.once[path] = true }()
	return !p.once[path]
}

// cutsOf returns the number of streams of a client that have been cut.
func (p *clientProxy) cutsOf(client string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for path := range p.once {
		if strings.HasPrefix(path, "/cut/"+client+"/") {
			n++
		}
	}
	return n
}

// stripped returns a request without the prefix of its path.
func stripped(r *http.Request, prefix string) (out *http.Request) {
	http.StripPrefix(prefix, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { out = r })).ServeHTTP(nil, r)
	return out
}

// cut answers with the recorded stream behind the Last-Event-ID. The first answer for a path ends behind the byte that the path names: with an error if the
// number is even, otherwise as a stream that has ended.
func (p *clientProxy) cut(w http.ResponseWriter, r *http.Request) {
	prefix := "/cut/" + r.PathValue("client") + "/" + r.PathValue("byte")
	after, _ := strconv.Atoi(r.Header.Get("Last-Event-ID"))
	text := p.recorded
	for _, at := range eventBlock.FindAllSubmatchIndex(p.recorded, -1) {
		if id, _ := strconv.Atoi(string(p.recorded[at[2]:at[3]])); id <= after {
			text = p.recorded[at[1]:]
		}
	}
	first := p.first(prefix)
	if len(text) == 0 {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if !first {
		_, _ = w.Write(text)
		return
	}
	n, err := strconv.Atoi(r.PathValue("byte"))
	if err != nil || n > len(text) {
		p.t.Errorf("the stream has %d bytes, not %s", len(text), r.PathValue("byte"))
		return
	}
	_, _ = w.Write(text[:n])
	_ = http.NewResponseController(w).Flush()
	if n%2 == 0 {
		panic(http.ErrAbortHandler)
	}
}

// cutUpload sends a request to the server with the first bytes of its body only, and closes the connection.
func (p *clientProxy) cutUpload(r *http.Request, n int64) {
	conn, err := net.Dial("tcp", p.server.Host)
	if err != nil {
		p.t.Error(err)
		return
	}
	defer conn.Close()
	var head bytes.Buffer
	fmt.Fprintf(&head, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n", r.Method, r.URL.RequestURI(), p.server.Host, r.ContentLength)
	_ = r.Header.WriteSubset(&head, map[string]bool{"Content-Length": true})
	head.WriteString("\r\n")
	_, err = io.Copy(conn, io.MultiReader(&head, io.LimitReader(r.Body, n)))
	if closing, ok := conn.(*net.TCPConn); ok {
		err = errors.Join(err, closing.CloseWrite())
	}
	_, _ = io.Copy(io.Discard, conn) // the server has stored what has come
	if err != nil {
		p.t.Error(err)
	}
}

// apiDocument is what an OpenAPI document says about requests.
type apiDocument struct {
	Paths map[string]map[string]struct {
		OperationID string
		Parameters  []struct{ In, Name string }
		RequestBody struct {
			Content map[string]struct{ Schema apiSchema }
		}
	}
	Components struct{ Schemas map[string]apiSchema }
}

// apiSchema is the part of a schema that the tests read.
type apiSchema struct {
	Ref        string `json:"$ref"`
	Type       string
	Format     string
	Enum       []string
	OneOf      []apiSchema
	Items      *apiSchema
	Additional json.RawMessage `json:"additionalProperties"`
	Properties map[string]apiSchema
	Required   []string
	Doc        string `json:"description"`
}

func readDocument(t *testing.T, server string) *apiDocument {
	t.Helper()
	resp, err := http.Get(server + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	d := &apiDocument{}
	if err := json.NewDecoder(resp.Body).Decode(d); err != nil {
		t.Fatal(err)
	}
	return d
}

// check reports what of a request the document does not describe. It replaces the request's body by a copy.
func (d *apiDocument) check(t *testing.T, r *http.Request) {
	path := ""
	for known := range d.Paths {
		pattern := regexp.QuoteMeta(known)
		pattern = strings.ReplaceAll(pattern, `\{path\}`, ".+")
		pattern = regexp.MustCompile(`\\\{[a-z]+\\\}`).ReplaceAllString(pattern, "[^/]+")
		if regexp.MustCompile("^"+pattern+"$").MatchString(r.URL.EscapedPath()) && (path == "" || strings.Count(known, "{") < strings.Count(path, "{")) {
			path = known
		}
	}
	op, known := d.Paths[path][strings.ToLower(r.Method)]
	if !known {
		t.Errorf("the document has no %s %s", r.Method, r.URL.Path)
		return
	}
	has := func(in, name string) bool {
		return slices.ContainsFunc(op.Parameters, func(p struct{ In, Name string }) bool { return p.In == in && p.Name == name })
	}
	for name := range r.URL.Query() {
		if !has("query", name) {
			t.Errorf("%s has no parameter %s", op.OperationID, name)
		}
	}
	for _, name := range []string{"Idempotency-Key", "Last-Event-ID", "Range", "If-Range", "If-None-Match", "Content-Range", "Repr-Digest"} {
		if r.Header.Get(name) != "" && !has("header", name) {
			t.Errorf("%s has no header field %s", op.OperationID, name)
		}
	}
	if r.Header.Get("Content-Type") != "application/json" {
		return
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(text))
	var body any
	if err := json.Unmarshal(text, &body); err != nil {
		t.Errorf("%s: %v", op.OperationID, err)
	}
	d.fields(t, op.OperationID, op.RequestBody.Content["application/json"].Schema, body)
}

// fields reports fields of a value that its schema does not have.
func (d *apiDocument) fields(t *testing.T, at string, schema apiSchema, value any) {
	schema = d.resolve(schema)
	object, is := value.(map[string]any)
	if !is || schema.Properties == nil {
		return
	}
	for name, field := range object {
		of, known := schema.Properties[name]
		if !known {
			t.Errorf("%s has no field %s", at, name)
		}
		d.fields(t, at+"."+name, of, field)
	}
}

func (d *apiDocument) resolve(s apiSchema) apiSchema {
	if s.Ref == "" {
		return s
	}
	return d.Components.Schemas[s.Ref[strings.LastIndex(s.Ref, "/")+1:]]
}

// discardLog is the log of servers whose broken connections are on purpose.
var discardLog = log.New(io.Discard, "", 0)
