package api

import (
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/testing/piitest"
)

// A token is restored wherever the pieces of a text are cut.
func TestRestoringPieces(t *testing.T) {
	t.Parallel()
	p := piitest.New(t).In("u", "s")
	hidden, err := p.Hide(t.Context(), pii.FromTask, "to ann@example.com, bob@example.com [x] [y")
	if err != nil || !strings.Contains(hidden, "[EMAIL_2]") {
		t.Fatal(hidden, err)
	}
	for size := 1; size <= len(hidden); size++ {
		var r restoring
		var out strings.Builder
		for rest := hidden; rest != ""; {
			n := min(size, len(rest))
			text, err := r.piece(t.Context(), p, rest[:n], n == len(rest))
			if err != nil {
				t.Fatal(err)
			}
			out.WriteString(text)
			rest = rest[n:]
		}
		if got := out.String(); got != "to ann@example.com, bob@example.com [x] [y" {
			t.Errorf("in pieces of %d: %s", size, got)
		}
	}
}
