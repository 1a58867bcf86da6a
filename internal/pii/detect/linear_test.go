package detect_test

import (
	"strings"
	"testing"
	"time"
)

// hostile are texts that make detectors look back, look ahead or read a text within a text as often as possible.
var hostile = []string{
	"@", "a@", "a.@", "a@b.", "\"@", "1", "1 ", "1-", "1.", "+1", "(", "((1", "::", "1:", "a:", ":", "=", "a=", "password=", "token: ", "-", "-----BEGIN ",
	"-----BEGIN PRIVATE KEY-----", "://", "a://b:", "eyJ", "eyJhbGciOiJIUzI1NiJ9.", "AAAA", "AAAA/", "bc1", "0x", "{", "[", "[[", "{\"a\":", "\"{", "[\"{", "\\", "\\\\",
	"\\u", "\\u0040", "%", "%25", "%2540", "&", "&#", "&amp;", "\u200b", "１", "\xff", "xoxb-", "sk-", "ghp_", "Bearer ", "DE89 ", "DE8937040044", "00-", "00:", "aaaa.",
	"YW5uQGV4YW1wbGUuY29t", "YW5uQGV4YW1wbGUuY29t/", "March ", "zip ", "4111 1111 1111 1111 ", "x1", "1x", "(at)", "a(at)b(dot)", "_", "é", "漢", "EMP-", "hooks.slack.com/",
}

// TestTimeIsLinear compares the time for texts of which one is sixteen times as long as the other. Time that grew with the square of
// the length would be 256 times as long.
func TestTimeIsLinear(t *testing.T) {
	const short, factor, limit = 8 << 10, 16, 80
	d := all(t)
	measure := func(text string) time.Duration {
		best := time.Hour
		for range 3 {
			start := time.Now()
			d.Find(text)
			best = min(best, time.Since(start))
		}
		return best
	}
	for _, piece := range hostile {
		text := strings.Repeat(piece, short*factor/len(piece))
		one, many := measure(text[:short]), measure(text)
		if ratio := float64(many) / float64(one); ratio > limit && many > 50*time.Millisecond {
			t.Errorf("%q: %v for %d bytes, %v for %d bytes: %.0f times as long", piece, one, short, many, len(text), ratio)
		}
	}
}

// TestLongLine reads one line of 10 MiB.
func TestLongLine(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("a line without an end, ", 10<<20/23) + "ann@example.com"
	if spans := all(t).Find(text); len(spans) != 1 || spans[0].End != len(text) {
		t.Errorf("found %+v", spans)
	}
}
