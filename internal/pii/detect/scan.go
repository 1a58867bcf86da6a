package detect

import (
	"slices"
	"unicode/utf8"
)

// Classes of bytes. The scanner's words are runs of the class ascii, because letters of scripts without spaces between words may adjoin a value.
const (
	digit uint8 = 1 << iota
	upper
	lower
	underscore
	high    // not ASCII
	escape  // first byte of a possible escape
	trigger // byte at which mark looks for values

	letter = upper | lower
	alnum  = letter | digit
	ascii  = alnum | underscore
	word   = ascii | high
)

var classes = func() (c [256]uint8) {
	for b := range c {
		switch {
		case b >= '0' && b <= '9':
			c[b] = digit
		case b >= 'A' && b <= 'Z':
			c[b] = upper
		case b >= 'a' && b <= 'z':
			c[b] = lower
		case b == '_':
			c[b] = underscore
		case b >= 0x80:
			c[b] = high
		case b == '\\' || b == '%' || b == '&':
			c[b] = escape
		case b == '@' || b == ':' || b == '=' || b == '-' || b == '(' || b == '[' || b == '>' || b == '~':
			c[b] = trigger
		}
	}
	return c
}()

func isDigit(c byte) bool { return c-'0' < 10 }
func isHex(c byte) bool   { return c-'0' < 10 || c|0x20-'a' < 6 }

// scanner reads one view from its start to its end. Detectors look a bounded number of bytes back and ahead, so that the time is
// linear in the text.
type scanner struct {
	*finder
	text     string
	around   surroundings
	depth    int
	run      int // end of the last run of base64 that was decoded
	assigned int // end of the last long value after a name
	lastSSN  int // end of the last social security number
	headings headings
}

func (f *finder) scan(text string, around surroundings, depth int) {
	s := scanner{finder: f, text: text, around: around, depth: depth}
	if around.key.strong != plain && !around.number {
		s.secretValue(0, text, around.key.strong, true)
	}
	for i := 0; i < len(text); {
		if w, end := s.dictionary.match(text, i); w != nil {
			s.add(i, end, knownWord, text[i:end])
			s.hits[len(s.hits)-1].word = &w.Word
			i = end
			continue
		}
		start, bits := i, uint8(0)
		for i < len(text) && classes[text[i]]&ascii != 0 {
			bits |= classes[text[i]]
			i++
		}
		switch size := i - start; {
		case size == 0 && text[i] >= utf8.RuneSelf:
			for i++; i < len(text) && text[i] >= utf8.RuneSelf; i++ {
			}
		case size == 0:
			if classes[text[i]]&trigger != 0 {
				i = max(i, s.mark(i))
			}
			i++
		case (size < minWord || size < shortWord && bits&letter != letter) && bits&digit == 0 && !mayBeMAC(text, start, i) && !f.on[dateOfBirth]:
			if isHead(text, start) {
				i = max(i, s.keyFormat(start))
			}
		default:
			i = max(i, s.word(start, i, bits))
		}
	}
	if s.dictionary != nil && s.dictionary.strong != nil {
		s.inside()
	}
	if f.words != nil {
		s.known()
	}
	for i, pattern := range f.custom {
		for _, m := range pattern.FindAllStringIndex(text, -1) {
			if m[0] < m[1] {
				s.add(m[0], m[1], kindCount+kind(i), text[m[0]:m[1]])
			}
		}
	}
}

// mayBeMAC reports whether a word without digits may be the first part of a hardware address.
func mayBeMAC(text string, start, end int) bool {
	return end+2 < len(text) && isHex(text[start]) && isHex(text[end+1]) && isHex(text[end+2]) &&
		(end-start == 2 && text[end] != ',' || end-start == 4 && text[end] == '.')
}

// add records a hit.
func (s *scanner) add(start, end int, k kind, value string) {
	h := hit{start: start, end: end, kind: k, value: value}
	if s.around.number { // A part of a JSON number cannot be replaced.
		h.start, h.end, h.number = 0, len(s.text), s.around.nested
	}
	if len(s.hits) == cap(s.hits) {
		s.hits = slices.Grow(s.hits, len(s.hits)+8) // append alone copies a long list more often
	}
	s.hits = append(s.hits, h)
}

// at returns the byte at i, or 0 outside the text.
func (s *scanner) at(i int) byte {
	if i < 0 || i >= len(s.text) {
		return 0
	}
	return s.text[i]
}

// is reports whether the byte at i belongs to one of the classes.
func (s *scanner) is(i int, class uint8) bool {
	return i >= 0 && i < len(s.text) && classes[s.text[i]]&class != 0
}

// border returns i, but at most the end of the text, moved back to the start of the character that contains it.
func (s *scanner) border(i int) int {
	if i >= len(s.text) {
		return len(s.text)
	}
	for at := i; at > 0 && i-at < utf8.UTFMax; at-- {
		if utf8.RuneStart(s.text[at]) {
			return at
		}
	}
	return i
}

// word looks for values at the word from start to end, and returns where to continue.
func (s *scanner) word(start, end int, bits uint8) int {
	if bits&digit == 0 && s.on[dateOfBirth] {
		if done := s.monthFirst(start); done > 0 {
			return done
		}
	}
	if done := s.mac(start, end); done > 0 {
		return done
	}
	if s.persons && bits&digit != 0 {
		if done := s.lettersOfPerson(start, end); done > 0 {
			return done
		}
	}
	numeric := isDigit(s.text[start])
	if numeric && bits&digit != 0 {
		if done := s.numerals(start, end); bits&(letter|underscore) == 0 || done > end {
			return done
		}
	}
	if done := s.keyFormat(start); done > 0 {
		return done
	}
	if bits&(letter|digit) > digit {
		if done := s.letters(start, end); done > 0 {
			return done
		}
	}
	if size := end - start; s.at(end) == '.' && (size == 14 || size >= 23 && size <= 28) {
		if done := s.dotted(start, end); done > 0 {
			return done
		}
	}
	if done := s.wallet(start, end); done > 0 {
		return done
	}
	if !numeric && bits&digit != 0 {
		if done := s.numerals(start, end); done > end {
			return done
		}
	}
	if end-start >= 4 && start >= s.run {
		s.run = s.base64(start)
	}
	return end
}

// Minimum lengths of the words without digits that are examined: minWord for words with upper and lower case letters, shortWord for other words.
const (
	minWord   = minBase64
	shortWord = 16
)

// letters looks for values that begin with two letters in the word from start to end, and returns where to continue, or 0 if there are none.
func (s *scanner) letters(start, end int) int {
	for i := start + 2; i+1 < end; i++ { // An IBAN begins with the two letters of a country and two check digits.
		if isDigit(s.text[i]) && isDigit(s.text[i+1]) && s.is(i-1, letter) && s.is(i-2, letter) {
			if done := s.iban(i - 2); done > 0 {
				return done
			}
		}
	}
	if s.is(start, letter) && s.is(start+1, letter) {
		return s.lettered(start)
	}
	return 0
}

// mark looks for values at a byte of the class trigger, and returns the last byte that needs no further look.
func (s *scanner) mark(i int) int {
	switch s.text[i] {
	case '@':
		s.email(i, i+1)
		s.dataSource(i)
	case '(', '[':
		s.spelledAt(i)
	case '-':
		return s.privateKey(i) - 1
	case '~':
		s.azure(i)
	case '=', '>':
		s.assignment(i)
	case ':':
		if isHex(s.at(i-1)) && isHex(s.at(i+1)) || s.at(i+1) == ':' {
			if end := s.ipv6(i); end > 0 {
				return end - 1
			}
		}
		s.userinfoAt(i)
		s.telegram(i)
		s.userOption(i)
		s.assignment(i)
	}
	return i
}
