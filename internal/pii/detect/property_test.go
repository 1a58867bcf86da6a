package detect_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"mcp-code-exec-harness/internal/pii/detect"
)

func all(t testing.TB) *detect.Detector {
	t.Helper()
	d, err := detect.New(detect.Options{
		Types:     []string{"DATE_OF_BIRTH", "ZIP_CODE", "UK_NIN", "VAT", "JP_MY_NUMBER", "CN_ID", "IN_AADHAAR"},
		Countries: detect.Countries(),
		Custom:    map[string]string{"EMPLOYEE": `EMP-[A-Z]{2}-\d{6}`},
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// values are one or more values of each type.
var values = []string{
	"ann.lee@example.com", "+44 20 7946 0958", "(202) 555-0143", "536-90-4399", "4111 1111 1111 1111", "192.0.2.17", "2001:db8::17",
	"DE89 3704 0044 0532 0130 00", "00:00:5e:00:53:af", "0x52908400098527886E0F7030069857D2E4169EE7", "EMP-AB-123456", "AKIAQ3EGRIMUVXYZ2345",
	"ghp_q7Zr2LkV9xTbN4wYc8MdH1sJf6GpUe3aQoRi", "YW5uLmxlZUBleGFtcGxlLmNvbQ==", "ann%40example.com", "ann\\u0040example.com", "ann＠example．com",
}

// texts returns a generator of texts of random pieces: values, JSON, escapes and arbitrary strings.
func texts() *rapid.Generator[string] {
	piece := rapid.OneOf(
		rapid.SampledFrom(values),
		rapid.SampledFrom([]string{
			" ", "\n", ":", "=", "@", "-", ".", ",", "\"", "\\", "\\\\", "%", "%25", "&#", "&amp;", ";", "{", "}", "[", "]", "(", ")", "//", "+", "0", "1", "23",
			"password", "token", "phone", "ip", "id", "card", "-----BEGIN PRIVATE KEY-----", "-----END", "://", "Bearer ", "eyJ", "x", "１２", "٣", "\u200b", "–", "é",
			"漢字", "\u00a0", "born ", "March ", "{\"a\":", "\\\"", "[1,", "]}", "AA", "GB", "DE", "::", "0x", "ffff",
		}),
		rapid.String(),
		rapid.Custom(func(t *rapid.T) string { // a value that is longer than the part of it that detectors read
			name := rapid.SampledFrom([]string{"password=", "\"token\": \"a1", "postgres://u:", "\"", "x:", "-----BEGIN PRIVATE KEY-----", ""}).Draw(t, "name")
			long := strings.Repeat(rapid.SampledFrom([]string{"é", "漢", "a1B2", "😀"}).Draw(t, "character"), rapid.SampledFrom([]int{60, 130, 2500}).Draw(t, "times"))
			return name + rapid.StringMatching(`a{0,3}`).Draw(t, "shift") + long + rapid.SampledFrom([]string{"", "@tcp(", "@example.com"}).Draw(t, "end")
		}),
		rapid.StringMatching(`[A-Za-z0-9+/_=-]{0,40}`),
	)
	return rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(piece, 0, 12).Draw(t, "pieces"), "") })
}

// check checks that spans are in order, do not overlap, and begin and end at borders of characters.
func check(t interface{ Fatalf(string, ...any) }, text string, spans []detect.Span) {
	end := 0
	for _, s := range spans {
		if s.Start < end || s.End <= s.Start || s.End > len(text) || s.Type == "" || s.Value == "" {
			t.Fatalf("span %+v after %d in %q", s, end, text)
		}
		for _, at := range []int{s.Start, s.End} {
			if utf8.ValidString(text) && at < len(text) && !utf8.RuneStart(text[at]) {
				t.Fatalf("span %+v is not at the border of a character of %q", s, text)
			}
		}
		end = s.End
	}
}

func TestSpansAreInOrder(t *testing.T) {
	t.Parallel()
	d := all(t)
	rapid.Check(t, func(t *rapid.T) {
		text := texts().Draw(t, "text")
		check(t, text, d.Find(text))
	})
}

// TestValuesAreFoundInAnyText checks that a value between random texts is found.
func TestValuesAreFoundInAnyText(t *testing.T) {
	t.Parallel()
	d := all(t)
	around := rapid.StringMatching(`[jkqz ,;é漢]{0,60}`) // text without words that have a meaning
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.SampledFrom(values).Draw(t, "value")
		alone := d.Find(value)
		if len(alone) != 1 || alone[0].End-alone[0].Start != len(value) {
			t.Fatalf("%q alone: %+v", value, alone)
		}
		prefix := around.Draw(t, "before") + rapid.SampledFrom([]string{" \"", "\n", " <", "\t"}).Draw(t, "open")
		suffix := rapid.SampledFrom([]string{"\" ", "\n", "> ", ", ", "\t"}).Draw(t, "close") + around.Draw(t, "after")
		text := prefix + value + suffix
		spans := d.Find(text)
		check(t, text, spans)
		if !slices.ContainsFunc(spans, func(s detect.Span) bool { return s.Start <= len(prefix) && s.End >= len(prefix)+len(value) }) {
			t.Fatalf("%q in %q: %+v", value, text, spans)
		}
	})
}

func FuzzFind(f *testing.F) {
	for _, value := range values {
		f.Add(value)
		f.Add(`{"a":["` + value + `", "{\"phone\":5550123}"], "password": "` + value + `"}`)
	}
	f.Add("\xff\xfe@\x80.com \xc3(202) 555-0143\x80")
	d := all(f)
	f.Fuzz(func(t *testing.T, text string) { check(t, text, d.Find(text)) })
}
