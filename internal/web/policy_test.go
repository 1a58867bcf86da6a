package web_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"mcp-code-exec-harness/internal/testing/npmtest"
)

// TestPolicyPage checks that the page tests calls and applies another policy to recorded runs, keeps texts with mistakes, and changes nothing.
func TestPolicyPage(t *testing.T) {
	t.Parallel()
	w := setup(t, true)
	ann, bob, user := w.login(w.key("ann", "approver", "ann")), w.login(w.key("bob", "approver", "bob")), w.login(w.key("plain", "user", "ann"))
	root := w.key("root", "admin", "")
	var run struct{ RunID string }
	w.api(root, "POST", "/v1/runs", map[string]any{"userId": "ann", "code": "await tools.notes.list({});\nreturn await tools.notes.read({})"}, &run)
	page := ann.get("/policy").text
	for _, text := range []string{"*__write*", `data-editor="yaml" data-check="/policy/check"`, "preset: open\nrules:\n  - {tools: &#34;*__write*&#34;, action: ask, reason: &#34;writes are asked about&#34;}"} {
		if !strings.Contains(page, text) {
			t.Errorf("the page has no %q: %s", text, page)
		}
	}
	if got := ann.get("/policy?from=strict&tool=notes__read").text; !strings.Contains(got, "preset: strict\nrules:\n  - {tools") || !strings.Contains(got, `value="notes__read"`) {
		t.Errorf("from a preset: %s", got)
	}
	for _, c := range []struct {
		path   string
		fields []string
		status int
		texts  []string
	}{
		{"/policy/test", []string{"tool", "notes__write", "args", `{"title": "pii_1e@d1.pii.invalid"}`, "origins", "pii_1e@d1.pii.invalid = crm__get, user\nx=y"}, http.StatusOK, []string{">ask<", "rule 1 (tools *__write*) asks about notes__write", "pii_1e@d1.pii.invalid from crm__get", "pii_1e@d1.pii.invalid from user"}},
		{"/policy/test", []string{"tool", "none__<b>", "userId", "ann", "role", "admin"}, http.StatusOK, []string{">allow<", "no rule is about none__&lt;b&gt;", "The catalog has no tool none__&lt;b&gt;"}},
		{"/policy/test", []string{"tool", "notes__write", "args", "<b>{"}, http.StatusBadRequest, []string{"The arguments are not JSON.", "&lt;b&gt;{", `value="notes__write"`}},
		{"/policy/test", []string{"tool", "notes", "args", "[]"}, http.StatusBadRequest, []string{"args"}},
		{"/policy/test", []string{"tool", "notes", "origins", "[EMAIL_1]"}, http.StatusBadRequest, []string{"each origin on a line"}},
		{"/policy/simulation", []string{"policy", "# <b>\r\nrules:\r\n  - {tools: notes, action: deny}\r\n", "runs", "7"}, http.StatusBadRequest, []string{"<strong>Line 3</strong>, column 13", "# &lt;b&gt;\nrules:\n  - {tools: notes, action: deny}", `data-line="3"`, `name="runs" value="7"`}},
		{"/policy/simulation", []string{"policy", "[]", "runs", "many"}, http.StatusBadRequest, []string{"runs", `value="many"`}},
		{"/policy/simulation", []string{"policy", "- {tools: notes__read, action: deny, reason: <b>no}"}, http.StatusOK, []string{
			"<dt>Calls decided differently</dt><dd>1</dd>", "<dt>Calls looked at</dt><dd>2</dd>", `<a href="/runs/` + run.RunID + `/calls/2">`, "rule 1 (tools notes__read) denies notes__read: &lt;b&gt;no", "Now: no rule is about notes__read.",
			"policy:\n  - {tools: notes__read, action: deny, reason: &lt;b&gt;no}", "harness policy confirm",
		}},
		{"/policy/simulation", []string{"policy", "policy: [{tools: notes__read, action: deny}]\nmodel: {name: x}"}, http.StatusOK, []string{"tabindex=\"0\">policy: [{tools: notes__read"}},
	} {
		got := ann.post(c.path, c.fields...)
		if got.status != c.status {
			t.Errorf("%s %q: %d", c.path, c.fields, got.status)
		}
		for _, text := range append(c.texts, "Rules in effect", "*__write*") {
			if !strings.Contains(got.text, text) {
				t.Errorf("%s %q has no %q:\n%s", c.path, c.fields, text, got.text)
			}
		}
	}
	for path, texts := range map[string][]string{
		"/policy/presets":          {"1 run with 2 calls looked at", "open (in effect)", `<a href="/tools/notes__list">notes__list</a>`, `<span class="status is-allow">allow 1</span>`, `<span class="meta">ask</span>`, `href="/policy?from=strict#other"`},
		"/policy/flows":            {"1 run with 2 calls looked at, 2 of them without values", "No recorded call has a value"},
		"/policy/presets?runs=<b>": {"invalid", `value="&lt;b&gt;"`}, "/policy/flows?by=<b>&userId=<b>": {"role=\"alert\""},
	} {
		got := ann.get(path)
		for _, text := range texts {
			if !strings.Contains(got.text, text) {
				t.Errorf("%s has no %q: %s", path, text, got.text)
			}
		}
		if strings.Contains(bob.get(path).text, "notes__list</a></th><td class=\"n\">1<") {
			t.Errorf("%s shows another user's calls", path)
		}
		if got := user.get(path); got.status != http.StatusForbidden && !strings.Contains(path, "<b>") {
			t.Errorf("%s of a user: %d", path, got.status)
		}
	}
	if got := w.api(root, "POST", "/v1/runs", map[string]any{"userId": "ann", "code": "const [first] = await tools.notes.list({});\nreturn await tools.notes.read({about: first.title, why: 'a reason'})"}, &run); got != http.StatusOK {
		t.Fatal(got)
	}
	flows := ann.get("/policy/flows").text
	for _, text := range []string{`<th scope="row">notes__list</th>`, `<th scope="row">the text of the program</th>`, `<th scope="col">to notes__read</th>`, `<a href="/runs/` + run.RunID + `/calls/2"><span class="status is-allow">allow 1</span>`} {
		if !strings.Contains(flows, text) {
			t.Errorf("the flows have no %q: %s", text, flows)
		}
	}
	if got := ann.get("/policy/flows?by=server").text; !strings.Contains(got, `<th scope="row">notes</th>`) || !strings.Contains(got, "<option selected>server") {
		t.Errorf("by server: %s", got)
	}
	if got := bob.post("/policy/simulation", "policy", "- {tools: notes__read, action: deny}"); strings.Contains(got.text, run.RunID) || !strings.Contains(got.text, "<dt>Calls looked at</dt><dd>0</dd>") {
		t.Errorf("another user: %d %s", got.status, got.text)
	}
	if got := bob.post("/policy/simulation", "policy", "[]", "userId", "ann"); got.status != http.StatusForbidden || strings.Contains(got.text, run.RunID) {
		t.Errorf("another user's runs: %d %s", got.status, got.text)
	}
	if got := ann.post("/policy/check", "policy", "- {tools: notes, action: deny}"); got.header.Get("Content-Type") != "application/json" || !strings.Contains(got.text, `{"problems":[{"line":1,"column":11,"message":"`) {
		t.Errorf("the check: %s", got.text)
	}
	for _, path := range []string{"/policy/test", "/policy/check", "/policy/simulation"} {
		if got := user.post(path, "policy", "[]", "tool", "notes__read"); got.status != http.StatusForbidden {
			t.Errorf("%s of a user: %d", path, got.status)
		}
	}
	if notes := w.tools.notes(); len(notes) != 0 {
		t.Errorf("calls were made: %q", notes)
	}
}

// TestPrivacyPage checks that a user sees which fields of recorded answers contain personal data.
func TestPrivacyPage(t *testing.T) {
	t.Parallel()
	w := setup(t, true)
	ann := w.key("ann", "user", "ann")
	w.run(ann, "return await tools.notes.read({})")
	hers, his := w.login(ann), w.login(w.key("bob", "user", "bob"))
	if got := hers.get("/privacy").text; strings.Contains(got, "By tool and field") || !strings.Contains(got, "EMAIL") {
		t.Errorf("the page: %s", got)
	}
	got := hers.get("/privacy?by=field").text
	for _, text := range []string{"By tool and field", "1 recorded call in 1 run ", "<td>notes__read</td>", "<td>EMAIL</td>"} {
		if !strings.Contains(got, text) {
			t.Errorf("the page has no %q: %s", text, got)
		}
	}
	if got := w.login(w.key("any", "user", "")).get("/privacy").text; !strings.Contains(got, "Name a user") || strings.Contains(got, `role="alert"`) {
		t.Errorf("a reader who acts for all users: %s", got)
	}
	if got := his.get("/privacy?by=field").text; strings.Contains(got, "notes__read") || !strings.Contains(got, "No recorded answer of a tool has a token") {
		t.Errorf("another user: %s", got)
	}
	if got := hers.get("/privacy?by=field&runs=none"); got.status != http.StatusOK || !strings.Contains(got.text, `role="alert"`) || strings.Contains(got.text, "Name a user") {
		t.Errorf("a bad form: %d %s", got.status, got.text)
	}
}

// TestBrowserPolicy tests a call and another policy with the keyboard. A text with a mistake stays in the editor, and each changed decision has a link to its
// call. Each state of the page is accessible.
func TestBrowserPolicy(t *testing.T) {
	ctx := chromium(t)
	axe, err := os.ReadFile(filepath.Join(npmtest.Install(t, "axe", os.DirFS("testdata/axe")), "node_modules", "axe-core", "axe.min.js"))
	must(t, err)
	w := setup(t, false)
	seen := w.watch(t, ctx)
	w.logIn(t, ctx)
	id, _ := w.run(w.token, "await tools.notes.list({});\nreturn await tools.notes.read({})")
	readable := func(what string) {
		t.Helper()
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int64{375, 1280} {
				var found string
				var wide float64
				does(t, ctx, chromedp.EmulateViewport(width, 900), emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}), chromedp.Evaluate(string(axe)+";0", nil),
					chromedp.Evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth", &wide),
					chromedp.Evaluate("axe.run(document, {resultTypes: ['violations']}).then(r => JSON.stringify(r.violations.map(v => [v.id, v.nodes.map(n => n.html + n.failureSummary)])))", &found,
						func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
				if found != "[]" || wide > 0 {
					t.Errorf("%s, %s, %d: %g wider than the screen, %s", what, scheme, width, wide, found)
				}
				if shots := os.Getenv(screenshotsVar); shots != "" {
					var png []byte
					does(t, ctx, chromedp.FullScreenshot(&png, 100))
					must(t, os.WriteFile(filepath.Join(shots, "policy-"+what+"-"+scheme+"-"+fmt.Sprint(width)+".png"), png, 0o600))
				}
			}
		}
	}
	var text, kept string
	does(t, ctx, chromedp.Navigate(w.url+"/policy"), visible("#test"))
	does(t, ctx, written("input[name=tool]", "notes__write"))
	submit := func(keys string) {
		t.Helper()
		if _, err := chromedp.RunResponse(ctx, chromedp.KeyEvent(keys)); err != nil {
			t.Fatal(err)
		}
	}
	submit(kb.Enter)
	does(t, ctx, textOf("#test [role=status]", &text))
	if !strings.Contains(text, "asks about notes__write") {
		t.Errorf("the test of a call: %s", text)
	}
	readable("tested")
	write := func(policy string) {
		t.Helper()
		does(t, ctx, chromedp.Navigate(w.url+"/policy"), visible("#other .cm-content"), focusOn("#other .cm-content"),
			typed("a", input.ModifierCtrl), typed(policy+kb.Escape+kb.Tab+kb.Tab))
		submit(kb.Enter)
	}
	write("- {tools: notes, action: deny}")
	does(t, ctx, textOf("#other [role=alert]", &text), until(element("textarea[name=policy]")+"?.value ?? null", &kept))
	if !strings.Contains(text, "Line 1, column 11") || kept != "- {tools: notes, action: deny}" {
		t.Errorf("a mistake: %s, %q", text, kept)
	}
	readable("mistake")
	seen.expect(t, "400 (Bad Request)")
	write("- {tools: notes__read, action: deny}\n- {tools: notes__*, action: ask}")
	does(t, ctx, textOf("#other", &text))
	if !strings.Contains(text, id+", call 2") || !strings.Contains(text, "To put it in effect") {
		t.Errorf("tried: %s", text)
	}
	readable("tried")
	does(t, ctx, focusOn("a[href$='/calls/2']"))
	submit(kb.Enter)
	does(t, ctx, textOf("h1", &text))
	if !strings.HasPrefix(text, "Call 2") {
		t.Errorf("the call: %s", text)
	}
	seen.check(t)
}
