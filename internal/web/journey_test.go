package web_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// person uses the dashboard with a keyboard and looks at what it shows. What is looked for may come with another page, or with a part of this one.
type person struct {
	*world
	ctx context.Context
}

// sees waits until an expression of JavaScript holds on the page.
func (p person) sees(what, js string) {
	p.t.Helper()
	p.eventually(what, func() bool {
		var holds bool
		err := chromedp.Run(p.ctx, chromedp.Evaluate(js, &holds)) // fails while a page goes
		return err == nil && holds
	})
}

// reads waits until the page says all words.
func (p person) reads(words ...string) {
	p.t.Helper()
	for _, word := range words {
		p.sees("the page says "+word, fmt.Sprintf("document.querySelector('main')?.innerText.includes(%q) ?? false", word))
	}
}

// finds waits until an element is visible.
func (p person) finds(selector string) {
	p.t.Helper()
	p.sees(selector+" is there", fmt.Sprintf("document.querySelector(%q)?.checkVisibility() ?? false", selector))
}

// types gives an element the focus and types.
func (p person) types(selector, keys string, with ...input.Modifier) {
	p.t.Helper()
	p.sees(selector+" has the focus", fmt.Sprintf("(() => { const e = document.querySelector(%q); e?.focus(); return !!e && document.activeElement === e })()", selector))
	does(p.t, p.ctx, typed(keys, with...))
}

// goesTo goes to a section by the palette.
func (p person) goesTo(section string) {
	p.t.Helper()
	p.finds("html[data-keys]")
	does(p.t, p.ctx, typed("k", input.ModifierCtrl))
	p.finds("dialog [role=option]")
	p.types("dialog input", section+kb.Enter)
	p.sees("the section "+section, fmt.Sprintf("document.querySelector('h1')?.textContent === %q", section))
	p.finds("html[data-keys]")
}

// picks takes the first completion.
func (p person) picks(label string) {
	p.t.Helper()
	p.offers(p.t, p.ctx, label)
	does(p.t, p.ctx, typed(kb.Enter))
}

// The first ten minutes of a person with a harness that has just started, by keyboard: a server is added, a program is written with completion, fails, is mended and
// looked at; a task of a model waits for a person, is approved, leaves a file, and its cost is seen. The model is a recording.
func TestBrowserFirstTenMinutes(t *testing.T) {
	ctx := chromium(t)
	w := setup(t, false, "model: {prices: {test-model: {input: 1000, output: 4000}}}")
	seen := w.watch(t, ctx)
	w.logIn(t, ctx)
	p := person{w, ctx}
	p.reads("Nothing has run yet", "Write a program", "ask for a task")

	p.goesTo("Servers")
	p.types("summary", kb.Enter)
	p.types("textarea[name=server]", w.tools.url+kb.Tab+"mine"+kb.Enter)
	p.reads("Server mine", "ready", "mine__list", "mine__write")

	p.goesTo("Runs")
	p.finds(".cm-content")
	p.types(".cm-content", "const all = await tools.mi")
	p.picks("mine")
	does(t, ctx, typed(".li"))
	p.picks("list")
	does(t, ctx, typed("({});\nreturn all.map((n) => n.name.length)"), typed(kb.Enter, input.ModifierCtrl))
	p.reads("failed", "line 2", "undefined", "mine__list")
	p.types("a[href*=from]", kb.Enter)
	p.finds(".cm-lint-marker-error")
	p.types(".cm-content", "a", input.ModifierCtrl)
	does(t, ctx, typed("const all = await tools.mine.list({});\nreturn all.map((n) => n.title.length)"), typed(kb.Enter, input.ModifierCtrl))
	p.reads("succeeded", "mine__list", "Result")

	p.goesTo("Tasks")
	p.types("textarea[name=task]", "Make a report of the notes"+kb.Tab+kb.Tab+kb.Enter)
	p.reads("waiting approval", "it is in report.csv")
	p.goesTo("Approvals")
	p.finds("tr[data-row]")
	does(t, ctx, typed("j"+kb.Enter))
	p.finds("form.decide")
	p.reads("it is in report.csv", "mine__write")
	p.finds("html[data-keys]")
	does(t, ctx, typed("a"))
	p.finds(".notice")
	w.eventually("the note is written", func() bool { return len(w.tools.notes()) == 1 })

	p.goesTo("Tasks")
	p.reads("succeeded")
	p.types("tbody a", kb.Enter)
	p.reads("There are **2** notes.", "$0.4160")
	p.types(`main a[href^="/sessions/"]`, kb.Enter)
	p.reads("report.csv")
	var file string
	does(t, ctx, chromedp.Evaluate(`fetch(document.querySelector('tbody a[download]').href).then((r) => r.text())`, &file, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	if file != "id,title\n1,first\n" {
		t.Errorf("the file is %q", file)
	}
	p.types("tbody a", kb.Enter)
	p.reads("1,first")
	p.goesTo("Usage")
	p.reads("$0.4160", "mine__write")
	if !strings.HasSuffix(w.tools.notes()[0], "}") {
		t.Errorf("written: %q", w.tools.notes())
	}
	seen.check(t)
}
