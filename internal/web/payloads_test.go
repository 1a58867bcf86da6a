package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// payloads are texts that attack a page that shows them. A script that is executed calls attacked, which the browser reports, or sends a request to
// elsewhere.invalid.
var payloads = []string{
	`<script>attacked(1)</script>`,
	`<img src=x onerror=attacked(2)>`,
	`"><img src=x onerror=attacked(3)>`,
	`' onmouseover=attacked(4) onfocus=attacked(4) autofocus tabindex=1 x='`,
	`" onmouseover="attacked(5)" onfocus="attacked(5)" autofocus tabindex="1" x="`,
	`<svg onload=attacked(6)>`,
	`<svg><script>attacked(7)</script></svg>`,
	`<svg><a xlink:href="javascript:attacked(8)"><text y=20>click</text></a></svg>`,
	`<math><mi xlink:href="javascript:attacked(9)">click</mi></math>`,
	`<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=attacked(10)&gt;">`,
	`[click](javascript:attacked(11))`,
	`![image](https://elsewhere.invalid/12.png)`,
	`{{constructor.constructor('attacked(13)')()}}{{.}}{{template "frame"}}`,
	"${attacked(14)}`${attacked(14)}`",
	`<%= attacked(15) %>#{attacked(15)}`,
	`javascript:attacked(16)`,
	`<a href="javascript:attacked(17)">click</a>`,
	`<a href="java&#10;script:attacked(18)">click</a>`,
	`<style>@import url(https://elsewhere.invalid/19.css);*{color:red}</style>`,
	`<div style="background:url(https://elsewhere.invalid/20.png)">x</div>`,
	`<link rel=stylesheet href=https://elsewhere.invalid/21.css>`,
	`<meta http-equiv=refresh content="0;url=https://elsewhere.invalid/22">`,
	`<base href=https://elsewhere.invalid/23/>`,
	`<iframe srcdoc="<script>parent.attacked(24)</script>"></iframe>`,
	`<iframe src="javascript:parent.attacked(25)"></iframe>`,
	`<object data="data:text/html,<script>attacked(26)</script>"></object>`,
	`<embed src=https://elsewhere.invalid/27>`,
	`<form action=https://elsewhere.invalid/28><button autofocus>click</button></form>`,
	`<button formaction=javascript:attacked(29)>click</button>`,
	`</title><script>attacked(30)</script>`,
	`</textarea><script>attacked(31)</script>`,
	`--><script>attacked(32)</script><!--`,
	`]]><script>attacked(33)</script>`,
	`</pre></code></td></table><details open ontoggle=attacked(34)>`,
	`<video><source onerror=attacked(35)></video>`,
	`<noscript><p title="</noscript><img src=x onerror=attacked(36)>">`,
	`&#60;script&#62;attacked(37)&#60;/script&#62;`,
	`\u003cscript\u003eattacked(38)\u003c/script\u003e`,
	`//elsewhere.invalid/39`,
	`<x id=a tabindex=1 onfocus=attacked(40)>`,
	"\u202egnp.exe\u2066\u2067\u200b\u200f",
	"\x1b[31mred\x1b]8;;https://elsewhere.invalid/42\x1b\\link\x1b]8;;\x1b\\\x9b",
	"nul\x00byte\r\b\b\bover",
	"lone \xed\xa0\x80 surrogate",
	strings.Repeat("W", 3000),
}

// payload contains all payloads in one text.
var payload = strings.Join(payloads, " ")

// attacked returns a world in which every text that others control is a payload, and the paths of the pages that show them.
func attacked(t testing.TB) (w *world, paths []string) {
	text := strings.ReplaceAll(printable(payload), "'", "''")
	w = setup(t, false, "  moody: {url: \"%[2]s/moody\"}\n  broken: {command: sh, args: [-c, 'echo \"$TEXT\" >&2; exit 1'], env: {TEXT: '"+strings.NewReplacer("%", "%%", "$", "$$").Replace(text)+"'}}", "quarantine: changed", "server: {rateLimit: {enabled: false}}")
	post := func(path string, body any, into any) {
		t.Helper()
		if got := w.api(w.token, "POST", path, body, into); got >= 300 {
			t.Fatalf("%s: %d", path, got)
		}
	}
	w.api(w.token, "GET", "/v1/tools", nil, nil) // connects the MCP servers
	w.eventually("the servers are connected", func() bool { return w.server("notes").State == "ready" && w.server("moody").State == "ready" })
	w.tools.change(payload)
	post("/v1/servers/moody/reconnect", struct{}{}, nil)
	w.eventually("a definition is held", func() bool { return w.server("moody").Held > 0 })

	said, _ := w.run(w.token, "for (const text of ["+strings.Join(mapped(payloads, quoted), ",\n")+"]) { console.log(text); console.error({[text]: text}); }\nconsole.log('\\ud800')\n"+
		"await fs.writeFile('/workspace/notes.txt', "+quoted(payload)+");\nconst all = await tools.notes.list({about: "+quoted(payload)+", "+quoted(payload)+": '\\udfff'});\nreturn {all, said: "+quoted(payload)+"}")
	many, _ := w.run(w.token, "return (await tools.notes.large({count: 300})).items.length")
	failed, _ := w.run(w.token, "try { await tools.notes.fail({}) } catch {}\nthrow new Error("+quoted(payload)+") // "+strings.NewReplacer("\n", " ", "\r", " ").Replace(payload))
	broken, _ := w.run(w.token, "<script>attacked('code')</script> = 1")
	w.run(w.token, "return await tools.notes.write("+quoted(payload)+")")
	asks, status := w.run(w.token, "await tools.notes.read({title: "+quoted(payload)+"});\nreturn await tools.notes.write({title: "+quoted(payload)+", "+quoted(payload)+": 1, text: "+quoted(strings.Join(payloads[1:], "\n"))+"})")
	if status != "waiting_approval" {
		t.Fatalf("the write is %s", status)
	}
	w.run(w.token, "return await tools.notes.write({title: 'denied'})")
	post("/v1/sessions", map[string]string{"userId": "local", "id": "work"}, nil)
	w.store("/v1/sessions/work/files/all.html?userId=local", strings.Join(payloads, "\n"))
	var names []string
	for i, p := range payloads {
		later := time.Now().Add(24 * time.Hour).Format(time.RFC3339)
		post("/v1/tasks", map[string]any{"userId": "local", "task": "x" + p, "runAt": later, "sessionId": "work"}, nil)
		post("/v1/schedules", map[string]any{"userId": "local", "task": p + " x", "runAt": later}, nil)
		w.store(fmt.Sprintf("/v1/skills/skill%d/SKILL.md?userId=local", i), fmt.Sprintf("---\nname: skill%d\ndescription: %q\n---\n%s", i, printable(p), p))
		if user := printable(p); len(user) <= 100 {
			names = append(names, user)
			post("/v1/runs", map[string]any{"userId": user, "code": "return 1"}, nil)
			w.store("/v1/sessions/work/files/"+url.PathEscape(regexp.MustCompile(`[<>:"/\\|?*]`).ReplaceAllString(user, "-"))+"?userId=local", p)
		}
	}
	var task struct{ ID, SessionID, Status string }
	post("/v1/tasks", map[string]any{"userId": "local", "task": payload}, &task)
	w.eventually("the task ends", func() bool {
		w.api(w.token, "GET", "/v1/tasks/"+task.ID, nil, &task)
		return task.Status == "succeeded"
	})
	var approvals struct {
		Approvals []struct{ ID string } `json:"approvals"`
	}
	w.api(w.token, "GET", "/v1/approvals?status=waiting", nil, &approvals)
	post("/v1/approvals/"+approvals.Approvals[0].ID, map[string]string{"decision": "deny", "reason": payload[:1000]}, nil)

	w.run(w.token, "return await tools.notes.lose({title: "+quoted(payload)+"})")
	lost, _ := w.run(w.token, "return await tools.notes.lose({title: "+quoted(payload)+", "+quoted(payload)+": 1})")
	settled, _ := w.run(w.token, "return await tools.notes.lose({})")
	post("/v1/runs/"+settled+"/calls/1/settle", map[string]string{"verdict": "done", "note": payload[:1000]}, nil)

	w.run(w.token, "for (const name of ["+strings.Join(mapped(payloads, quoted), ",\n")+"]) await callMCPTool('unknown__' + name, {about: name}).catch(() => {})")

	asked := url.QueryEscape(payload[:1500])
	paths = []string{
		"/", "/tasks", "/tasks/" + task.ID, "/runs", "/runs?userId=" + url.QueryEscape(names[1]), "/runs/" + said, "/runs/" + failed, "/runs/" + broken, "/runs/" + asks, "/runs/" + said + "/calls/1", "/runs/" + said + "/calls/2", "/runs/" + failed + "/calls/1", "/approvals", "/approvals?status=denied", "/approvals/" + approvals.Approvals[0].ID, "/approvals/" + approvals.Approvals[1].ID, "/approvals/" + approvals.Approvals[2].ID,
		"/tools", "/tools?q=notes", "/tools?q=" + asked, "/tools?server=" + asked, "/tools/notes__list", "/tools/notes__write",
		"/servers", "/servers/notes", "/servers/broken", "/servers/moody", "/sessions", "/sessions/work?userId=local", "/sessions/work?userId=local&dir=" + asked, "/sessions/work/files/all.html?userId=local&view=1", "/skills", "/schedules", "/policy", "/privacy?userId=local", "/privacy?userId=" + asked, "/audit", "/audit?eventType=" + asked, "/audit?userId=" + asked, "/usage?window=hour", "/usage?by=server", "/usage?by=user&window=" + asked, "/usage?by=model", "/usage?userId=" + url.QueryEscape(names[1]),
		"/runs?sessionId=" + asked + "&userId=" + asked, "/tasks?status=" + asked, "/tasks?q=" + asked, "/runs/" + url.PathEscape(payloads[0]), "/tools/" + url.PathEscape(payloads[2]), "/login?to=" + asked, "/login?code=" + asked, "/?done=" + asked,
		"/runs/" + said + "/compare?with=" + failed, "/runs/" + said + "/compare?with=" + asked,
		"/runs?from=" + said, "/runs?from=" + failed, "/runs?from=" + broken,
		"/doubts", "/runs/" + lost + "/calls/1", "/runs/" + settled, "/runs/" + settled + "/calls/1",
		"/policy?from=" + asked + "&tool=" + asked, "/privacy?userId=local&by=field", "/privacy?by=field&userId=" + asked + "&runs=" + asked, "/policy/presets", "/policy/presets?runs=" + asked + "&userId=" + asked, "/policy/flows", "/policy/flows?by=server", "/policy/flows?by=" + asked + "&runs=" + asked + "&userId=" + asked,
		"/runs/" + many + "/calls/1", "/runs/" + many + "/calls/1/value?of=result&path=/texts", "/runs/" + many + "/calls/1/value?of=result&path=/items/1", "/runs/" + many + "/calls/1/value?of=result&path=" + asked,
		"/security-keys/new?registration=" + asked, "/login/oidc?to=" + asked, "/login/callback?state=" + asked + "&error=" + asked + "&error_description=" + asked, "/doctor", "/keys", "/skill?name=skill3&userId=local", "/skill?name=" + asked,
	}
	w.covers(t, paths, w.noPages(said, task.ID)...)
	return w, paths
}

// serverStatus is the status of an MCP server in the API.
type serverStatus struct {
	State, Reason string
	Held          int
}

func (w *world) server(name string) (status serverStatus) {
	w.t.Helper()
	w.api(w.token, "GET", "/v1/servers/"+name, nil, &status)
	return status
}

func mapped(all []string, of func(string) string) (out []string) {
	for _, s := range all {
		out = append(out, of(s))
	}
	return out
}

// quoted returns a text as a JavaScript string.
func quoted(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`, "\n", `\n`, "\r", `\r`, "\x00", `\x00`).Replace(s) + "'"
}

// begins starts a run that waits for an approval, then prints the payloads, and waits for an approval again. goOn approves the first request.
func (w *world) begins(t testing.TB) (id string, goOn func()) {
	t.Helper()
	var out struct {
		RunID string `json:"runId"`
	}
	w.api(w.token, "POST", "/v1/runs", map[string]any{"code": "await tools.notes.write({title: 'begin'});\nfor (const text of [" + strings.Join(mapped(payloads, quoted), ",\n") + "]) {\n" +
		"console.log(text); console.error({[text]: text}); await callMCPTool('unknown__' + text, {[text]: text}).catch(() => {}); await tools.notes.list({about: text});\n}\n" +
		"console.log('that was all'); await tools.notes.write({title: " + quoted(payload) + "})"}, &out)
	var asked struct{ Approvals []struct{ ID, RunID string } }
	w.api(w.token, "GET", "/v1/approvals?status=waiting&limit=1", nil, &asked)
	if len(asked.Approvals) != 1 || asked.Approvals[0].RunID != out.RunID {
		t.Fatalf("the run %s does not wait: %v", out.RunID, asked)
	}
	return out.RunID, func() {
		if got := w.api(w.token, "POST", "/v1/approvals/"+asked.Approvals[0].ID, map[string]string{"decision": "approve"}, nil); got != http.StatusOK {
			t.Errorf("approve: %d", got)
		}
	}
}

// jsonOf returns a value as JSON.
func jsonOf(of any) string {
	text, _ := json.Marshal(of) // texts can always be encoded
	return string(text)
}

// printable returns a text without the characters that names may not contain.
func printable(s string) string {
	return regexp.MustCompile(`[\p{Cc}\p{Cf}]`).ReplaceAllString(strings.ToValidUTF8(s, ""), "")
}

// structure is JavaScript that lists everything on a page that templates do not produce: other elements and attributes, addresses of other origins, and
// characters that hide or reorder text.
const structure = `(() => {
	const known = new Set(('html head meta title link script body a header nav form input span button main h1 h2 h3 h4 p dl div dt dd section table thead tbody tr th td pre code ul ol li small strong time details summary ' +
		'label select option datalist mark textarea article svg rect footer kbd noscript').split(' '));
	const wrong = [];
	for (const e of document.querySelectorAll('*')) {
		// The editor places its parts by styles, and puts images without a source beside what stands for a character.
		const edited = e.closest('.cm-editor');
		if (!known.has(e.localName) && !(edited && /^(br|img)$/.test(e.localName) && !e.src)) wrong.push('<' + e.localName + '>');
		for (const a of e.attributes) {
			if (a.name === 'style' && edited && !/url|attacked/.test(a.value)) continue;
			if (/^on|^style$|^srcdoc$|^formaction$|^xlink/.test(a.name) || a.name === 'autofocus' && !e.closest('.login, [data-register]')) wrong.push(e.localName + ' ' + a.name);
			if (/^(src|href|action|data)$/.test(a.name) && new URL(a.value, document.baseURI).origin !== location.origin) wrong.push(a.name + '=' + a.value);
			if (a.name === 'http-equiv') wrong.push(a.value);
		}
	}
	if (document.scripts.length !== 1 || document.querySelectorAll('link').length !== 2) wrong.push('scripts or links');
	const hidden = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069]/.exec(document.title + document.body.innerText);
	if (hidden) wrong.push('character ' + hidden[0].codePointAt(0).toString(16));
	return wrong;
})()`

// poke is JavaScript that does to every element what a person can do without leaving the page.
const poke = `for (const e of document.querySelectorAll('body *')) {
	for (const kind of ['mouseover', 'mouseenter', 'pointerover', 'mousedown', 'mouseup']) e.dispatchEvent(new MouseEvent(kind, {bubbles: true}));
	if (e.matches('[tabindex], a, button, input')) e.focus();
	if (e.localName === 'details') e.open = true;
}
document.activeElement.blur();
Array.from(document.querySelectorAll('a[href]:not([download])'), (a) => a.href)`

// shape returns an address with its ids and numbers replaced. The test visits one page of each shape.
func shape(path string) string {
	path, query, _ := strings.Cut(path, "?")
	names, _ := url.ParseQuery(query)
	return regexp.MustCompile(`(run|task|apr|sess|sched)_[^/]+|skill\d+|calls/\d+|(tools|servers|sessions|skills)/[^/]+`).ReplaceAllString(path, "*") + fmt.Sprint(slices.Sorted(maps.Keys(names)))
}

// TestBrowserPayloads checks that names and texts from servers, models, programs, files, users, schedules and skills are shown as texts on every page, whatever
// a person clicks: no script is executed, and no request leaves the origin. The browser ignores the content security policy, because the escaping must not
// depend on it. Other tests check that pages do not violate the policy.
func TestBrowserPayloads(t *testing.T) {
	w, paths := attacked(t)
	ctx := chromium(t)
	var mu sync.Mutex
	var events []string
	chromedp.ListenTarget(ctx, func(event any) {
		mu.Lock()
		defer mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventBindingCalled:
			events = append(events, "executed: "+e.Payload)
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(e.Request.URL, w.url+"/") {
				events = append(events, "request to "+e.Request.URL)
			}
		case *log.EventEntryAdded:
			if e.Entry.Level == log.LevelError && !strings.Contains(e.Entry.Text, "the server responded with a status of 40") {
				events = append(events, e.Entry.Text)
			}
		case *page.EventJavascriptDialogOpening:
			events = append(events, "dialog")
		}
	})
	seen := func() (all []string) {
		mu.Lock()
		defer mu.Unlock()
		all, events = events, nil
		return all
	}
	must(t, chromedp.Run(ctx, network.Enable(), log.Enable(), runtime.Enable(), page.Enable(), runtime.AddBinding("attacked"), chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(`const call = window.attacked;
			window.attacked = (what) => call(String(what));
			document.addEventListener('securitypolicyviolation', (e) => call('against the policy: ' + e.violatedDirective + ' ' + e.blockedURI + ' ' + e.sample))`).Do(ctx)
		return err
	})))
	w.logIn(t, ctx)
	const control = `document.body.insertAdjacentHTML('beforeend', '<img src=/none onerror="attacked(\'control\')">')`
	does(t, ctx, page.SetBypassCSP(true))
	// The events of a running run change an open page.
	id, goOn := w.begins(t)
	does(t, ctx, chromedp.Navigate(w.url+"/runs/"+id), there("html[data-keys]"))
	goOn()
	var wrong []string
	does(t, ctx, until("document.querySelector('main').innerText.includes('that was all') && !!document.querySelector('#c80') || null", new(bool)), chromedp.Evaluate(structure, &wrong), chromedp.Evaluate(poke, nil))
	if wrong = append(wrong, seen()...); len(wrong) > 0 {
		t.Errorf("a run that goes on: %.1000q", wrong)
	}
	todo, known := slices.Clone(paths), map[string]bool{}
	for _, p := range paths {
		known[shape(p)] = true
	}
	for i := 0; i < len(todo); i++ {
		var wrong, links []string
		does(t, ctx, chromedp.Navigate(w.url+todo[i]))
		if strings.HasPrefix(todo[i], "/runs?from=") {
			does(t, ctx, visible(".cm-content"))
		}
		does(t, ctx, chromedp.Evaluate(structure, &wrong), chromedp.Evaluate(poke, &links))
		if wrong = append(wrong, seen()...); len(wrong) > 0 {
			t.Errorf("%.100s: %.1000q", todo[i], wrong)
		}
		for _, link := range links { // structure has checked that the links lead to this origin
			if path := strings.TrimPrefix(link, w.url); !known[shape(path)] && !strings.HasPrefix(path, "/skills/") && !strings.HasPrefix(path, "/docs") {
				known[shape(path)] = true
				todo = append(todo, path)
			}
		}
	}
	for path, button := range map[string]string{
		paths[5]: "form[action$=replay] button", paths[9]: "form[action*=calls] button", paths[15]: "button[value=deny]", "/schedules": "td button", "/doubts": "form[action$=settle] button", "/tools?q=": "form button",
	} {
		var wrong []string
		does(t, ctx, chromedp.Navigate(w.url+path))
		if _, err := chromedp.RunResponse(ctx, chromedp.Evaluate("document.querySelector('main "+button+"').click()", nil)); err != nil {
			t.Fatalf("%s of %s: %v", button, path, err)
		}
		does(t, ctx, chromedp.Evaluate(structure, &wrong), chromedp.Evaluate(poke, nil))
		if wrong = append(wrong, seen()...); len(wrong) > 0 {
			t.Errorf("%s of %.100s: %.1000q", button, path, wrong)
		}
	}
	for _, form := range []struct {
		action string
		fields map[string]string
		shows  string // text in the expected answer
	}{
		{"/policy/test#test", map[string]string{"tool": "notes__" + payloads[0], "args": jsonOf(map[string]string{payload: payload}), "origins": printable(payload)[:400] + "=" + printable(payload)[:400]}, "Judged"},
		{"/policy/test#test", map[string]string{"tool": payload[:1000], "args": payload, "userId": payload[:100]}, "not JSON"},
		{"/policy/simulation#other", map[string]string{"policy": payload, "userId": payload[:100]}, "what is wrong with it"},
		{"/policy/simulation#other", map[string]string{"policy": jsonOf([]any{
			map[string]any{"tools": "notes__" + printable(payloads[0]), "users": printable(payload), "action": "deny"}, map[string]any{"tools": "*", "action": "ask", "reason": printable(payload)},
		})}, "By tool"},
	} {
		var wrong []string
		var text string
		does(t, ctx, chromedp.Navigate(w.url+"/policy"))
		fill := "const form = document.querySelector('form[action=\"" + form.action + "\"]'); for (const [name, value] of Object.entries(" + jsonOf(form.fields) + ")) form.elements[name].value = value; form.requestSubmit()"
		if _, err := chromedp.RunResponse(ctx, chromedp.Evaluate("{"+fill+"}", nil)); err != nil {
			t.Fatalf("%s: %v", form.action, err)
		}
		does(t, ctx, chromedp.Evaluate(structure, &wrong), textOf("main", &text), chromedp.Evaluate(poke, nil))
		if wrong = append(wrong, seen()...); len(wrong) > 0 || !strings.Contains(text, form.shows) {
			t.Errorf("%s: %.1000q, and %q in %.2000s", form.action, wrong, form.shows, text)
		}
	}
	w.tryCompletions(t, ctx, func(what string) {
		t.Helper()
		var wrong []string
		does(t, ctx, chromedp.Evaluate(structure, &wrong))
		if wrong = append(wrong, seen()...); len(wrong) > 0 {
			t.Errorf("%s: %.1000q", what, wrong)
		}
	})
	// The test must notice an attack that works: a script that is inserted on purpose is reported, or refused by the policy.
	for bypass, want := range map[bool]string{true: "executed: control", false: "TypeError"} {
		var answer string
		does(t, ctx, page.SetBypassCSP(bypass), chromedp.Navigate(w.url+"/policy"), chromedp.Evaluate("try { "+control+"; 'inserted' } catch (e) { e.name }", &answer))
		var all []string
		w.eventually("a script that is inserted is seen", func() bool {
			all = append(all, seen()...)
			return slices.Contains(all, want) || answer == want && len(all) > 0
		})
	}
}
