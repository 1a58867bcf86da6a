package web_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"mcp-code-exec-harness/internal/testing/npmtest"
)

// typed presses keys as a keyboard does. If the page handles a key, no character is typed, unlike with chromedp.KeyEvent.
func typed(keys string, with ...input.Modifier) chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) error {
		for _, r := range keys {
			if r == '\n' {
				r = '\r'
			}
			k := kb.Keys[r]
			var modifiers input.Modifier
			for _, m := range with {
				modifiers |= m
			}
			if k.Shift {
				modifiers |= input.ModifierShift
			}
			down := input.DispatchKeyEvent(input.KeyDown).WithKey(k.Key).WithCode(k.Code).WithModifiers(modifiers).WithWindowsVirtualKeyCode(k.Windows).WithNativeVirtualKeyCode(k.Native)
			if len(with) == 0 && k.Print {
				down = down.WithText(k.Text).WithUnmodifiedText(k.Unmodified)
			}
			up := input.DispatchKeyEvent(input.KeyUp).WithKey(k.Key).WithCode(k.Code).WithModifiers(modifiers).WithWindowsVirtualKeyCode(k.Windows)
			if err := (chromedp.Tasks{down, up}).Do(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// offers waits until the first completion begins with label. An empty label stands for any completion.
func (w *world) offers(t testing.TB, ctx context.Context, label string) {
	t.Helper()
	var since time.Time
	w.eventually("the editor offers "+label, func() bool {
		var first string
		does(t, ctx, chromedp.Evaluate("document.querySelector('.cm-tooltip-autocomplete:not(.cm-tooltip-autocomplete-disabled) li[aria-selected]')?.textContent ?? ''", &first))
		if first == "" || !strings.HasPrefix(first, label) {
			since = time.Time{}
		} else if since.IsZero() {
			since = time.Now()
		}
		return !since.IsZero() && time.Since(since) > 100*time.Millisecond // a list that has just opened ignores keys
	})
}

// TestBrowserEditor writes a program with the keyboard and with completions. The editor marks a mistake, which is corrected, and the program runs. The content
// security policy is never violated, and the editor is accessible.
func TestBrowserEditor(t *testing.T) {
	ctx := chromium(t)
	axe, err := os.ReadFile(filepath.Join(npmtest.Install(t, "axe", os.DirFS("testdata/axe")), "node_modules", "axe-core", "axe.min.js"))
	must(t, err)
	w := setup(t, false)
	seen := w.watch(t, ctx)
	w.logIn(t, ctx)
	readable := func(what string) {
		t.Helper()
		for _, scheme := range []string{"light", "dark"} {
			var found string
			var wide float64
			does(t, ctx, emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}), chromedp.Evaluate(string(axe)+";0", nil),
				chromedp.Evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth", &wide),
				chromedp.Evaluate("axe.run(document, {resultTypes: ['violations']}).then(r => JSON.stringify(r.violations.map(v => [v.id, v.nodes.map(n => n.html + n.failureSummary)])))", &found,
					func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
			if found != "[]" || wide > 0 {
				t.Errorf("%s, %s: %g wider than the screen, %s", what, scheme, wide, found)
			}
			if shots := os.Getenv(screenshotsVar); shots != "" {
				var png []byte
				does(t, ctx, chromedp.CaptureScreenshot(&png))
				must(t, os.WriteFile(filepath.Join(shots, "editor-"+what+"-"+scheme+".png"), png, 0o600))
			}
		}
	}
	pick := func(label string) {
		t.Helper()
		w.offers(t, ctx, label)
		does(t, ctx, typed(kb.Enter))
	}
	var text, focused string
	w.run(w.token, "return await tools.notes.list({})") // the harness learns the shape of the result
	does(t, ctx, chromedp.EmulateViewport(375, 900), chromedp.Navigate(w.url+"/runs"), visible("summary"), focusOn("summary"), typed(kb.Enter), visible(".cm-content"), typed(kb.Tab+"const all = await too"))
	pick("tools")
	does(t, ctx, typed(".n"))
	pick("notes")
	does(t, ctx, typed(".li"))
	w.offers(t, ctx, "list")
	readable("completion")
	pick("list")
	does(t, ctx, typed("({});\ntools.notes.write({"))
	w.offers(t, ctx, "text")
	does(t, ctx, typed(kb.Escape), gone(".cm-tooltip-autocomplete"), typed(" ", input.ModifierCtrl))
	w.offers(t, ctx, "text")
	does(t, ctx, typed("ti"))
	pick("title")
	does(t, ctx, typed("all.map((x) => x.i"))
	pick("id")
	does(t, ctx, typed(kb.End+"\nreturn all.length +"))
	want := "const all = await tools.notes.list({});\ntools.notes.write({title: all.map((x) => x.id)})\nreturn all.length +"
	if does(t, ctx, chromedp.Evaluate("document.querySelector('textarea').value", &text)); text != want {
		t.Errorf("written: %q", text)
	}
	does(t, ctx, typed("a", input.ModifierCtrl), typed("const all = await tools.notes.list({});\nreturn all.length +"), visible(".cm-lint-marker-error"), textOf(".problems", &text))
	if !strings.HasPrefix(text, "Line 2: unexpected end") {
		t.Errorf("the check says %q", text)
	}
	readable("mistake")
	// Tab leaves the editor only after Escape.
	does(t, ctx, typed(kb.Escape+kb.Tab), chromedp.Evaluate("document.activeElement.name", &focused))
	if focused != "sessionId" {
		t.Errorf("the focus is on %q", focused)
	}
	does(t, ctx, typed(kb.Tab, input.ModifierShift), typed(kb.Backspace+kb.Backspace), gone(".cm-lint-marker-error"), textOf(".problems", &text))
	if text != "" {
		t.Errorf("the check of what was mended says %q", text)
	}
	if _, err := chromedp.RunResponse(ctx, typed(kb.Enter, input.ModifierCtrl)); err != nil {
		t.Fatal(err)
	}
	does(t, ctx, visible(".is-succeeded"), chromedp.Evaluate("document.querySelector('main').innerText", &text))
	if !strings.Contains(text, "Result") || !strings.Contains(text, "return all.length") {
		t.Errorf("the run: %s", text)
	}
	// The program of a failed run can be edited, with the failed line marked.
	id, _ := w.run(w.token, "\nnull.x")
	does(t, ctx, chromedp.Navigate(w.url+"/runs/"+id), visible("a[href*=from]"), written("a[href*=from]", kb.Enter), visible(".cm-lint-marker-error"), chromedp.Evaluate("document.querySelector('textarea').value", &text))
	if text != "\nnull.x" {
		t.Errorf("the editor has %q", text)
	}
	does(t, ctx, textOf(".problems", &text))
	if !strings.HasPrefix(text, "Line 2: ") {
		t.Errorf("marked: %q", text)
	}
	// An open editor keeps its text when the page updates itself.
	does(t, ctx, chromedp.Navigate(w.url+"/runs"), written("summary", kb.Enter), visible(".cm-content"))
	w.run(w.token, "return 'another'")
	does(t, ctx, visible("tbody tr:nth-child(4)"), focusOn(".cm-content"), typed("// kept"), chromedp.Evaluate("document.querySelector('textarea').value", &text))
	if text != "// kept" {
		t.Errorf("after the list has changed: %q", text)
	}
	seen.check(t)
}

// tryCompletions shows the completions for an attacked world, and checks that names are inserted in a form that cannot be misread. look checks the page.
func (w *world) tryCompletions(t testing.TB, ctx context.Context, look func(what string)) {
	t.Helper()
	var count int
	does(t, ctx, chromedp.Navigate(w.url+"/runs"), visible("summary"), written("summary", kb.Enter), visible(".cm-content"), focusOn(".cm-content"), typed("tools.notes."))
	w.offers(t, ctx, "about0")
	does(t, ctx, chromedp.Evaluate("document.querySelectorAll('.cm-tooltip-autocomplete li').length", &count))
	if count < len(payloads) {
		t.Errorf("%d tools are offered", count)
	}
	for range count {
		does(t, ctx, visible(".cm-completionInfo"), typed(kb.ArrowDown))
		look("a tool that is offered")
	}
	for i, p := range payloads {
		var written string
		does(t, ctx, typed("a", input.ModifierCtrl), typed(fmt.Sprintf("tools.notes.about%d({", i)))
		w.offers(t, ctx, "")
		look(fmt.Sprintf("argument %d", i))
		does(t, ctx, typed(kb.Enter), chromedp.Evaluate("document.querySelector('textarea').value", &written))
		if i == 0 && written != "tools.notes.about0({"+`"<script>attacked(1)</script>": `+"})" || regexp.MustCompile(`[\p{C}]`).MatchString(written) || !strings.Contains(written, ": ") {
			t.Errorf("argument %q is written %q", p, written)
		}
	}
	does(t, ctx, typed("a", input.ModifierCtrl), typed("tools.notes.about0({x: 1})"), visible(".cm-lint-marker"))
	look("a check that names an argument")
	does(t, ctx, typed("a", input.ModifierCtrl), typed("callMCPTool('"))
	w.offers(t, ctx, "notes__")
	look("full names")
}

// TestEditorGlobals checks that the global names in the editor are those of programs, and include everything that the harness adds to JavaScript.
func TestEditorGlobals(t *testing.T) {
	t.Parallel()
	names, err := os.ReadFile("islands/globals.json")
	must(t, err)
	w := setup(t, false)
	var out struct{ Output []string }
	w.api(w.token, "POST", "/v1/runs", map[string]any{"code": "const known = " + string(names) + `;
const wrong = [];
for (const [name, { members = {} }] of Object.entries(known)) {
	if (!(name in globalThis)) wrong.push('no ' + name);
	else for (const member of Object.keys(members)) if (!(member in globalThis[name])) wrong.push('no ' + name + '.' + member);
}
for (const name of ['pii', 'utils']) for (const member of Object.keys(globalThis[name])) if (!(member in known[name].members)) wrong.push('not offered: ' + name + '.' + member);
return wrong`}, &out)
	if out.Output == nil || len(out.Output) > 0 {
		t.Errorf("globals.json: %q", out.Output)
	}
}

// TestIslands checks that the committed bundle and the licences are those that the sources and the pinned packages produce, and that the sources have no type
// errors.
func TestIslands(t *testing.T) {
	t.Parallel()
	manifests, err := filepath.Abs("islands")
	must(t, err)
	modules := filepath.Join(npmtest.Install(t, "islands", os.DirFS("islands")), "node_modules")
	run := func(name string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = manifests
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	out := t.TempDir()
	run("sh", "generate.sh", modules, out)
	for file, committed := range map[string]string{"editor.js": "assets/editor.js", "LICENSES": "islands/LICENSES"} {
		fresh, err := os.ReadFile(filepath.Join(out, file))
		must(t, err)
		old, err := os.ReadFile(committed)
		must(t, err)
		if !bytes.Equal(fresh, old) {
			t.Errorf("%s is not what go generate makes", committed)
		}
	}
	settings, err := json.Marshal(map[string]any{
		"extends": filepath.Join(manifests, "tsconfig.json"), "files": []string{filepath.Join(manifests, "editor.ts")},
		"compilerOptions": map[string]any{"paths": map[string][]string{"*": {filepath.Join(modules, "*")}}},
	})
	must(t, err)
	config := filepath.Join(out, "tsconfig.json")
	must(t, os.WriteFile(config, settings, 0o600))
	run("node", filepath.Join(npmtest.TypeScript(t), "node_modules", "typescript", "bin", "tsc"), "--pretty", "false", "-p", config)
}
