package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/run"
)

// secret is part of everything that alice owns.
const secret = "alices-secret"

// belongings holds the key of a user, and the ids of what the user owns.
type belongings struct {
	key, session, ended, held, queued, run, taskRun, schedule, skill, approval, doubt, file string
}

// furnish creates one thing of each kind for a user. Each of them contains mark.
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
	var waiting run.Outcome
	w.as(b.key, "POST", "/v1/runs", map[string]string{"code": asks(1) + "// " + mark, "sessionId": b.session}).want(http.StatusOK).json(&waiting)
	b.approval = waiting.Approval.ID
	b.doubt = w.as(b.key, "POST", "/v1/runs", map[string]string{"code": doubtful(mark), "sessionId": b.session}).want(http.StatusOK).field("runId")
	w.as(b.key, "PUT", b.skill, "export default '"+mark+"'").want(http.StatusNoContent)
	b.file = "/v1/sessions/" + b.session + "/files/" + mark + ".txt"
	w.as(b.key, "PUT", b.file, mark).want(http.StatusCreated)
	return b
}

// all returns everything that a user can see, as text.
func (w *world) all(b belongings) string {
	w.t.Helper()
	var text strings.Builder
	for _, at := range []string{
		"/v1/tasks", "/v1/sessions", "/v1/runs", "/v1/schedules", "/v1/skills", b.skill, "/v1/tasks/" + b.ended, "/v1/tasks/" + b.held,
		"/v1/tasks/" + b.queued, "/v1/runs/" + b.run, "/v1/runs/" + b.run + "/journal", "/v1/sessions/" + b.session,
		"/v1/approvals", "/v1/approvals/" + b.approval, "/v1/doubts", "/v1/runs/" + b.doubt + "/calls",
		b.file, path.Dir(b.file),
	} {
		fmt.Fprintf(&text, "%s\n%s\n", at, w.as(b.key, "GET", at, nil).want(http.StatusOK).body)
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
	// ownOrNone holds the statuses of requests whose result depends on what bob did before.
	ownOrNone = []int{http.StatusOK, http.StatusCreated, http.StatusNoContent, http.StatusNotFound, http.StatusConflict}
	fine      = []int{http.StatusOK, http.StatusAccepted, http.StatusCreated, http.StatusNoContent}
)

// attempts returns the requests that bob makes at every operation: with alice's ids, in alice's name, and for himself. Each user has their own session ids:
// with the id of alice's session, bob gets a session of his own. bobs is the id of a run of bob.
func attempts(alice belongings, token, bobs string) map[string][]attempt {
	inHerName := map[string]any{"userId": "alice", "task": "SAY<<x>>", "code": "return 1", "cron": "@daily", "id": "bobs-own"}
	sameID := map[string]any{"sessionId": alice.session, "task": "SAY<<x>>", "code": "return await fs.listFiles('/workspace')", "cron": "@daily"}
	own := map[string]any{"task": "SAY<<x>>", "code": "return await fs.listFiles('/skills')", "cron": "@daily"}
	asHer, skill := "?userId=alice", strings.TrimPrefix(alice.skill, "/v1/skills/")
	inSession := "?sessionId=" + alice.session
	execute := func(args map[string]any) map[string]any {
		return map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{"name": "execute_code", "arguments": args}}
	}
	return map[string][]attempt{
		"POST /mcp": {
			{"/mcp", execute(map[string]any{"runId": alice.run}), fine},
			{"/mcp", execute(map[string]any{"sessionId": alice.session, "code": "return await fs.listFiles('/workspace')"}), fine},
			{"/mcp?userId=alice", execute(own), []int{http.StatusBadRequest}},
		},
		"GET /v1/tools/{name}/outline": {
			{"/v1/tools/bad__echo/outline", nil, fine},
		},
		"GET /v1/audit":               {{"/v1/audit", nil, hidden}, {"/v1/audit" + asHer, nil, hidden}},
		"GET /v1/doctor":              {{"/v1/doctor", nil, hidden}},
		"GET /v1/keys":                {{"/v1/keys", nil, hidden}},
		"DELETE /v1/keys/{id}":        {{"/v1/keys/key_none", nil, hidden}},
		"POST /v1/audit/verification": {{"/v1/audit/verification", nil, hidden}},

		"GET /mcp":                             {{"/mcp", nil, []int{http.StatusBadRequest}}},
		"DELETE /mcp":                          {{"/mcp", nil, []int{http.StatusBadRequest}}},
		"POST /task":                           {{"/task", inHerName, hidden}, {"/task", sameID, fine}, {"/task", own, fine}},
		"POST /task/stream":                    {{"/task/stream", inHerName, hidden}, {"/task/stream", sameID, fine}, {"/task/stream", own, fine}},
		"GET /health":                          {{"/health", nil, fine}},
		"GET /.well-known/agent-skills/{path}": {{"/.well-known/agent-skills/index.json", nil, fine}, {"/.well-known/agent-skills/index.json" + asHer, nil, []int{http.StatusBadRequest}}},
		"GET /.well-known/oauth-protected-resource":     {{"/.well-known/oauth-protected-resource", nil, hidden}},
		"GET /.well-known/oauth-protected-resource/mcp": {{"/.well-known/oauth-protected-resource/mcp", nil, hidden}},
		"GET /ready":   {{"/ready", nil, fine}},
		"GET /metrics": {{"/metrics", nil, hidden}},
		"POST /internal/mcp-call": {
			{"/internal/mcp-call", map[string]any{"authToken": token, "toolName": "x", "userId": "alice"}, hidden},
			{"/internal/mcp-call", map[string]any{"authToken": alice.key, "toolName": "x"}, hidden},
		},
		"POST /v1/tasks": {{"/v1/tasks", inHerName, hidden}, {"/v1/tasks", sameID, fine}, {"/v1/tasks", own, fine}},
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
			{"/v1/sessions", map[string]string{"id": alice.session}, ownOrNone},
			{"/v1/sessions", map[string]string{}, fine},
		},
		"GET /v1/sessions":         {{"/v1/sessions", nil, fine}, {"/v1/sessions" + asHer, nil, hidden}},
		"GET /v1/sessions/{id}":    {{"/v1/sessions/" + alice.session, nil, ownOrNone}},
		"DELETE /v1/sessions/{id}": {{"/v1/sessions/" + alice.session, nil, ownOrNone}},
		"GET /v1/sessions/{id}/files": {
			{path.Dir(alice.file), nil, ownOrNone}, {path.Dir(alice.file) + asHer, nil, hidden}, {path.Dir(alice.file) + "?format=zip", nil, ownOrNone},
		},
		"GET /v1/sessions/{id}/files/{path}": {
			{alice.file, nil, hidden},
			{alice.file + asHer, nil, hidden},
			{alice.file + "?raw=true", nil, hidden},
			{"/v1/sessions/bob-session/files/%2e%2e/%2e%2e/alice/alice-session/" + secret + ".txt", nil, []int{http.StatusBadRequest}},
		},
		"PUT /v1/sessions/{id}/files/{path}": {
			{alice.file + asHer, "overwritten", hidden},
			{"/v1/sessions/bob-session/files/%2e%2e/%2e%2e/alice/alice-session/" + secret + ".txt", "x", []int{http.StatusBadRequest}},
			{path.Dir(alice.file) + "/bobs.txt", "bobs", fine}, // in bob's own session with this id
		},
		"DELETE /v1/sessions/{id}/files/{path}": {{alice.file + asHer, nil, hidden}, {alice.file, nil, hidden}},
		"POST /v1/runs":                         {{"/v1/runs", inHerName, hidden}, {"/v1/runs", sameID, fine}, {"/v1/runs", own, fine}},
		"POST /v1/programs/check":               {{"/v1/programs/check", inHerName, hidden}, {"/v1/programs/check", sameID, fine}, {"/v1/programs/check", own, fine}},
		"GET /v1/runs":                          {{"/v1/runs", nil, fine}, {"/v1/runs" + asHer, nil, hidden}, {"/v1/runs" + inSession, nil, fine}},
		"GET /v1/runs/{id}":                     {{"/v1/runs/" + alice.run, nil, hidden}, {"/v1/runs/" + alice.taskRun, nil, hidden}},
		"GET /v1/runs/{id}/events":              {{"/v1/runs/" + alice.run + "/events", nil, hidden}, {"/v1/runs/" + alice.taskRun + "/events?after=1", nil, hidden}},
		"GET /v1/runs/{id}/journal": {
			{"/v1/runs/" + alice.run + "/journal", nil, hidden}, {"/v1/runs/" + alice.taskRun + "/journal", nil, hidden},
		},
		"GET /v1/runs/{id}/calls":     {{"/v1/runs/" + alice.run + "/calls", nil, hidden}, {"/v1/runs/" + alice.taskRun + "/calls?limit=1", nil, hidden}},
		"GET /v1/runs/{id}/calls/{n}": {{"/v1/runs/" + alice.run + "/calls/1", nil, hidden}, {"/v1/runs/" + alice.taskRun + "/calls/1?at=2-0&values=true", nil, hidden}},
		"GET /v1/runs/{id}/compare": {
			{"/v1/runs/" + alice.run + "/compare?with=" + alice.taskRun, nil, hidden},
			{"/v1/runs/" + bobs + "/compare?with=" + alice.run, nil, hidden},
			{"/v1/runs/" + alice.run + "/compare?with=" + bobs, nil, hidden},
			{"/v1/runs/" + bobs + "/compare?with=" + bobs, nil, fine},
		},
		"GET /v1/tasks/{id}/history": {{"/v1/tasks/" + alice.ended + "/history", nil, hidden}, {"/v1/tasks/" + alice.held + "/history?cursor=1", nil, hidden}},
		"GET /v1/policy":             {{"/v1/policy", nil, hidden}},
		"GET /v1/policy/presets":     {{"/v1/policy/presets", nil, hidden}, {"/v1/policy/presets" + asHer, nil, hidden}},
		"GET /v1/policy/flows":       {{"/v1/policy/flows", nil, hidden}, {"/v1/policy/flows" + asHer, nil, hidden}},
		"POST /v1/policy/check":      {{"/v1/policy/check", map[string]any{"policy": "[]"}, hidden}},
		"POST /v1/policy/test":       {{"/v1/policy/test", map[string]any{"tool": "bad__echo"}, hidden}},
		"POST /v1/policy/simulation": {{"/v1/policy/simulation", map[string]any{"preset": "strict"}, hidden}, {"/v1/policy/simulation", map[string]any{"preset": "strict", "userId": "alice"}, hidden}},
		"GET /v1/me":                 {{"/v1/me", nil, fine}},
		"POST /v1/runs/{id}/replay":  {{"/v1/runs/" + alice.run + "/replay", nil, hidden}, {"/v1/runs/" + alice.run + "/replay?force=true", nil, hidden}},
		"POST /v1/runs/{id}/capability": {
			{"/v1/runs/" + alice.run + "/capability", nil, hidden}, {"/v1/runs/" + alice.taskRun + "/capability", nil, hidden},
		},
		"GET /v1/approvals":       {{"/v1/approvals", nil, fine}, {"/v1/approvals" + asHer, nil, hidden}},
		"GET /v1/approvals/{id}":  {{"/v1/approvals/" + alice.approval, nil, hidden}},
		"POST /v1/approvals/{id}": {{"/v1/approvals/" + alice.approval, map[string]any{"decision": "approve"}, hidden}},
		"POST /v1/approvals/questions": {
			{"/v1/approvals/questions", map[string]any{"origin": "https://harness.example.com", "requests": []map[string]string{{"id": alice.approval, "digest": "x"}}}, hidden},
		},
		"POST /v1/approvals/answers": {
			{"/v1/approvals/answers", map[string]any{"batch": "x", "credential": map[string]any{"id": "", "response": map[string]string{"clientDataJSON": "", "authenticatorData": "", "signature": ""}}}, hidden},
		},
		"GET /v1/security-keys":            {{"/v1/security-keys", nil, fine}, {"/v1/security-keys" + asHer, nil, []int{http.StatusBadRequest}}},
		"POST /v1/security-keys/questions": {{"/v1/security-keys/questions", map[string]string{"registration": "x"}, hidden}},
		"POST /v1/security-keys": {
			{"/v1/security-keys", map[string]any{"registration": "x", "credential": map[string]any{"response": map[string]string{"clientDataJSON": "", "attestationObject": ""}}}, hidden},
		},
		"GET /v1/doubts": {{"/v1/doubts", nil, fine}, {"/v1/doubts" + asHer, nil, hidden}, {"/v1/doubts?limit=1&cursor=999999", nil, fine}},
		"POST /v1/runs/{id}/calls/{n}/settle": {
			{"/v1/runs/" + alice.doubt + "/calls/1/settle", map[string]any{"verdict": "done"}, hidden}, {"/v1/runs/" + alice.run + "/calls/1/settle", map[string]any{"verdict": "not_done"}, hidden},
		},
		"GET /v1/pii/stats":         {{"/v1/pii/stats", nil, fine}, {"/v1/pii/stats" + asHer, nil, hidden}, {"/v1/pii/stats" + inSession, nil, fine}, {"/v1/pii/stats?by=field", nil, fine}, {"/v1/pii/stats" + asHer + "&by=field", nil, hidden}},
		"GET /v1/usage":             {{"/v1/usage", nil, fine}, {"/v1/usage" + asHer, nil, hidden}, {"/v1/usage?by=user", nil, fine}},
		"DELETE /v1/pii":            {{"/v1/pii" + asHer + "&sessionId=" + alice.session, nil, hidden}, {"/v1/pii" + inSession, nil, fine}},
		"POST /v1/tickets":          {{"/v1/tickets", nil, fine}},
		"GET /v1/schedules/{id}":    {{"/v1/schedules/" + alice.schedule, nil, hidden}},
		"GET /v1/servers/{name}":    {{"/v1/servers/bad", nil, fine}},
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
		"GET /v1/servers/{name}/review": {{"/v1/servers/bad/review", nil, hidden}},
		"POST /v1/servers/{name}/review": {
			{"/v1/servers/bad/review", map[string]any{"approve": []map[string]string{{"tool": "echo", "hash": "x"}}}, hidden},
		},
		"POST /v1/servers/{name}/review/questions": {
			{"/v1/servers/bad/review/questions", map[string]any{"origin": "https://harness.example.com", "approve": []map[string]string{{"tool": "echo", "hash": "x"}}}, hidden},
		},
		"POST /v1/servers/{name}/review/answers": {
			{"/v1/servers/bad/review/answers", map[string]any{"batch": "x", "credential": map[string]any{"id": "", "response": map[string]string{"clientDataJSON": "", "authenticatorData": "", "signature": ""}}}, hidden},
		},
		"GET /v1/skills": {{"/v1/skills", nil, fine}, {"/v1/skills" + asHer, nil, hidden}, {"/v1/skills?userId=..%2Falice", nil, hidden}},
		"GET /v1/skills/{path}": {
			{alice.skill, nil, hidden}, {alice.skill + asHer, nil, hidden}, {"/v1/skills/%2e%2e/alice/" + secret + ".js", nil, []int{http.StatusBadRequest}},
		},
		"PUT /v1/skills/{path}":    {{alice.skill + asHer, "overwritten", hidden}, {"/v1/skills/%2e%2e/alice/" + secret + ".js", "x", []int{http.StatusBadRequest}}},
		"DELETE /v1/skills/{path}": {{alice.skill + asHer, nil, hidden}, {alice.skill, nil, hidden}},
		"GET /v1/skill-versions":   {{"/v1/skill-versions?name=" + skill, nil, hidden}, {"/v1/skill-versions?name=" + skill + "&userId=alice", nil, hidden}},
		"POST /v1/skill-versions/restore": {
			{"/v1/skill-versions/restore", map[string]any{"name": skill, "version": 1}, hidden}, {"/v1/skill-versions/restore", map[string]any{"name": skill, "version": 1, "userId": "alice"}, hidden},
		},
		"POST /v1/skill-tests": {{"/v1/skill-tests", map[string]any{"name": skill}, hidden}, {"/v1/skill-tests", map[string]any{"name": skill, "userId": "alice"}, hidden}},
		"POST /v1/skill-promotions": {
			{"/v1/skill-promotions", map[string]any{"name": skill, "promoted": true, "untested": true}, hidden},
			{"/v1/skill-promotions", map[string]any{"name": skill, "promoted": false, "userId": "alice"}, hidden},
		},
		"GET /v1/skill-shares": {{"/v1/skill-shares", nil, fine}, {"/v1/skill-shares" + asHer, nil, hidden}},
		"POST /v1/skill-shares": {
			{"/v1/skill-shares", map[string]any{"name": skill, "with": "carol", "role": "approve"}, hidden},
			{"/v1/skill-shares", map[string]any{"name": skill, "with": "bob", "userId": "alice"}, hidden},
			{"/v1/skill-shares", map[string]any{"name": "@alice/" + skill, "with": "everyone"}, hidden},
			{"/v1/skill-shares", map[string]any{"name": skill, "userId": "alice", "role": "none"}, hidden},
		},
		"GET /v1/shared-skills": {{"/v1/shared-skills?name=@alice/" + skill, nil, hidden}, {"/v1/shared-skills?name=@bob/../../alice/" + skill, nil, hidden}, {"/v1/shared-skills?name=@alice/" + skill + "&userId=alice", nil, hidden}},
		"POST /v1/skill-proposals": {
			{"/v1/skill-proposals", map[string]any{"name": "@alice/" + skill, "from": "own", "base": 1}, hidden}, {"/v1/skill-proposals", map[string]any{"name": "@bob/x", "from": skill, "base": 1, "userId": "alice"}, hidden},
		},
		"GET /v1/skill-reviews": {{"/v1/skill-reviews", nil, fine}, {"/v1/skill-reviews" + asHer, nil, hidden}},
		"POST /v1/skill-reviews": {
			{"/v1/skill-reviews", map[string]any{"name": "@alice/" + skill, "decision": "approve", "digest": "x"}, hidden}, {"/v1/skill-reviews", map[string]any{"name": skill, "decision": "refuse", "userId": "alice"}, hidden},
		},
		"POST /v1/schedules": {{"/v1/schedules", inHerName, hidden}, {"/v1/schedules", sameID, fine}, {"/v1/schedules", own, fine}},
		"GET /v1/schedules":  {{"/v1/schedules", nil, fine}, {"/v1/schedules" + asHer, nil, hidden}},
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
	ids := []string{alice.ended, alice.held, alice.queued, alice.run, alice.taskRun, alice.schedule, alice.approval, alice.doubt}
	before, began := w.all(alice), time.Now()
	cases := attempts(alice, "hc1.x.y", bob.run)
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
			// A refusal may contain the id that bob has sent.
			leaked := slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(r.body, id) && !strings.Contains(try.path, id) })
			if leaked || strings.Contains(r.body, secret) {
				t.Errorf("%s %s: bob was told what is alice's: %.300s", o.Method, try.path, r.body)
			}
			if r.status == http.StatusNotFound || r.status == http.StatusForbidden {
				none := absentLike(try.path, alice)
				if other := w.as(bob.key, o.Method, none, try.body); none != try.path && (other.status != r.status || other.body != absentLike(r.body, alice)) {
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
	after := w.all(alice)
	if diff := cmp.Diff(uses.ReplaceAllString(before, "used"), uses.ReplaceAllString(after, "used")); diff != "" {
		t.Errorf("alice's things have changed: %s", diff)
	}
	for _, use := range uses.FindAllStringSubmatch(after, -1) {
		if at, err := time.Parse(time.RFC3339Nano, use[1]); err != nil || at.After(began) {
			t.Errorf("alice's session was used at %s, after bob began at %s: %v", at, began, err)
		}
	}
}

// uses matches the time of a session's last use, which may be recorded up to a second after the end of a run.
var uses = regexp.MustCompile(`"usedAt":"([^"]+)","expiresAt":"[^"]+"`)

// absentLike replaces the ids of a user in a path by ids that do not exist.
func absentLike(path string, b belongings) string {
	for _, id := range []string{b.ended, b.held, b.queued, b.run, b.taskRun, b.schedule, b.approval, b.doubt, b.session, secret} {
		none := "none"
		if kind, _, found := strings.Cut(id, "_"); found && id != b.session && id != secret {
			none = kind + "_none"
		}
		path = strings.ReplaceAll(path, id, none)
	}
	return path
}

// A list shows the runs of the caller's user. For a caller who may act for all users, it shows the runs of all users or of one.
func TestWhoSeesWhat(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{keys: true})
	alice, bob := w.key("alice"), w.key("bob")
	anyone, admin := w.key(""), w.key("root", auth.Admin)
	for _, key := range []string{alice, bob} {
		w.as(key, "POST", "/v1/runs", map[string]string{"code": "return 1"}).want(http.StatusOK)
	}
	for path, body := range map[string]map[string]string{
		"/v1/runs": {"code": "return 1"}, "/v1/sessions": {}, "/v1/schedules": {"task": "x", "cron": "@daily"}, "/v1/tasks": {"task": "x"},
	} {
		if r := w.as(anyone, "POST", path, body).want(http.StatusBadRequest); !strings.Contains(r.body, "userId is required") {
			t.Errorf("%s: %s", path, r.body)
		}
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
		"admin":             {admin, "", nil, 200}, // the user root has no runs
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
	// A key without a user has to name the user that it acts for.
	w.as(anyone, "POST", "/task", map[string]string{"task": "x"}).want(http.StatusBadRequest)
	w.as(anyone, "POST", "/task", map[string]string{"task": "SAY<<x>>", "userId": "carol"}).want(http.StatusOK)
	w.as(alice, "POST", "/task", map[string]string{"task": "SAY<<x>>", "userId": "alice"}).want(http.StatusOK)
	w.as(alice, "POST", "/task", map[string]string{"task": "SAY<<x>>", "userId": "Alice"}).want(http.StatusForbidden)
}

// An operation that requires a role is refused to callers without the role.
func TestRoles(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{keys: true, servers: []*config.MCPServer{badServer(t, "bad", "normal")}})
	routes := []attempt{
		{"GET /metrics", nil, nil},
		{"POST /v1/servers", map[string]string{"name": "a", "url": "http://127.0.0.1:1/"}, nil},
		{"POST /v1/servers/bad/reconnect", nil, nil},
		{"GET /v1/servers/bad/review", nil, nil},
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

// In a harness without keys, requests name their users, and the files of different users are separate.
func TestOpenUsers(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{})
	for _, user := range []string{"alice", "Alice", "a/../alice", "..", "alice ", "ali\u00adce", "елена", "🙂", "a b&c=d"} {
		body := map[string]string{"userId": user, "code": "await fs.writeFile('/skills/own.txt', " + string(quote(user)) + ")\nreturn await fs.readFile('/skills/own.txt')"}
		r := w.do("POST", "/v1/runs", body)
		if user == "ali\u00adce" { // the soft hyphen is an invisible character
			r.want(http.StatusBadRequest)
			continue
		}
		r.want(http.StatusOK)
		if got := w.do("GET", "/v1/skills/own.txt?userId="+url.QueryEscape(user), nil).want(http.StatusOK); got.body != user {
			t.Errorf("%q has the file of %q", user, got.body)
		}
	}
}

// On a server without keys, requests without userId act for the user local, as on the command line. The root page redirects browsers to the documentation.
func TestMachineUser(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{})
	w.do("POST", "/v1/runs", map[string]string{"code": "await fs.writeFile('/skills/own.txt', 'mine')"}).want(http.StatusOK)
	if got := w.do("GET", "/v1/skills/own.txt?userId=local", nil).want(http.StatusOK); got.body != "mine" {
		t.Errorf("got %s", got.body)
	}
	if user := w.do("POST", "/v1/tasks", map[string]string{"task": "SAY<<hello>>"}).want(http.StatusAccepted).field("userId"); user != "local" {
		t.Errorf("the task is of %q", user)
	}
	w.do("POST", "/task", map[string]string{"task": "SAY<<hello>>"}).want(http.StatusBadRequest) // the original system requires userId
	r, err := http.Get(w.url)                                                                    // a request without a token, as from a browser
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if r.StatusCode != http.StatusOK || !strings.HasPrefix(r.Request.URL.Path, "/docs/") {
		t.Errorf("GET / leads to %s with %s", r.Request.URL, r.Status)
	}
}

func quote(s string) []byte {
	text, _ := json.Marshal(s)
	return text
}

// Refusals name the thing, the role or the allowed methods, and say what to do.
func TestRefusalsInPlainWords(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{keys: true})
	alice := w.key("alice")
	for _, c := range []struct {
		request string
		body    any
		status  int
		want    string
	}{
		{"GET /v1/tasks/task_1", nil, 404, `no task "task_1" for this key`},
		{"POST /v1/tasks/task_1/cancel", nil, 404, `no task "task_1" for this key`},
		{"GET /v1/tasks/task_1/events", nil, 404, `no task "task_1" for this key`},
		{"GET /v1/runs/run_1/journal", nil, 404, `no run "run_1" for this key`},
		{"POST /v1/runs/run_1/replay", nil, 404, `no run "run_1" for this key`},
		{"DELETE /v1/schedules/sched_1", nil, 404, `no schedule "sched_1" for this key`},
		{"GET /v1/sessions/sess_1", nil, 404, `no session "sess_1" for this key`},
		{"GET /v1/sessions/mine", nil, 404, "no such session for this key"},
		{"POST /v1/tasks", map[string]string{"task": "x", "sessionId": "sess_1", "userId": "bob"}, 403, "another user"},
		{"GET /v1/tools/crm__none", nil, 404, "no such tool"},
		{"GET /v1/task", nil, 404, "unknown endpoint; see /docs"},
		{"DELETE /v1/tasks", nil, 405, "method not allowed: GET or POST"},
		{"PUT /task", nil, 405, "method not allowed: POST"},
		{"GET /v1/tasks?cursor=x", nil, 400, "invalid cursor: use next of the page before"},
		{"GET /v1/runs?cursor=x", nil, 400, "invalid cursor: use next of the page before"},
		{"GET /v1/sessions?cursor=x", nil, 400, "invalid cursor: use next of the page before"},
		{"GET /v1/approvals?cursor=x", nil, 400, "invalid cursor: use next of the page before"},
		{"GET /v1/doubts?cursor=x", nil, 400, "invalid cursor: use next of the page before"},
		{"POST /v1/runs/run_1/calls/1/settle", map[string]string{"verdict": "done"}, 404, `no run "run_1" for this key`},
		{"GET /metrics", nil, 403, `role "admin" required`},
		{"DELETE /v1/servers/crm", nil, 403, `role "admin" required`},
	} {
		method, path, _ := strings.Cut(c.request, " ")
		if r := w.as(alice, method, path, c.body); r.status != c.status || !strings.Contains(r.field("error"), c.want) {
			t.Errorf("%s: %d %s, want %d %s", c.request, r.status, r.body, c.status, c.want)
		}
	}
}
