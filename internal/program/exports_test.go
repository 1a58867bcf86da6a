package program

import (
	"strings"
	"testing"
)

func TestExports(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"": "",
		"export function a() {}\nexport async function b() {}\nexport function* c() {}": "a b c",
		"export const a = 1\nexport let b\nexport class C {}\nexport enum D {}":         "C D a b",
		"export { a, b as c, d as default }; export interface I {}; export type T = 1":  "a c default",
		"export default async function main() {}":                                       "default",
		"exports.a = 1; module.exports.b = 2; if (exports.c == 1) {} x.exports.d = 1":   "a b",
		"module.exports = main":           "default",
		"module.exports = async (x) => x": "default",
		"if (module.exports === x) {}":    "",
		"// export const a = 1\n/* exports.b = 2 */ const s = 'exports.c = 3', t = `exports.d = ${4}`": "",
		"const re = /['\"]/; \nexports.a = 1": "a",
		"module.exports = {\n  a,\n  'quoted': 1,\n  b: function () { return {c: 1} },\n  [d]: 1,\n}": "a b",
		"module.exports = { // unclosed": "",
	} {
		if got := strings.Join(Exports(source), " "); got != want {
			t.Errorf("Exports(%q) = %q, want %q", source, got, want)
		}
	}
}
