package program

import (
	"errors"
	"strings"
	"testing"
)

// TestDeepCode compiles code that no parser survives: esbuild's ends the process when its stack is full, and needs
// exponential time for some. Without the bounds of cost.go this test does not return.
func TestDeepCode(t *testing.T) {
	t.Parallel()
	refused := []string{
		"(", "[", "!", "- ", "a=>", "a=", "a?b:", "new ", "typeof ", "await ", "if(a)", "if(a){}else ", "a**", "a+", "a.", "f(", "a:",
		"`${", "a,", "<A>", "x<", "({a:", "for(;;)", "do ", "a?(b):c=>", "a?(b):c=>a?", "f(a?(b):c=>", "x<(", "()=>{", "class A{m():void{a,",
		"a=>{},", "x={a(){a,", "function f():void{",
	}
	for _, unit := range refused {
		code := strings.Repeat(unit, maxText/len(unit)-1)
		for _, in := range []string{code, "export const x = " + code[:maxText-100]} {
			_, err := Compile(t.Context(), Source{Code: in}, Options{})
			var e *Error
			if !errors.As(err, &e) || !strings.Contains(e.Message, "nested too deeply") || e.Line != 1 {
				t.Errorf("%q repeated: %v", unit, err)
			}
		}
		_, err := CompileModule(t.Context(), "/skills/deep.ts", ProgramFile, Options{Resolver: sandbox{files: map[string]string{
			"/skills/deep.ts": code,
		}}})
		if err == nil || !strings.Contains(err.Error(), "/skills/deep.ts:1:") {
			t.Errorf("%q repeated in a skill: %v", unit, err)
		}
	}
	// What is just not refused compiles, or fails, in time.
	for _, unit := range refused {
		for n := 100; n < maxText; n *= 2 {
			code := strings.Repeat(unit, n/len(unit)) + "a"
			if weigh(code).tooDeep {
				break
			}
			_, err := Compile(t.Context(), Source{Code: code}, Options{})
			var e *Error
			if err != nil && !errors.As(err, &e) {
				t.Errorf("%q repeated to %d bytes: %v", unit, n, err)
			}
		}
	}
}

// TestLongCode compiles long code of ordinary shapes.
func TestLongCode(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]string{
		"statements":    strings.Repeat("foo(a, b => b + 1);\n", 20_000),
		"no semicolons": strings.Repeat("x = y.map(z => z ? (z) : 1)\n", 10_000),
		"array":         "return [" + strings.Repeat("1, ", 200_000) + "]",
		"rows":          "const rows = [" + strings.Repeat("{ a: 'x', b: [1, 2], f: () => 1 },\n", 10_000) + "]",
		"concatenation": "return " + strings.Repeat("'line\\n' +\n", 3_000) + "''",
		"else if":       strings.Repeat("if (a === 1) { b() } else ", 1_000) + "{ c() }",
		"class":         "class A {" + strings.Repeat("m(a) { if (a) { return a } }\n", 5_000) + "}",
		"switch":        "switch (a) {" + strings.Repeat("case 1: b(); break;\n", 500) + "}",
		"chain":         "return a" + strings.Repeat(".then(x => x + 1)", 1_000),
		"template":      "return `" + strings.Repeat("line ${a}\n", 3_000) + "`",
	} {
		if _, err := Compile(t.Context(), Source{Code: code}, Options{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
