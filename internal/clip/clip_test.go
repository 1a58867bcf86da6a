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
		if got := Words(s, n); len(got) > n+3 || !utf8.ValidString(got) || !strings.HasSuffix(got, "...") {
			t.Errorf("Words(%q, %d) = %q", s, n, got)
		}
		if got := Counted(s, n); !utf8.ValidString(got) || !strings.HasSuffix(got, " bytes more)") {
			t.Errorf("Counted(%q, %d) = %q", s, n, got)
		}
	})
}

func TestWords(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want string
	}{
		{"write to ann@example.com", 23, "write to..."},
		{"write to ann@example.com", 24, "write to ann@example.com"},
		{"call +1 202 555 0143 now", 18, "call..."},
		{"call +1 202 555 0143 now", 22, "call..."},
		{"one two three", 9, "one two..."},
		{"onetwothree", 5, "onetw..."},
		{"a " + strings.Repeat("b", 2000), 1500, "a " + strings.Repeat("b", 1498) + "..."},
	} {
		if got := Words(c.text, c.n); got != c.want {
			t.Errorf("Words(%.30q, %d) = %.30q, want %.30q", c.text, c.n, got, c.want)
		}
	}
}
