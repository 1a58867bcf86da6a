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

// Words is the set of words in the names that a server itself uses. Nil Words are empty.
type Words map[string]bool

// Add adds the words of a name.
func (w Words) Add(name string) {
	for _, part := range ident.Words(name) {
		if part = strings.ToLower(part); len(part) > 2 {
			w[part] = true
		}
	}
}

// Limits of the name of a field.
const (
	maxName  = 40 // maximum length in bytes
	maxWords = 5
)

// isName reports whether a key is the name of a field and not data: each of its words must be common in names or be one of the
// server's words. A single word in capitals is probably a code and counts as data.
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
		case "at", "by", "in", "of", "on", "per", "to": // prepositions, which alone may be country codes
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
	if last := len(word) - 1; last > 0 && word[last] >= '0' && word[last] <= '9' { // for instance address1
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

// plausible reports whether a key has the form of a name: at most maxName ASCII letters, separators, and single digits except at the beginning.
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
