package program

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/testing/npmtest"
)

// importSeeds, statementSeeds and expressionSeeds are the parts of generated files. $E stands for an expression, $S for a statement.
var importSeeds = []string{
	`import a from 'm';`, `import a from "m"`, `import 'side-effect';`, `import "side"`,
	`import * as ns from './x.js';`, `import d, * as n from 'n'`, `import d, {e as f, g} from 'n';`,
	`import {} from 'e';`, `import { a, b, } from 'c'`, "import {\n  a, // a } from 'x'\n  b as c,\n} from 'd';",
	`import { "a-b" as c } from 'x';`, `import { default as d } from 'y'`,
	`import type T from 't';`, `import type { U } from 'u'`, `import type * as V from 'v'`,
	`import { type W, x } from 'w';`,
	`import { type as, type as as, type as as as } from 'k';`, `import type from 'type';`, `import type from from 'f';`,
	`import type, { a } from 'm';`, `import from from 'from';`, `import as, { from as of } from 'as'`,
	`import data from './d.json' with { type: 'json' };`, `import data from './d.json' assert { type: "json" }`,
	"import x from 'y'\nwith\n{ type: 'json' }", `import/**/z/**/from/*'*/'q'/* ; */;`, "import\n  q\n  from\n  'r'\n;",
	`import 'it\'s'; `, `import "\u0061\x62"`, `import größe from 'ü';`, `import * as $ from '$'`,
	`export * from 'm';`, `export * as q from 'n'`, `export { a, b as c } from 'o';`, `export { a as default, b }`,
	`export {};`, `export type { T } from 't'`, `export default $E;`, `export default function f() { $S }`,
	"export default class {\n  m() { $S }\n}", `export const e1 = $E;`, `export async function g() { $S }`,
	`export class C { x = $E }`,
}

var statementSeeds = []string{
	`const v = $E;`, "let w = $E\n", `if ($E) { $S } else { $S }`, "if ($E) $S", `for (const i of $E) { $S }`,
	`for (let i = 0; i < 3; i++) { $S }`, `for (const k in $E) $S`, `while ($E) { $S break; }`, `do { $S } while ($E)`,
	`switch ($E) { case $E: $S break; default: $S }`, `try { $S } catch (e) { $S } finally { $S }`,
	`try { $S } catch { $S }`,
	`{ $S }`, `label: for (;;) { $S break label }`, `function f(a, b = $E) { $S return $E }`,
	`async function g() { await $E; }`,
	`function* h() { yield $E; yield* $E }`,
	"class K extends L { #p = $E; static s = $E; static { $S } get x() { return this.#p / 2 } m() { $S } }",
	`throw $E`, `$E;`, "$E\n", `;`, `return $E;`, `;[$E].forEach(x => { $S })`, `;($E)`, "x = a / b / c;",
	"x = a++ / 2; y = b-- / 3",
	`interface I { a: string; b(): number }`, `type T = { a: string } | { b: number }`,
	"type F = (a: number) => { x: string }\n",
	`enum Color { Red, Green = 2 }`, `declare const dd: any;`, `namespace N { export const x = $E; import q = Z.Y; }`,
	`function over(a: string): { a: string } { return { a } }`, `let x: Array<{ a: number }> = $E;`, `let y!: string;`,
	`abstract class A<T extends { a: 1 }> implements B<T> { abstract m(): void; private readonly x?: string = $E }`,
	`const { a, b: { c = $E }, ...d } = $E;`, "// import x from 'y'\n", "/* import { x } from 'z' */", "debugger",
	"if ($E) /re'/.test(x);", "while (x) /[/'\"]/g.exec(y)", "}\n/re`/.test(x)\n{", "function z() {}\n/re'/.test(x);",
	"{ }\n/`/.exec(y);",
	"function vv(): void { if (a) /re'/.test(b) }\n/re`/.test(b);", "class VV { m(): void { if (a) /re'/.test(b) } n(): T[] { $S } }",
	"const vo = { m(): void { if (a) /re'/.test(b) }, n(): Promise<void> { $S } } / 2",
	"var u = function () {} / 2;", "var o = {} / 1;", "x => {}\n/re\"/.test(x);", "await import('dyn');",
	"import('dyn').then(x => x);",
	"const m = import.meta.url;", "obj.import = 1; obj.export = 2;",
	"const o2 = { import: 1, export: 2, from: 3, class: 4, function() { $S } };",
	"@dec class D {}", "@dec({ a: $E })\nclass D2 { @p q = $E; @r() m() {} }", "for await (const z of $E) { $S }",
	"var yield_ = 1, of = 2, as = of / as / 3;",
	"using r = $E;", "if (a) { import('x') } else b = 1", "let async = 1; async / 2 / 3",
	"switch (x) { case 'a': { $S } case /re'/: }",
}

var expressionSeeds = []string{
	`1`, `'s'`, `"it's"`, `'\''`, `a`, `null`, `this`, "`t`", "`a ${$E} b`", "`${`nested ${$E}`}`", "`\\`` ", "`$`",
	"`${{ a: $E }.a}`",
	`/re/`, `/[/]/g`, `/\//`, `/a'b"c/`, "/`/u", `/import x from 'y'/`, `[$E, $E]`, `{ a: 1 }`,
	`({ a: $E, [b]: $E, c, d() { $S }, get e() { return 1 } })`,
	`($E)`, `$E + $E`, `$E / $E`, `$E / 2 / /x/.source`, `a / b`, `(a) / 2`, `[a][0] / 3`, `f() / 2`, `a ? b : c`,
	`a ? { x: 1 } : /re'/`, `a?.b ?? $E`, `a ?.5 : 1`,
	`f($E, ...$E)`, `new F($E)`, `typeof $E`, `void 0`, `await $E`, `x => $E`, `(x, y) => { $S }`,
	`async () => { $S }`, `function () { $S }`, `class { m() { $S } }`,
	`class Q extends R { x = $E }`, `a as any`, `<any>a`, `a!`, `a! / 2`, `a satisfies B`, `f<string>(a)`,
	`x as { a: string }`, `"use strict"`, `'// no comment'`, `"/* no */"`,
	`a.b.return / 2`, `a.if(b) / 3`, `import.meta`, `import('x')`, `require('y')`, "tag`x${$E}y`", `1..toString()`,
	`.5`, `1_000n`, `0xff / 2`, `1e-3 / 2`, `a++ / b`,
	"'line\\\ncontinued'", `"import z from 'q'"`, "`import z from 'q'`", "`\nimport z from 'q';\n`", `async x => $E`,
	`function* () { yield /re'/; }`, `!a / 2`, `-/re/.lastIndex`,
	`a < b / c > d`, `a = b / c`, `a, b`, `delete a.b`, `#p in a`, `a instanceof B`, `"\u{1F600}" + '😀'`, `ünïcode`,
	`{}`, `a ? (b) : c => $E`, `a ? b ? c : d : { e: 1 }`,
	`(function () { $S })()`, `(() => { $S })() / 2`, `{ ...a } `, `a[{ b: 1 }.b] / 2`,
}

// generate returns a file of a few declarations and statements, each on its own line or on the line of the one before.
func generate(r *rand.Rand) string {
	var b strings.Builder
	for range 1 + r.IntN(6) {
		seeds := statementSeeds
		if r.IntN(3) == 0 {
			seeds = importSeeds
		}
		statement := expand(r, seeds[r.IntN(len(seeds))], 0)
		separators := []string{"\n", "\n\n", ";", "\r\n", " // ' comment\n", "\n/* ` */ ", " "}
		if !strings.HasSuffix(statement, ";") && &seeds[0] == &importSeeds[0] {
			separators = separators[:6] // TypeScript's parser accepts some missing semicolons that the language does not allow.
		}
		b.WriteString(statement + separators[r.IntN(len(separators))])
	}
	return b.String()
}

func expand(r *rand.Rand, text string, depth int) string {
	for {
		i := strings.IndexByte(text, '$')
		for i >= 0 && !strings.HasPrefix(text[i:], "$E") && !strings.HasPrefix(text[i:], "$S") {
			next := strings.IndexByte(text[i+1:], '$')
			if next < 0 {
				return text
			}
			i += 1 + next
		}
		if i < 0 {
			return text
		}
		with := "0"
		switch {
		case text[i+1] == 'E' && depth < 3:
			with = expand(r, expressionSeeds[r.IntN(len(expressionSeeds))], depth+1)
		case text[i+1] == 'S' && depth < 3:
			with = expand(r, statementSeeds[r.IntN(len(statementSeeds))], depth+1)
		case text[i+1] == 'S':
			with = ";"
		}
		text = text[:i] + with + text[i+2:]
	}
}

// lifted returns the declarations that the lifter finds in a file, in the format of testdata/typescript/compare.js, and the file without its imports.
func lifted(code string) (found [][3]any, blanked string) {
	text := []byte(code)
	for _, d := range tokenize(code).declarations() {
		switch d.kind {
		case importFrom:
			found = append(found, [3]any{"import", d.start, d.end})
			d.blank(text)
		case exportFrom:
			found = append(found, [3]any{"export from", d.start, d.end})
		case exportList:
			found = append(found, [3]any{"export list", d.start, d.end})
		case exportDefault:
			found = append(found, [3]any{"export value", d.start, 0})
		}
	}
	return found, string(text)
}

func TestLiftAgainstTypeScript(t *testing.T) {
	t.Parallel()
	dir := npmtest.TypeScript(t)
	type input struct {
		Code    string `json:"code"`
		Blanked string `json:"blanked"`
	}
	type output struct {
		Skip         bool
		Declarations [][3]any
		Differs      string
	}
	r := rand.New(rand.NewPCG(1, 2))
	var inputs []input
	add := func(code string) {
		code += "\nexport {}" // makes the code a module even without its imports, because await is a keyword in modules
		_, blanked := lifted(code)
		inputs = append(inputs, input{code, blanked})
	}
	for _, seeds := range [][]string{importSeeds, statementSeeds} {
		for _, seed := range seeds {
			add(expand(r, seed, 0))
		}
	}
	// TypeScript's parser reads a top-level await twice, and reports wrong positions if a regular expression or an object follows.
	awaitRegex := regexp.MustCompile(`await\s*(/[^/*]|\{)`)
	for range 6000 {
		if code := generate(r); !awaitRegex.MatchString(code) {
			add(code)
		}
	}
	parsed, failures := 0, 0
	for i, out := range runNode[input, output](t, inputs, "testdata/typescript/compare.js", dir) {
		if out.Skip {
			continue
		}
		parsed++
		found, _ := lifted(inputs[i].Code)
		diff := cmp.Diff(fmt.Sprint(out.Declarations), fmt.Sprint(found))
		if (diff != "" || out.Differs != "") && failures < 10 {
			failures++
			t.Errorf("in %q\ndeclarations (-typescript +ours):\n%s\nblanked %q\n%s", inputs[i].Code, diff, inputs[i].Blanked,
				out.Differs)
		}
	}
	if parsed < 2000 {
		t.Errorf("only %d of %d generated files are TypeScript", parsed, len(inputs))
	}
	t.Logf("%d of %d files are valid TypeScript", parsed, len(inputs))
}

// checkBlanked checks that blanking moved nothing: the numbers of bytes and of UTF-16 units, and the lines, are the same.
func checkBlanked(t *testing.T, code, blanked string) {
	t.Helper()
	if len(blanked) != len(code) || utf16Len(blanked) != utf16Len(code) {
		t.Fatalf("%q became %q, which has another length", code, blanked)
	}
	if !utf8.ValidString(blanked) {
		t.Fatalf("%q became %q, which is not UTF-8", code, blanked)
	}
	for i := range code {
		if c := code[i]; (c == '\n' || c == '\r') != (blanked[i] == '\n' || blanked[i] == '\r') {
			t.Fatalf("%q became %q: a line break moved", code, blanked)
		}
	}
}

func FuzzLift(f *testing.F) {
	for _, seeds := range [][]string{importSeeds, statementSeeds, expressionSeeds} {
		for _, seed := range seeds {
			f.Add(seed)
		}
	}
	f.Fuzz(func(t *testing.T, code string) {
		code = strings.ToValidUTF8(code, "?")
		s := tokenize(code)
		end := 0
		for _, token := range s.tokens {
			if token.start < end || token.end <= token.start {
				t.Fatalf("token %q at %d does not follow %d", code[token.start:token.end], token.start, end)
			}
			end = token.end
		}
		end = 0
		for _, d := range s.declarations() {
			if d.start < end || d.end <= d.start || d.end > len(code) {
				t.Fatalf("declaration %d to %d of %q overlaps another, which ends at %d", d.start, d.end, code, end)
			}
			end = d.end
		}
		_, blanked := lifted(code)
		checkBlanked(t, code, blanked)
	})
}

func TestDeclarations(t *testing.T) {
	t.Parallel()
	// Bindings are written as name=local.
	for code, want := range map[string]string{
		`import a from 'm'`:                         "m default=a",
		`import a, * as b from 'm'`:                 "m default=a *=b",
		`import a, { b as c, "d-e" as f } from 'm'`: "m default=a b=c d-e=f",
		`import { type A, b } from 'm'`:             "m b=b",
		`import { type A } from 'm'`:                "m type",
		`import type A from 'm'`:                    "m type default=A",
		`import type from 'm'`:                      "m default=type",
		`import { type as } from 'm'`:               "m type",
		`import { type as as } from 'm'`:            "m type=as",
		`import {} from 'm'`:                        "m",
		`import "\x6d\u006d\u{6d}\n"`:               "mmm\n",
		`export { a as b } from 'm'`:                "m a=b",
		`import("m")`:                               "",
		`import.meta.url`:                           "",
		`{ import a from 'm' }`:                     "",
		`x.import; y = { import: 1 }`:               "",
		"// import a from 'm'\n/* import b from 'n' */ `\nimport c from 'd'\n`": "",
		`import a from 'm' with { type: 'json' }; import b from 'n'`:            "m default=a; n default=b",
		`import a from 'm' b`:      "",
		`if (x) import a from 'm'`: "",
	} {
		var got []string
		for _, d := range tokenize(code).declarations() {
			parts := []string{d.specifier}
			if d.typeOnly {
				parts = append(parts, "type")
			}
			for _, b := range d.bindings {
				parts = append(parts, b.name+"="+b.local)
			}
			got = append(got, strings.Join(parts, " "))
		}
		if diff := cmp.Diff(want, strings.Join(got, "; ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", code, diff)
		}
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	// The token before a slash decides whether a regular expression begins.
	for code, want := range map[string][]string{
		"a / b / c":                        nil,
		"x = /b/g":                         {"/b/g"},
		"if (a) /b/.c()":                   {"/b/"},
		"f(a) / b / c":                     nil,
		"return /a/":                       {"/a/"},
		"x.return / a / b":                 nil,
		"{}\n/a/.b()":                      {"/a/"},
		"x = {} / a / b":                   nil,
		"a++ / b / c":                      nil,
		"a = b ? /c/ : /d/":                {"/c/", "/d/"},
		"function f() {}\n/a/.b()":         {"/a/"},
		"x = function () {} / a / b":       nil,
		"class A { m() { return /a/ } }":   {"/a/"},
		"`${/a/.b}` / c / d":               {"/a/"},
		"x => {}\n/a/.b()":                 {"/a/"},
		"/[/]\\//.b":                       {"/[/]\\//"},
		"case_: /a/":                       {"/a/"},
		"switch (x) { case 1: /a/; }":      {"/a/"},
		"a! / b / c":                       nil,
		"!/a/.b()":                         {"/a/"},
		"import a from 'b'\n/c/.d()":       {"/c/"},
		"const t: { a: 1 } = /x/":          {"/x/"},
		"function f(): { a: 1 } { }\n/x/g": {"/x/g"},
		"type T = { a: 1 }\n/x/g":          {"/x/g"},
		"for (const x of /a/g) /b/":        {"/a/g", "/b/"},
		"x = { delete() {} } / a / b":      nil,
		"do /a/; while (x) /b/":            {"/a/", "/b/"},
	} {
		var got []string
		s := tokenize(code)
		for _, token := range s.tokens {
			if token.kind == regex {
				got = append(got, s.code[token.start:token.end])
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: regular expressions %q, want %q", code, got, want)
		}
	}
}
