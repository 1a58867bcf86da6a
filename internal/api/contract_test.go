package api_test

import (
	"bufio"
	"encoding/json"
	"mime"
	"net/http"
	"path"
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
	for route, item := range c.doc["paths"].(map[string]any) {
		for method, op := range item.(map[string]any) {
			o := documented{Method: strings.ToUpper(method), Path: route}
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
	method, route, ok := strings.Cut(pattern, " ")
	if !ok || route == "" {
		return // the document does not contain this endpoint
	}
	route = strings.ReplaceAll(route, "{path...}", "{path}")
	op := c.doc["paths"].(map[string]any)[route].(map[string]any)[strings.ToLower(method)].(map[string]any)
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
	if of, _ := content[kind].(map[string]any)["x-event"].(map[string]any); of != nil {
		name := strings.TrimPrefix(of["$ref"].(string), "#/components/schemas/")
		stream := &sse{lines: bufio.NewReader(strings.NewReader(r.body)), check: func(e event) { c.event(t, name, e) }}
		for err := error(nil); err == nil; {
			_, err = stream.next()
		}
	}
	if !strings.HasSuffix(kind, "json") {
		return
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(r.body))
	if err != nil {
		t.Errorf("%s: %v: %.200s", r.what, err, r.body)
		return
	}
	schema, err := c.schema("#/paths/" + pointer(route) + "/" + strings.ToLower(method) + "/responses/" + status + "/content/" + pointer(kind) + "/schema")
	if err == nil {
		err = schema.Validate(value)
	}
	if err != nil {
		t.Errorf("%s: %d is not as documented: %v: %.500s", r.what, r.status, err, r.body)
	}
}

// event compares an event of a stream with its schema. Its data may have no field that the schema lacks.
func (c *contract) event(t testing.TB, schema string, e event) {
	t.Helper()
	data, err := jsonschema.UnmarshalJSON(strings.NewReader(e.Data))
	value := map[string]any{"type": e.Type, "data": data}
	if e.ID > 0 {
		value["id"] = json.Number(strconv.FormatInt(e.ID, 10))
	}
	var s *jsonschema.Schema
	if err == nil {
		s, err = c.schema("#/components/schemas/" + schema)
	}
	if err == nil {
		err = s.Validate(value)
	}
	if err != nil {
		t.Errorf("the event %s is not as documented: %v: %.500s", e.Type, err, e.Data)
		return
	}
	schemas := c.doc["components"].(map[string]any)["schemas"].(map[string]any)
	named := func(ref any) map[string]any { return schemas[path.Base(ref.(string))].(map[string]any) }
	one := named(schemas[schema].(map[string]any)["discriminator"].(map[string]any)["mapping"].(map[string]any)[e.Type])
	fields := named(one["properties"].(map[string]any)["data"].(map[string]any)["$ref"])["properties"].(map[string]any)
	for name := range data.(map[string]any) {
		if fields[name] == nil {
			t.Errorf("the document has no field %s of the event %s: %.500s", name, e.Type, e.Data)
		}
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
