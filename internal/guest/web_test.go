package guest_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/guest"
)

// The cases of testdata/web/*.txt are expressions, which are evaluated together with helpers.js. Each case has the result of Node.js. If the
// guest's result differs on purpose, the case also has that result and the reason:
//
//	expression
//	= result of Node.js, as JSON
//	! result of the guest
//	? reason
//
// go test ./internal/guest -run TestWeb -update writes the results; expressions and reasons are written by hand.
type webCase struct {
	line                     int
	expr, node, ours, reason string
}

type webFile struct {
	path  string
	lines []string // lines of the file; an empty line stands for the case with the same index in cases, if there is one
	cases map[int]*webCase
}

func readWebFile(t *testing.T, path string) *webFile {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f := &webFile{path: path, cases: map[int]*webCase{}}
	var last *webCase
	for i, line := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		text := strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(line, "= "), "! "), "? ")
		switch {
		case last != nil && strings.HasPrefix(line, "= "):
			last.node = text
		case last != nil && strings.HasPrefix(line, "! "):
			last.ours = text
		case last != nil && strings.HasPrefix(line, "? "):
			last.reason = text
		case line == "" || strings.HasPrefix(line, "#"):
			f.lines = append(f.lines, line)
			last = nil
		default:
			last = &webCase{line: i + 1, expr: line}
			f.cases[len(f.lines)] = last
			f.lines = append(f.lines, "")
		}
	}
	return f
}

// list returns the cases in the order of the file.
func (f *webFile) list() []*webCase {
	var out []*webCase
	for i := range f.lines {
		if c := f.cases[i]; c != nil {
			out = append(out, c)
		}
	}
	return out
}

func (f *webFile) expressions() string {
	var exprs []string
	for _, c := range f.list() {
		exprs = append(exprs, c.expr)
	}
	text, _ := json.Marshal(exprs) // cannot fail, because exprs contains only strings
	return string(text)
}

func (f *webFile) write(t *testing.T) {
	t.Helper()
	var b strings.Builder
	for i, line := range f.lines {
		c := f.cases[i]
		if c == nil {
			fmt.Fprintln(&b, line)
			continue
		}
		fmt.Fprintf(&b, "%s\n= %s\n", c.expr, c.node)
		if c.ours != "" {
			fmt.Fprintf(&b, "! %s\n", c.ours)
		}
		if c.reason != "" {
			fmt.Fprintf(&b, "? %s\n", c.reason)
		}
	}
	if err := os.WriteFile(f.path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// webHelpers returns the text of helpers.js, which the expressions use.
func webHelpers(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "web", "helpers.js"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// webValue runs a program that uses at most time zones and timers, and decodes its return value.
func webValue(t *testing.T, r runner, body string, to any) {
	t.Helper()
	f := start(wrap(body))
	now := f.Now
	for {
		if err := r.send(f); err != nil {
			t.Fatal(err)
		}
		for f = nil; f == nil; {
			got, err := r.receive()
			if err != nil {
				t.Fatal(err)
			}
			switch got.T {
			case frame.Call:
				now += step
				f = &frame.Frame{T: frame.Answer, Run: got.Run, ID: got.ID, Sync: got.Sync, Now: now}
				f.Value, f.Error = webAnswer(t, got)
			case frame.Done:
				if err := r.reset(); err != nil {
					t.Fatal(err)
				}
				if got.Error != nil {
					t.Fatalf("%s: %s\n%s", got.Error.Name, got.Error.Message, got.Error.Stack)
				}
				if err := json.Unmarshal(got.Value, to); err != nil {
					t.Fatal(err)
				}
				return
			}
		}
	}
}

// webAnswer returns the answer that the host would give.
func webAnswer(t *testing.T, call *frame.Frame) (json.RawMessage, *frame.Error) {
	t.Helper()
	switch call.Kind {
	case "timer":
		return json.RawMessage("null"), nil
	case "module":
		var args struct{ Specifier, From string }
		if err := json.Unmarshal(call.Args, &args); err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(args.Specifier, "node:")
		return fmt.Appendf(nil, `{"id":%q,"modules":[{"id":%[1]q,"kind":"builtin","server":%[1]q}]}`, name), nil
	case "intl":
		var args struct{ Zone string }
		if err := json.Unmarshal(call.Args, &args); err != nil {
			t.Fatal(err)
		}
		canonical, transitions, err := guest.Zone(args.Zone)
		if err != nil {
			return nil, &frame.Error{Kind: "runtime", Name: "RangeError", Message: err.Error()}
		}
		value, err := json.Marshal(map[string]any{"zone": canonical, "transitions": transitions})
		if err != nil {
			t.Fatal(err)
		}
		return value, nil
	}
	t.Fatalf("unexpected call %s %s %s", call.Kind, call.Name, call.Args)
	return nil, nil
}

func webFiles(t *testing.T) []*webFile {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", "web", "*.txt"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no cases in testdata/web: %v", err)
	}
	var files []*webFile
	for _, path := range paths {
		files = append(files, readWebFile(t, path))
	}
	return files
}

// TestWeb compares the results of prelude/web in every engine with the recorded results.
func TestWeb(t *testing.T) {
	helpers := webHelpers(t)
	for _, f := range webFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(f.path), ".txt"), func(t *testing.T) {
			code := helpers + "\nreturn outcomes(" + f.expressions() + ");"
			if *update {
				updateWeb(t, f, helpers, code)
			}
			engines(t, func(t *testing.T, open func(*testing.T) runner) {
				var got []string
				webValue(t, open(t), code, &got)
				for i, c := range f.list() {
					want := c.node
					if c.reason != "" {
						want = c.ours
						if sameJSON(t, c.ours, c.node) {
							t.Errorf("%s:%d: %s\nis listed as a difference from Node.js, but is none", f.path, c.line, c.expr)
						}
					}
					if diff := cmp.Diff(decoded(t, want), decoded(t, got[i])); diff != "" {
						t.Errorf("%s:%d: %s (-want +got)\n%s", f.path, c.line, c.expr, diff)
					}
				}
			})
		})
	}
}

func decoded(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%q is no JSON: %v", text, err)
	}
	return v
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	return cmp.Equal(decoded(t, a), decoded(t, b))
}

// updateWeb records the results of Node.js, and those of the guest for cases that have a reason.
func updateWeb(t *testing.T, f *webFile, helpers, code string) {
	t.Helper()
	native := nativeAnswers(t, f, helpers)
	var ours []string
	webValue(t, openWasm(t), code, &ours)
	for i, c := range f.list() {
		c.node, c.ours = native.Answers[i], ""
		if c.reason != "" {
			c.ours = ours[i]
		}
	}
	f.write(t)
}

type nativeResult struct {
	Versions struct{ Node, ICU string }
	Answers  []string
}

// nativeAnswers evaluates the cases with Node's own implementations.
func nativeAnswers(t *testing.T, f *webFile, helpers string) nativeResult {
	t.Helper()
	t.Setenv("TZ", "UTC")
	t.Setenv("LC_ALL", "en_US.UTF-8")
	var result nativeResult
	inNode(t, helpers+"\noutcomes("+f.expressions()+").then((Answers) => "+
		"console.log(JSON.stringify({Versions: {Node: process.version, ICU: process.versions.icu}, Answers})));", &result)
	return result
}

// TestWebRecordsAreNodes compares the recorded results with Node's own implementations. The results of Intl change with the data of ICU: they were recorded
// with Node.js 20 and ICU 78.
func TestWebRecordsAreNodes(t *testing.T) {
	helpers := webHelpers(t)
	for _, f := range webFiles(t) {
		native := nativeAnswers(t, f, helpers)
		for i, c := range f.list() {
			if diff := cmp.Diff(decoded(t, c.node), decoded(t, native.Answers[i])); diff != "" {
				t.Errorf("%s:%d: %s: Node.js %s with ICU %s gives another answer (-recorded +now)\n%s",
					f.path, c.line, c.expr, native.Versions.Node, native.Versions.ICU, diff)
			}
		}
	}
}

// TestWebInspect compares what console.log prints for the guest's classes with what Node.js prints.
func TestWebInspect(t *testing.T) {
	const values = `[
  Buffer.from('hello'), Buffer.alloc(0), Buffer.alloc(60, 0xab), Buffer.alloc(51), { b: [Buffer.from([1, 16])] },
  new URL('https://u:p@h:8080/a?b=1#c'), { at: new URL('http://h') },
  new URLSearchParams('a=1&b=it%27s'), new URLSearchParams(), crypto.getRandomValues(new Uint8Array(0)),
  new Blob(['abc'], { type: 'text/plain' }), new Headers({ b: '2', a: '1' }), { h: new Headers() },
]`
	var want []string
	inNode(t, "const {format} = require('util'); console.log(JSON.stringify("+values+".map((v) => format(v))))", &want)
	engines(t, func(t *testing.T, open func(*testing.T) runner) {
		got, done := run(t, open(t), start(wrap("for (const v of "+values+") console.log(v)")))
		if done.Error != nil {
			t.Fatalf("%s: %s\n%s", done.Error.Name, done.Error.Message, done.Error.Stack)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

// TestWebDependsOnRunOnly checks the parts that depend on the run: clock, randomness and timers.
func TestWebDependsOnRunOnly(t *testing.T) {
	const code = `
const { signal } = new AbortController();
const soon = AbortSignal.timeout(50);
const either = AbortSignal.any([soon, signal]);
const event = await new Promise((resolve) => either.addEventListener('abort', resolve));
const stamps = [new Event('x').timeStamp, new Event('x').timeStamp];
return {
  uuids: [crypto.randomUUID(), crypto.randomUUID()],
  bytes: Array.from(crypto.getRandomValues(new Uint8Array(4))),
  today: new Intl.DateTimeFormat('en-US', { dateStyle: 'long', timeStyle: 'long' }).format(),
  later: stamps[1] > stamps[0],
  aborted: [soon.aborted, signal.aborted], why: either.reason.name, event: event.type,
};`
	engines(t, func(t *testing.T, open func(*testing.T) runner) {
		var got map[string]any
		webValue(t, open(t), code, &got)
		want := map[string]any{
			// The seed is all zeros: the first key stream block of RFC 8439, appendix A.1, with the bits of a version 4 UUID.
			"uuids":   []any{"76b8e0ad-a0f1-4d90-805d-6ae55386bd28", "bdd219b8-a08d-4d1a-a836-efcc8b770dc7"},
			"bytes":   []any{218.0, 65.0, 89.0, 124.0},
			"today":   "November 14, 2023 at 10:13:20 PM UTC",
			"later":   true,
			"aborted": []any{true, false},
			"why":     "TimeoutError",
			"event":   "abort",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

// TestWebSurvivesHostilePrograms replaces every method of the language's prototypes by one that throws. The results must stay the same.
func TestWebSurvivesHostilePrograms(t *testing.T) {
	const code = `
const at = new Date(Date.UTC(2024, 2, 5, 15, 4, 9, 78));
const long = '\u00e9\u20ac0123456789'.repeat(5000);
const sample = { a: new Map([[1, [new Date(5), /x/g, new Set([1])]]]) };
const calls = {
  url: () => new URL('../x?a=1 2#\u00fc', 'http://M\u00fcnchen.de:80/a/b/%41').href,
  ipv6: () => new URL('http://[2001:db8::1]:8080/').host,
  setters: () => {
    const u = new URL('http://a/b');
    u.search = 'x=1';
    u.searchParams.append('y', '&');
    u.host = 'c:9';
    return u.href;
  },
  query: () => new URLSearchParams('b=1&a=2&b=3').toString(),
  encode: () => new TextDecoder().decode(new TextEncoder().encode('h\u00e9\u20ac\u{1f600}')),
  long: () => new TextDecoder().decode(new TextEncoder().encode(long)).length,
  utf16: () => new TextDecoder('utf-16le').decode(new Uint8Array([97, 0, 98, 0])),
  base64: () => Buffer.from('aGk=', 'base64').toString('hex'),
  buffer: () => Buffer.concat([Buffer.from('ab'), Buffer.from('cd', 'hex')]).indexOf('b'),
  number: () => new Intl.NumberFormat('en-US', { style: 'currency', currency: 'USD' }).format(-1234567.891),
  compact: () => new Intl.NumberFormat('de', { notation: 'compact' }).format(1234567),
  unit: () => new Intl.NumberFormat('fr', { style: 'unit', unit: 'kilometer-per-hour' }).format(5),
  date: () => new Intl.DateTimeFormat('es', { dateStyle: 'full', timeStyle: 'long', timeZone: 'Europe/Madrid' }).format(at),
  plural: () => new Intl.PluralRules('en', { type: 'ordinal' }).select(22),
  relative: () => new Intl.RelativeTimeFormat('en', { numeric: 'auto' }).format(-1, 'day'),
  compare: () => new Intl.Collator('en', { numeric: true }).compare('\u00e410', 'a9'),
  clone: () => structuredClone(sample).a.size,
  abort: () => {
    const c = new AbortController();
    let n = 0;
    c.signal.onabort = () => n++;
    c.abort();
    return n;
  },
  uuid: () => crypto.randomUUID().length,
};
const { defineProperty } = Object;
const { ownKeys, getOwnPropertyDescriptor } = Reflect;
const names = Object.keys(calls);
const before = names.map((name) => calls[name]());
const prototypes = [Array, String, RegExp, Number, Date, Map, Set, Function, ArrayBuffer].map((c) => c.prototype);
prototypes.push(Object.getPrototypeOf(Uint8Array.prototype));
for (let i = 0; i < prototypes.length; i++) {
  const keys = ownKeys(prototypes[i]);
  for (let k = 0; k < keys.length; k++) {
    // Iteration is asked for in the calls themselves: arrays and their iterators are read by the language.
    if (keys[k] === 'constructor' || keys[k] === Symbol.iterator || keys[k] === Symbol.hasInstance) continue;
    const { value, configurable } = getOwnPropertyDescriptor(prototypes[i], keys[k]);
    if (typeof value !== 'function' || !configurable) continue;
    defineProperty(prototypes[i], keys[k], { value() { throw new Error('hostile'); }, configurable: true });
  }
}
const out = {};
for (let i = 0; i < names.length; i++) {
  let after;
  try {
    after = calls[names[i]]();
  } catch (error) {
    after = 'throws ' + error.message + ' ' + error.stack;
  }
  if (after !== before[i]) out[names[i]] = [before[i], after];
}
return out;`
	engines(t, func(t *testing.T, open func(*testing.T) runner) {
		var got map[string]any
		webValue(t, open(t), code, &got)
		if diff := cmp.Diff(map[string]any{}, got); diff != "" {
			t.Errorf("results that changed (-want +got)\n%s", diff)
		}
	})
}
