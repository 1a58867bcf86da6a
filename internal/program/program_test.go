package program

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/frame"
)

// sandbox is a Resolver with files, and with servers and the names of their functions.
type sandbox struct {
	files   map[string]string
	servers map[string][]string
}

func (s sandbox) Module(_ context.Context, id string) ([]byte, error) {
	text, ok := s.files[id]
	if !ok {
		return nil, fmt.Errorf("read %s: %w", id, fs.ErrNotExist)
	}
	return []byte(text), nil
}

func (s sandbox) Server(_ context.Context, name string) (frame.Module, error) {
	for server, functions := range s.servers {
		if ident.Fold(server) != ident.Fold(name) {
			continue
		}
		m := frame.Module{Server: server}
		for _, f := range functions {
			m.Functions = append(m.Functions, frame.Function{Name: f, Tool: server + "__" + f})
		}
		return m, nil
	}
	return frame.Module{}, fmt.Errorf("there is no server %q; the closest is crm", name)
}

func mustCompile(t testing.TB, code string, opts Options) *Compiled {
	t.Helper()
	c, err := Compile(context.Background(), Source{Code: code}, opts)
	if err != nil {
		t.Fatalf("compile %q: %v", code, err)
	}
	return c
}

func TestResults(t *testing.T) {
	t.Parallel()
	cases := []struct {
		code string
		want any
	}{
		// statements
		{"return 1", 1.0},
		{"const x: number = 1; return x + 1", 2.0},
		{"const a = await Promise.resolve(2)\nif (a) { return { a } }", map[string]any{"a": 2.0}},
		{"", nil},
		{"// nothing\n", nil},
		{"1; 2", nil},
		{"const f = () => 1\nf()", nil},
		{"'use strict'\ntry { undeclared = 1 } catch { return 'strict' }", "strict"},
		{"undeclaredInSloppyMode = 3; return undeclaredInSloppyMode", 3.0},
		{"#!/usr/bin/env node\nreturn 1", 1.0},
		{"\ufeffreturn 1\r\n", 1.0},
		// one expression
		{"1+1", 2.0},
		{"1+1;", 2.0},
		{"/* a */ 1 + // b\n 1 ; // c", 2.0},
		{"await Promise.resolve(3)", 3.0},
		{"[1,\n2]\n.map(x => x * 2)", []any{2.0, 4.0}},
		{"({a: 1})", map[string]any{"a": 1.0}},
		{"{a: 1, 'b': 2}", map[string]any{"a": 1.0, "b": 2.0}},
		{"{ ...{a: 1} };", map[string]any{"a": 1.0}},
		{"{ ['a']: 1 }", map[string]any{"a": 1.0}},
		{"{}", nil},
		{"{ if (1) { return 4 } }", 4.0},
		{"{ const a = 1; return a }", 1.0},
		{"`a${1}b`", "a1b"},
		{"/a/.test('a')", true},
		{"async () => { return 5 }", 5.0},
		{"async function main() { return 6 }", 6.0},
		{"function main() { return 6 }", 6.0},
		{"function main(): { a: number } { return { a: 6 } }", map[string]any{"a": 6.0}},
		// Functions are declared, and not called with the parentheses that follow.
		{"function six() { return 6 }\n(async () => { globalThis.got = six() })()", nil},
		{"async function six() { return 6 }\n(async () => { globalThis.got = await six() })();", nil},
		{"async function* six() { yield 6 }\n[1].map(() => six())", nil},
		{"(function () { return 7 })()", 7.0},
		{"(async () => { return 8 })();", 8.0},
		{"'text'", "text"},
		{"(x => x)(1) as number", 1.0},
		{"1 < 2 ? 'a' : 'b'", "a"},
		// TypeScript
		{"enum E { A = 1, B }\nreturn E.B", 2.0},
		{"function id<T>(x: T): T { return x }\nreturn id<string>('a') satisfies string", "a"},
		{"interface I { a: string }\ntype T = I | null\ndeclare const y: T\nabstract class A { abstract f(): void }\nreturn typeof A", "function"},
		{
			"class C { constructor(private x = 3, readonly y?: string) {}\n get() { return this.x } }\nreturn new C().get()",
			3.0,
		},
		{"const log: string[] = []; function d(v: any, c: any) { log.push(c.kind) }\n@d class A { @d m() {} }\nreturn log", []any{"method", "class"}},
		{"let n = 0; { using x = { [Symbol.dispose]() { n++ } }; }\nreturn n", 1.0},
		{"const a = 1\rreturn a // \r\n", 1.0},
		{"import type { T } from './nothing'; import { type U } from './nothing2'; import V from './nothing3'\nconst v: V = 1 as T & U\nreturn v", 1.0},
		{"const x = <any>{ a: 1 }; return x.a!", 1.0},
		// namespaces
		{"const x = 1; namespace N { export const y = x + 1 } return N.y", 2.0},
		{"export namespace N { export const y = 1 }\nif (N.y) return N", map[string]any{"y": 1.0}},
		{"function f() { return f.a + 1 } namespace f { export const a = 41 } return f()", 42.0},
		{"class C { static a = 1 } namespace C { export const b = C.a + 1 } return [C.a, C.b]", []any{1.0, 2.0}},
		{"enum E { A, B } namespace E { export const f = (s: string) => (E as any)[s] } return [E.A, E.f('B')]", []any{0.0, 1.0}},
		{
			"namespace A.B { export const v = await1; export namespace C { export const w = v + 1 } }\nnamespace A { export const u = B.v + B.C.w }\n" +
				"function await1() {}\nreturn typeof A.u", "string",
		},
		{"namespace A { export class A { a = 1 }; export const b = new A().a }\nimport B = A.b\nreturn B", 1.0},
		{"namespace T { export type X = number }\nconst x: T.X = await Promise.resolve(3)\nfor (;;) {\n  if (x) return\n  break }", nil},
		{"declare module 'z' { const q: number }\ndeclare global { interface W {} }\nimport { sep } from 'path'\nreturn sep", "/"},
		{"namespace N { export function f() { try { throw 1 } catch (e) { return e } } }\nexport default [N.f()]", []any{1.0}},
		// names stay as they are written
		{"function Foo() {} { class Foo { static x = 1 } return Foo.name }", "Foo"},
		{"const A: any = class B {}; { class B {} return [A.name, B.name] as string[] }", []any{"B", "B"}},
		{"let d: any = 1; { const d = 1; try { (d as any) = 2 } catch (e: any) { return e.message.includes('d2') } }", false},
		{"const d = 'é'; { const { d, e: d2 } = { d: 1, e: 2 }; { const d = 3, o = { d, d2 }; return o } }", map[string]any{"d": 3.0, "d2": 2.0}},
		{"const é: any = class X {}; { class X {} class é extends X {} return é.name }", "é"},
		{"enum E { A } { enum E { A = 5 } { enum E2 { A = 7 } return E.A + E2.A + (() => { const E = 1 as number; return E })() } }", 13.0},
		{"function  f(a){ /* as it is */ return a }\nreturn String(f)", "function  f(a){ /* as it is */ return a }"},
		// strictness
		{"return 010", 8.0},
		{"'use strict'; return (function () { return this === undefined })()", true},
		{"import 'util'; return (function () { return this === undefined })()", true},
		{"return (function () { return this === undefined })()", false},
		// exports
		{"export default 1 + 1", 2.0},
		{"export default async () => 3", 3.0},
		{"export default async function main() { return helper() }\nfunction helper() { return 4 }", 4.0},
		{"export default { a: 1 }", map[string]any{"a": 1.0}},
		{"export default function () { return 5 }", 5.0},
		{"export const a = 1; export function f() { return a }\nexport class C {}\nreturn f()", 1.0},
		{"const a = 1\nexport { a }; export type X = 1; export interface Y {}\nreturn a", 1.0},
		{"const a = 6\nexport { a as default }", 6.0},
		{"export default 1; return 2", 2.0},
		{"const s = 1\nexport default\n// here\n(s)", 1.0},
		// import() and import.meta
		{"return import('x')", map[string]any{"dynamic": "x"}},
		{"const o = { import(x) { return x } }; return o.import(1)", 1.0},
		{"return import.meta.url", "file:///workspace/program.js"},
		{"return [import . meta/* of this */.url, import/* and */. meta.url].join(' ')", "file:///workspace/program.js file:///workspace/program.js"},
		// fences
		{"```ts\nreturn 1 as number\n```", 1.0},
		{"Here's the program:\n\n```javascript\nreturn `a`\n```\nIt isn't long.", "a"},
		{"```\n1+1\n```", 2.0},
		{"```js\nreturn 3", 3.0},
		{"const md = '```'; return `\\`\\`\\`js`.length", 5.0},
		{"/*\n```js\nno\n```\n*/ return 4", 4.0},
		{"Text:\n```json\n{}\n```\n```ts\nreturn 5\n```", 5.0},
		{"```js\nreturn 6\n```\nIt prints:\n```\n6\n```", 6.0},
		// names that the compiler uses too
		{"const _imprt = 1, _unusd = 2, _reslt = 3; return _imprt + _unusd + _reslt", 6.0},
		// statements that would continue after a blanked declaration
		{"const a = x => x\nimport 'util'\n(1)\nreturn typeof a", "function"},
	}
	programs := make([]frame.Program, len(cases))
	for i, c := range cases {
		programs[i] = mustCompile(t, c.code, Options{}).Program
	}
	for i, got := range execute(t, programs...) {
		if got.Message != "" {
			got.Value = "throws"
		}
		if diff := cmp.Diff(cases[i].want, got.Value); diff != "" {
			t.Errorf("%q (-want +got):\n%s%s\n%s", cases[i].code, diff, got.Stack, programs[i].Code)
		}
	}
}

// TestLanguage checks that the name of a file decides how code is read that JavaScript and TypeScript read differently.
func TestLanguage(t *testing.T) {
	t.Parallel()
	const code = "const a = 1, b = 2, c = 0; return a<b>(c)"
	for name, want := range map[string]string{"": "return a(c);", "x.ts": "return a(c);", "x.js": "return a<b>(c)"} {
		c, err := Compile(t.Context(), Source{Name: name, Code: code}, Options{})
		if err != nil || !strings.Contains(c.Program.Code, want) {
			t.Errorf("%q: %v\n%s\nwant %s", name, err, c.Program.Code, want)
		}
	}
	for _, name := range []string{"x.js", "x.ts"} {
		if _, err := Compile(t.Context(), Source{Name: name, Code: "const a: number = 1; return a"},
			Options{}); err != nil {
			t.Errorf("TypeScript in %s: %v", name, err)
		}
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	opts := Options{Resolver: sandbox{
		files: map[string]string{
			"/skills/bad.ts":     "export const a: number = 1\nexport const b = ;\n",
			"/skills/esm.js":     "export const a = 1, b = 2",
			"/skills/imports.js": "// skill\nimport { c } from './esm.js'\nexport default c",
			"/skills/open.js":    "module.exports = {\n  a: 1,\n",
			"/skills/bad.json":   "{\n  \"a\": }",
			"/skills/notes.md":   "# notes",
			"/skills/gone.js":    "import x from './missing.js'; export default x",
		},
		servers: map[string][]string{"crm": {"search", "getSum"}},
	}}
	for _, c := range []struct {
		code string
		want string // file:line:column: the beginning of the message
		line string // source line
		hint string // a part of it
	}{
		{"const x = 1;\nconst y = (2 + ;\n", "program.js:2:16: Unexpected \";\"", "const y = (2 + ;", ""},
		{"const ü = '😀', y = ];", "program.js:1:21: unexpected \"]\"", "const ü = '😀', y = ];", ""},
		{"if (x) {\n  foo()\n", "program.js:1:8: \"{\" is never closed", "if (x) {", ""},
		{"foo(`abc\n", "program.js:1:5: template literal is never closed", "foo(`abc", ""},
		{"a()\n}\nb()", "program.js:2:1: unexpected \"}\"", "}", ""},
		{"}); (async () => {", "program.js:1:1: unexpected \"}\"", "}); (async () => {", ""},
		{"return 1) + (2", "program.js:1:9: unexpected \")\"", "return 1) + (2", ""},
		{"const x =", "program.js:1:10: unexpected end of the program", "const x =", ""},
		{"/* never", "program.js:1:1: comment is never closed", "/* never", ""},
		{"return 'it", "program.js:1:8: string literal is never closed", "return 'it", ""},
		{
			"```ts\r\nconst x = 1;\r\nlet x = 2;\r\n```\r\n", "program.js:3:5: The symbol \"x\" has already been declared",
			"let x = 2;", "",
		},
		{
			"import x from 'util'\nconst x = 1\nreturn x", "program.js:2:7: The symbol \"x\" has already been declared",
			"const x = 1", "",
		},
		{
			"import { x } from 'util'\nimport x from 'path'", "program.js:2:8: The symbol \"x\" has already been declared",
			"import x from 'path'", "",
		},
		{"export default 1\nexport default 2", "program.js:2:1: a program has one result", "export default 2", ""},
		{
			"function f() {\n  await g()\n}\nf()", "program.js:2:3: \"await\" can only be used inside an \"async\" function",
			"  await g()", "async",
		},
		{"if (x) {\n import a from 'b'\n}", "program.js:2:9: Unexpected \"a\"", " import a from 'b'", ""},
		{"if (1) {\n namespace N { export const a = 1 }\n}", "program.js:2:12: Expected \";\" but found \"N\"", " namespace N { export const a = 1 }", "top level"},
		{"namespace N { export const a = ; }", "program.js:1:32: Unexpected", "namespace N { export const a = ; }", ""},
		{"'use strict'; return 010", "program.js:1:22: Legacy octal literals cannot be used in strict mode", "'use strict'; return 010", ""},
		{"'use strict'\nwith ({}) {}", "program.js:2:1: With statements cannot be used in strict mode", "with ({}) {}", ""},
		{"import 'util'\nreturn 010", "program.js:2:8: Legacy octal literals cannot be used in strict mode", "return 010", ""},
		{"export = 7", "program.js:1:1: Unexpected \"export\"", "export = 7", ""},
		{"import {await} from 'util'\nreturn await", "program.js:1:", "import {await} from 'util'", ""},
		{"def main():\n    print('x')\n", "program.js:1:5: Expected", "def main():", "Python"},
		{"import json\nprint(json)", "program.js:", "import json", "Python"},
		{"```python\nprint(1)\n```", "program.js:2:1: the code block is python", "print(1)", "Python"},
		{"```js\n1\n```\n```js\n2\n```", "program.js:5:1: the text has several code blocks", "2", ""},
		// imports
		{
			"import a from '/skills/nothing'\nreturn a", "program.js:1:15: module \"/skills/nothing\" does not exist",
			"import a from '/skills/nothing'", "listFiles",
		},
		{
			"import a from './local.js'; return a",
			"program.js:1:15: module \"./local.js\" does not exist (looked for /workspace/local.js)",
			"import a from './local.js'; return a", "",
		},
		{
			"import a from '../../etc/passwd'; return a",
			"program.js:1:15: cannot import \"../../etc/passwd\": it is neither",
			"import a from '../../etc/passwd'; return a", "",
		},
		{
			"import a from '/skills/../etc/x.js'; return a", "program.js:1:15: cannot import",
			"import a from '/skills/../etc/x.js'; return a", "",
		},
		{
			"import a from '/skills/notes.md'; return a", "program.js:1:15: cannot import /skills/notes.md",
			"import a from '/skills/notes.md'; return a", "fs.readFile('/skills/notes.md')",
		},
		{
			"import { a, c } from '/skills/esm.js'; return a + c",
			"program.js:1:22: module \"/skills/esm.js\" has no export \"c\"",
			"import { a, c } from '/skills/esm.js'; return a + c", "it exports a, b",
		},
		{
			"import x from '/skills/imports.js'; return x",
			"/skills/imports.js:2:19: module \"./esm.js\" has no export \"c\"", "import { c } from './esm.js'",
			"it exports a, b",
		},
		{
			"import x from '/skills/gone.js'; return x",
			"/skills/gone.js:1:15: module \"./missing.js\" does not exist (looked for /skills/missing.js)",
			"import x from './missing.js'; export default x", "",
		},
		{"import x from '/skills/bad'; return x", "/skills/bad.ts:2:18: Unexpected \";\"", "export const b = ;", ""},
		{
			"import x from '/skills/open.js'; return x", "/skills/open.js:1:18: \"{\" is never closed", "module.exports = {",
			"",
		},
		{
			"import x from '/skills/bad.json'; return x", "/skills/bad.json:2:8: module /skills/bad.json is not valid JSON",
			"  \"a\": }", "",
		},
		{
			"import x from './servers/crn'; return x",
			"program.js:1:15: cannot import \"./servers/crn\": there is no server \"crn\"; the closest is crm",
			"import x from './servers/crn'; return x", "",
		},
		{
			"import x from './servers/crm/find'; return x",
			"program.js:1:15: cannot import \"./servers/crm/find\": server \"crm\" has no tool \"find\"",
			"import x from './servers/crm/find'; return x", "search, getSum",
		},
		{
			"import fs from 'fs-extra'; return fs", "program.js:1:16: module \"fs-extra\" is not available",
			"import fs from 'fs-extra'; return fs", "global fs",
		},
		{
			"import a from 'axios'; return a", "program.js:1:15: module \"axios\" is not available",
			"import a from 'axios'; return a", "call a tool",
		},
		{
			"import a from 'lodash'; return a", "program.js:1:15: package \"lodash\" is not available",
			"import a from 'lodash'; return a", "sandbox.packages",
		},
		{
			"import a from 'skills/esm.js'; return a", "program.js:1:15: package \"skills/esm.js\" is not available",
			"import a from 'skills/esm.js'; return a", "'/skills/esm.js'",
		},
	} {
		_, err := Compile(t.Context(), Source{Code: c.code}, opts)
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%q: error %v, want %s", c.code, err, c.want)
			continue
		}
		if !strings.HasPrefix(e.Error(), c.want) || e.SourceLine != c.line || !strings.Contains(e.Hint, c.hint) {
			t.Errorf("%q:\n got %s\n     %q\nwant %s … %s\n     %q", c.code, e, e.SourceLine, c.want, c.hint, c.line)
		}
	}
}

func TestCompileIsBounded(t *testing.T) {
	t.Parallel()
	_, err := Compile(t.Context(), Source{Code: strings.Repeat(" ", maxText+1)}, Options{})
	if err == nil || !strings.Contains(err.Error(), "more than the") {
		t.Errorf("a program that is too large: %v", err)
	}
	files := map[string]string{}
	for i := range maxModules + 1 {
		files[fmt.Sprintf("/skills/s%d.js", i)] = fmt.Sprintf("import './s%d.js'", i+1)
	}
	_, err = Compile(t.Context(), Source{Code: "import '/skills/s0.js'"}, Options{Resolver: sandbox{files: files}})
	if err == nil || !strings.Contains(err.Error(), "more than 200 modules") {
		t.Errorf("too many modules: %v", err)
	}
	_, err = Compile(t.Context(), Source{Code: "import '/skills/big.js'"},
		Options{Resolver: sandbox{files: map[string]string{
			"/skills/big.js": strings.Repeat(" ", maxText+1),
		}}})
	if err == nil || !strings.Contains(err.Error(), "module /skills/big.js has 1048577 bytes") {
		t.Errorf("a module that is too large: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Compile(ctx, Source{Code: "1"}, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled compilation: %v", err)
	}
}

// FuzzCompile checks that no text breaks the compiler, and that no compiled code is outside the function.
func FuzzCompile(f *testing.F) {
	for _, seeds := range [][]string{importSeeds, statementSeeds, expressionSeeds} {
		for _, seed := range seeds {
			f.Add(seed)
		}
	}
	f.Add("```ts\nreturn 1\n```")
	f.Add("import x from 'y'\n}); (async () => {")
	f.Add("export default export default")
	f.Fuzz(func(t *testing.T, code string) {
		c, err := Compile(t.Context(), Source{Code: code}, Options{Resolver: sandbox{}})
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Line < 1 || e.Column < 1 || e.File == "" {
				t.Fatalf("%q: error without a position: %v", code, err)
			}
			return
		}
		s := tokenize(strings.TrimPrefix(c.Program.Code, `"use strict";`))
		last := len(s.tokens) - 1
		if !s.is(0, "(") || s.tokens[0].match != last {
			t.Fatalf("%q became %q, which is not one parenthesis", code, c.Program.Code)
		}
	})
}
