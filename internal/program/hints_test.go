package program

import (
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/frame"
)

// TestHints has the messages of QuickJS-ng and of V8, where they differ.
func TestHints(t *testing.T) {
	t.Parallel()
	const parse = "const r = JSON.parse(result)"
	const list = "result.map(row => row.name)"
	for _, c := range []struct{ kind, name, message, source, want string }{
		{"runtime", "ReferenceError", "customers is not defined", "return customers", "variables do not survive"},
		{"runtime", "ReferenceError", "customers is not defined", "return customers", "/workspace/customers.json"},
		{"runtime", "ReferenceError", "ReferenceError: rows is not defined", "rows", "if rows was set by an earlier run"},
		{"runtime", "ReferenceError", "costumers is not defined", "const customers = 1; return costumers", "did you mean customers?"},
		{"runtime", "ReferenceError", "serch_mcp_tools is not defined", "serch_mcp_tools()", "did you mean search_mcp_tools?"},
		{"runtime", "ReferenceError", "x is not defined", "const y = 1; return x", "variables do not survive"},
		{"runtime", "ReferenceError", "Blob is not defined", "new Blob([])", "Uint8Array"},
		{"runtime", "ReferenceError", "global is not defined", "global.x", "globalThis"},
		{"runtime", "ReferenceError", "path is not defined", "path.join()", "const path = require('path')"},
		{"runtime", "ReferenceError", "fetch is not defined", "fetch('x')", "search_mcp_tools"},
		{"runtime", "ReferenceError", "XMLHttpRequest is not defined", "", "no network"},
		{"runtime", "ReferenceError", "process is not defined", "process.env.X", "env.NAME"},
		{"runtime", "ReferenceError", "child_process is not defined", "", "call a tool"},
		{"runtime", "ReferenceError", "module is not defined", "module.exports = 1", "return value"},
		{"runtime", "ReferenceError", "__dirname is not defined", "", "/workspace"},
		{"runtime", "ReferenceError", "setImmediate is not defined", "", "setTimeout"},
		{"runtime", "ReferenceError", "Deno is not defined", "", "fs.readFile"},
		{"runtime", "ReferenceError", "Bun is not defined", "", "fs.readFile"},
		{"runtime", "ReferenceError", "window is not defined", "", "no browser"},
		{"runtime", "ReferenceError", "document is not defined", "", "no browser"},
		{"runtime", "ReferenceError", "localStorage is not defined", "", "no browser"},
		{"runtime", "ReferenceError", "WebAssembly is not defined", "", "plain JavaScript"},
		{"runtime", "ReferenceError", "_ is not defined", "_.map(x)", "sandbox.packages"},
		{"runtime", "ReferenceError", "print is not defined", "print(1)", "Python"},
		{"runtime", "ReferenceError", "None is not defined", "x = None", "Python"},
		{"runtime", "ReferenceError", "require is not defined", "", "require is global"},
		{"runtime", "SyntaxError", "unexpected token: 'object'", parse, "already"},
		{"runtime", "SyntaxError", `"[object Object]" is not valid JSON`, parse, "already"},
		{"runtime", "SyntaxError", "Unexpected token o in JSON at position 1", parse, "already"},
		{"runtime", "SyntaxError", `Unexpected token 'o', "[object Promise]" is not valid JSON`, parse, "await"},
		{"runtime", "SyntaxError", "unexpected token: 'hello'", parse, "utils.parseJSON"},
		{"runtime", "SyntaxError", `Unexpected token 'h', "hello" is not valid JSON`, parse, "utils.parseJSON"},
		{"runtime", "SyntaxError", "Unexpected end of JSON input", parse, "utils.parseJSON"},
		{"runtime", "TypeError", "not a function", list, "no array"},
		{"runtime", "TypeError", "result.map is not a function", list, "no array"},
		{"runtime", "TypeError", "not a function", "crm.find()", "list_mcp_tools"},
		{"runtime", "TypeError", "crm.find is not a function", "crm.find()", "list_mcp_tools"},
		{"runtime", "TypeError", "value is not iterable", "for (const x of r) {}", "no list"},
		{"runtime", "TypeError", "r is not iterable", "for (const x of r) {}", "no list"},
		{"runtime", "TypeError", "cannot read property 'x' of undefined", "a.b.x", "missing"},
		{"runtime", "TypeError", "Cannot read properties of undefined (reading 'x')", "a.b.x", "missing"},
		{"runtime", "TypeError", "cannot set property 'x' of null", "a.b.x = 1", "missing"},
		{"runtime", "TypeError", "'x' is read-only", "x = 2", "let"},
		{"runtime", "TypeError", "Assignment to constant variable.", "x = 2", "let"},
		{"runtime", "RangeError", "Date value is NaN", "", "date"},
		{"runtime", "RangeError", "Maximum call stack size exceeded", "", "loop"},
		{"runtime", "Error", "could not find [object Promise]", "", "await"},
		{"syntax", "SyntaxError", `"await" can only be used inside an "async" function`, "await f()", "async"},
		{"syntax", "SyntaxError", `Expected ";" but found "main"`, "def main():\n  pass", "Python"},
		{"syntax", "SyntaxError", `Expected ";" but found "x"`, "print \"x\"", "Python"},
		{"syntax", "SyntaxError", `Expected "(" but found "x"`, "x = 1\nif x == 2:\n  y()\nelif x:\n  z()", "Python"},
		{"syntax", "SyntaxError", `Expected "from" but found "as"`, "import pandas as pd\n", "Python"},
		{"syntax", "SyntaxError", `Expected ";"`, "from os import path\n", "Python"},
		{"syntax", "SyntaxError", `Expected ";"`, "async def f(): pass\n", "Python"},
		{"syntax", "SyntaxError", `Expected ">" but found "class"`, "return <div class='a'>x</div>", "JSX"},
		{"timeout", "", "the program ran longer than 30 s", "while (Date.now() < end) {}", "utils.sleep"},
		{"timeout", "", "the program ran longer than 30 s", "while (true) {}", "endless loop"},
		{"never_settles", "", "", "", "resolve"},
		{"memory", "", "", "", "ranges"},
		{"output_limit", "", "", "", "summary"},
		{"call_limit", "", "", "", "per call"},
		// no advice
		{"tool", "ToolError", "fetch is not defined", "", ""},
		{"runtime", "Error", "something else", "", ""},
		{"syntax", "SyntaxError", `Unexpected ";"`, "class A { x: number }\nclass B extends A {\n  y: string = ;\n}", ""},
		{
			"syntax", "SyntaxError", `Unexpected ";"`,
			"switch (x) {\n  case 1:\n  default:\n}\nconst o = {\n  if: 1,\n  try: 2 };;)", "",
		},
		{
			"syntax", "SyntaxError", `Unexpected ";"`,
			"const x = ;\nif (a) { b() } else { c() }\nfor (const y of z) { w() }\n// from here: import x\n", "",
		},
	} {
		got := Hint(c.kind, c.name, c.message, c.source)
		if !strings.Contains(got, c.want) || (c.want == "") != (got == "") {
			t.Errorf("%s %q with %q: %q, want %q", c.kind, c.message, c.source, got, c.want)
		}
		if strings.Contains(got, "$1") {
			t.Errorf("%q: %q has an unfilled place", c.message, got)
		}
	}
}

// TestExplain has errors of the engine, whose messages name no expression, at the places that it reports.
func TestExplain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ message, code, want string }{
		// ^ is the place.
		{"not a function", "const f = null; ^f()", "f is not a function"},
		{"not a function", "return crypto.^createHash('x').digest()", "crypto.createHash is not a function"},
		{"not a function", "a?.^foo()", "a?.foo is not a function"},
		{"not a function", "f(1)[2].b.^foo()", "f(1)[2].b.foo is not a function"},
		{"not a function", "return (await tools.list()).^foo()", "(await tools.list()).foo is not a function"},
		{"not a function", "x = a.b\n  .^foo()", "a.b .foo is not a function"},
		{"not a function", "return 'é😀' + b.^foo()", "b.foo is not a function"},
		{"not a function", "a.^b`x`", "a.b is not a function"},
		{"not a function", "throw new ^TypeError('not a function')", "not a function"},
		{"not a function", "return new ^a.B()", "not a function"},
		{"not a function", "^f", "not a function"},
		{"not a function", "return 1 ^+ 2", "not a function"},
		{"not a function", "a." + strings.Repeat("long.", 30) + "^f()", "not a function"},
		{"cannot read property 'd' of undefined", "return ^a.b.c.d.e", "cannot read property 'd' of undefined: a.b.c is undefined"},
		{"cannot read property 'd' of null", "return a.^b.c.d", "cannot read property 'd' of null: a.b.c is null"},
		{"cannot set property 'd' of undefined", "^a.b.d = 1", "cannot set property 'd' of undefined: a.b is undefined"},
		{"cannot read property 'y' of undefined", "^a['x']['y']", "cannot read property 'y' of undefined: a['x'] is undefined"},
		{"cannot read property '0' of undefined", "^a.list[0].name", "cannot read property '0' of undefined: a.list is undefined"},
		{"cannot read property 'b' of undefined", "^a.b.c.b", "cannot read property 'b' of undefined"},
		{"cannot read property 'q' of undefined", "^a.b", "cannot read property 'q' of undefined"},
		{"cannot read property 'b' of undefined", "^a[i].b().b", "cannot read property 'b' of undefined"},
		{"cannot read property 'Symbol.iterator' of undefined", "for (const x of ^a.items) {}", "a.items is not iterable: it is undefined"},
	} {
		before, after, _ := strings.Cut(c.code, "^")
		line, column := position(before, len(before))
		compiled := mustCompile(t, "return 1", Options{})
		compiled.Source.Code = before + after
		e := frame.Error{Kind: frame.KindRuntime, Name: "TypeError", Message: c.message}
		place := Position{File: compiled.Source.name(), Line: line, Column: column, thrown: true}
		if got, _ := compiled.Explain(e, place); got != c.want {
			t.Errorf("%s in %q: %q, want %q", c.message, c.code, got, c.want)
		}
		place.thrown = false
		if got, _ := compiled.Explain(e, place); got != c.message {
			t.Errorf("%s of another function in %q: %q", c.message, c.code, got)
		}
	}
}
