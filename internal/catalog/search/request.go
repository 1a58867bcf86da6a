package search

import (
	_ "embed"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"unicode"

	"mcp-code-exec-harness/internal/catalog/ident"
)

// knowledge is what the engine knows about the language of requests; words.txt describes its sections.
//
//go:embed words.txt
var knowledge string

// phrase is a sequence of words that stands for other words. A gap in the sequence stands for up to maxGap words.
type phrase struct {
	words []string
	means []string // stems
}

const (
	gap    = "..."
	maxGap = 4
)

// language holds the parsed knowledge.
type language struct {
	similar  map[string][]string // synonyms of a stem
	phrases  map[string][]phrase // phrases by first word
	meanings *meanings
	verbal   map[string][]string // meanings of a stem at the beginning of a clause
	products map[string][]string // subjects of a product, by each word of its name
	actions  map[string]action   // actions by stem
}

var lang = sync.OnceValue(func() *language {
	l := &language{
		similar: map[string][]string{}, phrases: map[string][]phrase{}, meanings: readMeanings(sayings), verbal: map[string][]string{},
		products: map[string][]string{}, actions: map[string]action{},
	}
	section := ""
	for line := range strings.Lines(knowledge) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "//") {
			continue
		}
		if name, ok := strings.CutPrefix(line, "== "); ok {
			section = name
			continue
		}
		left, right, _ := strings.Cut(line, ":")
		switch section {
		case "synonyms":
			l.addSynonyms(stems(line))
		case "phrases":
			words := strings.Fields(left)
			l.phrases[words[0]] = append(l.phrases[words[0]], phrase{words, stems(right)})
		case "verbs":
			for _, w := range stems(left) {
				l.verbal[w] = append(l.verbal[w], stems(right)...)
			}
		case "products":
			for _, w := range strings.Fields(left) {
				l.products[w] = append(l.products[w], strings.Fields(right)...)
			}
		case "actions":
			kind := action(1) << slices.Index(actionNames, left)
			for _, w := range stems(right) {
				l.actions[w] |= kind
			}
		}
	}
	return l
})

func stems(text string) (out []string) {
	for _, w := range strings.Fields(text) {
		if s := stem(w); !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

func (l *language) addSynonyms(group []string) {
	for _, w := range group {
		for _, other := range group {
			if other != w && !slices.Contains(l.similar[w], other) {
				l.similar[w] = append(l.similar[w], other)
			}
		}
	}
}

// action is a set of kinds of things that a user does to an object.
type action uint8

// actionNames are the names of the kinds in words.txt.
var actionNames = []string{"read", "create", "change", "delete", "send", "run"}

const actionRead action = 1

// actionOf returns the kinds of the first verb of a name.
func actionOf(name string) action {
	for _, w := range terms(name) {
		if a := lang().actions[w]; a != 0 {
			return a
		}
	}
	return 0
}

// word is a stem that a request asks for, and the certainty that the request means it.
type word struct {
	stem   string
	weight float32
	exact  bool // reports that synonyms of the stem do not count
}

// says reports whether words contains a word with the same stem as the argument one, and at least the same weight.
func says(words []word, one word) bool {
	return slices.ContainsFunc(words, func(w word) bool { return w.stem == one.stem && w.weight >= one.weight })
}

// Weights of words for an action, and of words that a request means but does not contain.
const (
	actionWeight = 0.8
	phraseWeight = 0.3
	sayingWeight = 0.5
	shapeWeight  = 0.6
	verbalWeight = 0.8
)

// step is one of the things that a request asks for.
type step struct {
	text  string
	terms []string
}

// steps returns the clauses of a request that contain terms. Clauses beyond maxClauses are added to the last one.
func steps(query string) (all []step) {
	for _, clause := range clauses(query) {
		found := terms(clause)
		switch {
		case len(found) == 0:
		case len(all) < maxClauses:
			all = append(all, step{clause, found})
		default:
			last := &all[maxClauses-1]
			last.text += " " + clause
			last.terms = append(last.terms, found...)
		}
	}
	return all
}

// understand returns the words of a step, at most limit, and the actions that it asks for.
func understand(s step, limit int) (words []word, does action) {
	l := lang()
	add := func(w word) {
		if len(words) < limit && !says(words, w) {
			words = append(words, w)
		}
	}
	for _, w := range s.terms {
		if len(words) < limit {
			weight := float32(1)
			if l.actions[w] != 0 {
				weight = actionWeight
			}
			words = append(words, word{w, weight, false})
		}
		does |= l.actions[w]
	}
	for _, w := range l.verbal[s.terms[0]] {
		add(word{w, verbalWeight, false})
		does |= l.actions[w]
	}
	raw := strings.Fields(s.text)
	plain := make([]string, len(raw))
	for i, w := range raw {
		for _, implied := range shape(w) {
			add(word{implied, shapeWeight, false})
		}
		w = strings.ReplaceAll(w, "’", "'")
		plain[i] = strings.ToLower(strings.TrimFunc(w, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }))
	}
	for i, w := range plain {
		for _, p := range l.meanings.phrases[w] {
			if p.at(plain[i:]) {
				for _, meant := range p.means {
					add(word{meant, sayingWeight, true})
				}
			}
		}
		for _, p := range l.phrases[w] {
			if p.at(plain[i:]) {
				for _, meant := range p.means {
					add(word{meant, phraseWeight, false})
					does |= l.actions[meant]
				}
			}
		}
	}
	return words, does
}

// at reports whether text begins with the phrase.
func (p *phrase) at(text []string) bool {
	for i, w := range p.words {
		if w == gap {
			rest := phrase{words: p.words[i+1:]}
			for skipped := 0; skipped <= maxGap && skipped < len(text); skipped++ {
				if rest.at(text[skipped:]) {
					return true
				}
			}
			return false
		}
		if len(text) == 0 || text[0] != w {
			return false
		}
		text = text[1:]
	}
	return true
}

// shape returns what the form of a word means: #general is a channel, a@b.c a person with a mailbox, notes.txt a file, OPS-12 a ticket.
func shape(w string) []string {
	w = strings.Trim(w, `.,;:!?()"'`)
	switch {
	case len(w) < 3:
		return nil
	case w[0] == '#' && unicode.IsLetter(rune(w[1])):
		return []string{"channel", "messag", "post"}
	case strings.Contains(w, "://"):
		if _, err := url.Parse(w); err == nil {
			return []string{"url", "page"}
		}
	case strings.Contains(w[1:], "@") && strings.Contains(w, "."):
		return []string{"email"}
	case isFileName(w):
		return []string{"file", "path"}
	case isTicket(w):
		return []string{"issu", "ticket"}
	}
	return nil
}

// isFileName reports whether a word ends in an extension of two to four small letters.
func isFileName(w string) bool {
	ext := strings.TrimPrefix(path.Ext(w), ".")
	return len(ext) >= 2 && len(ext) <= 4 && len(w) > len(ext)+1 && !strings.ContainsFunc(ext, func(r rune) bool { return r < 'a' || r > 'z' })
}

// isTicket reports whether a word is capital letters, a hyphen and a number.
func isTicket(w string) bool {
	project, number, ok := strings.Cut(w, "-")
	return ok && len(project) >= 2 && number != "" &&
		!strings.ContainsFunc(project, func(r rune) bool { return r < 'A' || r > 'Z' }) &&
		!strings.ContainsFunc(number, func(r rune) bool { return r < '0' || r > '9' })
}

// about returns the subjects of the products in a server's name.
func about(server string) string {
	l := lang()
	var all []string
	for _, w := range strings.FieldsFunc(strings.ToLower(strings.Join(ident.Words(server), " ")), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		all = append(all, l.products[w]...)
	}
	return strings.Join(all, " ")
}
