package shape

import (
	_ "embed"
	"strings"
	"sync"

	"mcp-code-exec-harness/internal/catalog/ident"
)

//go:embed names.txt
var names string

var common = sync.OnceValue(func() map[string]bool {
	all := map[string]bool{}
	for line := range strings.Lines(names) {
		if !strings.HasPrefix(line, "//") {
			for _, w := range strings.Fields(line) {
				all[w] = true
			}
		}
	}
	return all
})

// Words are the words that a server's own names are made of. A nil one has none.
type Words map[string]bool

// Add adds the words of a name.
func (w Words) Add(name string) {
	for _, part := range ident.Words(name) {
		if part = strings.ToLower(part); len(part) > 2 {
			w[part] = true
		}
	}
}

// What a name of a field may be.
const (
	maxName  = 40 // bytes
	maxWords = 5
)

// isName reports whether a key is the name of a field and no data: every word of it is one that names are made of, or one of the
// server's own. A single word in capitals is the code of something.
func (w Words) isName(key string) bool {
	if !plausible(key) {
		return false
	}
	parts := ident.Words(key)
	if len(parts) == 0 || len(parts) > maxWords || len(parts) == 1 && len(key) > 1 && strings.ToUpper(key) == key {
		return false
	}
	joins := 0
	for _, part := range parts {
		switch part = strings.ToLower(part); part {
		case "at", "by", "in", "of", "on", "per", "to": // codes of countries, where they stand alone
			joins++
		default:
			if !w.knows(part) {
				return false
			}
		}
	}
	return joins < len(parts)
}

func (w Words) knows(word string) bool {
	if last := len(word) - 1; last > 0 && word[last] >= '0' && word[last] <= '9' { // address1
		word = word[:last]
	}
	if stem, ok := strings.CutSuffix(word, "ies"); ok {
		word = stem + "y"
	}
	for _, form := range []string{word, strings.TrimSuffix(word, "s"), strings.TrimSuffix(word, "es")} {
		if common()[form] || w[form] {
			return true
		}
	}
	return false
}

// plausible reports whether a key is written as names are: letters, and one digit at the end of a word at most.
func plausible(key string) bool {
	if key == "" || len(key) > maxName || key[0] >= '0' && key[0] <= '9' {
		return false
	}
	for i := range len(key) {
		c := key[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '_', c == '-', c == '$':
		case c >= '0' && c <= '9':
			if c := key[i-1]; c >= '0' && c <= '9' {
				return false
			}
		default:
			return false
		}
	}
	return true
}
