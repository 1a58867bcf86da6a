package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"mcp-code-exec-harness/internal/site"
	"mcp-code-exec-harness/internal/testing/npmtest"
)

// screenshotsVar names a variable with a directory. Tests write a picture of every page into it.
const screenshotsVar = "HARNESS_SCREENSHOTS"

// browserTime is the time limit of one test in a browser.
const browserTime = 10 * time.Minute

// chromium starts a browser and returns its context. If this machine has no Chromium, the test is skipped, or fails if CI is true.
func chromium(t testing.TB) context.Context {
	t.Helper()
	i := slices.IndexFunc([]string{"chromium", "chromium-browser", "google-chrome"}, func(name string) bool {
		_, err := exec.LookPath(name)
		return err == nil
	})
	if i < 0 {
		const message = "no Chromium: install it (Debian: apt install chromium) to test the dashboard in a browser"
		if os.Getenv("CI") == "true" {
			t.Fatal(message)
		}
		t.Skip(message)
	}
	name, _ := exec.LookPath([]string{"chromium", "chromium-browser", "google-chrome"}[i])
	dir, err := os.MkdirTemp("", "harness-chromium-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // after an error, a process of the browser may still be writing there
	ctx, cancel := context.WithTimeout(context.Background(), browserTime)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(name), chromedp.NoSandbox, chromedp.UserDataDir(dir), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.WSURLReadTimeout(2*time.Minute),
	)...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits for the end of the browser
		cancel()
	})
	return ctx
}

// watched has the events that a browser has reported.
type watched struct {
	mu       sync.Mutex
	foreign  []string // addresses of requests that leave the origin
	problems []string // errors of scripts, and violations of the page's content security policy
	dialogs  int
}

// watch records the events of a browser. It must be called before the first page is loaded.
func (w *world) watch(t testing.TB, ctx context.Context) *watched {
	t.Helper()
	seen := &watched{}
	chromedp.ListenTarget(ctx, func(event any) {
		seen.mu.Lock()
		defer seen.mu.Unlock()
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			if at := e.Request.URL; !strings.HasPrefix(at, w.url+"/") && !strings.HasPrefix(at, "data:") {
				seen.foreign = append(seen.foreign, at)
			}
		case *log.EventEntryAdded:
			if e.Entry.Level == log.LevelError && !strings.Contains(e.Entry.Text, "404") {
				seen.problems = append(seen.problems, e.Entry.Text+" "+e.Entry.URL)
			}
		case *runtime.EventExceptionThrown:
			seen.problems = append(seen.problems, e.ExceptionDetails.Error())
		case *page.EventJavascriptDialogOpening:
			seen.dialogs++
		}
	})
	must(t, chromedp.Run(ctx, network.Enable(), log.Enable(), runtime.Enable(), page.Enable()))
	return seen
}

// expect checks that one problem has been reported, and removes it.
func (s *watched) expect(t testing.TB, text string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.problems) != 1 || !strings.Contains(s.problems[0], text) {
		t.Errorf("problems: %q, want one of %s", s.problems, text)
	}
	s.problems = nil
}

func (s *watched) check(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.foreign)+len(s.problems)+s.dialogs > 0 {
		t.Errorf("requests to elsewhere: %q, problems: %q, dialogs: %d", s.foreign, s.problems, s.dialogs)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// stepTime is the time limit of one step of a person.
const stepTime = 2 * time.Minute

// does runs the actions of one step. If they fail, the error contains the text of the page.
func does(t testing.TB, ctx context.Context, actions ...chromedp.Action) {
	t.Helper()
	step, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	if err := chromedp.Run(step, actions...); err != nil {
		var at, text, active string
		_ = chromedp.Run(ctx, chromedp.Location(&at), chromedp.Evaluate("document.body.innerText", &text), chromedp.Evaluate("document.activeElement.outerHTML", &active))
		t.Fatalf("%v at %s, with the focus on %.200s:\n%.3000s", err, at, active, text)
	}
}

// element returns JavaScript that finds the element of a CSS selector or an XPath. Tests use it because chromedp's own actions fail if the page changes while
// they run.
func element(selector string) string {
	if strings.HasPrefix(selector, "//") {
		return fmt.Sprintf("document.evaluate(%q, document, null, XPathResult.FIRST_ORDERED_NODE_TYPE, null).singleNodeValue", selector)
	}
	return fmt.Sprintf("document.querySelector(%q)", selector)
}

// until waits until the JavaScript expression has a value that is not null, on this page or the next one, and stores the value in value.
func until(js string, value any) chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) error {
		for {
			var got json.RawMessage
			if err := chromedp.Evaluate(js, &got).Do(ctx); err == nil && string(got) != "null" && len(got) > 0 {
				return json.Unmarshal(got, value)
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
				return fmt.Errorf("%w: waited for %s", ctx.Err(), js)
			}
		}
	})
}

// visible waits until an element is visible, there until it exists, and gone until it does not.
func visible(selector string) chromedp.Action {
	return until(element(selector)+"?.checkVisibility() || null", new(bool))
}

func there(selector string) chromedp.Action {
	return until("!!"+element(selector)+" || null", new(bool))
}

// focusOn waits for an element and gives it the focus, in one JavaScript expression. A node that chromedp has found could be gone when chromedp uses it,
// because pages change.
func focusOn(selector string) chromedp.Action {
	return until("(e => e && (e.focus(), document.activeElement === e) || null)("+element(selector)+")", new(bool))
}

// written gives an element the focus and types keys.
func written(selector, keys string) chromedp.Action {
	return chromedp.Tasks{focusOn(selector), chromedp.KeyEvent(keys)}
}

func gone(selector string) chromedp.Action { return until("!"+element(selector)+" || null", new(bool)) }

// textOf waits for an element and reads its text.
func textOf(selector string, text *string) chromedp.Action {
	return until(element(selector)+"?.innerText ?? null", text)
}

// logIn opens the link that harness open prints, and logs in with the keyboard.
func (w *world) logIn(t testing.TB, ctx context.Context) {
	t.Helper()
	link := strings.TrimSpace(w.command("open", "--print", "--listen", strings.TrimPrefix(w.url, "http://")))
	does(t, ctx, chromedp.Navigate(link), visible("button.primary"), chromedp.KeyEvent(kb.Enter), visible("header nav"))
}

// violation is a problem that axe, the accessibility checker, has found.
type violation struct {
	ID    string `json:"id"`
	Help  string `json:"help"`
	Nodes []struct {
		HTML    string `json:"html"`
		Failure string `json:"failureSummary"`
	} `json:"nodes"`
}

// TestBrowserPages checks every page in both colour schemes, on narrow and wide screens: axe finds no problem, the page is not wider than the screen, no script
// in a text is executed, and no request leaves the server.
func TestBrowserPages(t *testing.T) {
	ctx := chromium(t)
	axe, err := os.ReadFile(filepath.Join(npmtest.Install(t, "axe", os.DirFS("testdata/axe")), "node_modules", "axe-core", "axe.min.js"))
	must(t, err)
	w, paths := filled(t)
	seen := w.watch(t, ctx)
	// The browser evaluates the checker directly, so the content security policy of the page does not apply to it.
	w.logIn(t, ctx)
	shots := os.Getenv(screenshotsVar)
	picture := func(path, scheme string, width int64) {
		if shots == "" {
			return
		}
		var png []byte
		must(t, chromedp.Run(ctx, chromedp.FullScreenshot(&png, 100)))
		name := strings.Trim(strings.Map(func(r rune) rune {
			if strings.ContainsRune("/?=&+", r) {
				return '-'
			}
			return r
		}, path), "-")
		must(t, os.WriteFile(filepath.Join(shots, fmt.Sprintf("%s-%s-%d.png", name, scheme, width)), png, 0o600))
	}
	read := func(path string) {
		t.Helper()
		var title string
		must(t, chromedp.Run(ctx, visible("main"), chromedp.Title(&title), chromedp.Evaluate(string(axe)+";0", nil)))
		if strings.Contains(title, "attacked") {
			t.Errorf("%s: a text was executed", path)
		}
		for _, scheme := range []string{"light", "dark"} {
			rules := "{resultTypes: ['violations']}"
			if scheme == "dark" { // only the colours differ from the light scheme
				rules = "{resultTypes: ['violations'], runOnly: ['cat.color']}"
			}
			for _, width := range []int64{375, 1280} {
				var found string
				var wide float64
				must(t, chromedp.Run(ctx, chromedp.EmulateViewport(width, 900), emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
					chromedp.Evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth", &wide),
					chromedp.Evaluate("axe.run(document, "+rules+").then(r => JSON.stringify(r.violations))", &found,
						func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }),
				))
				var violations []violation
				must(t, json.Unmarshal([]byte(found), &violations))
				for _, v := range violations {
					t.Errorf("%s, %s, %d: %s: %s: %.300s", path, scheme, width, v.ID, v.Help, fmt.Sprint(v.Nodes))
				}
				if wide > 0 {
					t.Errorf("%s, %s, %d: the page is %g wider than the screen", path, scheme, width, wide)
				}
				picture(path, scheme, width)
			}
		}
	}
	for _, path := range paths {
		must(t, chromedp.Run(ctx, chromedp.Navigate(w.url+path)))
		read(path)
	}
	seen.check(t)
	for _, path := range documents() { // the API serves them
		must(t, chromedp.Run(ctx, chromedp.Navigate(w.url+path)))
		read(path)
	}
	// These pages are answers to forms.
	for _, form := range []struct{ path, action, fields, shows string }{
		{paths[4], "form[action$=replay]", "", "//h1[contains(., 'Replay')]"},
		{"/runs", "form[action^='/runs?']", "code: 'return (', sessionId: 'no/session'", ".problem"},
		{"/servers", "form[action='/servers']", "server: '{}'", ".problem"},
		{"/tools/notes__write", "form[action^='/tools']", "args: 'none'", ".problem"},
		{"/policy", "form[action='/policy/test#test']", "tool: 'notes__write', args: '{}'", "//*[contains(., 'Judged')]"},
		{"/policy", "form[action='/policy/simulation#other']", "policy: 'none'", ".problem"},
		{"/policy", "form[action='/policy/simulation#other']", "policy: '[{tools: \"*\", action: ask}]'", "//*[contains(., 'By tool')]"},
		{"/doctor", "form[action='/doctor']", "", "table"},
		{"/audit", "form[action='/audit']", "", "//*[contains(., 'Verified')]"},
		{paths[7], "form[action*=calls]", "", "//*[contains(., 'Values stand')]"},
		{"/login", "form[action='/login']", "key: 'none'", ".problem"},
		{"/security-keys/new", "form[data-register]", "registration: 'none'", ".problem"},
	} {
		must(t, chromedp.Run(ctx, chromedp.Navigate(w.url+form.path), there("html[data-keys]")))
		// form.submit skips the browser's own checks, so the server has to answer with an error page.
		fill := "{ const form = document.querySelector(" + jsonOf(form.action) + "); for (const [name, value] of Object.entries({" + form.fields + "})) form.elements[name].value = value; HTMLFormElement.prototype.submit.call(form) }"
		if _, err := chromedp.RunResponse(ctx, chromedp.Evaluate(fill, nil)); err != nil {
			t.Fatalf("%s: %v", form.action, err)
		}
		does(t, ctx, visible(form.shows))
		read(form.path + "-" + form.action)
	}
}

// documents returns the paths of some documents: of the longest, and of those with the widest tables and with pictures. Without the tag embedsite only the page of
// the HTTP API is there.
func documents() []string {
	if _, err := site.File("index.html"); err != nil {
		return []string{"/docs/api"}
	}
	return []string{"/docs/api", "/docs/", "/docs/CONFIGURATION.html", "/docs/EVIDENCE.html", "/docs/DASHBOARD.html", "/docs/API_EXAMPLES.html", "/docs/METRICS.html"}
}

// TestBrowserDocuments searches the documents, goes to what the search has found, and reads a document without JavaScript.
func TestBrowserDocuments(t *testing.T) {
	if len(documents()) == 1 {
		t.Skip("the documents are not in this test: make site, then go test -tags embedsite")
	}
	ctx := chromium(t)
	w := setup(t, false)
	seen := w.watch(t, ctx)
	var text, at string
	does(t, ctx, chromedp.Navigate(w.url+"/docs/"), visible("#search input"), focusOn("#search input"), typed("exit code 3"), visible("#found li a"), textOf("#found li", &text))
	if !strings.Contains(text, "Exit codes") {
		t.Errorf("the search finds %q first", text)
	}
	does(t, ctx, chromedp.KeyEvent(kb.Enter), visible("#exit-codes"), chromedp.Location(&at))
	if at != w.url+"/docs/TROUBLESHOOTING.html#exit-codes" {
		t.Errorf("the first result leads to %s", at)
	}
	does(t, ctx, emulation.SetScriptExecutionDisabled(true), chromedp.Navigate(w.url+"/docs/POLICY.html"), chromedp.WaitVisible("main h1", chromedp.ByQuery), chromedp.WaitNotVisible("#search", chromedp.ByQuery),
		chromedp.Click("nav a[href='METRICS.html']", chromedp.ByQuery), chromedp.WaitVisible("#runners", chromedp.ByQuery))
	seen.check(t)
}

// TestBrowserProgram writes a program that fails, sees the line of the error, corrects the program, and approves its write with the keyboard.
func TestBrowserProgram(t *testing.T) {
	ctx := chromium(t)
	w := setup(t, false)
	seen := w.watch(t, ctx)
	w.logIn(t, ctx)
	var text string
	write := func(code string) {
		t.Helper()
		does(t, ctx, chromedp.Navigate(w.url+"/runs"), visible("main"),
			chromedp.Evaluate("document.querySelector('details').open = true", nil),
			visible(".cm-content"), focusOn(".cm-content"), typed(code), typed(kb.Enter, input.ModifierCtrl), visible("pre.code"))
	}
	write("const n = await tools.notes.list({});\nreturn n.map((x) => x.titel.length)")
	does(t, ctx, textOf("main", &text))
	if !strings.Contains(text, "line 2") || !strings.Contains(text, "failed") {
		t.Errorf("a program that failed: %s", text)
	}
	write("return await tools.notes.write({title: 'from the page'})")
	does(t, ctx, textOf("main", &text))
	if !strings.Contains(text, "waiting approval") {
		t.Fatalf("a write: %s", text)
	}
	does(t, ctx, chromedp.Navigate(w.url+"/approvals"), visible("tr[data-row]"), keys("j"), keys(kb.Enter),
		visible(".fields"), textOf("main", &text))
	if !strings.Contains(text, "from the page") {
		t.Errorf("the request does not show its arguments: %s", text)
	}
	does(t, ctx, keys("a"), visible(".notice"))
	w.eventually("the note is written", func() bool { return len(w.tools.notes()) == 1 })
	seen.check(t)
}

// TestBrowserApprovals selects several requests and denies them together. The page updates the list of requests by itself.
func TestBrowserApprovals(t *testing.T) {
	ctx := chromium(t)
	w := setup(t, false)
	seen := w.watch(t, ctx)
	w.logIn(t, ctx)
	does(t, ctx, chromedp.Navigate(w.url+"/approvals"), visible(".empty"))
	for i := range 3 {
		if _, status := w.run(w.token, fmt.Sprintf("return await tools.notes.write({title: 'note %d'})", i)); status != "waiting_approval" {
			t.Fatalf("the write is %s", status)
		}
	}
	does(t, ctx, visible("tr[data-row]:nth-child(3)"), // the page updates itself
		keys("a"), visible("#behind"), keys("jxjxd"),
		visible(".notice"))
	w.waiting(t, 1)
	does(t, ctx, gone("tr[data-row]:nth-child(2)"), keys("jxa"), visible(".notice"))
	w.eventually("one note is written", func() bool { return len(w.tools.notes()) == 1 })
	seen.check(t)
}

// TestBrowserDoubts settles writes in doubt with the keyboard. The page updates the list by itself.
func TestBrowserDoubts(t *testing.T) {
	ctx := chromium(t)
	w := setup(t, false)
	seen := w.watch(t, ctx)
	w.logIn(t, ctx)
	does(t, ctx, chromedp.Navigate(w.url+"/doubts"), visible(".empty"))
	w.run(w.token, "return await tools.notes.lose({title: 'one'})")
	w.run(w.token, "return await tools.notes.lose({title: 'two'})")
	var text string
	does(t, ctx, visible("tr[data-row]:nth-child(2)"), // the page updates itself
		written("tr[data-row]:nth-child(2) textarea", "it is there"), chromedp.KeyEvent(kb.Tab+kb.Enter), visible(".notice"),
		gone("tr[data-row]:nth-child(2)"), keys("j"), keys(kb.Enter), visible("form.decide"), textOf("main", &text))
	if !strings.Contains(text, "two") {
		t.Errorf("the call: %s", text)
	}
	does(t, ctx, focusOn("textarea[name=note]"), chromedp.KeyEvent(kb.Tab+kb.Tab+kb.Enter), visible(".settled"), textOf(".settled", &text))
	if !strings.Contains(text, "not done") {
		t.Errorf("settled: %s", text)
	}
	does(t, ctx, chromedp.Navigate(w.url+"/doubts"), visible(".empty"))
	seen.check(t)
}

// keys waits until the script of the page handles keys, and then presses the given keys, one after another.
func keys(all string) chromedp.Action {
	return chromedp.Tasks{there("html[data-keys]"), chromedp.KeyEvent(all)}
}

// waiting checks the number of waiting requests.
func (w *world) waiting(t testing.TB, want int) {
	t.Helper()
	var all struct{ Approvals []json.RawMessage }
	w.api(w.token, "GET", "/v1/approvals?"+url.Values{"status": {"waiting"}}.Encode(), nil, &all)
	if len(all.Approvals) != want {
		t.Errorf("%d requests wait, want %d", len(all.Approvals), want)
	}
}

// TestBrowserPalette checks the palette, which leads to sections and ids, and the help, which lists the keys. Both are accessible, keep the focus inside, and
// leave the page unchanged. While they are open, the keys of the page do nothing.
func TestBrowserPalette(t *testing.T) {
	ctx := chromium(t)
	axe, err := os.ReadFile(filepath.Join(npmtest.Install(t, "axe", os.DirFS("testdata/axe")), "node_modules", "axe-core", "axe.min.js"))
	must(t, err)
	w := setup(t, false)
	seen := w.watch(t, ctx)
	w.logIn(t, ctx)
	id, status := w.run(w.token, "await tools.notes.write({title: 'first'});\nreturn await tools.notes.list({})")
	if status != "waiting_approval" {
		t.Fatalf("the write is %s", status)
	}
	check := func(what string) {
		t.Helper()
		var found string
		does(t, ctx, chromedp.Evaluate(string(axe)+";0", nil), chromedp.Evaluate("axe.run(document, {resultTypes: ['violations']}).then(r => JSON.stringify(r.violations.map(v => [v.id, v.nodes.map(n => n.html)])))", &found,
			func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
		if found != "[]" {
			t.Errorf("%s: %s", what, found)
		}
	}
	var text, focused string
	does(t, ctx, chromedp.EmulateViewport(375, 900), chromedp.Navigate(w.url+"/runs/"+id), visible("main"), chromedp.Evaluate("document.querySelector('main a').focus()", nil), chromedp.KeyEvent("?"), visible("dialog .keys"), textOf("dialog", &text))
	if !strings.Contains(text, "go to a section") {
		t.Errorf("the help: %s", text)
	}
	check("the help")
	does(t, ctx, chromedp.KeyEvent(kb.Escape), gone("dialog"), chromedp.Evaluate("document.activeElement.closest('main a')?.href ?? ''", &focused))
	if focused == "" {
		t.Error("the focus is not back on the link")
	}
	// chromedp types the character even if the page has handled the key. A real keyboard does not.
	slash := input.DispatchKeyEvent(input.KeyRawDown).WithKey("/").WithCode("Slash")
	does(t, ctx, slash, visible("dialog [role=option]"), written("dialog input", "s"))
	check("the palette")
	does(t, ctx, written("dialog input", "er"), chromedp.KeyEvent(kb.ArrowDown+kb.ArrowUp), textOf("dialog [aria-selected=true]", &text))
	if text != "Servers" {
		t.Errorf("chosen is %q", text)
	}
	enter := func() {
		t.Helper()
		if _, err := chromedp.RunResponse(ctx, chromedp.KeyEvent(kb.Enter)); err != nil {
			t.Fatal(err)
		}
	}
	enter()
	does(t, ctx, visible("nav a[aria-current][href='/servers']"),
		slash, visible("dialog"), written("dialog input", "zzz"), visible("dialog .empty"))
	check("the palette without a place")
	var path string
	does(t, ctx, chromedp.KeyEvent(kb.Escape), gone("dialog"), chromedp.KeyEvent("k", chromedp.KeyModifiers(input.ModifierCtrl)), visible("dialog"),
		written("dialog input", id))
	enter()
	does(t, ctx, visible("pre.code"), chromedp.Evaluate("location.pathname", &path))
	if path != "/runs/"+id {
		t.Errorf("the palette leads to %s", path)
	}
	var approvals struct{ Approvals []struct{ ID string } }
	w.api(w.token, "GET", "/v1/approvals?status=waiting", nil, &approvals)
	does(t, ctx, chromedp.Navigate(w.url+"/approvals/"+approvals.Approvals[0].ID), visible("button.primary"), chromedp.KeyEvent("?"), visible("dialog .keys"),
		chromedp.KeyEvent("a"), chromedp.KeyEvent(kb.Escape), gone("dialog"))
	w.waiting(t, 1)
	does(t, ctx, chromedp.KeyEvent("a"), visible(".notice"))
	w.eventually("the run has ended", func() bool {
		var run struct{ Status string }
		w.api(w.token, "GET", "/v1/runs/"+id, nil, &run)
		return run.Status == "succeeded" && len(w.tools.notes()) == 1
	})
	// The key j leads to the next call. A printed run shows its whole program and no controls.
	does(t, ctx, chromedp.Navigate(w.url+"/runs/"+id+"/calls/1"), visible("a[rel=next]"), chromedp.KeyEvent("j"), visible("a[rel=prev]"), textOf("h1", &text))
	if !strings.HasPrefix(text, "Call 2") {
		t.Errorf("the next call is %s", text)
	}
	does(t, ctx, chromedp.Navigate(w.url+"/runs/"+id+"/calls/2"), visible("a[rel=prev]"), chromedp.KeyEvent("k"), visible("a[rel=next]"), chromedp.Navigate(w.url+"/runs/"+id), emulation.SetEmulatedMedia().WithMedia("print"),
		chromedp.Evaluate("[...document.querySelectorAll('header, form, pre.code')].map(e => getComputedStyle(e).display + ' ' + getComputedStyle(e).whiteSpace).join()", &text))
	if !regexp.MustCompile(`^none [a-z-]+,(none [a-z-]+,)*block pre-wrap(,none [a-z-]+)*$`).MatchString(text) {
		t.Errorf("printed: %s", text)
	}
	seen.check(t)
}
