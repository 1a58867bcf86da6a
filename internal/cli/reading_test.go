package cli

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestReading checks the progress of reading a file: a bar if the size is known, and only words if the console has no signs.
func TestReading(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		signs bool
		total int64
		want  string
	}{
		{true, 4000, "⠋ copying a.csv [█████░░░░░░░░░░░░░░░] 25 % of 4.0 kB"},
		{false, 4000, "⠋ copying a.csv 25 % of 4.0 kB"},
		{true, 0, "⠋ copying a.csv 1.0 kB"},
		{true, 500, "⠋ copying a.csv [████████████████████] 100 % of 500 B"}, // the file grows while it is read
	} {
		p := (&app{flags: &globals{}, stderr: &console{signs: c.signs, screen: &screen{}}}).progress("copying a.csv")
		r := p.reading(iotest.DataErrReader(strings.NewReader(strings.Repeat("x", 2000))), c.total, "using it")
		if _, err := io.CopyN(io.Discard, r, 1000); err != nil {
			t.Fatal(err)
		}
		if got := p.picture(0, 80); len(got) != 1 || got[0] != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
		if _, err := io.Copy(io.Discard, r); err != nil {
			t.Fatal(err)
		}
		if got := p.picture(0, 80); len(got) != 1 || got[0] != "⠋ using it" {
			t.Errorf("at the end: %q", got)
		}
		p.stop()
	}
}
