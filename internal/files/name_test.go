package files

import (
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCleanRefuses(t *testing.T) {
	t.Parallel()
	for what, p := range map[string]string{
		"parent":                    "..",
		"parent in the middle":      "a/../../b",
		"fullwidth parent":          "．．/x",
		"two dot leader":            "‥/x",
		"one dot leaders":           "․․/x",
		"ellipsis alone":            "…",
		"backslash":                 `a\..\..\b`,
		"fullwidth backslash":       "a＼b",
		"fullwidth slash":           "a／..／b",
		"drive":                     "C:/windows",
		"stream":                    "x:stream",
		"fullwidth colon":           "x：stream",
		"wildcard":                  "a*",
		"device":                    "NUL",
		"device, lower case":        "sub/con",
		"device with extension":     "aux.txt",
		"device with two":           "com1.tar.gz",
		"device, superscript digit": "COM¹",
		"device, fullwidth":         "ＣＯＮ",
		"device, space before dot":  "con .txt",
		"console device":            "CONIN$",
		"printer":                   "lpt9",
		"trailing dot":              "a.",
		"trailing space":            "a ",
		"trailing no-break space":   "a\u00a0",
		"leading space":             " a",
		"zero byte":                 "a\x00b",
		"newline":                   "a\nb",
		"escape":                    "a\x1b[2J",
		"C1 control":                "a\u0085b",
		"right-to-left override":    "a\u202egnp.exe",
		"zero width space":          "a\u200bb",
		"byte order mark":           "\ufeffa",
		"invalid UTF-8":             "a\xff",
		"reserved":                  ".harness-tmp-x",
		"reserved, other case":      ".Harness-x",
		"long name":                 strings.Repeat("n", 256),
		"long name in bytes":        strings.Repeat("é", 128),
		"long path":                 strings.Repeat("abcdefghi/", 103),
		"deep path":                 strings.Repeat("a/", 33),
	} {
		if got, err := clean(p); err == nil {
			t.Errorf("%s: clean(%q) = %q, want an error", what, p, got)
		}
	}
}

func TestClean(t *testing.T) {
	t.Parallel()
	for p, want := range map[string]string{
		"":                       ".",
		".":                      ".",
		"a//b/./c/":              "a/b/c",
		"/a":                     "a",
		"...a":                   "...a",
		"Report….pdf":            "Report….pdf",
		"cafe\u0301.txt":         "caf\u00e9.txt", // NFD and NFC name the same file
		"console.txt":            "console.txt",
		"COM10":                  "COM10",
		"lptx":                   "lptx",
		"日本語 (1).txt":            "日本語 (1).txt",
		strings.Repeat("n", 255): strings.Repeat("n", 255),
		strings.Repeat("a/", 32): strings.TrimSuffix(strings.Repeat("a/", 32), "/"),
	} {
		if got, err := clean(p); got != want || err != nil {
			t.Errorf("clean(%q) = %q, %v, want %q", p, got, err, want)
		}
	}
}

func TestDirName(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"alice":                  "alice",
		"run_01-x":               "run_01-x",
		strings.Repeat("a", 100): strings.Repeat("a", 100),
		"Alice":                  "alice~3bc51062973c458d5a6f2d8d64a02324",
		"con":                    "con~1143da2bc54c495c4be31d3868785d39",
	} {
		got, err := DirName(id)
		if got != want || err != nil {
			t.Errorf("DirName(%q) = %q, %v, want %q", id, got, err, want)
		}
	}
	if _, err := DirName(""); err == nil {
		t.Error("an empty id has a directory")
	}
}

// TestDirNameInjective checks that different ids never share a directory, not even on a file system that ignores case and Unicode form, and that every
// directory name is a single path component.
func TestDirNameInjective(t *testing.T) {
	t.Parallel()
	id := rapid.OneOf(
		rapid.StringMatching(`[aAbB_~.-]{1,4}`),
		rapid.SampledFrom([]string{"..", ".", "/", "a/b", "nul", "NUL", "é", "e\u0301", "../alice", "a\x00", "\xff", "\xfe"}),
		rapid.StringN(1, 200, 400),
		rapid.Map(rapid.StringMatching(`[A-Z]{1,3}`), func(s string) string { n, _ := DirName(s); return n }),
	)
	rapid.Check(t, func(t *rapid.T) {
		a, b := id.Draw(t, "a"), id.Draw(t, "b")
		x, err := DirName(a)
		if err != nil {
			t.Fatal(err)
		}
		y, err := DirName(b)
		if err != nil {
			t.Fatal(err)
		}
		if a != b && strings.EqualFold(x, y) {
			t.Fatalf("%q and %q share %q", a, b, x)
		}
		if !filepath.IsLocal(x) || len(x) > 100 || isDevice(x) || strings.ContainsAny(x, `/\:. `) || x != strings.ToLower(x) {
			t.Fatalf("DirName(%q) = %q", a, x)
		}
	})
}
