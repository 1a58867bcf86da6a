package web_test

import (
	"bytes"
	"context"
	"fmt"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// sends sends a form with files as a browser without scripts does. pairs are names and values; a name that begins with @ is the name of a file.
func (r *reader) sends(path string, pairs ...string) answer {
	r.w.t.Helper()
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	for i := 0; i < len(pairs); i += 2 {
		part, err := form.CreateFormField(pairs[i])
		if name, ok := strings.CutPrefix(pairs[i], "@"); ok {
			part, err = form.CreateFormFile("file", name)
		}
		must(r.w.t, err)
		_, err = part.Write([]byte(pairs[i+1]))
		must(r.w.t, err)
	}
	must(r.w.t, form.Close())
	return r.do(http.MethodPost, path, form.FormDataContentType(), &b)
}

// TestInputs checks that programs and tasks get the files of their form in a session. After an error, the form keeps the text and the stored files.
func TestInputs(t *testing.T) {
	t.Parallel()
	w := setup(t, false, "workspace: small")
	r := w.login(w.token)
	to := "/runs?csrf=" + r.form
	// ran returns the result of the program that a form has started.
	ran := func(got answer) string {
		t.Helper()
		id, _, _ := strings.Cut(strings.TrimPrefix(got.header.Get("Location"), "/runs/"), "?")
		var out struct {
			Status string
			Output any
			Error  any
		}
		w.eventually("the run ends", func() bool {
			if got.status != http.StatusSeeOther || w.api(w.token, "GET", "/v1/runs/"+id, nil, nil) != http.StatusOK { // the run may not have begun yet
				return false
			}
			w.api(w.token, "GET", "/v1/runs/"+id, nil, &out)
			return out.Status != "running"
		})
		return fmt.Sprint(out.Output, out.Error)
	}
	if got := ran(r.sends(to, "code", "let n = 0; for await (const row of input) n += Number(row.n);\nreturn [n, await fs.readdir('/workspace')]", "sessionId", "", "@", "", "@two.csv", "n\n1\n2\n")); !strings.HasPrefix(got, "[3 [two.csv]]") {
		t.Errorf("one file: %s", got)
	}
	const both = "return (await Promise.all(['a ä.txt', 'b.txt'].map((n) => fs.readFile('/workspace/' + n)))).join('+') + typeof input"
	if got := ran(r.sends(to, "code", both, "sessionId", "work", "@a ä.txt", "one", "@b.txt", "two")); !strings.HasPrefix(got, "one+twoundefined") {
		t.Errorf("two files in a session: %s", got)
	}
	if got := r.sends(to, "code", "return 1", "sessionId", "work", "@none", "", "@../b.txt", "three"); got.status != http.StatusSeeOther {
		t.Errorf("a path as a name: %d", got.status)
	}
	if got := ran(r.sends(to, "code", both, "sessionId", "work", "stored", "b.txt")); !strings.HasPrefix(got, "one+threestring") {
		t.Errorf("a file that was stored before is not the input: %s", got)
	}
	got := r.sends(to, "code", "return '<b>", "sessionId", "other", "@kept.txt", "x", "@large.bin", strings.Repeat("x", 10<<10))
	for _, text := range []string{"large.bin: ", "workspace.maxBytes", "return &#39;&lt;b&gt;", `name="sessionId" value="other"`, `value="kept.txt" checked`, "4.0 KiB in all"} {
		if got.status < 400 || !strings.Contains(got.text, text) {
			t.Errorf("a form with a file that is too large: %d, no %q in\n%s", got.status, text, got.text)
		}
	}
	if got := r.sends("/tasks?csrf="+r.form, "task", "Say <b>", "@large.bin", strings.Repeat("x", 10<<10)); !strings.Contains(got.text, "Say &lt;b&gt;</textarea>") || !strings.Contains(got.text, "workspace.maxBytes") {
		t.Errorf("a task with a file that is too large: %d\n%s", got.status, got.text)
	}
	if got := r.sends("/runs?csrf=none", "code", "return 1", "@x", ""); got.status != http.StatusForbidden {
		t.Errorf("a form of another session: %d", got.status)
	}
	if got := r.sends(to, "code", strings.Repeat(" ", 2<<20)+"return 1"); got.status != http.StatusBadRequest || !strings.Contains(got.text, "longer than 2 MiB") {
		t.Errorf("a long field: %d", got.status)
	}
	var asked struct{ Task string }
	got = r.sends("/tasks?csrf="+r.form, "task", "Count.", "@a.txt", "one", "@b.txt", "two")
	if w.api(w.token, "GET", "/v1"+got.header.Get("Location"), nil, &asked); asked.Task != "Count.\n\nThe inputs are the files /workspace/a.txt, /workspace/b.txt." {
		t.Errorf("a task with files: %d %q", got.status, asked.Task)
	}
}

// drops drops files on an element, after it has scrolled the element into view and removed the focus. Without the focus, the editor shows no completions that
// could cover the element.
func drops(selector string, files ...string) chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) error {
		var at [2]float64
		if err := until("(() => { document.activeElement?.blur(); const e = "+element(selector)+"; e?.scrollIntoView({block: 'center'}); const b = e?.getBoundingClientRect(); if (!b) return null; const at = [b.x + b.width / 2, b.y + 10]; return e.contains(document.elementFromPoint(...at)) ? at : null })()", &at).Do(ctx); err != nil {
			return err
		}
		data := &input.DragData{Items: []*input.DragDataItem{}, Files: files, DragOperationsMask: 1}
		for _, kind := range []input.DispatchDragEventType{input.DragEnter, input.DragOver, input.Drop} {
			if err := input.DispatchDragEvent(kind, at[0], at[1], data).Do(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// dropsInto drops files on an element that accepts them. If content above the element has changed its height, the drop misses the element, and dropsInto drops
// the files again.
func dropsInto(selector string, files ...string) chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) error {
		listen := "window.dropped = false; document.addEventListener('drop', (e) => { window.dropped ||= " + element(selector) + ".contains(e.target) }, { capture: true })"
		if err := chromedp.Evaluate(listen, nil).Do(ctx); err != nil {
			return err
		}
		for {
			if err := drops(selector, files...).Do(ctx); err != nil {
				return err
			}
			short, cancel := context.WithTimeout(ctx, 2*time.Second)
			var dropped bool
			err := until("window.dropped || null", &dropped).Do(short)
			cancel()
			if err == nil || ctx.Err() != nil {
				return err
			}
		}
	})
}

// chooses chooses files in a field of the form, as in its dialog.
func chooses(selector string, files ...string) chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) error {
		field, thrown, err := runtime.Evaluate(element(selector)).Do(ctx)
		if err == nil && thrown != nil {
			err = thrown
		}
		if err != nil {
			return err
		}
		return dom.SetFileInputFiles(files).WithObjectID(field.ObjectID).Do(ctx)
	})
}

// TestBrowserInputs drops and chooses files. The page shows their sizes and their sum, files can be removed with the keyboard, and a form with too many bytes
// is refused before it is sent.
func TestBrowserInputs(t *testing.T) {
	ctx := chromium(t)
	w := setup(t, false, "workspace: small")
	seen := w.watch(t, ctx)
	w.logIn(t, ctx)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	one, two, again, large := file("one.csv", "n\n1\n"), file("two & b.txt", "second"), file("other/one.csv", "n\n1\n2\n"), file("large.bin", strings.Repeat("x", 5000))
	chosen := func(want ...string) chromedp.Action {
		return chromedp.ActionFunc(func(ctx context.Context) error {
			var items []string
			if err := until("(() => { const all = [...document.querySelectorAll('[data-chosen] li')].map(e => e.firstChild.textContent.trim()); return all.length === "+fmt.Sprint(len(want))+" ? all : null })()", &items).Do(ctx); err != nil {
				return err
			}
			if !slices.Equal(items, want) {
				t.Errorf("chosen: %q, want %q", items, want)
			}
			return nil
		})
	}
	var text, focused string
	var sent bool
	does(t, ctx, chromedp.Navigate(w.url+"/runs"), there("[data-ready]"), chromedp.Evaluate("document.querySelector('details').open = true", nil), visible(".cm-content"),
		focusOn(".cm-content"), typed("let n = 0; for await (const row of input) n += Number(row.n); return n"),
		dropsInto(".inputs", one, two), chosen("one.csv, 4 B", "two & b.txt, 6 B"), textOf("[data-sum]", &text),
		drops("h1", large), // files dropped beside the field are ignored, and the page stays
		chooses("input[type=file]", again), chosen("two & b.txt, 6 B", "one.csv, 6 B"),
		chooses("input[type=file]", large), visible("[data-wrong]"), chosen("two & b.txt, 6 B", "one.csv, 6 B", "large.bin, 4.9 KiB"),
		chromedp.Evaluate("document.querySelector('#composer form').checkValidity()", &sent))
	if text != "2 files, 10 B" || sent {
		t.Errorf("the sum is %q; the form with too much can be sent: %v", text, sent)
	}
	does(t, ctx, chromedp.Evaluate("document.querySelector('[data-chosen] li:nth-child(3) button').focus()", nil), chromedp.KeyEvent(kb.Enter), gone("[data-wrong]:not([hidden])"), chosen("two & b.txt, 6 B", "one.csv, 6 B"),
		chromedp.KeyEvent(kb.Tab+kb.Shift), chromedp.Evaluate("document.querySelector('[data-chosen] li:nth-child(1) button').focus()", nil), chromedp.KeyEvent(" "), chosen("one.csv, 6 B"),
		chromedp.Evaluate("document.activeElement.ariaLabel", &focused),
		focusOn(".cm-content"), chromedp.KeyEvent(kb.Enter, chromedp.KeyModifiers(input.ModifierCtrl)), visible("pre.code"),
		until("[...document.querySelectorAll('h2')].find(h => h.textContent === 'Result')?.nextElementSibling.innerText ?? null", &text))
	if focused != "Remove one.csv" || text != "3" {
		t.Errorf("behind the removal the focus is on %q; the program returned %q", focused, text)
	}
	does(t, ctx, chromedp.Navigate(w.url+"/tasks"), there("[data-ready]"), chromedp.Evaluate("document.querySelector('details').open = true", nil), focusOn("textarea"), chromedp.KeyEvent("Count"),
		dropsInto(".inputs", one, two), chosen("one.csv, 4 B", "two & b.txt, 6 B"), chromedp.Evaluate("document.querySelector('#asking .primary').click()", nil), visible(".asked"), textOf(".asked", &text))
	if !strings.Contains(text, "/workspace/one.csv, /workspace/two & b.txt.") {
		t.Errorf("the task is %q", text)
	}
	seen.check(t)
}
