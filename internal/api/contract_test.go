package api_test

import (
	"encoding/json"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// contract is the OpenAPI document of a server. Every answer that a test gets is checked against it.
type contract struct {
	doc     map[string]any
	mux     *http.ServeMux // maps requests to the paths in the document
	schemas *jsonschema.Compiler

	mu       sync.Mutex
	compiled map[string]*jsonschema.Schema
}

const documentURL = "https://harness.test/openapi.json"

func newContract(text string) (*contract, error) {
	c := &contract{mux: http.NewServeMux(), schemas: jsonschema.NewCompiler(), compiled: map[string]*jsonschema.Schema{}}
	if err := json.Unmarshal([]byte(text), &c.doc); err != nil {
		return nil, err
	}
	raw, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	c.schemas.DefaultDraft(jsonschema.Draft2020)
	if err := c.schemas.AddResource(documentURL, raw); err != nil {
		return nil, err
	}
	for _, o := range c.operations() {
		c.mux.HandleFunc(o.Method+" "+strings.ReplaceAll(o.Path, "{path}", "{path...}"), http.NotFound)
	}
	return c, nil
}

// documented is an operation of the document.
type documented struct {
	Method, Path string
	Public       bool // the operation needs no credentials
	Parameters   []struct {
		Name, In string
		Required bool
	}
	RequestBody any
	Responses   map[string]struct {
		Content map[string]any
	}
	Security []map[string]any
}

// operations returns all operations of the document.
func (c *contract) operations() (all []documented) {
	for path, item := range c.doc["paths"].(map[string]any) {
		for method, op := range item.(map[string]any) {
			o := documented{Method: strings.ToUpper(method), Path: path}
			text, _ := json.Marshal(op)
			if err := json.Unmarshal(text, &o); err != nil {
				panic(err)
			}
			for _, s := range o.Security {
				o.Public = o.Public || len(s) == 0
			}
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b documented) int { return strings.Compare(a.Path+a.Method, b.Path+b.Method) })
	return all
}

// check compares an answer with the document.
func (c *contract) check(t testing.TB, req *http.Request, r *reply) {
	t.Helper()
	if r.status == http.StatusRequestHeaderFieldsTooLarge {
		return // net/http itself sends this answer
	}
	kind, _, _ := mime.ParseMediaType(r.header.Get("Content-Type"))
	if r.status >= 400 && r.status != http.StatusServiceUnavailable {
		var p struct {
			Type, Title, Detail, Error string
			Status                     int
		}
		if kind != "application/problem+json" || json.Unmarshal([]byte(r.body), &p) != nil || p.Status != r.status ||
			p.Type == "" || p.Title == "" && p.Status != 499 || p.Detail == "" || p.Error != p.Detail {
			t.Errorf("%s: %d: this is no error as documented: %s: %s", r.what, r.status, kind, r.body)
		}
	}
	_, pattern := c.mux.Handler(req)
	method, path, ok := strings.Cut(pattern, " ")
	if !ok || path == "" {
		return // the document does not contain this endpoint
	}
	path = strings.ReplaceAll(path, "{path...}", "{path}")
	op := c.doc["paths"].(map[string]any)[path].(map[string]any)[strings.ToLower(method)].(map[string]any)
	responses := op["responses"].(map[string]any)
	status := strconv.Itoa(r.status)
	if responses[status] == nil {
		if status = "default"; r.status < 400 {
			t.Errorf("%s: the document does not know the status %d", r.what, r.status)
			return
		}
	}
	content, _ := responses[status].(map[string]any)["content"].(map[string]any)
	if content == nil && r.body == "" {
		return
	}
	if content[kind] == nil {
		t.Errorf("%s: %d is %q, which the document does not know: %.200s", r.what, r.status, kind, r.body)
		return
	}
	if !strings.HasSuffix(kind, "json") {
		return
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(r.body))
	if err != nil {
		t.Errorf("%s: %v: %.200s", r.what, err, r.body)
		return
	}
	schema, err := c.schema("#/paths/" + pointer(path) + "/" + strings.ToLower(method) + "/responses/" + status + "/content/" + pointer(kind) + "/schema")
	if err == nil {
		err = schema.Validate(value)
	}
	if err != nil {
		t.Errorf("%s: %d is not as documented: %v: %.500s", r.what, r.status, err, r.body)
	}
}

func pointer(part string) string {
	return strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(part)
}

func (c *contract) schema(at string) (*jsonschema.Schema, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.compiled[at]; s != nil {
		return s, nil
	}
	s, err := c.schemas.Compile(documentURL + at)
	if err == nil {
		c.compiled[at] = s
	}
	return s, err
}

// The contract reports answers that do not match the document.
func TestContract(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{})
	for name, c := range map[string]struct {
		method, path, kind, body string
		status                   int
		sound                    bool
	}{
		"sound":          {"GET", "/v1/tools", "application/json", `{"tools": []}`, 200, true},
		"a missing list": {"GET", "/v1/tools", "application/json", `{"tools": null}`, 200, false},
		"another type":   {"GET", "/v1/tools", "text/html", `{"tools": []}`, 200, false},
		"another status": {"GET", "/v1/tools", "application/json", `{"tools": []}`, 201, false},
		"a bare error":   {"GET", "/v1/tasks/x", "application/problem+json", `{"error": "no"}`, 404, false},
		"a text error":   {"POST", "/nowhere", "text/plain", `404 page not found`, 404, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req, err := http.NewRequest(c.method, w.url+c.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			seen := &watcher{TB: t}
			w.contract.check(seen, req, &reply{status: c.status, header: http.Header{"Content-Type": {c.kind}}, body: c.body})
			if seen.failed == c.sound {
				t.Errorf("it is said to be sound: %t", !seen.failed)
			}
		})
	}
}

// watcher is a testing.TB that records a failure instead of failing.
type watcher struct {
	testing.TB
	failed bool
}

func (w *watcher) Errorf(string, ...any) { w.failed = true }
func (w *watcher) Helper()               {}
