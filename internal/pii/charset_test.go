package pii_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf16"

	"mcp-code-exec-harness/internal/pii"
)

// Files keep the encodings of their texts. Data that is not text stays unchanged.
func TestEncodingsOfFiles(t *testing.T) {
	t.Parallel()
	little := func(text string) string {
		var out strings.Builder
		for _, unit := range utf16.Encode([]rune("\uFEFF" + text)) {
			out.Write([]byte{byte(unit), byte(unit >> 8)})
		}
		return out.String()
	}
	big := func(text string) string {
		var out strings.Builder
		for _, unit := range utf16.Encode([]rune("\uFEFF" + text)) {
			out.Write([]byte{byte(unit >> 8), byte(unit)})
		}
		return out.String()
	}
	for data, want := range map[string]string{
		little("Grüße 🙂 an ann@example.com"):  little("Grüße 🙂 an [EMAIL_1]"),
		big("Grüße an ann@example.com\r\n"):   big("Grüße an [EMAIL_1]\r\n"),
		"Gr\xfc\xdfe \x80 an ann@example.com": "Gr\xfc\xdfe \x80 an [EMAIL_1]",
		"Gr\xfc\xdfe":                         "Gr\xfc\xdfe",
		"Grüße an ann@example.com":            "Grüße an [EMAIL_1]",
		"\x00\xff ann@example.com \xfe\x01":   "\x00\xff ann@example.com \xfe\x01",
		little("ann@example.com") + "\xff":    little("ann@example.com") + "\xff",
	} {
		s := filter(t, pii.NewMemory(1), nil).In("u", "s")
		got, err := s.HideContent(t.Context(), pii.FromFile, data)
		if err != nil || got != want {
			t.Errorf("%q is hidden as %q, %v; want %q", data, got, err, want)
		}
		raw, err := json.Marshal(map[string]string{"base64": base64.StdEncoding.EncodeToString([]byte(data))})
		if err != nil {
			t.Fatal(err)
		}
		hidden, err := s.HideFile(t.Context(), pii.FromFile, raw)
		if err != nil || !strings.Contains(string(hidden), base64.StdEncoding.EncodeToString([]byte(want))) {
			t.Errorf("the answer with %q is %s, %v", data, hidden, err)
		}
	}
}
