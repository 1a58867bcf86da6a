package detect

import (
	"slices"
	"sort"
	"strings"
)

// Word is a value that is known beforehand.
type Word struct {
	Text string // value; the case of its ASCII letters and its escapes do not matter
	Type string
	Ref  any // Ref of each Span that is found for the word
}

// Words shorter than minKnown would be found in too many texts, and words longer than maxKnown would cost too much.
const (
	minKnown = 3
	maxKnown = 256
)

// Dictionary finds known values: distinctive ones (see isStrong) anywhere in a text, the others as whole words. The time of a search grows only with
// the logarithm of their number. It is safe for concurrent use.
type Dictionary struct {
	words  []*dictionaryWord // sorted by text
	first  [256]bool
	inside bool        // words are found within other words, too
	strong *Dictionary // dictionary of the strong words; nil if there are none
}

type dictionaryWord struct {
	Word
	text   string // normalized text in lower case
	parent int    // index of the longest other word with which this one begins; -1 if there is none
}

// NewDictionary creates a dictionary of words. If words are equal, only the first one counts. Words that are too short or too long are left out.
func NewDictionary(words []Word) *Dictionary {
	d := &Dictionary{words: make([]*dictionaryWord, 0, len(words))}
	all := make([]dictionaryWord, len(words))
	for i, w := range words {
		v := normalize(w.Text)
		text := strings.Map(lowerASCII, v.text)
		if len(text) >= minKnown && len(text) <= maxKnown {
			all[i] = dictionaryWord{Word: w, text: text}
			d.words = append(d.words, &all[i])
		}
	}
	strong := &Dictionary{inside: true}
	for _, w := range d.words {
		if isStrong(w.text) {
			other := *w
			strong.words = append(strong.words, &other)
		}
	}
	if d.sort(); len(strong.words) > 0 {
		strong.sort()
		d.strong = strong
	}
	return d
}

// Minimum numbers of letters and digits of a strong text; see isStrong.
const (
	minStrong       = 6  // minimum for a text with a digit or an @
	minStrongWords  = 8  // minimum for a text with a space
	minStrongLetter = 10 // minimum for any other text
)

// isStrong reports whether a text is so distinctive that it is the value even within another word.
func isStrong(text string) bool {
	count, numeric, spaced := 0, false, false
	for _, c := range []byte(text) {
		switch {
		case classes[c]&digit != 0 || c == '@':
			numeric = true
		case c == ' ':
			spaced = true
		}
		if classes[c]&(alnum|high) != 0 {
			count++
		}
	}
	return count >= minStrongLetter || numeric && count >= minStrong || spaced && count >= minStrongWords
}

// sort sorts the words and prepares them to be found.
func (d *Dictionary) sort() {
	slices.SortStableFunc(d.words, func(a, b *dictionaryWord) int { return strings.Compare(a.text, b.text) })
	d.words = slices.CompactFunc(d.words, func(a, b *dictionaryWord) bool { return a.text == b.text })
	for i, w := range d.words {
		for w.parent = i - 1; w.parent >= 0 && !strings.HasPrefix(w.text, d.words[w.parent].text); {
			w.parent = d.words[w.parent].parent
		}
		d.first[w.text[0]] = true
		if classes[w.text[0]]&lower != 0 {
			d.first[w.text[0]-'a'+'A'] = true
		}
	}
}

// inside finds the strong words of the dictionary that are within other words of the text, or joined to them.
func (s *scanner) inside() {
	d := s.dictionary.strong
	for i := 0; i < len(s.text); {
		w, end := d.match(s.text, i)
		if w == nil {
			i++
			continue
		}
		if s.is(i, word) && s.is(i-1, word) || s.is(end-1, word) && s.is(end, word) { // scan finds all other occurrences
			s.add(i, end, knownWord, s.text[i:end])
			s.hits[len(s.hits)-1].word = &w.Word
		}
		i = end
	}
}

// match returns the longest word with which the text from i begins, and its end.
func (d *Dictionary) match(text string, i int) (*dictionaryWord, int) {
	if d == nil || !d.first[text[i]] || len(d.words) == 0 {
		return nil, 0
	}
	rest := text[i:]
	at := sort.Search(len(d.words), func(i int) bool { c, _ := compareFold(d.words[i].text, rest); return c > 0 }) - 1
	if at < 0 {
		return nil, 0
	}
	for _, same := compareFold(d.words[at].text, rest); at >= 0; at = d.words[at].parent {
		w := d.words[at]
		end := i + len(w.text)
		if len(w.text) > same || !d.inside && end < len(text) && classes[text[end]]&word != 0 && classes[text[end-1]]&word != 0 {
			continue // w does not occur here, or is only the beginning of a longer word
		}
		return w, end
	}
	return nil, 0
}

func lowerASCII(r rune) rune {
	if r >= 'A' && r <= 'Z' {
		return r - 'A' + 'a'
	}
	return r
}

// compareFold compares a word with the beginning of a text. same is the number of equal bytes.
func compareFold(word, text string) (order, same int) {
	for same < len(word) && same < len(text) {
		c := text[same]
		if classes[c]&upper != 0 {
			c += 'a' - 'A'
		}
		if word[same] != c {
			return int(word[same]) - int(c), same
		}
		same++
	}
	return len(word) - min(len(word), len(text)), same
}
