package web_test

import (
	"context"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestBrowserNotifications checks that a person who has enabled notifications gets one for each request, and that the notification leads to the request.
func TestBrowserNotifications(t *testing.T) {
	ctx := chromium(t)
	w := setup(t, false)
	seen := w.watch(t, ctx)
	// A browser without a desktop shows no notifications, so this script records them.
	does(t, ctx, chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(`window.shown = []; window.Notification = class {
			static permission = 'default';
			static async requestPermission() { localStorage.allowed = 'yes'; return this.permission = 'granted'; }
			constructor(title, { body }) { this.text = title + ': ' + body; shown.push(this); }
			close() { shown.splice(shown.indexOf(this), 1); }
		}; if (location.protocol !== 'about:' && localStorage.allowed) Notification.permission = 'granted';`).Do(ctx)
		return err
	}))
	w.logIn(t, ctx)
	asks := func(title string) {
		if _, status := w.run(w.token, "return await tools.notes.write({title: '"+title+"'})"); status != "waiting_approval" {
			t.Fatalf("the write is %s", status)
		}
	}
	told := func(want ...string) {
		t.Helper()
		var got []string
		does(t, ctx, chromedp.Poll("shown.length", nil, chromedp.WithPollingTimeout(stepTime)), chromedp.Evaluate("shown.map((n) => n.text)", &got))
		if !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
	}
	away := chromedp.Navigate("about:blank") // leaves the dashboard, so that no page asks for requests
	asks("one")
	does(t, ctx, chromedp.Navigate(w.url+"/approvals"), visible("[data-notify][aria-pressed=false]"), focusOn("[data-notify]"), chromedp.KeyEvent(kb.Enter),
		visible("[data-notify][aria-pressed=true]"))
	told("A request waits for you: notes__write")
	does(t, ctx, away)
	asks("two")
	asks("three")
	does(t, ctx, chromedp.Navigate(w.url+"/keys"))
	told("2 requests wait for you: notes__write")
	does(t, ctx, away)
	asks("four")
	does(t, ctx, chromedp.Navigate(w.url+"/keys"))
	told("A request waits for you: notes__write")
	does(t, ctx, chromedp.Evaluate("shown[0].onclick()", nil), visible("form.decide"), until(`document.body.innerText.includes("four") || null`, new(bool)))
	does(t, ctx, chromedp.Navigate(w.url+"/approvals"), visible("[data-notify][aria-pressed=true]"), focusOn("[data-notify]"), chromedp.KeyEvent(kb.Enter),
		visible("[data-notify][aria-pressed=false]"))
	seen.check(t)
}
