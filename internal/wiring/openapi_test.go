package wiring_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/runs"
)

const petsDocument = `
openapi: 3.0.3
info: {title: Pets, version: "1"}
components:
  securitySchemes: {key: {type: apiKey, in: query, name: api_key}}
  schemas:
    Pet: {type: object, required: [name], properties: {id: {type: integer, readOnly: true}, name: {type: string}, email: {type: string, nullable: true}}}
security: [{key: []}]
paths:
  /pets:
    get:
      operationId: listPets
      parameters: [{name: page, in: query, schema: {type: integer}}]
      responses: {"200": {content: {application/json: {schema: {type: array, items: {$ref: "#/components/schemas/Pet"}}}}}}
    post:
      operationId: createPet
      requestBody: {required: true, content: {application/json: {schema: {$ref: "#/components/schemas/Pet"}}}}
      responses: {"201": {content: {application/json: {schema: {$ref: "#/components/schemas/Pet"}}}}}
  /pets/{id}:
    get:
      operationId: getPet
      parameters: [{name: id, in: path, required: true, schema: {type: integer}}]
      responses: {"200": {content: {application/json: {schema: {$ref: "#/components/schemas/Pet"}}}}}
  /pets/{id}/photo:
    get:
      operationId: photo
      parameters: [{name: id, in: path, required: true, schema: {type: integer}}]
`

const petsKey = "the-pets-key-4711"

// newPets starts a service of pets, which returns pages of two pets.
func newPets(t *testing.T) (*config.MCPServer, func() []string) {
	var mu sync.Mutex
	type pet struct {
		ID    int    `json:"id"`
		Name  string `json:"name"`
		Email string `json:"email,omitempty"`
	}
	all := []pet{{1, "Rex", "rex@example.com"}, {2, "Tom", ""}, {3, "Kit", ""}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /pets", func(w http.ResponseWriter, r *http.Request) {
		page, _ := strconv.Atoi(r.URL.Query().Get("page"))
		if 2*page+2 < len(all) {
			w.Header().Set("Link", fmt.Sprintf(`<%s?page=%d>; rel="next"`, r.URL.Path, page+1))
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(all[min(2*page, len(all)):min(2*page+2, len(all))])
	})
	mux.HandleFunc("POST /pets", func(w http.ResponseWriter, r *http.Request) {
		var p pet
		if json.NewDecoder(r.Body).Decode(&p) != nil || p.Name == "crash" {
			http.Error(w, "oops", http.StatusBadGateway)
			return
		}
		p.ID = len(all) + 1
		all = append(all, p)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(p)
	})
	mux.HandleFunc("GET /pets/{id}", func(w http.ResponseWriter, r *http.Request) {
		id, _ := strconv.Atoi(r.PathValue("id"))
		w.Header().Set("Content-Type", "application/json")
		if i := slices.IndexFunc(all, func(p pet) bool { return p.ID == id }); i >= 0 {
			_ = json.NewEncoder(w).Encode(all[i])
			return
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprintf(w, `{"detail": "no pet at %s"}`, r.URL)
	})
	mux.HandleFunc("GET /pets/{id}/photo", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "image/png")
		_, _ = io.WriteString(w, "\x89PNG\x00")
	})
	var got []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Query().Get("api_key") != petsKey {
			t.Errorf("%s %s without the key", r.Method, r.URL.Path)
		}
		got = append(got, r.Method+" "+r.URL.Path)
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	path := filepath.Join(t.TempDir(), "pets.yaml")
	if err := os.WriteFile(path, []byte(petsDocument), 0o600); err != nil {
		t.Fatal(err)
	}
	entry := &config.MCPServer{
		Name: "pets", Type: config.OpenAPI, OpenAPI: path, URL: srv.URL, Security: map[string]string{"key": petsKey}, Enabled: true, StartupTimeout: patience,
	}
	return entry, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(got)
	}
}

// TestOpenAPI: a program uses the operations of an OpenAPI document like other tools, with pages, errors, files and writes in doubt.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	server, got := newPets(t)
	f := setup(t, nil, server)
	out := f.exec(runs.Request{User: "ann", Code: `
import * as pets from './servers/pets'
const names = []
for (let page = 0, more = true; more; page++) {
  const answer = await callMCPTool.raw('pets__listPets', {page})
  names.push(...answer.structuredContent.result.map(p => p.name))
  more = /rel="next"/.test(answer._meta.http.headers.link ?? '')
}
const rex = await pets.getPet(1)
const made = await pets.createPet({body: {name: 'Ada', email: rex.email}})
const again = await tools.pets.getPet({id: made.id})
const list = await pets.listPets()
const photo = await pets.photo(1)
let missing
try { await pets.getPet(99) } catch (e) { missing = [e.name, e.message, e.data] }
return {names, email: rex.email, same: again.email === rex.email, list: list.length, photo: photo.bytes, mime: photo.mimeType, missing}`})
	if out.Error != nil {
		t.Fatalf("%+v", out.Error)
	}
	want := `{"names":["Rex","Tom","Kit"],"email":"pii_1e@d1.pii.invalid","same":true,"list":2,"photo":5,"mime":"image/png",` +
		`"missing":["ToolError","it answered HTTP 404 Not Found: {\"detail\": \"no pet at /pets/99?api_key=[credential]\"}",` +
		`{"status":404,"headers":{},"body":{"detail":"no pet at /pets/99?api_key=[credential]"}}]}`
	var a, b any
	if json.Unmarshal(out.Output, &a) != nil || json.Unmarshal([]byte(want), &b) != nil || fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("%s\nwant %s", out.Output, want)
	}
	// A forbidden argument is refused before the service is asked. After a failure of the service, only a write is in doubt.
	before := len(got())
	for code, want := range map[string]string{
		"await callMCPTool('pets__getPet', {id: '../admin'})":              "ToolError",
		"await callMCPTool('pets__getPet', {ID: 1})":                       "ToolError",
		"await callMCPTool('pets__createPet', {body: {nom: 'x'}})":         "ToolError",
		"await callMCPTool('pets__createPet', {body: {name: 'crash'}})":    "InDoubtError the outcome of pets__createPet is unknown: call tool \\\"createPet\\\" of server \\\"pets\\\": it answered HTTP 502 Bad Gateway: oops",
		"await callMCPTool('pets__createPet', {body: {name: 'a', id: 5}})": "ok",
	} {
		out := f.exec(runs.Request{User: "ann", Code: "try { " + code + "; return 'ok' } catch (e) { return e.name + ' ' + e.message }"})
		if out.Error != nil && out.Error.Kind != frame.KindTool {
			t.Fatalf("%s: %+v", code, out.Error)
		}
		if !strings.HasPrefix(string(out.Output), `"`+want) {
			t.Errorf("%s: %s, want %s", code, out.Output, want)
		}
	}
	if after := got(); len(after) > before+2 {
		t.Errorf("the service was asked for %q", after[before:])
	}
	if dts, err := f.Runs().Execute(t.Context(), runs.Request{User: "ann", Code: "return (await get_mcp_tool_details('pets__getPet')).typescript ?? JSON.stringify(await get_mcp_tool_details('pets__getPet'))"}); err != nil || !strings.Contains(string(dts.Output), "email") {
		t.Errorf("%v %s", err, dts.Output)
	}
}
