package detect_test

import (
	"fmt"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/pii/detect"
)

const prose = `The quarterly report says that the team moved the service to a new region without a break. "Nothing was lost", wrote the
lead engineer; the second phase (planned for spring) adds caches, queues and better alerts: see the notes of the meeting, chapter
three. Costs went down by 12% to 4,300 a month, and errors from 0.31 to 0.02 per thousand requests - which is the best so far.
`

// repeated returns the lines that line returns, at least size bytes in total.
func repeated(size int, line func(i int) string) string {
	var text strings.Builder
	for i := 0; text.Len() < size; i++ {
		text.WriteString(line(i))
	}
	return text.String()
}

func fewHits(i int) string {
	if i%20 == 0 {
		return fmt.Sprintf("Ask ann%d@example.com or call (202) 555-%04d.\n", i, i%10000)
	}
	return prose
}

func denseHits(i int) string {
	return fmt.Sprintf("ann%d@example.com, (202) 555-%04d, 10.1.%d.%d, +44 20 7946 %04d, 536-90-%04d, DE89370400440532013000\n", i, i%10000, i%256, i/256%256, i%10000, 1+i%9999)
}

func record(i int) string {
	return fmt.Sprintf(`{"id":%d,"name":"Customer %d","email":"c%d@example.com","phone":"+1 202 555 %04d","note":"%s","orders":[{"orderId":%d,"total":12.5}]}`,
		i, i, i, i%10000, strings.ReplaceAll(strings.ReplaceAll(prose, "\n", `\n`), `"`, `\"`), 7_000_000+i)
}

func BenchmarkFind(b *testing.B) {
	d, err := detect.New(detect.Options{})
	if err != nil {
		b.Fatal(err)
	}
	for _, bench := range []struct{ name, text string }{
		{"few hits", repeated(1<<20, fewHits)},
		{"dense hits", repeated(1<<20, denseHits)},
		{"JSON of 1 KiB", "[" + record(1) + "," + record(2) + "]"},
		{"JSON", "[" + strings.TrimSuffix(repeated(1<<20, func(i int) string { return record(i) + "," }), ",") + "]"},
		{"escapes", repeated(1<<20, func(i int) string { return strings.ReplaceAll(fewHits(i), " ", "%20") })},
		{"no ASCII", repeated(1<<20, func(int) string { return "これは長い文章です。名前はありません。" })},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.SetBytes(int64(len(bench.text)))
			for b.Loop() {
				d.Find(bench.text)
			}
		})
	}
}
