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
	"123456789,", "123456789\n", "a,ssn\n1,123456789\n\n", "ssn,", "VALUES ", "(ssn)VALUES(123456789", "VALUES (1,123456789),", "ssn=123456789,", "x4111111111111111x", "1.0", "1.1e15 ",
	"10.0.0.1.", "ssh://a@b.c ", "番号は123456789", "a1b2", "DE89", "1\u0301", "1ー", "sid=", "curl -u a:", "[[\"ssn\"],[123456789]],", "{\"rows\":[[123456789]],\"columns\":[\"ssn\"]},",
	"12345678Z ", "0612345678 ", "06 12 34 56 78\n", "4111 1111 1111 1111\n", "1 2 3 4 ",
}

// TestTimeIsLinear compares one long text with sixteen texts of a sixteenth of its length. Time that grew with the square of the length
// would be 16 times as long. Both measurements take about as long, so that other processes disturb them alike.
func TestTimeIsLinear(t *testing.T) {
	const short, factor, limit, tries = 8 << 10, 16, 6, 5
	d := all(t)
	measure := func(text string, times int) time.Duration {
		start := time.Now()
		for range times {
			d.Find(text)
		}
		return time.Since(start)
	}
	for _, piece := range hostile {
		text := strings.Repeat(piece, short*factor/len(piece))
		least := float64(limit)
		for try := 0; try < tries && least >= limit; try++ {
			parts := measure(text[:short], factor)
			least = min(least, float64(measure(text, 1))/float64(parts))
		}
		if least >= limit {
			t.Errorf("%q: a text of %d bytes always takes %d times as long as its parts, or longer", piece, len(text), limit)
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
