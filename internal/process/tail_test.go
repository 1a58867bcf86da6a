package process

import (
	"fmt"
	"strings"
	"testing"
)

func TestTail(t *testing.T) {
	t.Parallel()
	var tail Tail
	if got := tail.String(); got != "" {
		t.Errorf("empty: %q", got)
	}
	for i := range 20_000 {
		fmt.Fprintf(&tail, "line %d\n", i)
	}
	if got := strings.Split(tail.String(), "\n"); len(got) != tailLines || got[0] != "line 19980" || got[19] != "line 19999" {
		t.Errorf("got %d lines from %q to %q", len(got), got[0], got[len(got)-1])
	}
	_, _ = tail.Write([]byte(strings.Repeat("é", tailBytes)))
	if got := tail.String(); len(got) > tailShown || strings.Trim(got, "é") != "" {
		t.Errorf("%d bytes, beside the letter %q", len(got), strings.Trim(got, "é"))
	}
	if got := len(tail.buf); got > tailBytes {
		t.Errorf("it keeps %d bytes", got)
	}
	_, _ = tail.Write([]byte("\n\x1b[31mred\x1b[0m\a\u009b1m\n\n"))
	if got := tail.String(); !strings.HasSuffix(got, "\n[31mred[0m1m") {
		t.Errorf("control characters: %q", got[len(got)-20:])
	}
}

// TestTailOutOfMemory finds a child's message about missing memory, in one write or several, however much text follows.
func TestTailOutOfMemory(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		writes []string
		want   bool
	}{
		{[]string{"out of luck\n", "of memory"}, false},
		{[]string{"JavaScript heap out of memory\n", strings.Repeat("line\n", 10_000)}, true},
		{[]string{strings.Repeat("line\n", 10_000) + "out of memory" + strings.Repeat("line\n", 10_000)}, true},
		{[]string{"terminate called after throwing an instance of 'std::bad_alloc'\n"}, true},
		{[]string{"fork: cannot alloc", "ate", " memory" + strings.Repeat("line\n", 10_000)}, true},
	} {
		var tail Tail
		for _, text := range c.writes {
			_, _ = tail.Write([]byte(text))
		}
		if got := tail.OutOfMemory(); got != c.want {
			t.Errorf("%.60q: %v, want %v", c.writes, got, c.want)
		}
	}
}
