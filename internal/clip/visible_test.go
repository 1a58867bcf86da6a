package clip_test

import (
	"testing"

	"mcp-code-exec-harness/internal/clip"
)

func TestVisible(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain text\tand\nlines":  "plain text\tand\nlines",
		"end\r\nof line":          "end\nof line",
		"over\rwritten":           `over\x0dwritten`,
		"\x1b[2J\x7f\u009b":       `\x1b[2J\x7f\x9b`,
		"\u202emoc.knab":          `\u202emoc.knab`,
		"a\u2066b\u2069":          `a\u2066b\u2069`,
		"pay\u200bpal":            `pay\u200bpal`,
		"\ufeffbom\u00adsoft":     `\ufeffbom\u00adsoft`,
		"a\u034fb\u115fc\u3164d":  `a\u034fb\u115fc\u3164d`,
		"tag\U000e0041":           `tag\u{e0041}`,
		"a\u2028b":                `a\u2028b`,
		"a\u200db":                `a\u200db`,
		"Ünïcode 番号 Кириллица":    "Ünïcode 番号 Кириллица",
		"👩\u200d👩\u200d👧 ❤\ufe0f": "👩\u200d👩\u200d👧 ❤\ufe0f",
		"می\u200cخواهم":           "می\u200cخواهم",
		"1\ufe0f\u20e3 葛\ufe00":   "1\ufe0f\u20e3 葛\ufe00",
		"a\ufe01 😀\ufe0f\ufe01":   `a\ufe01 😀` + "\ufe0f" + `\ufe01`,
		"bad \xff byte":           "bad \ufffd byte",
	} {
		if got := clip.Visible(text); got != want {
			t.Errorf("%q is %q, not %q", text, got, want)
		}
	}
}
