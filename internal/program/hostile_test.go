package program

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/testing/npmtest"
)

// hostile are texts that cost esbuild more than their length, each repeated to a size in bytes. Those that weigh must
// refuse at full size are marked; what the others cost is bounded by Compiler alone.
var hostile = []struct {
	name    string
	refused bool
	make    func(size int) string
}{
	{"comparisons in statements", true, repeated("", strings.Repeat("a<", 400)+"a;\n", "")},
	{"comparisons in a list", true, repeated("x = [", "a < b, ", "a]")},
	{"comparisons in arguments", true, repeated("f(", "a < b, ", "a)")},
	{"comparisons in a class", true, repeated("class A { a = b", "< c, d", "}")},
	{"comparisons around a list", true, repeated(strings.Repeat("a<[", 300), "a,", "")},
	{"types of arrow functions", true, repeated(strings.Repeat("a?(b):c=>", 9)+"[", "a,", "]")},
	{"types in statements", true, repeated("", "x = "+strings.Repeat("a?(b):c=>", 9)+"["+strings.Repeat("a,", 1000)+"];\n", "")},
	{"constraints of infer", true, repeated("type A = ", "infer T extends [", "")},
	{"constraints in statements", true, repeated("", "type A = "+strings.Repeat("infer T extends [", 9)+strings.Repeat("a,", 2000)+strings.Repeat("] ? 0 : 0", 9)+";\n", "")},
	{"parentheses", true, repeated("x = ", "(", "")},
	{"parentheses in statements", false, repeated("", strings.Repeat("(", 450)+"a"+strings.Repeat(")", 450)+";\n", "")},
	{"a list in parentheses", true, repeated("x = (", "a,", "a)")},
	{"lists in parentheses", true, repeated("", "x = ("+strings.Repeat("a,", 4000)+"a);\n", "")},
	{"types in types", true, repeated("let a: ", "A<", "")},
	{"templates in templates", true, repeated("x = ", "`${", "")},
	{"templates in statements", false, repeated("", strings.Repeat("`${", 450)+"a"+strings.Repeat("}`", 450)+";\n", "")},
	{"elements of JSX", true, repeated("x = ", "<a>", "")},
	{"elements in statements", true, repeated("", "x = "+strings.Repeat("<a>", 900)+"b;\n", "")},
	{"a sum", true, repeated("x = ", "'a' + ", "''")},
	{"objects", true, repeated("x = ", "{a:", "")},

	{"cases", false, repeated("switch (a) {", "case 1:", "}")},
	{"variables", false, repeated("", "var a;", "")},
	{"exports", false, repeated("", "export default 1;\n", "")},
	{"comments in a list", false, repeated("x = [", "/*c*/a,", "]")},
	{"blocks", false, repeated(strings.Repeat("{", 400), "x;", strings.Repeat("}", 400))},
	{"names", false, repeated("namespace "+strings.Repeat("N", 2000)+" { export let x;", "x;", "}")},
}

func repeated(before, unit, after string) func(int) string {
	return func(size int) string {
		return before + strings.Repeat(unit, max(0, size-len(before)-len(after))/len(unit)) + after
	}
}

// ordinary is long code as people, models and build tools write it.
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

func TestHostileCode(t *testing.T) {
	t.Parallel()
	for _, c := range hostile {
		if s := weigh(c.make(maxText)); s.tooDeep != c.refused {
			t.Errorf("%s: refused is %v, want %v", c.name, s.tooDeep, c.refused)
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
		if s := weigh(make(size)); s.problem != nil {
			t.Errorf("%s: %s", name, s.problem.message)
		}
		if _, err := Compile(t.Context(), Source{Code: make(size / 2)}, Options{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTypeScriptItself compiles the compiler and the declarations of npm's typescript, as far as a module may be long.
func TestTypeScriptItself(t *testing.T) {
	t.Parallel()
	lib := filepath.Join(npmtest.TypeScript(t), "node_modules", "typescript", "lib")
	for name, ending := range map[string]string{"_tsc.js": ".js", "typescript.d.ts": ".ts", "lib.dom.d.ts": ".ts"} {
		text, err := os.ReadFile(filepath.Join(lib, name))
		if err != nil {
			t.Fatal(err)
		}
		code := string(text)
		if len(code) > maxText { // as much as it has of whole declarations
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

// TestLinear measures what this package does to hostile texts before and after esbuild: they may take some more than an
// ordinary text of the same length, which is not so if a step takes time with the square of the length.
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
		rewriteImports(text, "_imprt", true)
		line, column := position(code, len(code))
		sourceLine(code, line, column)
		lineBreaks(code)
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
	const size = 1 << 18
	const tries = 3 // the machine has other things to do
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

// TestLocateIsBounded has errors of any size.
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
		"a long map": {&Compiled{Map: &SourceMap{files: map[string]*fileMap{ProgramFile: {
			Mappings: ";;AAAA" + strings.Repeat(";", maxMappings/2),
		}}}}, frame.Error{Stack: strings.Repeat("    at f (program.js:3:3)\n", 9)}, 1},
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

// TestManyModules imports more than anybody needs, and the same names again and again.
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

// BenchmarkHostileCode is what esbuild takes for hostile code that weigh accepts, at the largest of some sizes.
func BenchmarkHostileCode(b *testing.B) {
	c := compilerProcesses(b)
	bench := func(name string, make func(int) string) {
		b.Run(name, func(b *testing.B) {
			code := ""
			for size := 1 << 12; size <= maxText; size *= 2 {
				if text := make(size); !weigh(text).tooDeep {
					code = text
				}
			}
			if code == "" {
				b.Skip("refused at any size")
			}
			failed := 0
			for b.Loop() {
				if _, err := Compile(b.Context(), Source{Code: code}, Options{Compiler: c}); err != nil {
					failed++
				}
			}
			b.ReportMetric(float64(len(code))/1024, "KiB")
			b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(len(code)), "ns/byte")
			b.ReportMetric(float64(failed)/float64(b.N), "failed")
		})
	}
	for _, c := range hostile {
		bench(c.name, c.make)
	}
	for name, make := range ordinary {
		bench(name, make)
	}
}
