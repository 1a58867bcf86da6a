package pii

import (
	"strings"
	"testing"
)

func TestMaskNumbers(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		`return [1700000000000, (1234.5678)]`:      `return [xxxxxxxxxxxxx, (xxxx.xxxx)]`,
		`f("555 1", 'a\'2', x1) // 3`:              `f("555 1", 'a\'2', xx) // 3`,
		"`4 ${5 + {a: 6}.a + `7`} 8` + 9":          "`4 ${x + {a: x}.a + `7`} 8` + x",
		"/* 1 */ a / 2 / 3":                        "/* 1 */ a / x / x",
		`x = /"4'5/.test(y) && 6; z = (7) / 8 / 9`: `x = /"4'5/.test(y) && x; z = (x) / x / x`,
		"return /[/]1'/, 2":                        "return /[/]1'/, x",
		"a = 'open 1\nb = 2":                       "a = 'open 1\nb = x",
		"`open 1 ${2":                              "`open 1 ${x",
		"x = 4111111111111111 + 378282246310005":   "x = 4111111111111111 + 378282246310005",
		"1_000n + 0xff12 + 1e21":                   "x_xxxn + xxffxx + xexx",
		"a }} } `1` / 2 / '3'":                     "a }} } `1` / x / '3'",
		"/":                                        "/", "`": "`", "'\\": "'\\", "/*1": "/*1", "": "",
	} {
		if got := maskNumbers(code); got != want {
			t.Errorf("%s: %s, want %s", code, got, want)
		}
	}
}

func FuzzMaskNumbers(f *testing.F) {
	f.Add("`${`${1}`}` /1/ '2' \"3\" //4\n/*5*/ 6")
	f.Fuzz(func(t *testing.T, code string) {
		got := maskNumbers(code)
		if len(got) != len(code) {
			t.Fatalf("%d bytes of %d", len(got), len(code))
		}
		for i := range len(code) {
			if got[i] != code[i] && (got[i] != 'x' || !strings.ContainsRune("0123456789", rune(code[i]))) {
				t.Fatalf("byte %d of %q is %q", i, code, got[i])
			}
		}
	})
}
