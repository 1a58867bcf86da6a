package program

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tdewolff/parse/v2"
	"github.com/tdewolff/parse/v2/js"

	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/program/uses"
	"mcp-code-exec-harness/internal/startup"
)

// standardNames are the globals that also exist outside of the harness. input is the parameter of the standalone function.
var standardNames = setOfNames(`AggregateError Array ArrayBuffer BigInt BigInt64Array BigUint64Array Boolean DataView Date Error EvalError Float32Array
	Float64Array Infinity Int16Array Int32Array Int8Array Intl JSON Map Math NaN Number Object Promise Proxy RangeError ReferenceError Reflect RegExp Set String
	Symbol SyntaxError TypeError URIError Uint16Array Uint32Array Uint8Array Uint8ClampedArray WeakMap WeakSet arguments console decodeURI decodeURIComponent
	encodeURI encodeURIComponent escape input isFinite isNaN parseFloat parseInt undefined unescape`)

func setOfNames(names string) map[string]bool {
	all := map[string]bool{}
	for _, name := range strings.Fields(names) {
		all[name] = true
	}
	return all
}

// linker is JavaScript that joins the modules of a program as the runtime does. An async function follows it.
const linker = `const load = (id) => {
  const m = modules[id];
  if (!m.module) {
    m.module = { exports: {} };
    m.code.call(m.module.exports, m.module.exports, (from) => load(m.deps[from]), m.module);
  }
  return m.module.exports;
};
const names = (id) => {
  const all = load(id);
  return modules[id].esm ? all : { ...all, default: all !== null && all.__esModule && 'default' in all ? all.default : all };
};
`

var requires = startup.Regexp(`\brequire\s*\(\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\s*\)`)

// Standalone returns a program as a JavaScript expression, an async function whose parameter the program reads as input. needs lists what
// the program uses of the harness. If it uses anything, it cannot stand alone, and code is empty. Its time is linear in the length of the
// program.
func Standalone(p frame.Program) (code string, needs []string) {
	var modules, params []string
	for _, m := range p.Modules {
		if m.Kind == "server" || m.Kind == "builtin" {
			needs = append(needs, "module "+m.ID)
			continue
		}
		var deps []string
		for _, from := range sortedNames(m.Deps) {
			deps = append(deps, ident.Quote(from)+": "+ident.Quote(m.Deps[from]))
		}
		text := m.Code
		if m.Kind == "json" {
			text = "(function(exports, require, module) { module.exports = (" + m.Code + ") })"
		}
		if m.Async {
			needs = append(needs, "top-level await in "+m.ID)
		}
		for _, found := range requires().FindAllStringSubmatch(text, -1) {
			if from := found[1][1 : len(found[1])-1]; m.Deps[from] == "" {
				needs = append(needs, "require("+found[1]+")")
			}
		}
		if strings.Count(text, "require") > 1+len(requires().FindAllString(text, -1)) && m.Kind == "js" && !m.ESM { // require is used other than as the parameter and in calls with a literal
			needs = append(needs, "require in "+m.ID)
		}
		if name := dynamicImport(text); name != "" && strings.Count(text, name) > 1 {
			needs = append(needs, "import() in "+m.ID)
		}
		modules = append(modules, fmt.Sprintf("%s: { esm: %v, deps: {%s}, code: %s }", ident.Quote(m.ID), m.ESM, strings.Join(deps, ", "), text))
	}
	for _, i := range p.Imports {
		params = append(params, "names("+ident.Quote(i.Module)+")")
	}
	code = "(async (input) => {\n"
	if len(p.Imports) > 0 {
		code += "const modules = {\n" + strings.Join(modules, ",\n") + "\n};\n" + linker
	}
	call := strings.TrimPrefix(p.Code, useStrict)
	if name := programImport(call); name != "" && strings.Count(call, name) > 1 {
		needs = append(needs, "import()")
	}
	code += "return await (" + call + ")(" + strings.Join(params, ", ") + ");\n})"
	if p.Code != call {
		code = "(() => { " + useStrict + " return " + code + "; })()"
	}
	free, ok := freeNames(code)
	if !ok {
		return "", append(needs, "a text that cannot be read")
	}
	for _, name := range free {
		if !standardNames[name] {
			needs = append(needs, name)
		}
	}
	if len(needs) > 0 {
		slices.Sort(needs)
		return "", slices.Compact(needs)
	}
	return code, nil
}

// dynamicImport returns the parameter that stands for import() in the function of a module.
func dynamicImport(code string) string {
	head, _, _ := strings.Cut(code, ")")
	parts := strings.Split(head, ",")
	if len(parts) < 4 {
		return ""
	}
	return strings.TrimSpace(parts[3])
}

// programImport returns the parameter that stands for import() in the function of a program. It is the last parameter.
func programImport(code string) string {
	head, _, found := strings.Cut(code, ") => {")
	if !found {
		return ""
	}
	return strings.TrimSpace(head[strings.LastIndexAny(head, "(,")+1:])
}

func sortedNames(m map[string]string) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// freeNames returns the names that a text uses without declaring them.
func freeNames(code string) (names []string, ok bool) {
	if len(code) > uses.MaxCode {
		return nil, false
	}
	defer func() {
		if recover() != nil { // the parser is third-party code, and the input is untrusted
			names, ok = nil, false
		}
	}()
	ast, err := js.Parse(parse.NewInputString(code), js.Options{})
	if err != nil {
		return nil, false
	}
	for _, v := range ast.Undeclared {
		names = append(names, string(v.Data))
	}
	return names, true
}
