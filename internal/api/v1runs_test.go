package api_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/testing/misbehave"
)

func contextWithCancel(t testing.TB) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return ctx, cancel
}

// POST /v1/runs runs a program and answers with the same object as harness exec --json. The run is stored and can be replayed.
func TestRuns(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{})
	var out run.Outcome
	w.do("POST", "/v1/runs", map[string]any{"userId": "alice", "code": "console.log('hi'); return [1, 2]", "timeout": "30s", "sandbox": "wasm", "unknown": 1}).
		want(http.StatusOK).json(&out)
	if out.Status != "succeeded" || string(out.Output) != "[1,2]" || len(out.Logs) != 1 || out.Logs[0].Text != "hi" || out.Sandbox != "wasm" || out.Error != nil {
		t.Errorf("got %+v", out)
	}
	var kept api.RunDetails
	w.do("GET", "/v1/runs/"+out.RunID, nil).want(http.StatusOK).json(&kept)
	if diff := cmp.Diff(out, kept.Outcome); diff != "" || kept.UserID != "alice" || !strings.Contains(kept.Code, "return [1, 2]") || kept.Ended == nil {
		t.Errorf("%+v %s", kept, diff)
	}
	var again run.Outcome
	w.do("POST", "/v1/runs/"+out.RunID+"/replay", nil).want(http.StatusOK).json(&again)
	if string(again.Output) != "[1,2]" || again.Error != nil {
		t.Errorf("the replay gave %+v", again)
	}
	if journal := w.do("GET", "/v1/runs/"+out.RunID+"/journal", nil).want(http.StatusOK); !strings.Contains(journal.body, `"end":{"status":"succeeded"`) {
		t.Errorf("the journal is %s", journal.body)
	}
	w.do("POST", "/v1/runs", map[string]string{"userId": "alice", "code": "return 1"}).want(http.StatusOK)
	for _, path := range []string{"/v1/runs/run_none", "/v1/runs/" + out.RunID[:10], "/v1/runs/run_", "/v1/runs/run_none/journal"} {
		w.do("GET", path, nil).want(http.StatusNotFound) // the beginning of an id is no id
	}
	w.do("POST", "/v1/runs/run_none/replay", nil).want(http.StatusNotFound)
	for name, c := range map[string]struct{ code, timeout, kind string }{
		"syntax":  {"return (", "30s", "syntax"},
		"timeout": {"for (;;) {}", "100ms", "timeout"},
		"thrown":  {"throw new TypeError('no')", "30s", "runtime"},
	} {
		var failed run.Outcome
		w.do("POST", "/v1/runs", map[string]any{"userId": "alice", "code": c.code, "timeout": c.timeout}).want(http.StatusOK).json(&failed)
		if failed.Status != "failed" || failed.Error == nil || failed.Error.Kind != c.kind {
			t.Errorf("%s: %+v", name, failed)
		}
	}
	for _, bad := range []map[string]any{
		{"userId": "alice"},
		{"userId": "alice", "code": ""},
		{"userId": "alice", "code": 5},
		{"userId": "alice", "code": "return 1", "sandbox": "none"},
		{"userId": "alice", "code": "return 1", "timeout": "soon"},
		{"userId": strings.Repeat("x", 101), "code": "return 1"},
		{"userId": "alice", "code": "return 1", "sessionId": "../x"},
	} {
		w.do("POST", "/v1/runs", bad).want(http.StatusBadRequest)
	}
}

// Files stay in a session until the session is deleted.
func TestSessions(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{})
	r := w.do("POST", "/v1/sessions", map[string]string{"userId": "alice"}).want(http.StatusCreated)
	id := r.field("id")
	if r.header.Get("Location") != "/v1/sessions/"+id || r.field("userId") != "alice" {
		t.Errorf("got %s", r.body)
	}
	w.do("POST", "/v1/sessions", map[string]string{"userId": "alice", "id": "mine"}).want(http.StatusCreated)
	w.do("POST", "/v1/sessions", map[string]string{"userId": "alice", "id": "mine"}).want(http.StatusConflict)
	w.do("POST", "/v1/sessions", map[string]string{"userId": "alice", "id": "a/b"}).want(http.StatusBadRequest)
	run := func(code string) string {
		return w.do("POST", "/v1/runs", map[string]string{"userId": "alice", "sessionId": id, "code": code}).want(http.StatusOK).body
	}
	run("await fs.writeFile('/workspace/a.txt', 'kept')")
	if got := run("return await fs.readFile('/workspace/a.txt')"); !strings.Contains(got, `"output":"kept"`) {
		t.Errorf("got %s", got)
	}
	held := w.do("POST", "/v1/tasks", map[string]string{"userId": "alice", "sessionId": id, "task": "HOLD<<x>>"}).want(http.StatusAccepted).field("id")
	var s task.Session
	if w.do("GET", "/v1/sessions/"+id, nil).want(http.StatusOK).json(&s); s.Tasks != 1 {
		t.Errorf("got %+v", s)
	}
	w.do("DELETE", "/v1/sessions/"+id, nil).want(http.StatusNoContent)
	for _, path := range []string{"/v1/sessions/" + id, "/v1/tasks/" + held, "/v1/tasks/" + held + "/events"} {
		w.do("GET", path, nil).want(http.StatusNotFound)
	}
	w.do("DELETE", "/v1/sessions/"+id, nil).want(http.StatusNotFound)
	if runs := w.do("GET", "/v1/runs", nil).want(http.StatusOK).body; strings.Contains(runs, id) {
		t.Errorf("its runs are left: %s", runs)
	}
}

func TestSchedules(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{})
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	once := w.do("POST", "/v1/schedules", map[string]any{"userId": "alice", "task": "SAY<<x>>", "runAt": at, "unknown": 1}).want(http.StatusCreated)
	var s task.Schedule
	w.do("POST", "/v1/schedules", map[string]any{"userId": "alice", "task": "SAY<<x>>", "cron": "0 9 * * 1-5", "timeZone": "Europe/Berlin"}).
		want(http.StatusCreated).json(&s)
	if s.Next == nil || s.Next.Before(time.Now()) || s.Zone != "Europe/Berlin" {
		t.Errorf("got %+v", s)
	}
	soon := w.do("POST", "/v1/schedules", map[string]any{"userId": "alice", "task": "SAY<<x>>", "runAt": time.Now(), "sessionId": "mine"}).want(http.StatusCreated)
	w.eventually("its task has ended", func() bool {
		return strings.Contains(w.do("GET", "/v1/tasks?sessionId=mine&status=succeeded", nil).body, `"id":"task_`)
	})
	var all struct{ Schedules []task.Schedule }
	w.do("GET", "/v1/schedules?userId=alice", nil).want(http.StatusOK).json(&all)
	if len(all.Schedules) < 2 {
		t.Errorf("got %+v", all)
	}
	id := once.field("id")
	if once.header.Get("Location") != "/v1/schedules/"+id || soon.field("id") == id {
		t.Errorf("it is at %s", once.header.Get("Location"))
	}
	w.do("DELETE", "/v1/schedules/"+id, nil).want(http.StatusNoContent)
	w.do("DELETE", "/v1/schedules/"+id, nil).want(http.StatusNotFound)
	for _, bad := range []map[string]any{
		{"userId": "alice", "task": "x"},
		{"userId": "alice", "task": "x", "cron": "often"},
		{"userId": "alice", "task": "x", "cron": "@daily", "runAt": at},
		{"userId": "alice", "task": "x", "cron": "@daily", "timeZone": "Nowhere/City"},
		{"userId": "alice", "cron": "@daily"},
		{"userId": "alice", "task": "x", "cron": "* * * * * *"},
	} {
		w.do("POST", "/v1/schedules", bad).want(http.StatusBadRequest)
	}
}

// The endpoints of skills give access to files of the user's skills, and to nothing else.
func TestSkills(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{keys: true})
	alice, anyone := w.key("alice"), w.key("")
	const text = "/**\n * Description: adds\n */\nexport default (a, b) => a + b\n"
	w.as(alice, "PUT", "/v1/skills/math/add.js", text, "Content-Type", "text/plain").want(http.StatusNoContent)
	if r := w.as(alice, "GET", "/v1/skills/math/add.js", nil).want(http.StatusOK); r.body != text || r.header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("got %q %s", r.body, r.header)
	}
	var list api.SkillList
	w.as(anyone, "GET", "/v1/skills?userId=alice", nil).want(http.StatusOK).json(&list)
	if len(list.Skills) != 1 || list.Skills[0].Path != "/skills/math/add.js" {
		t.Errorf("got %+v", list)
	}
	w.as(anyone, "GET", "/v1/skills", nil).want(http.StatusBadRequest) // the request names no user
	if out := w.as(alice, "POST", "/v1/runs", map[string]string{"code": "import add from '/skills/math/add.js'\nreturn add(2, 3)"}).want(http.StatusOK); !strings.Contains(out.body, `"output":5`) {
		t.Errorf("got %s", out.body)
	}
	w.as(alice, "DELETE", "/v1/skills/math", nil).want(http.StatusNoContent)
	w.as(alice, "GET", "/v1/skills/math/add.js", nil).want(http.StatusNotFound)
	w.as(alice, "DELETE", "/v1/skills/math", nil).want(http.StatusNotFound)
	w.as(alice, "PUT", "/v1/skills/kept.js", text).want(http.StatusNoContent)
	for _, path := range []string{
		"/v1/skills/", "/v1/skills/.", "/v1/skills/%2e", "/v1/skills/..", "/v1/skills/%2e%2e", "/v1/skills/%2e%2e/%2e%2e/etc/passwd", "/v1/skills/a%2f..%2f..%2fx",
		"/v1/skills/..%5c..%5cx", "/v1/skills/%00", "/v1/skills/a%00b.js", "/v1/skills//etc/passwd", "/v1/skills/C:%5cx", "/v1/skills/CON",
		"/v1/skills/" + strings.Repeat("d/", 40) + "x", "/v1/skills/" + strings.Repeat("x", 300), "/v1/skills/%ff%fe", "/v1/skills/.harness-x", "/v1/skills/../../v1/tasks",
	} {
		for _, method := range []string{"GET", "PUT", "DELETE"} {
			body := ""
			if method == "PUT" {
				body = "x"
			}
			req, err := http.NewRequest(method, w.url, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.URL.Opaque = path // the path is sent unchanged
			req.Header.Set("Authorization", "Bearer "+alice)
			if r := w.send(req); r.status < 300 {
				t.Errorf("%s %s: %d %s", method, path, r.status, r.body)
			} else if strings.Contains(r.body, "root:") || strings.Contains(r.body, os.TempDir()) {
				t.Errorf("%s %s tells of the host: %s", method, path, r.body)
			}
		}
	}
	w.as(alice, "GET", "/v1/skills/kept.js", nil).want(http.StatusOK)
}

func TestToolsAndServers(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{
		servers: []*config.MCPServer{demoServer(t, "database"), badServer(t, "dying", misbehave.Dies)},
		keys:    true,
	})
	user, admin := w.key("alice"), w.key("", "admin")
	var tools api.ToolList
	w.as(user, "GET", "/v1/tools", nil).want(http.StatusOK).json(&tools)
	if len(tools.Tools) == 0 || tools.Tools[0].Server != "database" {
		t.Fatalf("got %+v", tools)
	}
	if none := w.as(user, "GET", "/v1/tools?server=other", nil).want(http.StatusOK); none.body != "{\"tools\":[]}\n" {
		t.Errorf("got %s", none.body)
	}
	name := tools.Tools[0].Name
	if r := w.as(user, "GET", "/v1/tools/"+name, nil).want(http.StatusOK); !strings.Contains(r.body, `"inputSchema":{`) || !strings.Contains(r.body, `"schema":{`) {
		t.Errorf("got %s", r.body)
	}
	if r := w.as(user, "GET", "/v1/tools/search?q=query+the+database&limit=2", nil).want(http.StatusOK); !strings.Contains(r.body, "database__") {
		t.Errorf("got %s", r.body)
	}
	w.as(user, "GET", "/v1/tools/search", nil).want(http.StatusBadRequest)
	w.as(user, "GET", "/v1/tools/search?q=x&limit=0", nil).want(http.StatusBadRequest)
	w.as(user, "GET", "/v1/tools/none__such", nil).want(http.StatusNotFound)
	if r := w.as(user, "GET", "/v1/tools.d.ts", nil).want(http.StatusOK); !strings.Contains(r.body, "Promise<") {
		t.Errorf("got %s", r.body)
	}
	w.as(user, "GET", "/v1/tools.d.ts?server=none", nil).want(http.StatusNotFound)

	// Only admins see what a server writes before it exits.
	if r := w.as(user, "GET", "/v1/servers", nil).want(http.StatusOK); strings.Contains(r.body, "cannot open database") || strings.Contains(r.body, `"pid"`) {
		t.Errorf("a user is told: %s", r.body)
	}
	if r := w.as(admin, "GET", "/v1/servers", nil).want(http.StatusOK); !strings.Contains(r.body, "cannot open database") || !strings.Contains(r.body, `"pid"`) {
		t.Errorf("an admin is told: %s", r.body)
	}
	w.as(admin, "POST", "/v1/servers/dying/reconnect", nil).want(http.StatusBadGateway)
	w.as(admin, "POST", "/v1/servers/database/reconnect", nil).want(http.StatusOK)
	w.as(admin, "POST", "/v1/servers/none/reconnect", nil).want(http.StatusNotFound)
	w.as(admin, "DELETE", "/v1/servers/database", nil).want(http.StatusNoContent)
	w.as(admin, "DELETE", "/v1/servers/database", nil).want(http.StatusNotFound)
	if r := w.as(user, "GET", "/v1/tools", nil).want(http.StatusOK); strings.Contains(r.body, "database__") {
		t.Errorf("its tools are left: %s", r.body)
	}
	added := map[string]any{"name": "remote", "url": "http://127.0.0.1:1/mcp", "headers": map[string]string{"Authorization": "Bearer x"}}
	w.as(admin, "POST", "/v1/servers", added).want(http.StatusCreated)
	w.as(admin, "POST", "/v1/servers", added).want(http.StatusConflict)
	w.as(admin, "POST", "/v1/servers", map[string]any{"name": "local", "command": "/bin/true"}).want(http.StatusForbidden)
	for _, bad := range []map[string]any{
		{"name": "x"},
		{"url": "http://127.0.0.1:1/"},
		{"name": "x y", "url": "http://127.0.0.1:1/"},
		{"name": "x", "url": "nonsense"},
		{"name": "x", "url": "file:///etc/passwd"},
		{"name": "x", "url": "http://127.0.0.1:1/", "transport": "carrier pigeon"},
		{"name": "x", "openapi": "/etc/passwd"},
		{"name": "x", "openapi": map[string]any{"openapi": "3.1.0"}},
		{"name": "x", "url": "http://127.0.0.1:1/", "security": map[string]string{"a": "b"}},
	} {
		w.as(admin, "POST", "/v1/servers", bad).want(http.StatusBadRequest)
	}
	for _, line := range []string{`"change":"added"`, `"change":"removed"`, `"change":"reconnected"`} {
		if !strings.Contains(w.log.String(), line) {
			t.Errorf("the audit has no %s", line)
		}
	}
	if strings.Contains(w.log.String(), "Bearer x") {
		t.Error("a credential is in the log")
	}
}

// POST /v1/servers adds a server for an OpenAPI document, which is given by its address or as JSON. The operations are called with the given credentials.
func TestAddOpenAPI(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{keys: true})
	admin := w.key("", auth.Admin)
	var service *httptest.Server
	document := func() string {
		return `{"openapi": "3.1.0", "info": {"title": "Pets", "version": "1"}, "servers": [{"url": "` + service.URL + `"}],
			"components": {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}}, "security": [{"key": []}],
			"paths": {"/pets/{id}": {"get": {"operationId": "getPet", "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}],
			"responses": {"200": {"description": "A pet", "content": {"application/json": {"schema": {"type": "object"}}}}}}}}}`
	}
	service = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/openapi.json" {
			_, _ = io.WriteString(rw, document())
			return
		}
		_ = json.NewEncoder(rw).Encode(map[string]string{"path": r.URL.Path, "key": r.Header.Get("X-Key")})
	}))
	t.Cleanup(service.Close)
	for name, given := range map[string]any{"address": service.URL + "/openapi.json", "text": document(), "object": json.RawMessage(document())} {
		w.as(admin, "POST", "/v1/servers", map[string]any{"name": name, "openapi": given, "security": map[string]string{"key": "s3cret-" + name}}).want(http.StatusCreated)
		r := w.as(admin, "POST", "/v1/runs", map[string]any{"userId": "ann", "code": "return await callMCPTool('" + name + "__getPet', {id: 'rex'})"}).want(http.StatusOK)
		if !strings.Contains(r.body, "/pets/rex") || strings.Contains(r.body, "s3cret") {
			t.Errorf("%s: %s", name, r.body)
		}
		w.as(admin, "DELETE", "/v1/servers/"+name, nil).want(http.StatusNoContent)
	}
	if strings.Contains(w.log.String(), "s3cret") {
		t.Error("a credential is in the log")
	}
}
