package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/config"
)

// secret is in everything that is alice's.
const secret = "alices-secret"

// belongings are what a user has.
type belongings struct {
	key, session, ended, held, queued, run, taskRun, schedule, skill string
}

// furnish gives a user one of everything, with a mark in it.
func (w *world) furnish(user, mark string) belongings {
	w.t.Helper()
	b := belongings{key: w.key(user), session: user + "-session", skill: "/v1/skills/" + mark + ".js"}
	w.as(b.key, "POST", "/v1/sessions", map[string]string{"id": b.session}).want(http.StatusCreated)
	submit := func(task string, more map[string]any) string {
		body := map[string]any{"task": task}
		for k, v := range more {
			body[k] = v
		}
		return w.as(b.key, "POST", "/v1/tasks", body).want(http.StatusAccepted).field("id")
	}
	b.ended = submit("RUN<<return '"+mark+"'>>", map[string]any{"sessionId": b.session})
	b.taskRun = w.task(b.ended, "Authorization", "Bearer "+b.key).Runs[0]
	b.queued = submit("SAY<<"+mark+">>", map[string]any{"runAt": time.Now().Add(time.Hour)})
	asked := len(w.model.Requests())
	b.held = submit("HOLD<<"+mark+">>", nil)
	w.eventually("the task is being worked", func() bool { return len(w.model.Requests()) > asked })
	b.run = w.as(b.key, "POST", "/v1/runs", map[string]string{"code": "return '" + mark + "'", "sessionId": b.session}).want(http.StatusOK).field("runId")
	b.schedule = w.as(b.key, "POST", "/v1/schedules", map[string]string{"task": mark, "cron": "@daily"}).want(http.StatusCreated).field("id")
	w.as(b.key, "PUT", b.skill, "export default '"+mark+"'").want(http.StatusNoContent)
	return b
}

// all is everything that a user can see, as text.
func (w *world) all(b belongings) string {
	w.t.Helper()
	var text strings.Builder
	for _, path := range []string{
		"/v1/tasks", "/v1/sessions", "/v1/runs", "/v1/schedules", "/v1/skills", b.skill, "/v1/tasks/" + b.ended, "/v1/tasks/" + b.held,
		"/v1/tasks/" + b.queued, "/v1/runs/" + b.run, "/v1/runs/" + b.run + "/journal", "/v1/sessions/" + b.session,
	} {
		fmt.Fprintf(&text, "%s\n%s\n", path, w.as(b.key, "GET", path, nil).want(http.StatusOK).body)
	}
	return text.String()
}

// attempt is a request that bob makes.
type attempt struct {
	path string
	body any
	want []int
}

var (
	hidden = []int{http.StatusNotFound, http.StatusForbidden}
	fine   = []int{http.StatusOK, http.StatusAccepted, http.StatusCreated, http.StatusNoContent}
)

// attempts are what bob tries at every operation: with alice's ids, in alice's name, and for himself.
func attempts(alice belongings, token string) map[string][]attempt {
	inHerName := map[string]any{"userId": "alice", "task": "SAY<<x>>", "code": "return 1", "cron": "@daily", "id": "bobs-own"}
	inHerSession := map[string]any{"sessionId": alice.session, "task": "SAY<<x>>", "code": "return await fs.listFiles('/workspace')", "cron": "@daily"}
	own := map[string]any{"task": "SAY<<x>>", "code": "return await fs.listFiles('/skills')", "cron": "@daily"}
	asHer := "?userId=alice"
	inSession := "?sessionId=" + alice.session
	return map[string][]attempt{
		"POST /task":        {{"/task", inHerName, hidden}, {"/task", inHerSession, hidden}, {"/task", own, fine}},
		"POST /task/stream": {{"/task/stream", inHerName, hidden}, {"/task/stream", inHerSession, hidden}, {"/task/stream", own, fine}},
		"GET /health":       {{"/health", nil, fine}},
		"GET /ready":        {{"/ready", nil, fine}},
		"GET /metrics":      {{"/metrics", nil, hidden}},
		"POST /internal/mcp-call": {
			{"/internal/mcp-call", map[string]any{"authToken": token, "toolName": "x", "userId": "alice"}, hidden},
			{"/internal/mcp-call", map[string]any{"authToken": alice.key, "toolName": "x"}, hidden},
		},
		"POST /v1/tasks": {{"/v1/tasks", inHerName, hidden}, {"/v1/tasks", inHerSession, hidden}, {"/v1/tasks", own, fine}},
		"GET /v1/tasks": {
			{"/v1/tasks", nil, fine},
			{"/v1/tasks" + asHer, nil, hidden},
			{"/v1/tasks" + inSession, nil, fine},
			{"/v1/tasks?userId=", nil, fine},
			{"/v1/tasks?userId=bob&userId=alice", nil, fine},
			{"/v1/tasks?limit=1000&status=succeeded", nil, fine},
			{"/v1/tasks?cursor=999999", nil, fine},
		},
		"GET /v1/tasks/{id}": {{"/v1/tasks/" + alice.ended, nil, hidden}, {"/v1/tasks/" + alice.held, nil, hidden}},
		"POST /v1/tasks/{id}/cancel": {
			{"/v1/tasks/" + alice.held + "/cancel", nil, hidden}, {"/v1/tasks/" + alice.queued + "/cancel", nil, hidden}, {"/v1/tasks/" + alice.ended + "/cancel", nil, hidden},
		},
		"GET /v1/tasks/{id}/events":    {{"/v1/tasks/" + alice.ended + "/events", nil, hidden}, {"/v1/tasks/" + alice.held + "/events?after=0", nil, hidden}},
		"GET /v1/tasks/{id}/events/ws": {{"/v1/tasks/" + alice.ended + "/events/ws", nil, hidden}, {"/v1/tasks/" + alice.held + "/ws", nil, hidden}},
		"POST /v1/sessions": {
			{"/v1/sessions", inHerName, hidden},
			{"/v1/sessions", map[string]string{"id": alice.session}, []int{http.StatusConflict}},
			{"/v1/sessions", map[string]string{}, fine},
		},
		"GET /v1/sessions":         {{"/v1/sessions", nil, fine}, {"/v1/sessions" + asHer, nil, hidden}},
		"GET /v1/sessions/{id}":    {{"/v1/sessions/" + alice.session, nil, hidden}},
		"DELETE /v1/sessions/{id}": {{"/v1/sessions/" + alice.session, nil, hidden}},
		"POST /v1/runs":            {{"/v1/runs", inHerName, hidden}, {"/v1/runs", inHerSession, hidden}, {"/v1/runs", own, fine}},
		"GET /v1/runs":             {{"/v1/runs", nil, fine}, {"/v1/runs" + asHer, nil, hidden}, {"/v1/runs" + inSession, nil, fine}},
		"GET /v1/runs/{id}":        {{"/v1/runs/" + alice.run, nil, hidden}, {"/v1/runs/" + alice.taskRun, nil, hidden}},
		"GET /v1/runs/{id}/journal": {
			{"/v1/runs/" + alice.run + "/journal", nil, hidden}, {"/v1/runs/" + alice.taskRun + "/journal", nil, hidden},
		},
		"POST /v1/runs/{id}/replay": {{"/v1/runs/" + alice.run + "/replay", nil, hidden}, {"/v1/runs/" + alice.run + "/replay?force=true", nil, hidden}},
		"GET /v1/tools":             {{"/v1/tools", nil, fine}},
		"GET /v1/tools/search":      {{"/v1/tools/search?q=secret", nil, fine}},
		"GET /v1/tools/{name}":      {{"/v1/tools/bad__echo", nil, fine}},
		"GET /v1/tools.d.ts":        {{"/v1/tools.d.ts", nil, fine}},
		"GET /v1/servers":           {{"/v1/servers", nil, fine}},
		"POST /v1/servers":          {{"/v1/servers", map[string]string{"name": "evil", "url": "http://127.0.0.1:1/"}, hidden}},
		"DELETE /v1/servers/{name}": {{"/v1/servers/bad", nil, hidden}},
		"POST /v1/servers/{name}/reconnect": {
			{"/v1/servers/bad/reconnect", nil, hidden},
		},
		"GET /v1/skills": {{"/v1/skills", nil, fine}, {"/v1/skills" + asHer, nil, hidden}, {"/v1/skills?userId=..%2Falice", nil, hidden}},
		"GET /v1/skills/{path}": {
			{alice.skill, nil, hidden}, {alice.skill + asHer, nil, hidden}, {"/v1/skills/%2e%2e/alice/" + secret + ".js", nil, []int{http.StatusBadRequest}},
		},
		"PUT /v1/skills/{path}":    {{alice.skill + asHer, "overwritten", hidden}, {"/v1/skills/%2e%2e/alice/" + secret + ".js", "x", []int{http.StatusBadRequest}}},
		"DELETE /v1/skills/{path}": {{alice.skill + asHer, nil, hidden}, {alice.skill, nil, hidden}},
		"POST /v1/schedules":       {{"/v1/schedules", inHerName, hidden}, {"/v1/schedules", inHerSession, hidden}, {"/v1/schedules", own, fine}},
		"GET /v1/schedules":        {{"/v1/schedules", nil, fine}, {"/v1/schedules" + asHer, nil, hidden}},
		"DELETE /v1/schedules/{id}": {
			{"/v1/schedules/" + alice.schedule, nil, hidden},
		},
	}
}

// Two users never see, change or use anything of each other, at any operation of the document. An operation without a
// case here fails the test.
func TestIsolation(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{keys: true, servers: []*config.MCPServer{badServer(t, "bad", "normal")}})
	alice := w.furnish("alice", secret)
	bob := w.furnish("bob", "bobs-own")
	ids := []string{alice.ended, alice.held, alice.queued, alice.run, alice.taskRun, alice.schedule, alice.session}
	before := w.all(alice)
	cases := attempts(alice, "hc1.x.y")
	for _, o := range w.contract.operations() {
		name := o.Method + " " + o.Path
		tries, there := cases[name]
		if !there {
			t.Errorf("%s has no case: say here what another user gets", name)
		}
		delete(cases, name)
		for _, try := range tries {
			r := w.as(bob.key, o.Method, try.path, try.body)
			if !slices.Contains(try.want, r.status) {
				t.Errorf("%s %s: bob got %d, want one of %v: %.300s", o.Method, try.path, r.status, try.want, r.body)
			}
			leaked := slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(r.body, id) })
			if leaked || strings.Contains(r.body, secret) {
				t.Errorf("%s %s: bob was told what is alice's: %.300s", o.Method, try.path, r.body)
			}
			if r.status == http.StatusNotFound || r.status == http.StatusForbidden {
				none := absentLike(try.path, alice)
				if other := w.as(bob.key, o.Method, none, try.body); none != try.path && (other.status != r.status || other.body != r.body) {
					t.Errorf("%s %s: bob can tell what is alice's from what is not there: %s and %s", o.Method, try.path, r.body, other.body)
				}
			}
			if o.Public {
				continue
			}
			if r := w.do(o.Method, try.path, try.body); r.status != http.StatusUnauthorized || r.header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s %s: nobody got %d %s", o.Method, try.path, r.status, r.body)
			}
		}
	}
	for name := range cases {
		t.Errorf("%s is a case for what the document does not have", name)
	}
	if diff := cmp.Diff(before, w.all(alice)); diff != "" {
		t.Errorf("alice's things have changed: %s", diff)
	}
}

// absentLike is a path to what nobody has.
func absentLike(path string, b belongings) string {
	for _, id := range []string{b.ended, b.held, b.queued, b.run, b.taskRun, b.schedule, b.session, secret} {
		path = strings.ReplaceAll(path, id, "none")
	}
	return path
}

// Lists show a user's own things, and to those who may act for anybody, everybody's or one's.
func TestWhoSeesWhat(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{keys: true})
	alice, bob := w.key("alice"), w.key("bob")
	anyone, admin := w.key(""), w.key("root", auth.Admin)
	for _, key := range []string{alice, bob} {
		w.as(key, "POST", "/v1/runs", map[string]string{"code": "return 1"}).want(http.StatusOK)
	}
	for name, c := range map[string]struct {
		key, query string
		users      []string
		status     int
	}{
		"alice":             {alice, "", []string{"alice"}, 200},
		"alice, named":      {alice, "?userId=alice", []string{"alice"}, 200},
		"alice asks bob's":  {alice, "?userId=bob", nil, 403},
		"anyone":            {anyone, "", []string{"bob", "alice"}, 200},
		"anyone asks bob's": {anyone, "?userId=bob", []string{"bob"}, 200},
		"admin":             {admin, "", nil, 200}, // of their own
		"admin asks bob's":  {admin, "?userId=bob", []string{"bob"}, 200},
	} {
		var list struct{ Runs []struct{ UserID string } }
		w.as(c.key, "GET", "/v1/runs"+c.query, nil).want(c.status).json(&list)
		var users []string
		for _, r := range list.Runs {
			users = append(users, r.UserID)
		}
		if !slices.Equal(users, c.users) {
			t.Errorf("%s: %v, want %v", name, users, c.users)
		}
	}
	// A key of nobody in particular has to say for whom it acts.
	w.as(anyone, "POST", "/task", map[string]string{"task": "x"}).want(http.StatusBadRequest)
	w.as(anyone, "POST", "/task", map[string]string{"task": "SAY<<x>>", "userId": "carol"}).want(http.StatusOK)
	w.as(alice, "POST", "/task", map[string]string{"task": "SAY<<x>>", "userId": "alice"}).want(http.StatusOK)
	w.as(alice, "POST", "/task", map[string]string{"task": "SAY<<x>>", "userId": "Alice"}).want(http.StatusForbidden)
}

// What takes a role is refused to those who do not have it.
func TestRoles(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{keys: true, servers: []*config.MCPServer{badServer(t, "bad", "normal")}})
	routes := []attempt{
		{"GET /metrics", nil, nil},
		{"POST /v1/servers", map[string]string{"name": "a", "url": "http://127.0.0.1:1/"}, nil},
		{"POST /v1/servers/bad/reconnect", nil, nil},
		{"DELETE /v1/servers/bad", nil, nil},
	}
	for _, c := range []struct {
		roles  []auth.Role
		status []int
	}{
		{[]auth.Role{auth.User}, []int{403}},
		{[]auth.Role{auth.Approver}, []int{403}},
		{[]auth.Role{auth.User, auth.Approver}, []int{403}},
		{[]auth.Role{auth.Admin}, []int{200, 201, 204}},
	} {
		key := w.key("", c.roles...)
		for _, route := range routes {
			method, path, _ := strings.Cut(route.path, " ")
			if r := w.as(key, method, path, route.body); !slices.Contains(c.status, r.status) {
				t.Errorf("%v: %s: %d %s", c.roles, route.path, r.status, r.body)
			}
		}
		// An approver may do what users may.
		w.as(key, "POST", "/v1/runs", map[string]string{"userId": "alice", "code": "return 1"}).want(http.StatusOK)
	}
}

// Credentials that are not good any more, or never were.
func TestCredentials(t *testing.T) {
	t.Parallel()
	idp := newIssuer(t)
	w := setup(t, setting{keys: true, issuer: idp.issuer(t)})
	revoked, value, err := w.keys.Create(t.Context(), auth.NewKey{User: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	w.as(value, "GET", "/v1/tasks", nil).want(http.StatusOK)
	if err := w.keys.Revoke(t.Context(), revoked.ID); err != nil {
		t.Fatal(err)
	}
	_, expired, err := w.keys.Create(t.Context(), auth.NewKey{User: "alice", TTL: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	good := w.key("alice")
	other := newIssuer(t)
	for name, header := range map[string]string{
		"none": "", "empty": "Bearer ", "another scheme": "Basic " + good, "revoked": "Bearer " + value, "expired": "Bearer " + expired,
		"mistyped": "Bearer " + good[:len(good)-1] + "!", "unknown": "Bearer hk_" + strings.Repeat("0", 38), "a token of nobody": "Bearer abc.def.ghi",
		"a token of another issuer": "Bearer " + other.token(t, map[string]any{"iss": idp.url}),
		"a token of yesterday":      "Bearer " + idp.token(t, map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}),
		"a token for another":       "Bearer " + idp.token(t, map[string]any{"aud": "other"}),
	} {
		r := w.do("GET", "/v1/tasks", nil, "Authorization", header).want(http.StatusUnauthorized)
		if r.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: no challenge", name)
		}
		if parts := strings.Fields(header); len(parts) == 2 && strings.Contains(r.body, parts[1]) {
			t.Errorf("%s: the answer repeats it: %s", name, r.body)
		}
	}
	// Tokens act for their subject, with the roles they tell.
	alice := idp.token(t, nil)
	w.as(alice, "POST", "/v1/runs", map[string]string{"code": "return 1"}).want(http.StatusOK)
	w.as(alice, "POST", "/v1/runs", map[string]string{"code": "return 1", "userId": "bob"}).want(http.StatusForbidden)
	w.as(alice, "GET", "/metrics", nil).want(http.StatusForbidden)
	w.as(idp.token(t, map[string]any{"roles": []string{"admin"}}), "GET", "/metrics", nil).want(http.StatusOK)
	w.as(idp.token(t, map[string]any{"roles": []string{"gardener"}}), "GET", "/v1/tasks", nil).want(http.StatusForbidden)
	var runs struct{ Runs []struct{ UserID string } }
	if w.as(alice, "GET", "/v1/runs", nil).want(http.StatusOK).json(&runs); len(runs.Runs) != 1 || runs.Runs[0].UserID != "alice" {
		t.Errorf("got %+v", runs)
	}
	log := w.log.String()
	if !strings.Contains(log, `"eventType":"auth_failure"`) || !strings.Contains(log, revoked.ID) {
		t.Error("the audit does not tell of failures, or not whose key it was")
	}
	for _, secret := range []string{value, expired, good, alice} {
		if strings.Contains(log, secret) {
			t.Error("a credential is in the log")
		}
	}
}

// Only a capability of a run opens the internal call, and it is the run's user who calls.
func TestMCPCall(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{keys: true, servers: []*config.MCPServer{badServer(t, "bad", "normal")}})
	issue := func(run string) string {
		t.Helper()
		token, err := w.caps.Issue(t.Context(), auth.Capability{RunID: run, User: "alice", Session: "s1"})
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	call := func(token, tool string, input any) *reply {
		return w.do("POST", "/internal/mcp-call", map[string]any{"authToken": token, "toolName": tool, "input": input})
	}
	token := issue("run_1")
	r := call(token, "bad__echo", map[string]any{"alpha": 1, "quote": "'\"`${x}\n\u2028"}).want(http.StatusOK)
	var got map[string]any
	if r.json(&got); got["alpha"] != 1.0 || got["quote"] != "'\"`${x}\n\u2028" {
		t.Errorf("got %s", r.body)
	}
	// As the original's guides have it: the token as a bearer, the input as params.
	w.do("POST", "/internal/mcp-call", map[string]any{"toolName": "bad__echo", "params": map[string]any{"alpha": 2}}, "Authorization", "Bearer "+token).
		want(http.StatusOK).json(&got)
	if got["alpha"] != 2.0 {
		t.Errorf("got %v", got)
	}
	var runs struct {
		Runs []struct{ UserID, SessionID string }
	}
	w.as(w.key("alice"), "GET", "/v1/runs", nil).want(http.StatusOK).json(&runs)
	if len(runs.Runs) != 2 || runs.Runs[0].SessionID != "s1" {
		t.Errorf("the calls are recorded as %+v", runs)
	}
	if r := call(token, "bad__error", map[string]any{}).want(http.StatusInternalServerError); !strings.Contains(r.field("error"), "no such customer") {
		t.Errorf("got %s", r.body)
	}
	call(token, "bad__none", map[string]any{}).want(http.StatusNotFound)
	for _, bad := range []any{"", "nonsense", map[string]any{}, map[string]any{"authToken": token}, map[string]any{"toolName": "bad__echo"}, map[string]any{"authToken": 1, "toolName": "x"}} {
		if r := w.do("POST", "/internal/mcp-call", bad).want(http.StatusBadRequest); r.field("error") != "authToken and toolName are required" {
			t.Errorf("%v: %s", bad, r.body)
		}
	}
	ended := issue("run_2")
	w.caps.Revoke("run_2")
	others, err := auth.NewCapabilities(nil, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	forged, _ := others.Issue(t.Context(), auth.Capability{RunID: "run_1", User: "alice"})
	old, _ := w.caps.Issue(t.Context(), auth.Capability{RunID: "run_3", User: "alice", Expires: time.Now().Add(-time.Second)})
	for name, token := range map[string]string{
		"revoked": ended, "forged": forged, "expired": old, "changed": token[:len(token)-2] + "xx", "a key": w.key("alice", auth.Admin), "the original's": "session_alice_1700000000000",
	} {
		if r := call(token, "bad__echo", map[string]any{}).want(http.StatusForbidden); r.field("error") != "Invalid auth token" {
			t.Errorf("%s: %s", name, r.body)
		}
	}
	if n := strings.Count(w.log.String(), `"eventType":"auth_failure"`); n != 6 {
		t.Errorf("the audit tells of %d failures", n)
	}
}

// In a harness without keys, users are told apart by what requests say, and nothing mixes by itself.
func TestOpenUsers(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{})
	for _, user := range []string{"alice", "Alice", "a/../alice", "..", "alice ", "ali\u00adce", "елена", "🙂", "a b&c=d"} {
		body := map[string]string{"userId": user, "code": "await fs.writeFile('/skills/own.txt', " + string(quote(user)) + ")\nreturn await fs.readFile('/skills/own.txt')"}
		r := w.do("POST", "/v1/runs", body)
		if user == "ali\u00adce" { // a character that nobody sees
			r.want(http.StatusBadRequest)
			continue
		}
		r.want(http.StatusOK)
		if got := w.do("GET", "/v1/skills/own.txt?userId="+url.QueryEscape(user), nil).want(http.StatusOK); got.body != user {
			t.Errorf("%q has the file of %q", user, got.body)
		}
	}
}

func quote(s string) []byte {
	text, _ := json.Marshal(s)
	return text
}
