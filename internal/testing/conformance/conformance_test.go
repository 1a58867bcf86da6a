package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/sandbox/wasm"
	"mcp-code-exec-harness/internal/sandbox/wasm/worker"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == worker.Command {
		os.Exit(wasm.WorkerMain(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// suite contains tests in the forms of both suites: tests that pass, tests that fail, and a test that is skipped.
var suite = map[string]string{
	"t/harness/assert.js":                  "function assert(x) { if (!x) throw new Test262Error('not true'); }",
	"t/harness/sta.js":                     "function Test262Error(message) { this.message = message; }\nTest262Error.prototype.toString = function () { return 'Test262Error: ' + this.message; };",
	"t/harness/doneprintHandle.js":         "function $DONE(error) { print(error ? 'Test262:AsyncTestFailure:' + error : 'Test262:AsyncTestComplete'); }",
	"t/harness/extra.js":                   "const extra = 7;",
	"t/test/language/passes.js":            "/*---\nincludes: [extra.js]\n---*/\nassert(extra === 7); Promise.reject(1);",
	"t/test/language/fails.js":             "assert(false);",
	"t/test/language/parse.js":             "/*---\nnegative:\n  phase: parse\n  type: SyntaxError\n---*/\nlet let = 1;",
	"t/test/language/parses.js":            "/*---\nnegative:\n  phase: parse\n  type: SyntaxError\n---*/\nlet a = 1;",
	"t/test/language/throws.js":            "/*---\nnegative:\n  phase: runtime\n  type: Test262Error\n---*/\nthrow new Test262Error('x');",
	"t/test/language/strict.js":            "/*---\nflags: [onlyStrict]\n---*/\nassert((function () { return this; })() === undefined);",
	"t/test/built-ins/async.js":            "/*---\nflags: [async]\n---*/\nPromise.resolve().then(() => $DONE(), $DONE);",
	"t/test/built-ins/late.js":             "/*---\nflags: [async]\n---*/\nPromise.resolve().then(() => $DONE('late'));",
	"t/test/built-ins/skipped.js":          "/*---\nfeatures: [Temporal]\n---*/\nTemporal;",
	"w/resources/testharness.js":           "const all = []; let end; function setup() {} function add_completion_callback(f) { end = f; }\nfunction test(f, name) { try { f(); all.push({ name, status: 0 }); } catch (e) { all.push({ name, status: 1, message: e.message }); } }\nfunction done() { end(all, { status: 0 }); }",
	"w/url/a.any.js":                       "test(() => { new URL('https://a.example'); }, 'one');\ntest(() => { new URL('a'); }, 'two');",
	"w/dom/events/page.html":               "<script src='/resources/testharness.js'></script><script>test(() => { new Event('x'); }, 'three');</script>",
	"w/dom/events/document.html":           "<script src='/resources/testharness.js'></script><script>test(() => { document.title; }, 'four');</script>",
	"w/dom/events/helpers/no-test-file.js": "throw 1;",
}

func TestRun(t *testing.T) {
	dir := t.TempDir()
	for name, text := range suite {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	opt := options{
		test262: filepath.Join(dir, "t"), wpt: filepath.Join(dir, "w"), out: filepath.Join(dir, "out"), in: "guest,bare", every: 1, parallel: 2, timeout: time.Minute,
	}
	if err := opt.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(opt.out, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	want := `test262/built-ins/late.js	1 of 1	bare 1
	it did not end: Test262:AsyncTestFailure:late
test262/language/fails.js	1 of 1	bare 1
	Error: Test262Error { message: 'not true' } was thrown
test262/language/parses.js	1 of 1	bare 1
	no SyntaxError
wpt/url/a.any.js	1 of 2
	two: Invalid URL
`
	if diff := cmp.Diff(want, read(failuresFile)); diff != "" {
		t.Errorf("failures (-want +got)\n%s", diff)
	}
	if got := read(skippedFile); strings.Count(got, "\n") != 2 || !strings.Contains(got, "skipped.js") || !strings.Contains(got, "document.html") {
		t.Errorf("skipped %s", got)
	}
	verdicts := read(verdictsFile)
	if n := strings.Count(verdicts, "\n"); n != 8+8+2 {
		t.Errorf("%d verdicts, want 18", n)
	}

	// A run that was interrupted in the middle of a line continues there.
	lines := strings.SplitAfter(verdicts, "\n")
	cut := strings.Join(lines[:len(lines)-3], "") + lines[len(lines)-3][:5]
	if err := os.WriteFile(filepath.Join(opt.out, verdictsFile), []byte(cut), 0o644); err != nil {
		t.Fatal(err)
	}
	opt.resume = true
	if err := opt.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, read(failuresFile)); diff != "" {
		t.Errorf("failures of the resumed run (-want +got)\n%s", diff)
	}
	if got := read(verdictsFile); strings.Count(got, "\n") != 18 || !strings.HasPrefix(got, strings.Join(lines[:len(lines)-3], "")) {
		t.Errorf("the resumed run has the verdicts %s", got)
	}
}
