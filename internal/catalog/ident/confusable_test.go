package ident_test

import (
	"testing"

	"mcp-code-exec-harness/internal/catalog/ident"
)

func TestConfusable(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"send_mail": false, "größe": false, "検索_v2": false, "поиск_v2": false, "αναζήτηση": false, "get-Δ": false, "Δt": false, "naïve": false, "поиск": false,
		"s\u0435nd": true, "cr\u043c": true, "\u0441rm": true, "get_\u0440ay": true, "p\u03bfst": true, "\uff53end": true, "\U0001d42cend": true, "s\u0585nd": true,
	} {
		if got := ident.Confusable(name); got != want {
			t.Errorf("%q (%s): %v", name, ident.Codes(name), got)
		}
	}
}
