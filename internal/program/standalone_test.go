package program

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestStandalone: programs that use nothing of the harness give the same result in plain Node.js, with their modules. For other programs, the list of what
// they use is returned.
func TestStandalone(t *testing.T) {
	t.Parallel()
	files := sandbox{files: map[string]string{
		"/skills/math.ts":   "import { one } from './one.js'; export const add = (a: number, b: number): number => a + b; export default (x: number) => x * 2 + one;",
		"/skills/one.js":    "exports.one = 1;",
		"/skills/data.json": `{"three": 3}`,
		"/skills/lazy.js":   "exports.get = (name) => require(name);",
		"/skills/tool.js":   "export const f = () => callMCPTool('a__b', {});",
		"/skills/cjs.js":    "module.exports = (x) => x + 1;",
	}}
	var codes []string
	var wants []string
	for _, c := range []struct{ code, want, needs string }{
		{code: "1 + input.n", want: `{"value":21}`},
		{code: "const xs: number[] = [1, 2]; return xs.map((x) => x * input.n)", want: `{"value":[20,40]}`},
		{code: "import double, { add } from '/skills/math.ts'; return add(double(input.n), 1)", want: `{"value":42}`},
		{code: "import * as all from '/skills/math.ts'; return Object.keys(all).sort()", want: `{"value":["add","default"]}`},
		{code: "import next from '/skills/cjs.js'; import data from '/skills/data.json'; return next(data.three)", want: `{"value":4}`},
		{code: "throw new RangeError('too ' + input.n)", want: `{"error":"RangeError: too 20"}`},
		{code: "const tools = { a: 1 }; return tools.a", want: `{"value":1}`},
		{code: "await callMCPTool('a__b', {})", needs: "callMCPTool"},
		{code: "import { f } from '/skills/tool.js'; return f()", needs: "callMCPTool"},
		{code: "import { get } from '/skills/lazy.js'; return get('/skills/one.js')", needs: "require in /skills/lazy.js"},
		{code: "const m = await import('/skills/one.js'); return m.one", needs: "import()"},
		{code: "return fs.readFile('/workspace/a') + utils.timestamp()", needs: "fs, utils"},
		{code: "return eval('tools')", needs: "eval"},
		{code: "return globalThis.tools", needs: "globalThis"},
		{code: "import path from 'path'; return path.join('a', 'b')", needs: "module builtin:path"},
	} {
		compiled, err := Compile(t.Context(), Source{Code: c.code}, Options{Resolver: files})
		if err != nil {
			t.Fatalf("%s: %v", c.code, err)
		}
		code, needs := Standalone(compiled.Program)
		if got := strings.Join(needs, ", "); got != c.needs || (code == "") != (c.needs != "") {
			t.Errorf("%s needs %q, want %q: %s", c.code, got, c.needs, code)
			continue
		}
		if code != "" {
			codes, wants = append(codes, code), append(wants, c.want)
		}
	}
	for i, got := range runNode[string, json.RawMessage](t, codes, "testdata/standalone.js") {
		if diff := cmp.Diff(wants[i], string(got)); diff != "" {
			t.Errorf("%s\n%s", codes[i], diff)
		}
	}
}
