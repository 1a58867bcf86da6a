package program

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/frame"
)

func TestModules(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"/skills/sum.js":            "module.exports = async function sum(a, b) { return a + b }\nmodule.exports.version = 2",
		"/skills/esm.js":            "import { twice } from './lib/twice'\nexport default x => twice(x) + 1\nexport { twice }\nexport let n = 0; export function inc() { n++ }",
		"/skills/lib/twice.ts":      "import type { T } from './types'\nimport { U } from './types'\nexport function twice(x: number): number { return x * 2 }\nexport type V = T | U",
		"/skills/even.js":           "import { odd } from './odd.js'\nexport const even = n => n === 0 || odd(n - 1)",
		"/skills/odd.js":            "import { even } from './even.js'\nexport const odd = n => n !== 0 && even(n - 1)",
		"/skills/late.mjs":          "const x = await Promise.resolve(5)\nexport { x as default }\nexport const [a, { b }] = [1, { b: 2 }]\nexport class C {}\nexport { x as 'x-y' }",
		"/skills/uses-late.js":      "import late, * as all from './late.mjs'\nimport { sum as s } from './star.js'\nexport default late + all.b + (await Promise.all([s]))[0]; export * from './late.mjs'",
		"/skills/sync-over-late.ts": "import late, { type Q } from './late.mjs'\nimport sum from './sum.js'\nexport const f = (x: number) => sum(x, late)",
		"/skills/star.js":           "export * from './stars.js'; export * as ns from './stars.js'",
		"/skills/stars.js":          "export const sum = 3; export default 9",
		"/skills/data.json":         "\ufeff{\"a\": [1, 2]}",
		"/skills/json.js":           "import data, { a } from './data.json' with { type: 'json' }\nexport default data.a.length + a[1]",
		"/skills/folder/index.js":   "exports.name = 'index'",
		"/skills/workflow/skill.js": "exports.name = 'skill'",
		"/skills/server.js":         "import * as crm from './servers/crm'\nimport { getSum } from '../servers/crm/index.js'\nexport default crm.search() + getSum()",
		"/skills/builtin.js":        "import path from 'path'; import { join } from 'node:path'\nexport default path.join('a', 'b') + join('c', 'd')",
		"/skills/tscommon.cts":      "import path = require('path')\nconst x: string = path.join('a', 'b')\nexport = { x }",
		"/skills/dynamic.js":        "export default () => import('./esm.js'); export const url = import.meta.url",
		"/skills/awaits-common.js":  "const x = await Promise.resolve(8)\nmodule.exports = { x }",
		"/skills/return.js":         "exports.a = 1\nif (exports.a) return\nexports.a = 2",
		"/skills/strict.js":         "export default (function () { return this === undefined })()",
		"/skills/names.js":          "const __toESM = 1, __export = 2; import * as s from './stars.js'; export const q = __toESM + __export + s.default",
		"/skills/shadow.js":         "import { sum } from './stars.js'; export class Foo {}; export function f() { const sum = 1; { class Foo {} return [Foo.name, new Foo().constructor.name, sum] } }\nexport { sum }",
		"/skills/shadow.cts":        "class Foo { x: number = 1 }\nfunction f() { class Foo {} return Foo.name }\nexport = { f, Foo }",
		"/workspace/local.js":       "exports.x = 'local'",
		"/workspace/größe.js":       "export const größe = 'ü'",
		"/skills/side.js":           "globalThis.side = (globalThis.side ?? 0) + 1",
	}
	opts := Options{
		Resolver: sandbox{files: files, servers: map[string][]string{
			"crm":       {"search", "getSum"},
			"n8n_nodes": {"searchNodes"},
		}},
		Prelude: []Source{
			{Name: "helpers.ts", Code: "export const double = (x: number) => 2 * x\nexport default 1"},
			{Name: "common.js", Code: "exports.triple = x => 3 * x"},
		},
	}
	cases := []struct {
		code string
		want any
	}{
		{"import sum, { version } from '/skills/sum.js'; return await sum(1, version)", 3.0},
		{"import sum from '/home/sandboxuser/skills/sum'; return await sum(1, 2)", 3.0},
		{"import esm, { twice, inc, n as count } from '/skills/esm'; inc(); return [esm(2), twice(2), count]", []any{
			5.0,
			4.0, 0.0,
		}},
		{"import * as esm from '/skills/esm.js'; esm.inc(); return esm.n", 1.0},
		{"import d, * as ns from '/skills/esm.js'; return d === ns.default", true},
		{"import { even } from '/skills/even.js'; return even(10)", true},
		{"import late, { a, b, C, 'x-y' as y } from '/skills/late.mjs'; return [late, a, b, typeof C, y]", []any{
			5.0, 1.0,
			2.0, "function", 5.0,
		}},
		{"import x, { a } from '/skills/uses-late.js'; return [x, a]", []any{10.0, 1.0}},
		{"import { f } from '/skills/sync-over-late'; return await f(1)", 6.0},
		{"import { sum, ns } from '/skills/star.js'; return sum + ns.default", 12.0},
		{"import data from '/skills/data.json'; return data", map[string]any{"a": []any{1.0, 2.0}}},
		{"import n from '/skills/json.js'; return n", 4.0},
		{"import { name } from '/skills/folder'; return name", "index"},
		{"import { name } from '/skills/workflow'; return name", "skill"},
		{"import all from '/skills/server.js'; return all", "crm__searchcrm__getSum"},
		{"import b from '/skills/builtin.js'; return b", "a/bc/d"},
		{"import common from '/skills/tscommon.cts'; return common.x", "a/b"},
		{"import f, { url } from '/skills/dynamic.js'; return [(await f()).n, url]", []any{
			0.0,
			"file:///skills/dynamic.js",
		}},
		{"import c from '/skills/awaits-common.js'; return c.x", 8.0},
		{"import c from '/skills/return.js'; return c.a", 1.0},
		{"import s from '/skills/strict.js'; return s", true},
		{"import { f, Foo, sum } from '/skills/shadow.js'; return [...f(), Foo.name, sum]", []any{"Foo", "Foo", 1.0, "Foo", 3.0}},
		{"import shadow from '/skills/shadow.cts'; return [shadow.f(), shadow.Foo.name]", []any{"Foo", "Foo"}},
		{"import { q } from '/skills/names.js'; return q", 12.0},
		{"import { x } from './local'; return x", "local"},
		{"import { x } from '/workspace/local.js'; return x", "local"},
		{"import { größe } from './größe.js'; return größe", "ü"},
		{"import '/skills/side.js'; import '/skills/side'; return globalThis.side", 1.0},
		{"export * from '/skills/stars.js'; export { sum } from '/skills/star.js'; return 1", 1.0},
		{"import * as nodes from './servers/n8n-nodes/index.js'; return nodes.searchNodes()", "n8n_nodes__searchNodes"},
		{"import { getSum } from '../servers/CRM/index.ts'; return getSum()", "crm__getSum"},
		{"import { getSum } from './servers/crm/get_sum.ts'; return getSum()", "crm__getSum"},
		{"import * as all from './servers'; return all.name", "servers"},
		{"import * as all from './servers/index.js'; return all.name", "servers"},
		{"return double(4)", 8.0},
		{"const double = 1; return triple(double)", 3.0},
		{"import sum from '/skills/sum.js'\nsum(1, 1)", 2.0},
	}
	programs := make([]frame.Program, len(cases))
	for i, c := range cases {
		programs[i] = mustCompile(t, c.code, opts).Program
		for _, specifier := range []string{"/skills/esm.js", "path"} { // for require and for import()
			loaded, err := CompileModule(t.Context(), specifier, ProgramFile, opts)
			if err != nil {
				t.Fatal(err)
			}
			programs[i].Modules = append(programs[i].Modules, loaded.Modules...)
		}
	}
	for i, got := range execute(t, programs...) {
		if diff := cmp.Diff(c(cases[i].want), c(got.Value)); diff != "" || got.Message != "" {
			text, _ := json.MarshalIndent(programs[i], "", " ")
			t.Errorf("%s (-want +got):\n%s%s\n%s", cases[i].code, diff, got.Stack, text)
		}
	}
}

// c returns a value as JSON.
func c(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func TestProgramImports(t *testing.T) {
	t.Parallel()
	opts := Options{Resolver: sandbox{
		files: map[string]string{
			"/skills/a.js": "import { b } from './b.js'; export { b as default }",
			"/skills/b.js": "exports.b = 1",
		},
		servers: map[string][]string{"crm": {"search", "getSum"}},
	}}
	p := mustCompile(t,
		"import a, * as all from '/skills/a.js'\nimport { search, get_sum as sum } from './servers/crm'\n"+
			"import type { X } from './servers/none'\nreturn [a, all, search, sum]", opts).Program
	var modules []string
	for i := range p.Modules {
		modules = append(modules, p.Modules[i].ID+" "+p.Modules[i].Kind)
		p.Modules[i].Code = ""
	}
	if diff := cmp.Diff([]string{"/skills/b.js js", "/skills/a.js js", "./servers/crm server"}, modules); diff != "" {
		t.Errorf("modules (-want +got):\n%s", diff)
	}
	want := []frame.Import{
		{Specifier: "/skills/a.js", Module: "/skills/a.js", Names: []string{"default"}},
		{Specifier: "/skills/a.js", Module: "/skills/a.js", Names: []string{"default"}},
		{Specifier: "./servers/crm", Module: "./servers/crm", Names: []string{"search", "get_sum"}},
	}
	if diff := cmp.Diff(want, p.Imports); diff != "" {
		t.Errorf("imports (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"./b.js": "/skills/b.js"},
		p.Modules[1].Deps); diff != "" || !p.Modules[1].ESM || p.Modules[0].ESM {
		t.Errorf("module a: %+v", p.Modules[1])
	}
}

func TestCompileModule(t *testing.T) {
	t.Parallel()
	opts := Options{Resolver: sandbox{
		files: map[string]string{
			"/skills/a.js": "const b = require('./missing.js'); exports.b = b", "/skills/b.js": "import './a.js'",
			"/skills/x.js": "import './y.js'\nawait null", "/skills/y.js": "import './x.js'",
			"/skills/bad.js": "exports.x = (",
		},
		servers: map[string][]string{"crm": {"search"}},
	}}
	for _, c := range []struct{ specifier, from, want string }{
		{"/skills/a.js", ProgramFile, "/skills/a.js: /skills/a.js"},
		// modules that CommonJS requires are not looked up before the module runs
		{"./b", "/skills/a.js", "/skills/b.js: /skills/a.js /skills/b.js"},
		{"./servers/crm", ProgramFile, "./servers/crm: ./servers/crm"},
		{"../../servers/crm/search", "/skills/a.js", "./servers/crm/search: ./servers/crm/search"},
		{"path", "/skills/a.js", "builtin:path: builtin:path"},
		{"fs/promises", "/skills/a.js", "builtin:fs/promises: builtin:fs/promises"},
		{"./nothing", ProgramFile, "error: module \"./nothing\" does not exist (looked for /workspace/nothing)"},
		{"/skills/x.js", ProgramFile, "error: /skills/y.js: modules that import each other cannot use top-level await"},
		{"/skills/bad.js", ProgramFile, "error: /skills/bad.js:1:13: \"(\" is never closed"},
		{"child_process", ProgramFile, "error: module \"child_process\" is not available"},
	} {
		loaded, err := CompileModule(t.Context(), c.specifier, c.from, opts)
		var got string
		if err != nil {
			got = "error: " + err.Error()
			var e *Error
			if !errors.As(err, &e) {
				t.Errorf("%s: %T %v is no error of ours", c.specifier, err, err)
			}
		} else {
			got = loaded.ID + ":"
			for _, m := range loaded.Modules {
				got += " " + m.ID
			}
			var again Loaded
			text, err := json.Marshal(loaded)
			if err == nil {
				err = json.Unmarshal(text, &again)
			}
			if err != nil || again.Map.String() != loaded.Map.String() || cmp.Diff(again.Modules, loaded.Modules) != "" {
				t.Errorf("%s does not survive JSON: %v\n%s", c.specifier, err, text)
			}
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s from %s:\n got %s\nwant %s", c.specifier, c.from, got, c.want)
		}
	}
	if _, err := CompileModule(t.Context(), "./nothing", ProgramFile, opts); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing module is no fs.ErrNotExist: %v", err)
	}
}

// packages writes a node_modules directory.
func packages(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"package.json":                         `{"type":"commonjs"}`,
		"plain.js":                             "throw new Error('a file beside the packages')",
		"plain/index.js":                       "throw new Error('a directory beside the packages')",
		"node_modules/plain/package.json":      `{"version":"1.0.0","main":"lib"}`,
		"node_modules/plain/lib/index.js":      "const path = require('path'); exports.join = path.join; exports.sub = require('./sub')",
		"node_modules/plain/lib/sub.js":        "module.exports = typeof process === 'undefined' ? 'none' : process.env.NODE_ENV",
		"node_modules/@scope/esm/package.json": `{"version":"2.0.0","type":"module","exports":{".":{"import":"./esm.js"},"./part":{"default":"./part.js"}}}`,
		"node_modules/@scope/esm/esm.js":       "import * as plain from 'plain'; export default plain.sub; export const lazy = () => import('plain'); export { part } from '@scope/esm/part'",
		"node_modules/@scope/esm/part.js":      "export const part = 'part'",
		"node_modules/native/index.js":         "const fs = require('fs'), http = require('node:http'); module.exports = fs",
		"node_modules/optional/index.js":       "let fs; try { fs = require('fs') } catch {}\nmodule.exports = fs ? 'fs' : 'no fs'",
		"node_modules/broken/index.js":         "module.exports = (",
		"node_modules/browser/package.json":    `{"main":"node.js","browser":{"./node.js":"./browser.js"}}`,
		"node_modules/browser/node.js":         "require('net')",
		"node_modules/browser/browser.js":      "module.exports = 'browser'",
	} {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "node_modules")
}

func TestPackages(t *testing.T) {
	t.Parallel()
	opts := Options{Packages: packages(t), Cache: NewCache()}
	cases := []struct {
		code string
		want any
	}{
		{"import plain, { sub } from 'plain'; return [plain.join('a', 'b'), sub]", []any{"a/b", "production"}},
		{"import sub from 'plain/lib/sub.js'; return sub", "production"},
		{"import esm, { part } from '@scope/esm'; return [esm, part]", []any{"production", "part"}},
		{"import { part } from '@scope/esm/part'; return part", "part"},
		{"import o from 'optional'; return o", "throws"},
		{"import b from 'browser'; return b", "browser"},
	}
	var programs []frame.Program
	for _, c := range cases {
		programs = append(programs, mustCompile(t, c.code, opts).Program)
	}
	for i, got := range execute(t, programs...) {
		if cases[i].want == "throws" {
			cases[i].want = "no fs"
		}
		if c(got.Value) != c(cases[i].want) {
			t.Errorf("%s: %v %s, want %v\n%v", cases[i].code, got.Value, got.Stack, cases[i].want, programs[i].Modules)
		}
	}
	for code, want := range map[string]string{
		"import n from 'native'; return n":        "package \"native\" cannot be used in the sandbox: it needs fs, http",
		"import n from 'broken'; return n":        "package \"broken\" cannot be used in the sandbox: ",
		"import n from 'absent'; return n":        "package \"absent\" is not available",
		"import n from 'plain/../../x'; return n": "package \"plain/../../x\" is not available",
		"import n from 'plain/absent'; return n":  "package \"plain/absent\" cannot be used in the sandbox: it needs plain/absent",
		"import n from '..\\\\x'; return n":       "package \"..\\\\x\" is not available",
	} {
		_, err := Compile(t.Context(), Source{Code: code}, opts)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", code, err, want)
		}
		if strings.Contains(want, "absent\" is not") && !strings.Contains(err.Error(),
			"@scope/esm, broken, browser, native, optional, plain") {
			t.Errorf("%s: %v does not list the packages", code, err)
		}
	}

	// A package is bundled again if its version has changed, and not if its version is the same.
	file := filepath.Join(opts.Packages, "plain", "lib", "sub.js")
	if err := os.WriteFile(file, []byte("module.exports = 'changed'"), 0o644); err != nil {
		t.Fatal(err)
	}
	load := func() string {
		loaded, err := CompileModule(t.Context(), "plain", ProgramFile, opts)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(loaded.Modules, func(m frame.Module) bool { return m.ID == "npm:plain" })
		return loaded.Modules[i].Code
	}
	if strings.Contains(load(), "changed") {
		t.Error("a bundle was not taken from the cache")
	}
	if err := os.WriteFile(filepath.Join(opts.Packages, "plain", "package.json"),
		[]byte(`{"version":"1.0.1","main":"lib"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(load(), "changed") {
		t.Error("the bundle of an old version was taken from the cache")
	}
}

func TestPreludeErrors(t *testing.T) {
	t.Parallel()
	for want, prelude := range map[string][]Source{
		"prelude:a.ts:1:11: ":                              {{Name: "a.ts", Code: "const x = ;"}},
		"a.js: two files of the prelude have this name":    {{Name: "a.js", Code: "1"}, {Name: "a.js", Code: "2"}},
		"a.js: the prelude has more than 1048576 bytes":    {{Name: "a.js", Code: strings.Repeat(" ", maxText+1)}},
		"prelude:a.js:1:8: package \"x\" is not available": {{Name: "a.js", Code: "import 'x'"}},
	} {
		_, err := Compile(t.Context(), Source{Code: "1"}, Options{Prelude: prelude})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestAbsentModules(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"fs-extra", "child_process", "http", "https", "net", "process", "vm",
		"worker_threads", "axios",
		"node-fetch", "stream", "readline", "perf_hooks", "node:test",
	} {
		_, err := Compile(t.Context(), Source{Code: "import x from '" + name + "'; return x"}, Options{})
		var e *Error
		if !errors.As(err, &e) || e.Hint == "" || !strings.Contains(e.Message, "is not available in the sandbox") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
