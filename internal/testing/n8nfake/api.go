package n8nfake

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Key is the API key that an [API] accepts.
const Key = "fake-key-of-the-fake-n8n"

// API imitates the public API of n8n 1.123 for tests. Its validation and its answers for workflows, tags and executions follow recordings
// of a real instance. It runs no workflow: [API.Ends] determines how the call of a webhook ends. The header X-Fake in every answer marks
// it as a fake. An API is safe for concurrent use.
type API struct {
	mux *http.ServeMux

	mu        sync.Mutex
	workflows map[string]map[string]any
	order     []string
	tags      []map[string]any
	made      int
	started   int              // number of started executions
	ended     []map[string]any // executions, oldest first

	lastQuery   string // query of the last webhook call
	credentials []map[string]any
	outcome     func(workflow map[string]any) Outcome // outcome of executions; nil means success
	fail        http.HandlerFunc                      // answers requests instead of the API; nil disables it
	writes      int                                   // number of requests that could change something
	creates     int                                   // number of requests to create a workflow
}

// NewAPI returns an API without workflows.
func NewAPI() *API {
	a := &API{mux: http.NewServeMux(), workflows: map[string]map[string]any{}}
	a.mux.HandleFunc("GET /api/v1/workflows", a.list)
	a.mux.HandleFunc("POST /api/v1/workflows", a.create)
	a.mux.HandleFunc("GET /api/v1/workflows/{id}", a.one(func(w map[string]any, _ *http.Request) (int, any) { return 200, w }))
	a.mux.HandleFunc("PUT /api/v1/workflows/{id}", a.one(a.put))
	a.mux.HandleFunc("DELETE /api/v1/workflows/{id}", a.one(a.remove))
	a.mux.HandleFunc("POST /api/v1/workflows/{id}/activate", a.one(a.activate))
	a.mux.HandleFunc("POST /api/v1/workflows/{id}/deactivate", a.one(func(w map[string]any, _ *http.Request) (int, any) {
		w["active"] = false
		return 200, w
	}))
	a.mux.HandleFunc("PUT /api/v1/workflows/{id}/tags", a.one(a.setTags))
	a.mux.HandleFunc("GET /api/v1/tags", func(w http.ResponseWriter, _ *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		answer(w, 200, map[string]any{"data": append([]map[string]any{}, a.tags...), "nextCursor": nil})
	})
	a.mux.HandleFunc("POST /api/v1/tags", a.createTag)
	a.executions()
	a.describe()
	return a
}

// Fail makes a handler answer every request from now on; nil disables this.
func (a *API) Fail(with http.HandlerFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fail = with
}

// FailWrites is Fail limited to requests that could change something.
func (a *API) FailWrites(with http.HandlerFunc) {
	a.Fail(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			a.mux.ServeHTTP(w, r)
			return
		}
		with(w, r)
	})
}

// Created returns the number of requests to create a workflow, and the number of workflows.
func (a *API) Created() (requests, workflows int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.creates, len(a.workflows)
}

// Store adds a workflow and returns its ID.
func (a *API) Store(w map[string]any) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.add(w)
}

// Stored returns the workflows in order of creation. Callers must not change them.
func (a *API) Stored() (all []map[string]any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range a.order {
		all = append(all, a.workflows[id])
	}
	return all
}

// Writes returns the number of requests that could change something, and the number of workflows.
func (a *API) Writes() (requests, workflows int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.writes, len(a.workflows)
}

func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Fake", "a fake n8n for tests")
	a.mu.Lock()
	fail := a.fail
	if r.Method != http.MethodGet {
		a.writes++
	}
	if r.Method == http.MethodPost && r.URL.Path == "/api/v1/workflows" {
		a.creates++
	}
	a.mu.Unlock()
	switch {
	case fail != nil:
		fail(w, r)
	case strings.HasPrefix(r.URL.Path, "/api/") && r.Header.Get("X-N8n-Api-Key") != Key:
		answer(w, 401, message("unauthorized"))
	default:
		a.mux.ServeHTTP(w, r)
	}
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // an error means that the client is gone
}

func message(format string, args ...any) map[string]any {
	return map[string]any{"message": fmt.Sprintf(format, args...)}
}

// one returns a handler for requests about one workflow.
func (a *API) one(handle func(map[string]any, *http.Request) (int, any)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		workflow := a.workflows[r.PathValue("id")]
		if workflow == nil {
			answer(w, 404, message("Not Found"))
			return
		}
		status, body := handle(workflow, r)
		answer(w, status, body)
	}
}

func (a *API) list(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := []map[string]any{}
	for _, id := range a.order {
		if on := r.URL.Query().Get("active"); on == "" || on == fmt.Sprint(a.workflows[id]["active"]) {
			all = append(all, a.workflows[id])
		}
	}
	offset, limit := 0, 100
	_, _ = fmt.Sscan(r.URL.Query().Get("cursor"), &offset) // a decimal offset; clients do not interpret cursors
	_, _ = fmt.Sscan(r.URL.Query().Get("limit"), &limit)
	end := min(offset+limit, len(all))
	var next any
	if end < len(all) {
		next = fmt.Sprint(end)
	}
	answer(w, 200, map[string]any{"data": all[min(offset, end):end], "nextCursor": next})
}

// body decodes a workflow in its stored form, or returns n8n's message about what is wrong with it.
func (a *API) body(r *http.Request) (map[string]any, string) {
	var in map[string]any
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return nil, "request/body must be object"
	}
	for _, key := range []string{"id", "active", "tags", "createdAt", "updatedAt"} {
		if _, has := in[key]; has {
			return nil, "request/body/" + key + " is read-only"
		}
	}
	for _, key := range []string{"name", "nodes", "connections", "settings"} {
		if _, has := in[key]; !has {
			return nil, "request/body must have required property '" + key + "'"
		}
	}
	for key := range in {
		if !slices.Contains([]string{"name", "nodes", "connections", "settings", "staticData", "shared", "activeVersion"}, key) {
			return nil, "request/body must NOT have additional properties"
		}
	}
	return in, ""
}

func stamp() string { return time.Now().UTC().Format("2006-01-02T15:04:05.000Z") }

func (a *API) create(w http.ResponseWriter, r *http.Request) {
	in, wrong := a.body(r)
	if wrong != "" {
		answer(w, 400, message("%s", wrong))
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	answer(w, 200, a.workflows[a.add(in)])
}

// add stores a new workflow.
func (a *API) add(in map[string]any) (id string) {
	a.made++
	id = fmt.Sprintf("fake%012d", a.made)
	maps.Copy(in, map[string]any{
		"id": id, "active": false, "createdAt": stamp(), "updatedAt": stamp(), "isArchived": false, "pinData": nil, "meta": nil, "staticData": nil,
		"versionId": fmt.Sprint("v", a.made), "versionCounter": 1, "triggerCount": 0,
	})
	a.workflows[id] = in
	a.order = append(a.order, id)
	return id
}

func (a *API) put(w map[string]any, r *http.Request) (int, any) {
	in, wrong := a.body(r)
	if wrong != "" {
		return 400, message("%s", wrong)
	}
	kept, _ := w["settings"].(map[string]any)
	given, _ := in["settings"].(map[string]any)
	all := maps.Clone(kept)
	maps.Copy(all, given)
	maps.Copy(w, in)
	a.made++
	w["settings"], w["updatedAt"], w["versionId"] = all, stamp(), fmt.Sprint("v", a.made)
	if w["active"] == true && a.conflict(w) {
		w["active"] = false // a new workflow is inactive
		return 400, message(taken)
	}
	return 200, w
}

const taken = "The URL path that the \"Webhook\" node uses is already taken. Please change it to something else."

// conflict reports whether another active workflow has a webhook with the same path and method.
func (a *API) conflict(w map[string]any) bool {
	nodes, _ := w["nodes"].([]any)
	return slices.ContainsFunc(nodes, func(v any) bool {
		n, _ := v.(map[string]any)
		p, _ := n["parameters"].(map[string]any)
		path, _ := p["path"].(string)
		method, _ := p["httpMethod"].(string)
		other, _ := a.registered(cmp.Or(method, "GET"), strings.Trim(path, "/"))
		return n["type"] == "n8n-nodes-base.webhook" && other != nil && other["id"] != w["id"]
	})
}

func (a *API) remove(w map[string]any, r *http.Request) (int, any) {
	id := r.PathValue("id")
	delete(a.workflows, id)
	a.order = slices.DeleteFunc(a.order, func(o string) bool { return o == id })
	return 200, w
}

func (a *API) activate(w map[string]any, _ *http.Request) (int, any) {
	nodes, _ := w["nodes"].([]any)
	starts := slices.ContainsFunc(nodes, func(v any) bool {
		n, _ := v.(map[string]any)
		kind, _ := n["type"].(string)
		return strings.Contains(strings.ToLower(kind), "webhook") || strings.HasSuffix(kind, "Trigger") && !strings.HasSuffix(kind, "manualTrigger")
	})
	if !starts {
		return 400, message("Workflow %q (ID: %s) has no node to start the workflow - at least one trigger, poller or webhook node is required", w["name"], w["id"])
	}
	if a.conflict(w) {
		return 400, message(taken)
	}
	w["active"] = true
	return 200, w
}

func (a *API) createTag(w http.ResponseWriter, r *http.Request) {
	var in map[string]any
	_ = json.NewDecoder(r.Body).Decode(&in) // an empty name is rejected below
	a.mu.Lock()
	defer a.mu.Unlock()
	name, _ := in["name"].(string)
	if name == "" || slices.ContainsFunc(a.tags, func(t map[string]any) bool { return t["name"] == name }) {
		answer(w, 409, message("Tag already exists"))
		return
	}
	a.made++
	tag := map[string]any{"id": fmt.Sprint("tag", a.made), "name": name}
	a.tags = append(a.tags, tag)
	answer(w, 201, tag)
}

func (a *API) setTags(w map[string]any, r *http.Request) (int, any) {
	var ids []struct{ ID string }
	if err := json.NewDecoder(r.Body).Decode(&ids); err != nil {
		return 400, message("request/body must be array")
	}
	set := []any{}
	for _, id := range ids {
		at := slices.IndexFunc(a.tags, func(t map[string]any) bool { return t["id"] == id.ID })
		if at < 0 {
			return 404, message("Some tags not found")
		}
		set = append(set, a.tags[at])
	}
	w["tags"] = set
	return 200, set
}
