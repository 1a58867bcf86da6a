package program

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAsFunction(t *testing.T) {
	t.Parallel()
	const opening = "export default async function (input) {\n"
	for code, want := range map[string][]string{
		"return 1": {opening + "return 1\n}\n"},
		"import { a } from './servers/crm';\n// Title\nreturn await a(input)\n": {"import { a } from './servers/crm'\n\n" + opening + "// Title\nreturn await a(input)\n}\n"},
		"```js\nreturn `\n  ${input}`\n```":                                     {opening + "return `\n  ${input}`\n}\n"},
		"input.n * 2;":                                                          {opening + "return (\ninput.n * 2\n)\n}\n", opening + "return await (\ninput.n * 2\n)(input)\n}\n", opening + "input.n * 2;\n}\n"},
		"#!/usr/bin/env node\nconst a = 1\n// x":                                {opening + "const a = 1\n// x\n}\n"},
	} {
		got, err := AsFunction(code)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%q: %v\n%s", code, err, diff)
		}
	}
	for _, code := range []string{"export default 1", "export const a = 1", "```python\nprint(1)\n```"} {
		if got, err := AsFunction(code); err == nil {
			t.Errorf("%q: %q", code, got)
		}
	}
}
