package clip

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzCut(f *testing.F) {
	f.Add("short", 10)
	f.Add("né", 2)
	f.Add("a\xff\xffb", 2)
	f.Fuzz(func(t *testing.T, s string, n int) {
		n = max(n, 0) % 100
		if len(s) <= n {
			if Head(s, n) != s || Text(s, n) != s || Counted(s, n) != s {
				t.Errorf("a text of %d bytes is cut to %d", len(s), n)
			}
			return
		}
		if got := Head(s, n); len(got) > n || !strings.HasPrefix(s, got) || utf8.ValidString(s) && (len(got) < n-3 || !utf8.ValidString(got)) {
			t.Errorf("Head(%q, %d) = %q", s, n, got)
		}
		if got := Text(s, n); len(got) > n+3 || !utf8.ValidString(got) || !strings.HasSuffix(got, "...") {
			t.Errorf("Text(%q, %d) = %q", s, n, got)
		}
		if got := Counted(s, n); !utf8.ValidString(got) || !strings.HasSuffix(got, " bytes more)") {
			t.Errorf("Counted(%q, %d) = %q", s, n, got)
		}
	})
}
