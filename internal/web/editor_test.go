package web_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
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

// typed presses keys as a keyboard does: a key that the page takes types nothing, where chromedp.KeyEvent types it all the same.
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

// A person writes a program with the keyboard alone: the check shows a mistake on its line, it is mended, and the program runs. The policy of the page has
// nothing to refuse, and the editor can be read by everybody.
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
	var text, focused string
	does(t, ctx, chromedp.EmulateViewport(375, 900), chromedp.Navigate(w.url+"/runs"), chromedp.WaitVisible(".cm-content"), chromedp.Focus("summary"), typed(kb.Tab+"const all = await tools.notes.list({});\nreturn all.length +"),
		chromedp.WaitVisible(".cm-lint-marker-error"), chromedp.Text(".problems", &text))
	if !strings.HasPrefix(text, "Line 2: unexpected end") {
		t.Errorf("the check says %q", text)
	}
	readable("mistake")
	// Tab leaves the editor behind Escape, and only then.
	does(t, ctx, typed(kb.Escape+kb.Tab), chromedp.Evaluate("document.activeElement.name", &focused))
	if focused != "sessionId" {
		t.Errorf("the focus is on %q", focused)
	}
	does(t, ctx, typed(kb.Tab, input.ModifierShift), typed(kb.Backspace+kb.Backspace), chromedp.WaitNotPresent(".cm-lint-marker-error"), chromedp.Text(".problems", &text))
	if text != "" {
		t.Errorf("the check of what was mended says %q", text)
	}
	does(t, ctx, typed(kb.Enter, input.ModifierCtrl), chromedp.WaitVisible("pre.code"), chromedp.Text("main", &text))
	if !strings.Contains(text, "succeeded") || !strings.Contains(text, "return all.length") {
		t.Errorf("the run: %s", text)
	}
	// A program that failed comes back with the line marked.
	id, _ := w.run(w.token, "\nnull.x")
	does(t, ctx, chromedp.Navigate(w.url+"/runs/"+id), chromedp.WaitVisible("a[href*=from]"), chromedp.Click("a[href*=from]"), chromedp.WaitVisible(".cm-lint-marker-error"), chromedp.Evaluate("document.querySelector('textarea').value", &text))
	if text != "\nnull.x" {
		t.Errorf("the editor has %q", text)
	}
	does(t, ctx, chromedp.Text(".problems", &text))
	if !strings.HasPrefix(text, "Line 2: ") {
		t.Errorf("marked: %q", text)
	}
	seen.check(t)
}

// The bundle of the islands is what their sources and the pinned packages make, with the licences of these, and the sources have no mistake in their types.
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
