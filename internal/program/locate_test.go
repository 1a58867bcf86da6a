package program

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/frame"
)

// thrower is a program with one throw whose position is known.
type thrower struct {
	code         string
	line, column int
}

// throwers returns programs that throw at known positions, after and between statements of all kinds.
func throwers(r *rand.Rand, n int) []thrower {
	before := []string{
		"import p from 'path'\n", "import { join as j, type T } from 'path'; p1(j);\n", "import type { T } from 't';\n",
		"/* import */ import * as größe from 'util'; p1(größe);", "const a: number = 1\n", "enum E { A, B }\n",
		"interface I { a: string }\n",
		"type T1 = {\n  a: string\n}\n",
		"function g<T>(x: T): T {\n  return x\n}\n",
		"const s = '😀é'; ", "const t = `a\n${1}\nb`\n", "// comment\n", "\n\n", "/* a\nb */ ",
		"class C { constructor(private x = 1) {} }\n",
		"export const e = 1\n", "export { p1 };", "const o = { a: 1,\n  b: [1,\n 2] }\n", "\r\n",
		"label: for (;;) {\n break label }\n",
		"const im = () => import('x')\n", "using u = null\n", "if (1) {} else {}\n", "var m = import.meta\n",
		"@d class D { @d f() {} }\n", "namespace N {\n  export const q = 1 }\n", "const v = 1; { const v = 2; p1(v) }\n",
	}
	wrap := [][2]string{
		{"", ""},
		{"{ ", " }"},
		{"await (async () => {\n", "\n})()"},
		{"if (true) {\n  ", "\n}"},
		{"for (const i of [1]) ", ""},
		{"function thrower() {\n    ", "\n}\nthrower()"},
		{"await [1].map(async (x: number) => { ", " })[0]"},
		{"class Q { static f() { ", " } }\nQ.f()"},
		{"export default async () => {\n  ", "\n}"},
		{"try { ", " } finally { p1() }"},
		{"namespace M { export const m = (() => { ", " })() }"},
	}
	throws := []string{
		"throw new Error('x')", "null.field", "undefined_name", "throw new Error(`😀 (program.js:1:1)`)",
		"p1(null.a.b)",
	}
	marks := []int{len("throw "), len("null."), 0, len("throw "), len("p1(null.")}
	used := map[string]bool{}
	var all []thrower
	for len(all) < n {
		var b strings.Builder
		b.WriteString("function p1(...x) {}; function d(...x) {}\n")
		clear(used)
		for range r.IntN(7) {
			if text := before[r.IntN(len(before))]; !used[text] {
				b.WriteString(text)
				used[text] = true
			}
		}
		w, k := wrap[r.IntN(len(wrap))], r.IntN(len(throws))
		b.WriteString(w[0])
		at := b.Len() + marks[k]
		b.WriteString(throws[k] + w[1])
		code := b.String()
		if r.IntN(4) == 0 {
			code = "Here it is:\n```ts\n" + code
			at += len("Here it is:\n```ts\n")
			code += "\n```\n"
		}
		line, column := position(code, at)
		all = append(all, thrower{code, line, column})
	}
	return all
}

func TestPositions(t *testing.T) {
	t.Parallel()
	cases := throwers(rand.New(rand.NewPCG(5, 6)), 600)
	compiled := make([]*Compiled, len(cases))
	programs := make([]frame.Program, len(cases))
	for i, c := range cases {
		compiled[i] = mustCompile(t, c.code, Options{})
		// The map is read from its text, as a replay reads it from the journal.
		m, err := ParseMap(compiled[i].Map.String())
		if err != nil {
			t.Fatal(err)
		}
		compiled[i].Map = m
		programs[i] = compiled[i].Program
	}
	failures := 0
	for i, got := range execute(t, programs...) {
		p := compiled[i].Locate(frame.Error{Message: got.Message, Stack: got.Stack})
		want := thrower{cases[i].code, cases[i].line, cases[i].column}
		if p.Line == want.line && p.Column == want.column && p.SourceLine == sourceLine(want.code,
			want.line, want.column) && p.File == ProgramFile && shownLine(programs[i].Lines, got.Message, got.Stack) == want.line {
			continue
		}
		if failures++; failures < 6 {
			t.Errorf("%s\nplaced at %d:%d (%q), want %d:%d; stack\n%s\ncompiled\n%s", want.code, p.Line, p.Column,
				p.SourceLine, want.line,
				want.column, got.Stack, programs[i].Code)
		}
	}
	if failures > 0 {
		t.Errorf("%d of %d positions are wrong", failures, len(cases))
	}
}

// shownLine returns the line that a program sees for the first of its frames in an engine's stack.
func shownLine(pairs [][2]int, message, stack string) int {
	stack = stack[max(strings.Index(stack, message), 0)+len(message):]
	frame := regexp.MustCompile(`[ (]program\.js:(\d+):\d+\)?\n`).FindStringSubmatch(stack + "\n")
	if frame == nil {
		return 0
	}
	line, _ := strconv.Atoi(frame[1])
	shown := 0
	for _, p := range pairs {
		if p[0] <= line {
			shown = p[1] + line - p[0]
		}
	}
	return shown
}

func TestLocate(t *testing.T) {
	t.Parallel()
	files := sandbox{files: map[string]string{
		"/skills/a (b).ts": "import { c } from './c.mjs'\nexport function f(x: number) {\n  return c(x)\n}\n",
		"/skills/c.mjs":    "await null\nexport function c() {\n\n  null.x }\n",
		"/skills/d.js":     "#!/usr/bin/env node\nexports.d = () => {\n  throw new Error('d') }",
	}}
	c, err := Compile(t.Context(), Source{Name: "report.ts", Code: "import { f } from '/skills/a (b)'\n\n  f(1)"},
		Options{Resolver: files})
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := CompileModule(t.Context(), "/skills/d", ProgramFile, Options{Resolver: files})
	if err != nil {
		t.Fatal(err)
	}
	c.AddMap(loaded.Map)

	got := execute(t, c.Program)[0]
	p := c.Locate(frame.Error{Message: got.Message, Stack: got.Stack})
	want := "    at c (/skills/c.mjs:4:8)\n    at f (/skills/a (b).ts:3:10)\n    at report.ts:3:3\n"
	if p.Stack != want || p.File != "/skills/c.mjs" || p.SourceLine != "  null.x }" {
		t.Errorf("%+v, want the stack\n%s; engine's:\n%s", p, want, got.Stack)
	}

	// Lines of other files, lines of the message and lines without a valid position are left out.
	p = c.Locate(frame.Error{
		Message: "m\n    at x (program.js:1:1)",
		Stack: "Error: m\n    at x (program.js:1:1)\n    at <anonymous> (harness.js:1:2)\n" +
			"    at Array.map (native)\n    at nothing (program.js:x:1)\n    at out (program.js:99:1)\n    at exports.d (/skills/d.js:3:11)\n    at async /skills/d.js:3:17\n",
	})
	want = "    at exports.d (/skills/d.js:3:9)\n    at /skills/d.js:3:13\n"
	if p.Stack != want || p.Line != 3 || p.File != "/skills/d.js" {
		t.Errorf("%+v, want the stack\n%s", p, want)
	}
	many := strings.Repeat("    at f (program.js:2:3)\n", 10_000) + "    at " + strings.Repeat(" (", 1<<20) + "program.js:2:3)"
	if p := c.Locate(frame.Error{Stack: many}); strings.Count(p.Stack, "\n") != maxFrames {
		t.Errorf("a long stack keeps %d frames", strings.Count(p.Stack, "\n"))
	}
	p = c.Locate(frame.Error{Message: "value is not iterable", Stack: "    at <anonymous> (program.js:1:1)\n    at apply (native)\n"})
	if p.Line != 1 || p.Column != 1 || p.SourceLine != "import { f } from '/skills/a (b)'" {
		t.Errorf("an error at the beginning of the function around the program: %+v", p)
	}
	for code, line := range map[string]int{
		"let i = 0\nwhile (true) { i++ }":                      2,
		"let i = 0\ndo {\n  i++ } while (true)":                2,
		"let i = 0\nfor (const a of b) {}\nfor (;;) {}":        0,
		"let i = 0\nfunction f() { for (;;) {} }\nfor (;;) {}": 3,
		"f()": 0,
	} {
		c := mustCompile(t, code, Options{})
		p := c.Locate(frame.Error{Kind: frame.KindTimeout, Stack: "    at <anonymous> (program.js:1:1)\n"})
		if p.Line != line {
			t.Errorf("%q loops in line %d, want %d", code, p.Line, line)
		}
	}
	if p := c.Locate(frame.Error{Message: "m"}); p != (Position{}) {
		t.Errorf("an error without a stack is placed at %+v", p)
	}
}

func TestParseMap(t *testing.T) {
	t.Parallel()
	if _, err := ParseMap("{"); err == nil {
		t.Error("a broken map was read")
	}
	// Positions without a mapping and broken mappings map to nothing.
	for _, mappings := range []string{"", ";;", "A", "!!!!", "AAAA;gggggggggggggggg"} {
		f := &fileMap{Mappings: mappings}
		for line := range 3 {
			if l, _, ok := f.original(line, 5); ok && l != 0 {
				t.Errorf("%q maps line %d to %d", mappings, line, l)
			}
		}
	}
}

func TestPosition(t *testing.T) {
	t.Parallel()
	const text = "a\r\nü😀b\n\nlast\u2028x\rend"
	for offset, want := range map[int]string{
		0: "1:1 a", 3: "2:1 ü😀b", 9: "2:4 ü😀b", 11: "3:1 ", 12: "4:1 last",
		19: "5:1 x", 21: "6:1 end", 99: "6:4 end",
	} {
		line, column := position(text, offset)
		if got := fmt.Sprintf("%d:%d %s", line, column, sourceLine(text, line, column)); got != want {
			t.Errorf("offset %d is %q, want %q", offset, got, want)
		}
	}
	if got := offsetOf(text, 2, 6); got != 9 {
		t.Errorf("line 2, column 6 is at %d, want 9", got)
	}
}

func TestSourceLine(t *testing.T) {
	t.Parallel()
	line := func(before, after int) string {
		return strings.Repeat("ü", before) + "^" + strings.Repeat("😀", after)
	}
	for _, c := range []struct {
		text         string
		line, column int
		want         string
	}{
		{"a\nbc\nd", 2, 2, "bc"},
		{"a\nbc\nd", 3, 99, "d"},
		{"a", 7, 1, ""},
		{line(0, 30), 1, 1, line(0, 30)},
		{line(0, 300), 1, 1, line(0, 40) + "…"},
		{line(100, 300), 1, 101, line(100, 40) + "…"},
		{line(161, 300), 1, 162, line(161, 40) + "…"},
		{line(163, 300), 1, 164, line(163, 40) + "…"},
		{line(164, 300), 1, 165, "…" + line(80, 40) + "…"},
		{line(1_000_000, 0), 1, 1_000_001, "…" + line(80, 0)},
		{"x\n" + line(1000, 10) + "\ny", 2, 1001, "…" + line(80, 10)},
		{strings.Repeat("😀", 500) + "^", 1, 1001, "…" + strings.Repeat("😀", 40) + "^"},
		{line(1000, 0), 1, 5000, "…" + line(79, 0)},
	} {
		got := sourceLine(c.text, c.line, c.column)
		if got != c.want {
			t.Errorf("line %d, column %d: %q, want %q", c.line, c.column, got, c.want)
		}
		if strings.HasPrefix(got, "…") && utf16Len(got) >= c.column {
			t.Errorf("column %d is one of %q, which is cut at its beginning", c.column, got)
		}
	}
}

func TestResult(t *testing.T) {
	for _, c := range []struct{ code, want string }{
		{"const a = 1\nreturn {a}", "2:1 return {a}"},
		{"function f() {\n  return 1\n}\nif (f()) {\n  return 2\n}\n  return 3", "7:3   return 3"},
		{"  [1].map(async (x) => x)", "1:3   [1].map(async (x) => x)"},
		{"Here it is:\n```js\nconst a = 1\nreturn a\n```\n", "4:1 return a"},
		{"", "0:0 "},
	} {
		compiled := &Compiled{Source: Source{Code: c.code}}
		p := compiled.Result()
		if got := fmt.Sprintf("%d:%d %s", p.Line, p.Column, p.SourceLine); got != c.want {
			t.Errorf("%q: got %s, want %s", c.code, got, c.want)
		}
	}
}

// TestAnchor contains errors at the positions that QuickJS and V8 report, and the one position at which both are shown.
func TestAnchor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ message, code string }{
		// ^ marks the engine's position, ~ the position that is shown.
		{"x is not defined", "~^x"},
		{"foo is not defined", "^return await ~foo()"},
		{"foo is not defined", "function f() { ^return o.foo + ~foo }"},
		{"x1 is not initialized", "return ~^x1; let x1 = 1"},
		{"Cannot access 'x1' before initialization", "^return ~x1; let x1 = 1"},
		{"x", "throw ~new ^Error('x')"},
		{"x", "throw ~^new Error('x')"},
		{"A.B is not a constructor", "return ~new A.^B(1)"},
		{"cannot read property 'y' of undefined", "return ~^o.x.y"},
		{"Cannot read properties of undefined (reading 'y')", "return ~o.x.^y"},
		{"Cannot read properties of undefined (reading '0')", "return ~r.content^[0].text"},
		{"Cannot read properties of undefined (reading 'b')", "return ~m.get('a')^.b"},
		{"Cannot read properties of undefined (reading 'c')", "return ~a?.b^.c.d"},
		{"Cannot set properties of null (setting 'x')", "~o.x ^= 1"},
		{"Cannot set properties of null (setting '0')", "~o[0] ^= 1"},
		{"cannot set property 'x' of null", "~^o.x = 1"},
		{"Cannot read properties of undefined (reading 'y')", "(~new A().x.^y)"},
		{"Cannot read properties of undefined (reading 'y')", "const é = '😀'; return ~o.\n  x.^y"},
		{"Cannot read properties of undefined (reading 'y')", "Text:\n```js\nreturn ~o.x.^y\n```"},
		{"something else", "return a ~^+ b"},
	} {
		code := strings.ReplaceAll(c.code, "^", "")
		want := strings.Index(code, "~")
		code = strings.Replace(code, "~", "", 1)
		engine := strings.Index(strings.Replace(c.code, "~", "", 1), "^")
		compiled := &Compiled{Source: Source{Code: code}}
		at := Position{File: ProgramFile, thrown: true}
		at.Line, at.Column = position(code, engine)
		got := compiled.Anchor(frame.Error{Kind: frame.KindRuntime, Message: c.message}, at)
		if line, column := position(code, want); got.Line != line || got.Column != column {
			t.Errorf("%s in %q is at %d:%d, want %d:%d", c.message, c.code, got.Line, got.Column, line, column)
		}
		at.File = "/skills/a.js"
		if got := compiled.Anchor(frame.Error{Message: c.message}, at); got != at {
			t.Errorf("%s of another file moves", c.message)
		}
	}
}
