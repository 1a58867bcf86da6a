package frame_test

import (
	"slices"
	"testing"

	"mcp-code-exec-harness/internal/frame"
)

func TestNamed(t *testing.T) {
	for code, want := range map[string][]string{
		"return 1":                             {},
		"x.split('@').map(Number)":             {"split", "Number"},
		"const {slice: cut} = ''; cut.call(x)": {"slice"},
		"x['pad' + 'End'](2)":                  {},
		"eval(x)":                              frame.Methods,
		"new Function('return 1')":             frame.Methods,
	} {
		p := &frame.Program{Code: code}
		if got := p.Named(); got == nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", code, got, want)
		}
	}
	p := &frame.Program{Code: "import('./a.js')", Modules: []frame.Module{{ID: "/skills/a.js", Code: "exports.f = (x) => x.at(-1)"}}}
	if got := p.Named(); !slices.Equal(got, []string{"at"}) {
		t.Errorf("of a module: %q", got)
	}
}
