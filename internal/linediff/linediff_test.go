package linediff

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, before, after, want string
		err                       error
	}{
		{"equal", "a\nb\n", "a\nb\n", "", nil},
		{"changed", "a\nb\nc\n", "a\nB\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", nil},
		{"from nothing", "", "a\n", "@@ -0,0 +1 @@\n+a\n", nil},
		{"to nothing", "a\n", "", "@@ -1 +0,0 @@\n-a\n", nil},
		{"lines that look like a header", "--- \n", "+++ \n", "@@ -1 +1 @@\n---- \n++++ \n", nil},
		{"no line break at the end", "a", "b", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n", nil},
		{"bytes", "a\n", "\xff\n", "@@ -1 +1 @@\n-a\n+\xff\n", nil},
		{"many bytes", strings.Repeat("a", MaxText+1), "a", "", ErrLarge},
		{"many lines", "a", strings.Repeat("\n", MaxLines+1), "", ErrLarge},
	} {
		if got, err := Of(c.before, c.after); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v, want %q, %v", c.name, got, err, c.want, c.err)
		}
	}
}

// The largest texts without a common order take no longer than a page may.
func BenchmarkOf(b *testing.B) {
	lines := func(seed uint64) string {
		random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // texts, not secrets
		var all strings.Builder
		for range MaxLines {
			fmt.Fprintf(&all, "%d\n", random.IntN(100))
		}
		return all.String()
	}
	before, after := lines(1), lines(2)
	for b.Loop() {
		if _, err := Of(before, after); err != nil {
			b.Fatal(err)
		}
	}
}
