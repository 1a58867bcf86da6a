package sqlstore

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"mcp-code-exec-harness/internal/task"
)

// leastBeginning is the minimum length, in characters, of a prefix in a search. Among a million tasks, a search for a word takes 2 ms, and a search
// for a prefix of many words takes 200 ms.
const leastBeginning = 3

// searched is a part of a search. It is one word or, if the part contains characters that separate words, a sequence of words.
type searched struct {
	text      string
	beginning bool // true if the last word is only a prefix
}

// parseSearch splits a search at spaces.
func parseSearch(search string) (parts []searched, err error) {
	for text := range strings.FieldsFuncSeq(search, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		if !strings.ContainsFunc(text, inWord) {
			continue
		}
		p := searched{text: text}
		p.text, p.beginning = strings.CutSuffix(text, "*")
		if p.beginning && utf8.RuneCountInString(p.text) < leastBeginning {
			return nil, fmt.Errorf("%w: %.40q* is the beginning of too many words: give %d characters", task.ErrInvalidInput, p.text, leastBeginning)
		}
		parts = append(parts, p)
	}
	if len(parts) == 0 {
		return nil, fmt.Errorf("%w: nothing to search for: %.40q has no letter and no digit", task.ErrInvalidInput, search)
	}
	return parts, nil
}

// inWord reports whether a character is part of words.
func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }

func (d *file) addWords(c *conn, num int64, _, _ string) {
	c.exec("INSERT INTO task_words (rowid, owner, words) SELECT num, owner, words FROM task_texts WHERE num = ?", num)
}

func (d *file) dropWords(c *conn, num int64) {
	c.exec("INSERT INTO task_words (task_words, rowid, owner, words) SELECT 'delete', num, owner, words FROM task_texts WHERE num = ?", num)
}

func (d *file) findWords(search, user string) (q wordQuery, err error) {
	match, err := matchWords(search, user)
	return wordQuery{" FROM task_words CROSS JOIN tasks t ON t.num = task_words.rowid", "task_words.rowid", " AND task_words MATCH ?", []any{match}}, err
}

// matchWords returns the full-text query for a search in the tasks of a user, or of all users if user is "".
func matchWords(search, user string) (string, error) {
	parts, err := parseSearch(search)
	if err != nil {
		return "", err
	}
	var match strings.Builder
	for _, p := range parts {
		fmt.Fprintf(&match, ` AND words : "%s"`, strings.ReplaceAll(p.text, `"`, `""`))
		if p.beginning {
			match.WriteString(" *")
		}
	}
	if user != "" {
		fmt.Fprintf(&match, " AND owner : u%x", user)
	}
	return strings.TrimPrefix(match.String(), " AND "), nil
}
