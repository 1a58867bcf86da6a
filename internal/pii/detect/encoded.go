package detect

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

const minBase64 = 16 // characters

// base64 looks into the run of base64 that begins at start, and takes all of it for a value if there is one in it. It returns
// where the run ends.
func (s *scanner) base64(start int) int {
	end := start
	for end < len(s.text) && (s.is(end, alnum|underscore) || strings.IndexByte("+/-", s.text[end]) >= 0) {
		end++
	}
	stop := end
	for stop < len(s.text) && stop-end < 2 && s.text[stop] == '=' {
		stop++
	}
	if s.decoded(start, end, stop) {
		return end
	}
	for part := start; part < end; { // a path whose last part is base64
		next := strings.IndexByte(s.text[part:end], '/')
		if next < 0 {
			if part > start {
				s.decoded(part, end, stop)
			}
			break
		}
		if part > start || next > 0 {
			s.decoded(part, part+next, part+next)
		}
		part += next + 1
	}
	return end
}

// decoded tells whether there is a value in the base64 from start to end; its padding goes on to stop.
func (s *scanner) decoded(start, end, stop int) bool {
	run := s.text[start:end]
	if len(run) < minBase64 || len(run)%4 == 1 || s.depth >= maxDepth {
		return false
	}
	encoding := base64.RawStdEncoding
	if strings.ContainsAny(run, "-_") {
		encoding = base64.RawURLEncoding
	}
	first, err := encoding.DecodeString(run[:8])
	if err != nil || !beginsPrintable(first) {
		return false
	}
	text, err := encoding.DecodeString(run)
	if err != nil || !printable(string(text)) {
		return false
	}
	inner := finder{Detector: s.Detector, dictionary: s.dictionary}
	inner.find(string(text), s.around, s.depth+1)
	if len(inner.hits) == 0 {
		return false
	}
	found := resolve(inner.hits)[0]
	s.add(start, stop, found.kind, s.text[start:stop])
	if found.word != nil {
		s.hits[len(s.hits)-1].word = &Word{Type: found.word.Type}
	}
	return true
}

// beginsPrintable tells whether bytes may begin a text. Their last character may be cut off.
func beginsPrintable(text []byte) bool {
	for _, c := range text {
		if c < ' ' && c != '\n' && c != '\t' && c != '\r' || c == 0x7F {
			return false
		}
	}
	return true
}

// printable tells whether bytes are a text without control characters.
func printable(text string) bool {
	return utf8.ValidString(text) && beginsPrintable([]byte(text))
}
