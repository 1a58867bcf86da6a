package program

import "testing"

func TestUnreturned(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		"const x = 1; x + 1": "return x + 1",
		"const x = 1\nx\n":   "return x",
		"const x = 1;\n({ x,\n  y: x === 2 ? 'a' : 'b' });":                  "",
		"const r = await f()\nr.items.length":                                "return r.items.length",
		"async function main() { return 5 }\nmain()":                         "return await main()",
		"main()\nasync function main() { return 5 }":                         "return await main()",
		"main(); async function main(){}":                                    "return await main()",
		"main();\nfunction a() {}\n\nasync function main() { return a() }\n": "return await main()",
		"const x = 1\nx + 1\nfunction f() {}":                                "return x + 1",
		"function a() {}\nfunction b() {}":                                   "",
		"if (a) { b }\nfunction b() {}":                                      "",
		"async function main() { return 5 } main()":                          "return await main()",
		"function* g() {} async function f() { return 5 } f();":              "return await f()",
		"const f = function g() { return 5 } (1)":                            "",
		"const main = async () => { return 5 };\nmain().catch(f => f)":       "return await main()",
		"function main(): Promise<void> { g() }\nawait main(1, [2]);":        "return await main(1, [2])",
		"if (a) { return 1 }\nb":                                             "",
		"function f() { if (a) { return 1 } }\nb":                            "return b",
		"class A { m() { return 1 } }\nb":                                    "return b",
		"a()":                                                                "",
		"const a = 1\na()":                                                   "return await a()",
		"let a = 1\na = 2":                                                   "",
		"let a = 1\na++":                                                     "",
		"let a = 1\n`x${a}`":                                                 "return `x${a}`",
		"let a = 1\na == 2":                                                  "return a == 2",
		"const x = 5; if (x > 3) { x * 2 }":                                  "",
		"const a = 1\n\nawait fs.writeFile('/workspace/a', 'b')":             "",
		"for (const a of b) {\n  a\n}":                                       "",
		"import 'util'\nconst x = 1\nx":                                      "return x",
		"const x = 1\nexport default x":                                      "",
		"const x = 1\nreturn x":                                              "",
		"const x =\n1":                                                       "",
		"const o = { return: 1 }\no.return":                                  "return o.return",
		"'use strict'\nconst x = [1,\n2]\nx\n  .length":                      "return x .length",
		"const x = 1\n;x":                                                    "return x",
		"throw 1":                                                            "",
		"":                                                                   "",
	} {
		if want != "" {
			want = "nothing was returned: write " + want
		}
		c, err := Compile(t.Context(), Source{Code: code}, Options{})
		if err != nil {
			t.Errorf("%q: %v", code, err)
		} else if c.Program.Unreturned != want {
			t.Errorf("%q: got %q, want %q", code, c.Program.Unreturned, want)
		}
	}
}
