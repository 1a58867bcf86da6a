package detect

import (
	"encoding/binary"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Words are values, such as names, that are found as whole words in any text. The case of letters does not matter, and all kinds and numbers of
// spaces are equal. The time of a search does not depend on the number of values. Words are safe for concurrent use.
//
// A value that would be found in too many texts is left out; see worthFinding.
type Words struct {
	mu    sync.RWMutex
	nodes map[string]int // trie of words: the next node by a step from a node (see appendStep); node 0 is the root
	types map[int]string // types of the values that end at a node
	begin [1 << 10]uint64
}

// NewWords returns Words without values.
func NewWords() *Words { return &Words{nodes: map[string]int{}, types: map[int]string{}} }

const (
	maxSteps = 32 // maximum words of a value
	maxGap   = 64 // maximum bytes between two words of a value
)

// Add adds a value of a type. If the value has been added before, its first type stays.
func (w *Words) Add(text, typ string) {
	v := normalize(text)
	if len(v.text) > maxKnown || !worthFinding(v.text) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var step []byte
	node, steps := 0, 0
	start, end := nextWord(v.text, 0)
	for last := start; start < end; steps++ {
		step = appendStep(step[:0], node, v.text[last:start], v.text[start:end])
		if steps == 0 {
			slot := beginSlot(step)
			w.begin[slot/64] |= 1 << (slot % 64)
		}
		next, known := w.nodes[string(step)]
		if !known {
			next = len(w.nodes) + 1
			w.nodes[string(step)] = next
		}
		node, last = next, end
		start, end = nextWord(v.text, end)
	}
	if _, known := w.types[node]; !known && steps <= maxSteps {
		w.types[node] = typ
	}
}

// Len returns the number of values. It is 0 for nil.
func (w *Words) Len() int {
	if w == nil {
		return 0
	}
	w.mu.RLock()
	defer w.mu.RUnlock()
	return len(w.types)
}

// match returns the end and the type of the longest value that begins with the word from start to end. The caller holds w.mu.
func (w *Words) match(text string, start, end int) (stop int, typ string) {
	var buffer [96]byte
	step := appendStep(buffer[:0], 0, "", text[start:end])
	if slot := beginSlot(step); w.begin[slot/64]&(1<<(slot%64)) == 0 {
		return 0, ""
	}
	for range maxSteps {
		node, ok := w.nodes[string(step)]
		if !ok {
			break
		}
		if found, ok := w.types[node]; ok {
			stop, typ = end, found
		}
		last := end
		if start, end = nextWord(text[:min(len(text), last+maxGap+maxKnown)], last); start == end || start-last > maxGap {
			break
		}
		step = appendStep(step[:0], node, text[last:start], text[start:end])
	}
	return stop, typ
}

// beginSlot returns the index of a bit of Words.begin. The bit is set if a value begins with the word of step, which is a step from the root. Few
// words share a bit.
func beginSlot(step []byte) int {
	word := step[rootStep:]
	slot := len(word) + int(word[0])<<11 + int(word[len(word)-1])<<6 + int(word[len(word)/2])<<3
	return slot & (1<<16 - 1)
}

const rootStep = 4 // number of bytes of the node in a step; in a step from the root, the word follows

// appendStep appends the key of a step: the node, the text between the words, and the next word.
func appendStep(to []byte, node int, gap, next string) []byte {
	return appendWord(appendGap(binary.BigEndian.AppendUint32(to, uint32(node)), gap), next)
}

// appendGap appends the text between two words in the form in which it is compared.
func appendGap(to []byte, gap string) []byte {
	space := false
	for _, r := range gap {
		switch {
		case unicode.IsSpace(r) && space:
			continue
		case unicode.IsSpace(r):
			r = ' '
		case r == '\u2019': // a curly apostrophe
			r = '\''
		}
		space = r == ' '
		to = utf8.AppendRune(to, r)
	}
	return to
}

// appendWord appends a word in the form in which it is compared.
func appendWord(to []byte, text string) []byte {
	first := len(to)
	for i := range len(text) {
		c := text[i]
		if c >= utf8.RuneSelf {
			return append(to[:first], norm.NFKC.String(strings.ToLower(text))...)
		}
		if classes[c]&upper != 0 {
			c += 'a' - 'A'
		}
		to = append(to, c)
	}
	return to
}

// nextWord returns the range of the first word that begins at i or later. A word is a run of letters, digits and _. Each character of a script
// without spaces between words is a word of its own. If there is no word, start and end are equal.
func nextWord(text string, i int) (start, end int) {
	for start = i; start < len(text); {
		if classes[text[start]]&word != 0 {
			size, alone := wordRune(text[start:])
			if alone {
				return start, start + size
			}
			if size > 0 {
				break
			}
			_, size = utf8.DecodeRuneInString(text[start:])
			start += size
			continue
		}
		start++
	}
	for end = start; end < len(text) && classes[text[end]]&word != 0; {
		size, alone := wordRune(text[end:])
		if size == 0 || alone {
			break
		}
		end += size
	}
	return start, end
}

// wordRune returns the size of the first character of a text if it belongs to a word, else 0; alone reports whether it is a word by itself.
func wordRune(text string) (size int, alone bool) {
	if text[0] < utf8.RuneSelf {
		return 1, false // The caller has checked the class of the byte.
	}
	r, size := utf8.DecodeRuneInString(text)
	switch {
	case !unicode.In(r, unicode.L, unicode.M, unicode.N):
		return 0, false
	case isSpaceless(r):
		return size, true
	}
	return size, false
}

// isSpaceless reports whether a character is of a script that has no spaces between words, or that attaches particles to words.
func isSpaceless(r rune) bool {
	return r >= 0x0E00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao,
		unicode.Khmer, unicode.Myanmar)
}

// plainValue returns the words of a value, and the texts between them, in the form in which they are compared. start and end are the range of the
// words in the value. A value without words is returned as it is.
func plainValue(text string) (value string, start, end int) {
	start, stop := nextWord(text, 0)
	if start == stop {
		return text, 0, len(text)
	}
	var out []byte
	for at, last := start, start; at < stop; at, stop = nextWord(text, last) {
		out = appendWord(appendGap(out, text[last:at]), text[at:stop])
		last, end = stop, stop
	}
	return string(out), start, end
}

// worthFinding reports whether a value is looked for in all texts. At least one of its words must not be a common word. The value must also have
// three letters, or two characters of a script without spaces, or a total of six letters and digits.
func worthFinding(text string) bool {
	letters, digits, spaceless := 0, 0, 0
	rare := false
	for start, end := nextWord(text, 0); start < end; start, end = nextWord(text, end) {
		rare = rare || !common()[strings.ToLower(text[start:end])]
		for _, r := range text[start:end] {
			switch {
			case isSpaceless(r):
				spaceless++
			case unicode.IsLetter(r):
				letters++
			case unicode.IsNumber(r):
				digits++
			}
		}
	}
	return rare && (letters >= minKnown || spaceless >= 2 || letters+digits+spaceless >= shortest)
}

// known finds the values of s.words in the text.
func (s *scanner) known() {
	for start, end := nextWord(s.text, 0); start < end; {
		stop, typ := s.words.match(s.text, start, end)
		if stop > 0 && !(s.around.number && (start > 0 || stop < len(s.text))) {
			value, _, _ := plainValue(s.text[start:stop])
			s.add(start, stop, knownWord, value)
			s.hits[len(s.hits)-1].word = &Word{Type: typ}
			end = stop
		}
		start, end = nextWord(s.text, end)
	}
}
