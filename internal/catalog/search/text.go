package search

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kljensen/snowball/english"
	"golang.org/x/text/unicode/norm"

	"mcp-code-exec-harness/internal/catalog/ident"
)

// terms returns the stems of a text's words. Identifiers are split on case, underscores, hyphens and digits. A word that contains digits (s3, n8n,
// oauth2) is also kept whole, because its parts mean little.
func terms(text string) []string {
	var out []string
	for _, w := range strings.FieldsFunc(plain(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		parts := ident.Words(w)
		if strings.ContainsFunc(w, unicode.IsDigit) {
			if whole := strings.ToLower(w); utf8.RuneCountInString(whole) > 1 {
				out = append(out, whole)
			}
			parts = slices.DeleteFunc(strings.FieldsFunc(w, unicode.IsDigit), func(part string) bool { return len(part) < 3 })
		}
		for _, p := range parts {
			p = strings.ToLower(p)
			if !isStopWord(p) {
				out = append(out, stem(p))
			}
		}
	}
	return out
}

// maxStemmed is the length above which a word is not taken for an English word.
const maxStemmed = 40

func stem(word string) string {
	if len(word) > maxStemmed {
		return word
	}
	return english.Stem(word, false)
}

// plain removes accents from letters, so that cafe finds café.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return r
	}, norm.NFKD.String(text))
}

// isStopWord reports whether a word is too common in requests and descriptions to distinguish tools.
func isStopWord(w string) bool {
	switch w {
	case "a", "about", "after", "again", "all", "also", "am", "an", "and", "any", "anybody", "anyone", "are", "as", "at",
		"be", "because", "been", "before", "being", "but", "by", "can", "could", "did", "do", "does", "done", "each", "every",
		"everybody", "everyone", "everything", "for", "from", "give", "had", "has", "have", "having", "he", "help", "helps",
		"her", "here", "him", "his", "how", "i", "if", "in", "into", "is", "it", "its", "just", "know", "let", "like", "ll",
		"make", "many", "may", "me", "might", "more", "most", "much", "must", "my", "need", "needs", "no", "nobody", "nor",
		"not", "now", "of", "off", "on", "one", "only", "or", "other", "our", "out", "over", "own", "please", "re", "s",
		"same", "she", "should", "so", "some", "somebody", "someone", "such", "t", "tell", "than", "that", "the", "their",
		"them", "then", "there", "these", "they", "this", "those", "to", "too", "two", "under", "up", "us", "use", "uses",
		"using", "ve", "very", "via", "want", "was", "we", "were", "what", "when", "where", "whether", "which", "while", "who",
		"whom", "whose", "why", "will", "with", "would", "you", "your":
		return true
	}
	return false
}

// Joins reports whether a word joins the steps of a request.
func Joins(word string) bool {
	switch strings.ToLower(word) {
	case "and", "then", "also", "afterwards", "finally", "next", "plus", "into", "as", "to":
		return true
	}
	return false
}

// clauses splits a request into the steps it asks for: at punctuation, line ends, and the words that join steps.
func clauses(query string) []string {
	var out []string
	var clause []string
	flush := func() {
		if len(clause) > 0 {
			out = append(out, strings.Join(clause, " "))
			clause = nil
		}
	}
	for _, word := range strings.Fields(query) {
		if Joins(strings.TrimFunc(word, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })) {
			flush()
			continue
		}
		clause = append(clause, word)
		if strings.ContainsAny(word[len(word)-1:], ".,;:!?)") {
			flush()
		}
	}
	flush()
	return out
}
