package program

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/testing/generated"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/testing/npmtest"
)

func repeated(before, unit, after string) func(int) string {
	return func(size int) string {
		return before + strings.Repeat(unit, max(0, size-len(before)-len(after))/len(unit)) + after
	}
}

// ordinary contains functions that return long code as people, models and build tools write it.
var ordinary = map[string]func(size int) string{
	"statements":     repeated("", "a = f<string>(b, (c: number): string => c < 3 ? (c) : g(c));\n", ""),
	"functions":      repeated("", "export async function f<T extends A<B>>(a: Map<string, T[]>, b?: (c: T) => void): Promise<Array<T>> {\n  for (let i = 0; i < a.size; i++) { if (i < 3 && b) { b(a.get(`x${i}`)![0] as T) } }\n  return [...a.values()].flat().filter((x): x is T => x !== null)\n}\n", ""),
	"a class":        repeated("class A<T> {\n", "  private a: Map<string, T> = new Map<string, T>()\n  get b(): T { return this.a.get('b')! }\n", "}"),
	"an interface":   repeated("interface A {\n", "  a: Map<string, Array<B<C>>>\n  b(c: D): E;\n", "}"),
	"a type":         repeated("type A = {\n", "  a: Map<string, Array<B<C>>>;\n  b(c: D): E;\n", "}"),
	"a union":        repeated("type A =\n", "  | { kind: 'a', value: B<C> }\n", ""),
	"data":           repeated("export const data = [\n", "  { id: 1, name: 'a', tags: ['b', 'c'], f: (x: number) => x < 3 },\n", "]"),
	"numbers":        repeated("return [", "1, ", "]"),
	"minified":       repeated("", "!function(e,t){\"object\"==typeof exports?module.exports=t():e.x=t()}(this,(function(){var e=1,t=e<2?n:r,o=function(e){return e&&e.a>3?(e):t},i=e=>e<1||e>2;for(var a=0;a<e.length;a++)o(i(e[a]),(function(e){return e?(t):n}));return{a:o,b:i}}));", ""),
	"minified lists": repeated("", "a="+strings.Repeat("b(c,d)&&e.f,", 50)+"0;", ""),
}

// TestHostileCode compiles hostile code in processes. A process may end because of it; this process does not. A text that cannot be compiled is not compiled
// again.
func TestHostileCode(t *testing.T) {
	t.Parallel()
	compiler := compilerProcesses(t)
	for name, code := range map[string]string{
		"types of arrow functions": "x = " + strings.Repeat("a?(b):c=>", 100),
		"parentheses":              strings.Repeat("(", maxText-100),
		"objects":                  "x = " + strings.Repeat("{a:", maxText/4),
	} {
		charged := time.Duration(0)
		opts := Options{Compiler: compiler, Cache: NewCache(), Charge: func(d time.Duration) error { charged += d; return nil }}
		_, err := Compile(t.Context(), Source{Code: code}, opts)
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %v", name, err)
		}
		first := charged
		_, again := Compile(t.Context(), Source{Code: code}, opts)
		if again == nil || again.Error() != err.Error() || charged != first || first == 0 {
			t.Errorf("%s: %v again, charged %s and then %s", name, again, first, charged)
		}
	}
}

// TestOrdinaryCode compiles long code.
func TestOrdinaryCode(t *testing.T) {
	t.Parallel()
	for name, make := range ordinary {
		size := maxText - 100
		if name == "a union" {
			size = 50_000
		}
		if s := tokenize(make(size)); s.problem != nil {
			t.Errorf("%s: %s", name, s.problem.message)
		}
		if _, err := Compile(t.Context(), Source{Code: make(size / 2)}, Options{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTypeScriptItself compiles the compiler and the declarations of the npm package typescript, up to the maximum length of a module.
func TestTypeScriptItself(t *testing.T) {
	t.Parallel()
	lib := filepath.Join(npmtest.TypeScript(t), "node_modules", "typescript", "lib")
	for name, ending := range map[string]string{"_tsc.js": ".js", "typescript.d.ts": ".ts", "lib.dom.d.ts": ".ts"} {
		text, err := os.ReadFile(filepath.Join(lib, name))
		if err != nil {
			t.Fatal(err)
		}
		code := string(text)
		if len(code) > maxText { // keeps as many whole declarations as fit
			for _, end := range []string{"\nfunction ", "\ninterface "} {
				if i := strings.LastIndex(code[:maxText], end); i > maxText/2 {
					code = code[:i]
					break
				}
			}
		}
		id := "/skills/" + strings.TrimSuffix(name, ending) + ending
		_, err = CompileModule(t.Context(), id, ProgramFile, Options{Resolver: sandbox{files: map[string]string{id: code}}})
		if err != nil {
			t.Errorf("%s, %d bytes: %v", name, len(code), err)
		}
	}
}

// TestLinear measures the time that this package takes for hostile texts before and after esbuild runs. Such a text may take somewhat longer than an ordinary
// text of the same length. A step that takes quadratic time would exceed this bound.
func TestLinear(t *testing.T) {
	units := []string{
		"/[", "=/", "= /a[", "'\\u{", "\\u{", "import '\\u{", "import {'\\u{", "namespace\n", "namespace a.", "declare global\n",
		"import{", "import {a} from 'b';", "import type a=b.", "import type a=", "export{", "export {a as ", "export * from 'a';", "import 'a' with {",
		"`${", "```\n", "```js\n", "``` a`\n", "/*", "//", "\n", "\r", "\u2028", "é", "😀", "@", "{", "}", "(", "a<", "a?(b):c=>", "type ", "type\n",
		"case ", "if(", "do ", "label:", "class A{", "import a, * as b from 'c';", "export default ", "exports.", "module.exports", "#", "\\",
		"namespace a{}", "namespace a.b{let c}\n", "export namespace a{}\n", "import a = b.c;", "export import a = b;", "enum a{}", "export {a};",
		"export default 1;", "import * as a from 'b';", "import {a as b, c} from 'd';", "export * as a from 'b';", "export const a = 1;", "a = b / c;",
		"(a) / b;", "{a} / b;", "x = { a: b };", "`${a}`;", "a(`${b}`);", "require('a');", "a = require('b');", "exports.a = b;",
		"'", "\"", "$", "_imprt", "_unusd", "import(", "import.meta", "def f():\n", "None ", "from a import ", "print", " as ", " ", "\t",
	}
	measure := func(code string) time.Duration {
		begun := cpuTime()
		text, _ := unfence(code)
		b := newBody(Source{Code: code}, text)
		b.scan = tokenize(text)
		b.decls = b.scan.declarations()
		b.lift()
		b.scan.asExpression(b.decls)
		b.scan.isESM(".js", b.decls)
		rewriteImports(text, "_imprt")
		line, column := position(code, len(code))
		sourceLine(code, line, column)
		compiled := &script{}
		compiled.readCommonJS(text, b.decls)
		compiled.readModule(text, b.decls)
		compiled.asyncBody(text, "_imprt")
		return cpuTime() - begun
	}
	shapes := map[string]func(int) string{
		"escapes in a specifier": repeated("import '", "\\u{", "'"),
		"escapes in a name":      repeated("import {", "\\u{", "} from 'a'"),
		"unclosed classes":       repeated("x = a ? ", "/[", "]"),
	}
	for _, unit := range units {
		shapes[unit] = repeated("", unit, "")
	}
	size := generated.Count(1<<16, 1<<18)
	const tries = 3 // The machine may be busy with other work.
	ordinary := time.Duration(0)
	for range tries {
		ordinary = max(ordinary, measure(strings.Repeat("x = { a: b };", size/13)))
	}
	for name, make := range shapes {
		took := time.Duration(math.MaxInt64)
		for range tries {
			if took = min(took, measure(make(size))); took < 6*ordinary || took > 40*ordinary {
				break
			}
		}
		if took >= 6*ordinary {
			t.Errorf("%q takes %v, an ordinary text of that length %v", name, took, ordinary)
		}
	}
}

// TestLocateIsBounded locates errors of any size.
func TestLocateIsBounded(t *testing.T) {
	t.Parallel()
	c := mustCompile(t, "return 1", Options{})
	frames := "    at f (program.js:2:3)\n"
	for name, c := range map[string]struct {
		compiled *Compiled
		err      frame.Error
		frames   int
	}{
		"a function with a long name": {c, frame.Error{Stack: "    at " + strings.Repeat("f", 4000) + " (program.js:2:3)\n"}, 1},
		"frames behind much else":     {c, frame.Error{Stack: strings.Repeat("x", maxStack) + "\n" + frames}, 0},
		"frames behind the message":   {c, frame.Error{Message: frames, Stack: "Error: " + frames + frames}, 1},
		"a long map": {&Compiled{Map: SourceMap{ProgramFile: {
			Mappings: ";;AAAA" + strings.Repeat(";", maxMappings/2),
		}}}, frame.Error{Stack: strings.Repeat("    at f (program.js:3:3)\n", 9)}, 1},
	} {
		p := c.compiled.Locate(c.err)
		if got := strings.Count(p.Stack, "\n"); got != c.frames || len(p.Stack) > 1000 {
			t.Errorf("%s: %d frames, %d bytes", name, got, len(p.Stack))
		}
	}
	long := strings.Repeat("n", 10_000)
	if got := Hint("runtime", "ReferenceError", "ReferenceError: "+long+" is not defined", ""); got == "" || len(got) > 1000 {
		t.Errorf("the hint about a long name has %d bytes", len(got))
	}
	if got := Hint("runtime", "TypeError", strings.Repeat("x ", maxMessage)+" is not a function", ""); got != "" {
		t.Errorf("the end of a long message led to the hint %q", got)
	}
}

// TestManyModules imports more bytes than a program may load.
func TestManyModules(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	var imports strings.Builder
	for i := range 9 {
		name := "/skills/" + string(rune('a'+i)) + ".js"
		files[name] = "exports.text = `" + strings.Repeat("x", maxText-100) + "`"
		imports.WriteString("import '" + name + "';")
	}
	var e *Error
	_, err := Compile(t.Context(), Source{Code: imports.String()}, Options{Resolver: sandbox{files: files}})
	if !errors.As(err, &e) || !strings.Contains(e.Message, "more than 8 MiB") || e.Line != 1 {
		t.Errorf("%v", err)
	}
}
