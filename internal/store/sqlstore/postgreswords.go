package sqlstore

import (
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

const (
	maxLexeme   = 500     // maximum bytes of an indexed word; longer words are cut
	maxPosition = 16383   // last position that Postgres distinguishes
	maxWords    = 1 << 19 // maximum bytes of a text's indexed words; Postgres takes twice as many
)

// lexemes returns the words of a text in the form in which searches compare words: in lower case, without diacritics.
func lexemes(text string) []string {
	folded := strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return unicode.ToLower(r)
	}, norm.NFD.String(text))
	words := strings.FieldsFunc(folded, func(r rune) bool { return !inWord(r) })
	for i, w := range words {
		if len(w) > maxLexeme {
			words[i] = strings.ToValidUTF8(w[:maxLexeme], "")
		}
	}
	return words
}

func (d *server) addWords(c *conn, num int64, user, text string) {
	var vector strings.Builder
	for i, w := range lexemes(text) {
		if vector.Len() > maxWords {
			break // later words of the text are not indexed
		}
		fmt.Fprintf(&vector, "'%s':%d ", w, min(i+1, maxPosition)) // a word has no quote
	}
	c.exec("INSERT INTO task_words (task, user, words) VALUES (?, ?, ?::text::tsvector)", num, user, vector.String())
}

func (d *server) dropWords(c *conn, num int64) {
	c.exec("DELETE FROM task_words WHERE task = ?", num)
}

func (d *server) findWords(search, user string) (q wordQuery, err error) {
	parts, err := parseSearch(search)
	var all []string
	for _, p := range parts {
		var phrase []string
		for _, w := range lexemes(p.text) {
			phrase = append(phrase, "'"+w+"'")
		}
		if p.beginning {
			phrase[len(phrase)-1] += ":*"
		}
		all = append(all, "("+strings.Join(phrase, " <-> ")+")")
	}
	q = wordQuery{" FROM task_words w JOIN tasks t ON t.num = w.task", "t.num", " AND w.words @@ ?::text::tsquery", []any{strings.Join(all, " & ")}}
	if user != "" {
		q.where, q.args = q.where+" AND w.user = ?", append(q.args, user)
	}
	return q, err
}
