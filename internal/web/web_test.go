package web_test

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/journal"
)

// filled returns a world with content for every page, and the paths of the pages.
func filled(t testing.TB) (w *world, paths []string) {
	w = setup(t, false)
	w.api(w.token, "GET", "/v1/tools", nil, nil)
	good, _ := w.run(w.token, "console.log('"+`hello <b>you</b>`+"'); const all = await tools.notes.list({}); return all")
	bad, _ := w.run(w.token, "await tools.notes.list({});\nawait tools.notes.fail({});")
	waiting, status := w.run(w.token, `await tools.notes.read({title: "a note <b>"});
return await tools.notes.write({title: "a note <b>", text: "first line\nsecond line", edits: [{old: "one\n<b>", new: "two\n<b>"}]})`)
	if status != "waiting_approval" {
		t.Fatalf("the write is %s", status)
	}
	many, _ := w.run(w.token, "return (await tools.notes.large({count: 300})).items.length")
	var task struct {
		ID        string `json:"id"`
		SessionID string `json:"sessionId"`
		Status    string `json:"status"`
	}
	w.api(w.token, "POST", "/v1/tasks", map[string]any{"userId": "local", "task": "Count the notes. " + payload}, &task)
	w.eventually("the task ends", func() bool {
		w.api(w.token, "GET", "/v1/tasks/"+task.ID, nil, &task)
		return task.Status == "succeeded"
	})
	var approvals struct {
		Approvals []struct{ ID string } `json:"approvals"`
	}
	w.api(w.token, "GET", "/v1/approvals?status=waiting", nil, &approvals)
	if len(approvals.Approvals) != 1 {
		t.Fatalf("%d approvals wait", len(approvals.Approvals))
	}
	w.store("/v1/sessions/"+task.SessionID+"/files/notes.txt?userId=local", "first\n<b>second</b>\n")
	open, _ := w.run(w.token, `return await tools.notes.lose({title: "lost <b>"})`)
	settled, _ := w.run(w.token, "try { await tools.notes.lose({}) } catch (e) { return e.kind }")
	if got := w.api(w.token, "POST", "/v1/runs/"+settled+"/calls/1/settle", map[string]string{"verdict": "not_done", "note": "looked <b>twice</b>"}, nil); got != http.StatusOK {
		t.Fatalf("settle: %d", got)
	}
	paths = []string{
		"/", "/tasks", "/tasks/" + task.ID, "/runs", "/runs/" + good, "/runs/" + bad, "/runs/" + waiting, "/runs/" + good + "/calls/1", "/runs/" + bad + "/calls/2",
		"/approvals", "/approvals/" + approvals.Approvals[0].ID, "/approvals?status=denied", "/tools", "/tools?q=list+notes", "/tools?q=zzzz", "/tools/notes__list", "/tools/notes__write",
		"/servers", "/servers/notes", "/sessions", "/sessions/" + task.SessionID + "?userId=local", "/skills", "/schedules", "/policy", "/privacy", "/privacy?userId=local", "/tasks/task_none", "/runs/run_none",
		"/runs/" + good + "/compare?with=" + bad, "/runs/" + good + "/compare?with=run_none",
		"/runs/" + many + "/calls/1", "/runs/" + many + "/calls/1/value?of=result&path=/items&from=100", "/runs/" + many + "/calls/1/value?of=result&path=/items/44/title", "/runs/" + many + "/calls/1/value?path=/items/_none",
		"/usage", "/usage?by=user&window=hour", "/usage?by=model&window=month", "/audit", "/audit?eventType=tool_call&userId=local", "/audit?userId=none", "/doctor", "/keys", "/skill?name=count/count&userId=local", "/privacy?userId=local&by=field", "/policy/presets", "/policy/flows", "/policy/flows?by=server&runs=1", "/runs?from=" + bad, "/runs?from=run_none",
		"/security-keys/new?registration=x", "/login", "/login/oidc?to=_none", "/login/callback?state=_none", "/sessions/" + task.SessionID + "/files/notes.txt?userId=local&view=1",
		"/doubts", "/runs/" + open + "/calls/1", "/runs/" + settled, "/runs/" + settled + "/calls/1",
	}
	w.covers(t, paths, w.noPages(good, task.ID)...)
	return w, paths
}

// noPages returns paths that answer a browser with something else than a page, for a run and a task that have ended.
func (w *world) noPages(run, task string) []string {
	w.store("/v1/skills/count/count.js?userId=local", "export const count = (all) => all.length;\n")
	return []string{"/runs/" + run + "/live", "/tasks/" + task + "/live", "/runs/" + run + "/recording", "/approvals/waiting", "/skills/count/count.js?userId=local", "/editor/tools", "/editor/tools/notes__list"}
}

// TestPagesShowTexts checks that pages show texts of servers, models and programs as texts, and that each page has its content.
func TestPagesShowTexts(t *testing.T) {
	t.Parallel()
	w, paths := filled(t)
	r := w.login(w.token)
	for _, path := range paths {
		got := r.get(path)
		want := http.StatusOK
		if strings.Contains(path, "_none") {
			want = http.StatusNotFound
		}
		if got.status != want {
			t.Errorf("%s: %d\n%s", path, got.status, got.text)
		}
		for _, tag := range []string{"<img", "<b>", "<script>"} {
			if strings.Contains(got.text, tag) {
				t.Errorf("%s has %s", path, tag)
			}
		}
		if policy := got.header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'; script-src 'self'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: %s", path, policy)
		}
	}
	for path, texts := range map[string][]string{
		"/tasks?q=count+not*":                   {"Count the notes."},
		"/tasks?q=%3Ci%3Enone+count":            {"No task matches “&lt;i&gt;none count”"},
		"/audit":                                {"code_execution", "tool: list", "Verify every line"},
		"/usage":                                {"notes__list", "<rect x=", "By tool"},
		paths[4]:                                {"hello &lt;b&gt;you&lt;/b&gt;", "notes__list", "const all"},
		paths[5]:                                {"no notes today", "notes__fail", "<mark>await tools.notes.fail({});</mark>"},
		paths[8]:                                {`<a href="` + strings.TrimSuffix(paths[8], "2") + `1" rel="prev">Previous call</a>`},
		strings.TrimSuffix(paths[8], "2") + "1": {`rel="next">Next call`},
		paths[2]:                                {"Count the notes.", "There are **2** notes.", "const all = await"},
		"/":                                     {"notes__lose"},
		"/doubts":                               {"notes__lose", "lost &lt;b&gt;", "It was not done"},
		paths[len(paths)-3]:                     {"lost &lt;b&gt;", "It was not done"},
		paths[len(paths)-2]:                     {"in doubt", "not done"},
		paths[len(paths)-1]:                     {"in doubt", "not done", "looked &lt;b&gt;twice&lt;/b&gt;"},
		paths[10]: {
			"first line\nsecond line", "writes are asked about", "Approve", "edits[0].new", "two\n&lt;b&gt;", "$.text, compared with what the program read with notes__read before (call 1)",
			`<span class="removed">-&lt;script&gt;attacked(1)&lt;/script&gt;`, `<span class="removed">-pii_1e@d1.pii.invalid`, `<span class="added">&#43;first line`, `<span class="kept"> second line`,
			"$.edits[0].new, compared with $.edits[0].old", `<span class="removed">-one`,
		},
		paths[28]: {
			`<span class="removed">-hello &lt;b&gt;you`, `<span class="added">&#43;await tools.notes.list({});`, "<dd>1</dd>", "only in the second", "The calls differ from <a", "call 2 of the second</a> on", "no notes today",
		},
		paths[30]: {"<code>items</code> <a href=", "array, 300 parts</a>", "<code>texts</code> object, 45 parts", "<code>&lt;script&gt;attacked(1)&lt;/script&gt;</code>", "Save as JSON"},
		paths[31]: {"array, 300 parts, from 101 to 200", "<code>100</code> <a", "from=200", "from=0"},
		paths[32]: {strings.Repeat("W", 3000), ">title</a>"},
	} {
		got := r.get(path).text
		for _, text := range texts {
			if !strings.Contains(got, text) {
				t.Errorf("%s has no %q:\n%s", path, text, got)
			}
		}
	}
	var whole struct{ Items []any }
	raw := r.get(paths[30] + "/value?of=result&raw=1")
	if err := json.Unmarshal([]byte(raw.text), &whole); err != nil || len(whole.Items) != 300 || !strings.HasPrefix(raw.header.Get("Content-Disposition"), "attachment") {
		t.Errorf("the whole value: %v, %d items, %v", err, len(whole.Items), raw.header)
	}
	same := r.get("/skills")
	if again := r.get("/skills", "If-None-Match", same.header.Get("ETag")); again.status != http.StatusNotModified || again.text != "" {
		t.Errorf("a page that has not changed is sent again: %d", again.status)
	}
}

// TestEditAgain checks the form to edit the program of a run: it has the program and the session, and marks the failed line.
func TestEditAgain(t *testing.T) {
	t.Parallel()
	w := setup(t, false)
	const code = "\n// the first line is empty\nthrow new Error('<b>')"
	var out struct{ RunID string }
	w.api(w.token, "POST", "/v1/runs", map[string]any{"code": code, "sessionId": "work"}, &out)
	r := w.login(w.token)
	if got := r.get("/runs/" + out.RunID); !strings.Contains(got.text, `href="/runs?from=`+out.RunID+`"`) {
		t.Errorf("the page of the run does not lead to the form: %s", got.text)
	}
	got := r.get("/runs?from=" + out.RunID)
	for _, text := range []string{
		`data-line="3" data-message="&lt;b&gt;">` + "\n" + strings.ReplaceAll(strings.ReplaceAll(code, "<b>", "&lt;b&gt;"), "'", "&#39;") + "</textarea>", `name="sessionId" value="work"`, "data-keep open><summary>", ", line 3",
	} {
		if !strings.Contains(got.text, text) {
			t.Errorf("the form has no %s: %s", text, got.text)
		}
	}
	again := r.post("/runs", "code", strings.ReplaceAll(code, "\n", "\r\n"), "sessionId", "work")
	path, _, _ := strings.Cut(again.header.Get("Location"), "?")
	var details struct{ Code, SessionID string }
	if w.api(w.token, "GET", "/v1"+path, nil, &details); again.status != http.StatusSeeOther || details.Code != code || details.SessionID != "work" {
		t.Errorf("again: %d %q %+v", again.status, path, details)
	}
	if got := r.get("/runs?from=run_none"); got.status != http.StatusNotFound {
		t.Errorf("no run: %d", got.status)
	}
}

// TestAssets checks that scripts and styles are compressed and sent only once, and that pages load the editor only when its form is opened.
func TestAssets(t *testing.T) {
	t.Parallel()
	w := setup(t, false)
	r := w.login(w.token)
	sent := 0
	for _, file := range []string{"live.js", "palette.js", "stream.js", "style.css", "icon.svg"} {
		plain, zipped := r.get("/assets/"+file, "Accept-Encoding", "identity"), r.get("/assets/"+file, "Accept-Encoding", "gzip")
		sent += len(zipped.text)
		if plain.header.Get("Content-Type") != zipped.header.Get("Content-Type") || plain.header.Get("Content-Encoding") != "" || zipped.header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%s: %v, %v", file, plain.header, zipped.header)
		}
		z, err := gzip.NewReader(strings.NewReader(zipped.text))
		must(t, err)
		if text, err := io.ReadAll(z); err != nil || string(text) != plain.text || plain.text == "" {
			t.Errorf("%s: %v, %d bytes compressed, %d plain", file, err, len(text), len(plain.text))
		}
		if again := r.get("/assets/"+file, "Accept-Encoding", "gzip", "If-None-Match", zipped.header.Get("ETag")); again.status != http.StatusNotModified {
			t.Errorf("%s again: %d %v", file, again.status, again.header)
		}
	}
	if sent > 10<<10 {
		t.Errorf("a first page loads %d bytes", sent)
	}
	if none := r.get("/assets/none.js"); none.status != http.StatusNotFound {
		t.Errorf("no file: %d", none.status)
	}
	if strings.Contains(r.get("/runs").text, "editor.js") {
		t.Error("the page of runs loads the editor")
	}
}

// TestRecording checks that the downloaded recording of a run can be replayed, also if its journal has several pages.
func TestRecording(t *testing.T) {
	t.Parallel()
	w := setup(t, false, "server: {rateLimit: {enabled: false}}")
	const code = "let n = 0;\nfor (let i = 0; i < 600; i++) n += (await tools.notes.list({i})).length;\nreturn n"
	id, status := w.run(w.token, code)
	if status != "succeeded" {
		t.Fatal(status)
	}
	r := w.login(w.token)
	got := r.get("/runs/" + id + "/recording")
	if got.status != http.StatusOK || !strings.HasPrefix(got.header.Get("Content-Disposition"), "attachment") {
		t.Fatalf("the recording: %d %v", got.status, got.header)
	}
	recorded, err := journal.DecodeRecording(strings.NewReader(got.text))
	if err != nil || len(recorded.Runs) != 1 || len(recorded.Runs[0].Records) < 1200 {
		t.Fatalf("the recording of %d bytes: %v", len(got.text), err)
	}
	for name, text := range map[string]string{"recording.json": got.text, "program.js": code} {
		if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out := w.command("exec", "program.js", "--replay", "recording.json"); strings.TrimSpace(out) != "1200" {
		t.Errorf("the replay: %s", out)
	}
	if none := r.get("/runs/run_none/recording"); none.status != http.StatusNotFound {
		t.Errorf("the recording of no run: %d", none.status)
	}
}

// TestReveal checks that the owner of a run can see values in place of tokens, and that the page and the journal keep the tokens.
func TestReveal(t *testing.T) {
	t.Parallel()
	w := setup(t, false)
	id, status := w.run(w.token, `return await tools.notes.list({about: "ann@example.org"})`)
	if status != "succeeded" {
		t.Fatal(status)
	}
	r := w.login(w.token)
	at := "/runs/" + id + "/calls/1"
	if got := r.get(at); got.status != http.StatusOK || strings.Contains(got.text, "ann@example.org") || !strings.Contains(got.text, "pii_1e@d1.pii.invalid") {
		t.Errorf("the page: %d %s", got.status, got.text)
	}
	if got := r.post(at); got.status != http.StatusOK || !strings.Contains(got.text, "ann@example.org") {
		t.Errorf("with values: %d %s", got.status, got.text)
	}
	if text := w.out.String(); !strings.Contains(text, "audit.eventType=pii_access") || !strings.Contains(text, "audit.details.shown=true") {
		t.Errorf("the audit log has: %s", text)
	}
}

// TestAuditPage checks that the page verifies the audit log and shows what is wrong with it. Only admins see it.
func TestAuditPage(t *testing.T) {
	t.Parallel()
	w := setup(t, true)
	admin, user := w.login(w.key("root", "admin", "")), w.login(w.key("ann", "user", "ann"))
	if got := user.get("/audit"); got.status != http.StatusForbidden {
		t.Errorf("a user: %d", got.status)
	}
	if got := user.post("/audit"); got.status != http.StatusForbidden {
		t.Errorf("a user verifies: %d", got.status)
	}
	if got := admin.post("/audit"); got.status != http.StatusSeeOther {
		t.Fatalf("verify: %d %s", got.status, got.text)
	}
	if got := admin.get("/audit").text; !strings.Contains(got, ": whole.") || !strings.Contains(got, "key_change") {
		t.Errorf("a whole log: %s", got)
	}
	path := filepath.Join(w.dir, "data", "audit.jsonl")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), "created", "revoked", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	admin.post("/audit")
	if got := admin.get("/audit").text; !strings.Contains(got, "broken") || !strings.Contains(got, "audit.jsonl:1: it was changed") {
		t.Errorf("a changed log: %s", got)
	}
}

// TestKeysPage checks that an admin sees the keys without their values and can revoke one. Requests and sessions with that key are refused from then on.
func TestKeysPage(t *testing.T) {
	t.Parallel()
	w := setup(t, true)
	root := w.key("root", "admin", "")
	ann := w.key("<b>laptop", "user", "ann")
	admin, user := w.login(root), w.login(ann)
	var all struct{ Keys []struct{ ID, User string } }
	w.api(root, "GET", "/v1/keys", nil, &all)
	at := slices.IndexFunc(all.Keys, func(k struct{ ID, User string }) bool { return k.User == "ann" })
	if at < 0 {
		t.Fatalf("listed: %+v", all)
	}
	revoke := "/keys/" + all.Keys[at].ID + "/revoke"
	if got := user.get("/keys"); got.status != http.StatusForbidden {
		t.Errorf("a user: %d", got.status)
	}
	if got := user.post(revoke); got.status != http.StatusForbidden {
		t.Errorf("a user revokes: %d", got.status)
	}
	if got := admin.get("/keys").text; !strings.Contains(got, "&lt;b&gt;laptop") || strings.Contains(got, root) || strings.Contains(got, ann) {
		t.Errorf("the page: %s", got)
	}
	if got := admin.post(revoke); got.status != http.StatusSeeOther {
		t.Fatalf("revoke: %d %s", got.status, got.text)
	}
	if got := admin.get("/keys").text; !strings.Contains(got, ">revoked<") || strings.Contains(got, revoke) {
		t.Errorf("a revoked key: %s", got)
	}
	if got := user.get("/runs"); got.status != http.StatusSeeOther {
		t.Errorf("a session of a revoked key: %d", got.status)
	}
	if got := w.api(ann, "GET", "/v1/runs", nil, nil); got != http.StatusUnauthorized {
		t.Errorf("a revoked key: %d", got)
	}
}

// TestDoctorPage checks that an admin can examine the installation, with the walls of the sandbox, and that other users cannot.
func TestDoctorPage(t *testing.T) {
	t.Parallel()
	w := setup(t, true)
	user, admin := w.login(w.key("ann", "user", "ann")), w.login(w.key("root", "admin", ""))
	for _, got := range []answer{user.get("/doctor"), user.post("/doctor")} {
		if got.status != http.StatusForbidden {
			t.Errorf("a user: %d", got.status)
		}
	}
	if got := admin.get("/doctor"); got.status != http.StatusOK || strings.Contains(got.text, "Findings") {
		t.Errorf("before an examination: %d %s", got.status, got.text)
	}
	got := admin.post("/doctor")
	for _, text := range []string{"Findings", "configuration", "sandbox wasm", "Walls of sandbox wasm", "server notes"} {
		if got.status != http.StatusOK || !strings.Contains(got.text, text) {
			t.Errorf("%d, no %q: %s", got.status, text, got.text)
		}
	}
	// The page shows the findings of the command for the same configuration.
	var said []struct{ Name, State string }
	if err := json.Unmarshal([]byte(w.command("doctor", "--json")), &said); err != nil {
		t.Fatal(err)
	}
	var page struct {
		Findings []struct{ Name, State string }
	}
	w.api(w.key("other", "admin", ""), "GET", "/v1/doctor", nil, &page)
	if !slices.Equal(said, page.Findings) {
		t.Errorf("the command says %v, the server %v", said, page.Findings)
	}
}
