package program

import (
	"os"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/frame"
)

// TestHints contains the messages of QuickJS-ng, and those of V8 where they differ.
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
		{"runtime", "ReferenceError", "navigator is not defined", "navigator.x", "no network"},
		{"runtime", "ReferenceError", "global is not defined", "global.x", "globalThis"},
		{"runtime", "ReferenceError", "path is not defined", "path.join()", "const path = require('path')"},
		{"runtime", "ReferenceError", "axios is not defined", "axios.get('x')", "fetch(url)"},
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
		{"runtime", "TypeError", "not a function", "crm.find()", "console.log"},
		{"runtime", "TypeError", "find is not a function", "find()", "find is a value here"},
		{"runtime", "TypeError", "X.Foo is not a constructor", "new X.Foo()", "X.Foo is no class"},
		{"runtime", "ReferenceError", "crm__search is not defined", "await crm__search({})", "callMCPTool('crm__search', {…})"},
		{"runtime", "ReferenceError", "createInvoice is not defined", "createInvoice({})", "search_mcp_tools('create invoice')"},
		{"runtime", "ReferenceError", "ReadableStream is not defined", "new ReadableStream()", "fs.readFile"},
		{"runtime", "ReferenceError", "os is not defined", "os.EOL", "const os = require('os')"},
		{"runtime", "ReferenceError", "EventEmitter is not defined", "class A extends EventEmitter {}", "require('events')"},
		{"runtime", "ReferenceError", "b is not initialized", "const a = b; const b = 1", "above its declaration"},
		{"runtime", "ReferenceError", "Cannot access 'b' before initialization", "const a = b; const b = 1", "above its declaration"},
		{"runtime", "TypeError", "circular reference", "JSON.stringify(a)", "leads back"},
		{"runtime", "TypeError", "cannot convert BigInt to number", "1n + 1", "Number(big)"},
		{"runtime", "TypeError", "Cannot mix BigInt and other types, use explicit conversions", "1n + 1", "Number(big)"},
		{"runtime", "TypeError", "'a' is read-only", "const o = Object.freeze({ a: 1 }); 'use strict'; o.a = 2", "frozen"},
		{"syntax", "SyntaxError", `Expected ">" but found "/"`, "return <App />", "JSX"},
		{"syntax", "SyntaxError", `Unexpected ">"`, "const x = (<><b>1</b></>)", "JSX"},
		{"syntax", "SyntaxError", "unexpected end of the program", "return <div>{x}</div>", "JSX"},
		{"syntax", "SyntaxError", "unexpected end of the program", "if (a < b) { f(", ""},
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
		{"runtime", "ReferenceError", "shop is not defined", "await shop.listItems({})", "tools.SERVER.TOOL"},
		{"runtime", "ReferenceError", "shop is not defined", "await shop.listItems({})", "variables do not survive"},
		{"runtime", "ReferenceError", "rows is not defined", "rows.map(x => x)", "if rows was set by an earlier run"},
		{"runtime", "ReferenceError", "codemode is not defined", "await codemode.search({})", "tools.SERVER.TOOL"},
		{"runtime", "ReferenceError", "client is not defined", "await client.callTool({ name: 'x' })", "tools.SERVER.TOOL"},
		{"runtime", "ReferenceError", "mcpClient is not defined", "await mcpClient.call('x')", "tools.SERVER.TOOL"},
		{"runtime", "ReferenceError", "mcp is not defined", "await mcp.callTool('x')", "tools.SERVER.TOOL"},
		{"runtime", "ReferenceError", "use_mcp_tool is not defined", "await use_mcp_tool({})", "tools.SERVER.TOOL"},
		{"runtime", "ReferenceError", "callTool is not defined", "await callTool('x')", "tools.SERVER.TOOL"},
		{"runtime", "ReferenceError", "execute_tool is not defined", "await execute_tool('x')", "tools.SERVER.TOOL"},
		{"runtime", "ReferenceError", "api is not defined", "return api", "if api was set by an earlier run"},
		{"runtime", "ReferenceError", "mpa is not defined", "new mpa()", "did you mean Map?"},
		{"runtime", "ReferenceError", "arguments is not defined", "return arguments[0]", "input"},
		{"runtime", "ReferenceError", "Iterator is not defined", "Iterator.from([])", "newer than this engine"},
		{"runtime", "ReferenceError", "lt is not defined", "return a &lt; b", "HTML"},
		{"runtime", "TypeError", "cannot read property 'value' of undefined", "function log(target: any, key: string, descriptor: any) { descriptor.value }\nclass A { @log m() {} }", "(value, context)"},
		{"syntax", "SyntaxError", `Unexpected "&"`, "const f = x =&gt; x", "HTML"},
		{"syntax", "SyntaxError", `Expected ")" but found ";"`, "if (a &amp;&amp; b) c()", "HTML"},
		{"syntax", "SyntaxError", `Syntax error "n"`, `const a = 1;\nreturn a`, "escaped once too often"},
		{"syntax", "SyntaxError", `Syntax error "r"`, `const a = [1]\r\nreturn a`, "escaped once too often"},
		{"syntax", "SyntaxError", `string literal is never closed`, `const a = \"x\"; return a`, "escaped once too often"},
		{"syntax", "SyntaxError", `Invalid identifier: ">"`, `return a.map(x =\u003e x)`, "escaped once too often"},
		{"syntax", "SyntaxError", `Unexpected "“"`, "const a = “x”", "typographic"},
		{"syntax", "SyntaxError", `Expected ";" but found "is"`, "Here is the program you asked for:\n\nreturn 1", "alone"},
		{"syntax", "SyntaxError", `string literal is never closed`, "Sure, here's the code:\nreturn 1", "alone"},
		{"syntax", "SyntaxError", `Expected ";" but found "counts"`, "return 1\n\nThis counts what is there.", "alone"},
		{"syntax", "SyntaxError", `Unexpected "return"`, "<script>\nreturn 1\n</script>", "tags"},
		{"syntax", "SyntaxError", `Unexpected "<"`, "<![CDATA[\nreturn 1\n]]>", "tags"},
		{"syntax", "SyntaxError", `Expected ";" but found ":"`, "const a = 1;\n{ total: a, names: [] }", "return {…}"},
		{"timeout", "", "the program ran longer than 30 s", "while (Date.now() < end) {}", "utils.sleep"},
		{"timeout", "", "the program ran longer than 30 s", "while (true) {}", "endless loop"},
		{"never_settles", "", "", "", "resolve"},
		{"memory", "", "", "", "ranges"},
		{"output_limit", "", "", "", "summary"},
		{"call_limit", "", "", "", "per call"},
		// errors without advice
		{"tool", "ToolError", "axios is not defined", "", ""},
		{"runtime", "Error", "something else", "", ""},
		{"syntax", "SyntaxError", `Unexpected ";"`, "const a = 'x\\n'; const b = ;", ""},
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

// TestExplain contains errors of the engine whose messages name no expression, with the positions that the engine reports.
func TestExplain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ message, code, want string }{
		// ^ marks the position.
		{"not a function", "const f = null; ^f()", "f is not a function"},
		{"not a function", "return crypto.^createHash('x').digest()", "crypto.createHash is not a function"},
		{"not a function", "a?.^foo()", "a?.foo is not a function"},
		{"not a function", "f(1)[2].b.^foo()", "f(1)[2].b.foo is not a function"},
		{"not a function", "return (await tools.list()).^foo()", "(await tools.list()).foo is not a function"},
		{"not a function", "x = a.b\n  .^foo()", "a.b .foo is not a function"},
		{"not a function", "return 'é😀' + b.^foo()", "b.foo is not a function"},
		{"not a function", "a.^b`x`", "a.b is not a function"},
		{"not a function", "throw new ^TypeError('not a function')", "not a function"},
		{"not a function", "return new ^a.B()", "a.B is not a constructor"},
		{"not a function", "r.map(^x => x)", "r.map is not a function"},
		{"not a function", "r.map(\n  ^async (x) => x)", "r.map is not a function"},
		{"not a function", "r.a.b(^c.d)", "r.a.b is not a function"},
		{"not a function", "function g() {} f(^g(1))", "f is not a function"},
		{"not a function", "const g = async (x) => x; f(^g(1))", "f is not a function"},
		{"not a function", "const f = x => x; f(^g(1))", "g is not a function"},
		{"not a function", "f(^g(1))", "f or g is not a function"},
		{"not a function", "if (^g(1)) {}", "g is not a function"},
		{"not a constructor", "const f = () => 1; new ^f()", "f is not a constructor"},
		{"Cannot read properties of undefined (reading '0')", "return r.content^[0].text", "Cannot read properties of undefined (reading '0'): r.content is undefined"},
		{"Cannot read properties of undefined (reading '0')", "return f(1)['x']^[0]", "Cannot read properties of undefined (reading '0'): f(1)['x'] is undefined"},
		{"Cannot read properties of undefined (reading 'd')", "return a.b.c.^d.e", "Cannot read properties of undefined (reading 'd'): a.b.c is undefined"},
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

// TestAdvice contains errors whose messages name the expression. The advice either follows from the expression or comes from the table of hints.
func TestAdvice(t *testing.T) {
	t.Parallel()
	compiled := mustCompile(t, "return 1", Options{})
	for _, c := range []struct{ message, code, want string }{
		{"n.toLowercase is not a function", "n.toLowercase()", "did you mean toLowerCase?"},
		{"fs.readFileAsync is not a function", "fs.readFileAsync('x')", "did you mean fs.readFile?"},
		{"fs.download is not a function", "fs.download('x')", "fs has readFile, "},
		{"Object.groupby is not a function", "Object.groupby([])", "did you mean Object.groupBy?"},
		{"r.data.map is not a function", "r.data.map(x => x)", "r.data is no array"},
		{"api.v1.getUser is not a function", "api.v1.getUser(1)", "api.v1 has no function getUser"},
		{"r.map is not a function", "const r = callMCPTool('a__b', {}); r.map(x => x)", "r is a promise"},
		{"r.map is not a function", "const r = tools.a.b({}); r.map(x => x)", "r is a promise"},
		{"r.split is not a function", "const r = fs.readFile('/workspace/a'); r.split(',')", "r is a promise"},
		{"r.map is not a function", "const r = await callMCPTool('a__b', {}); r.map(x => x)", "r is no array"},
		{"r.map is not a function", "const r = callMCPTool('a__b', {}).catch(f).length; r.map(x => x)", "r is a promise"},
		{"r.map is not a function", "const r = tools.a.b.c; r.map(x => x)", "r is no array"},
		{"f is not a function", "const f = null; f()", "f is a value here"},
		{"cannot read property 'map' of undefined: r.rows is undefined", "r.rows.map()", "r has no rows: print it with console.log(r)"},
		{"Cannot read properties of undefined (reading 'map'): r.rows is undefined", "r.rows.map()", "r has no rows"},
		{"cannot read property 'x' of undefined: r.rows is undefined", "const r = callMCPTool('a__b', {}); r.rows.x", "r is a promise"},
		{"cannot read property 'toFixed' of undefined: a.lengt is undefined", "a.lengt.toFixed()", "did you mean length?"},
		{"cannot read property 'x' of undefined: a.custmer is undefined", "a.customer; a.custmer.x", "did you mean customer?"},
		{"cannot read property 'push' of undefined: acc is undefined", "let acc; acc.push(1)", "the value before the dot is missing"},
		{"cannot read property 'x' of undefined: a[0] is undefined", "a[0].x", "the value before the dot is missing"},
		{"r.items is not iterable: it is undefined", "[...r.items]", "r has no items"},
		{"cannot read property '0' of undefined: r.content is undefined", "const r = await tools.a.b({}); r.content[0].text", "use r itself"},
		{"Cannot read properties of undefined (reading 'map'): res.structuredContent is undefined", "const res = await callMCPTool('a__b', {}); res.structuredContent.map()", "use res itself"},
		{"r.content is not iterable: it is undefined", "const r = await tools.a.b({}); for (const c of r.content) {}", "use r itself"},
		{"cannot read property '0' of undefined: content is undefined", "const { content } = await tools.a.b({}); content[0]", "use the result itself"},
		{"cannot read property 'trim' of undefined: r.text is undefined", "const r = await tools.a.b({}); r.text.trim()", "use r itself"},
		{"cannot read property 'x' of undefined: page.content is undefined", "const page = {}; page.content.x", "page has no content"},
		{"Object.groupBy is not a function", "Object.groupBy([], f)", "Object.groupBy is newer than this engine"},
		{"Promise.withResolvers is not a function", "Promise.withResolvers()", "newer than this engine"},
		{"a.union is not a function", "a.union(b)", "new Set([...a, ...b])"},
		{"(intermediate value).isSubsetOf is not a function", "new Set().isSubsetOf(b)", "newer than this engine"},
		{"a.union is not a function", "const a = JSON.parse('{}'); class B { union() {} } a.union(1)", "a has no function union"},
		{"text.split is not a function", "const text = fs.readFileSync('/workspace/a'); text.split(',')", "readFile(path, 'utf8')"},
		{"data.trim is not a function", "import { readFile } from 'fs/promises'\nconst data = await readFile('/workspace/a'); data.trim()", "readFile(path, 'utf8')"},
		{"m.values(...).map is not a function", "m.values().map(f)", "[...m.values(…)].map"},
		{"something else", "f()", ""},
	} {
		compiled.Source.Code = c.code
		_, got := compiled.Explain(frame.Error{Kind: frame.KindRuntime, Name: "TypeError", Message: c.message}, Position{})
		if !strings.Contains(got, c.want) || (c.want == "") != (got == "") {
			t.Errorf("%s in %q: %q, want %q", c.message, c.code, got, c.want)
		}
	}
}

// TestHintsAreNeeded checks that no hint is about a global that programs have, and that the names that hints propose exist.
func TestHintsAreNeeded(t *testing.T) {
	t.Parallel()
	globals, err := os.ReadFile("../guest/prelude/globals.js")
	if err != nil {
		t.Fatal(err)
	}
	has := func(name string) bool { return strings.Contains(string(globals), "'"+name+"'") }
	for _, h := range hints {
		names, _, ok := strings.Cut(strings.TrimPrefix(h.message, "^'?("), ")'? is not defined")
		if !ok {
			continue
		}
		for name := range strings.SplitSeq(names, "|") {
			if has(name) {
				t.Errorf("programs have %s, and a hint says that they do not: %s", name, h.advice)
			}
		}
	}
	for _, name := range guestNames {
		if !has(name) {
			t.Errorf("%s is proposed for misspelt names, and programs do not have it", name)
		}
	}
}
