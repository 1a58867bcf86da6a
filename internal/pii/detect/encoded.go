package detect

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

const minBase64 = 11 // number of characters that encode 8 bytes without padding, such as 10.0.0.1

// base64 decodes the run of base64 or hexadecimal digits that begins at start, and records the whole run as a value if it contains one. It returns
// the end of the run.
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
	for part := start; part < end; { // the run may be a path with parts in base64
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

// decoded decodes the base64 or hexadecimal digits from start to end. If their text contains a value, decoded records the range from start to
// stop, which includes the padding, as a value and returns true.
func (s *scanner) decoded(start, end, stop int) bool {
	run := s.text[start:end]
	if len(run) < minBase64 || s.depth >= maxDepth {
		return false
	}
	text, ok := decodeHex(run)
	if !ok {
		text, ok = decodeBase64(run)
	}
	if !ok || !printable(text) {
		return false
	}
	inner := finder{Detector: s.Detector, dictionary: s.dictionary, words: s.words, names: s.names}
	inner.find(text, s.around, s.depth+1)
	if len(inner.hits) == 0 {
		return false
	}
	all := resolve(text, inner.hits)
	s.add(start, stop, all[0].kind, s.text[start:stop])
	added := &s.hits[len(s.hits)-1]
	if all[0].word != nil {
		added.word = &Word{Type: all[0].word.Type}
	}
	for _, h := range all {
		added.within = append(added.within, h.refs()...)
	}
	return true
}

func decodeBase64(run string) (string, bool) {
	if len(run)%4 == 1 { // No complete base64 text has this length.
		run = run[:len(run)-1]
	}
	encoding := base64.RawStdEncoding
	if strings.ContainsAny(run, "-_") {
		encoding = base64.RawURLEncoding
	}
	first, err := encoding.DecodeString(run[:8])
	if err != nil || !beginsPrintable(first) {
		return "", false
	}
	text, err := encoding.DecodeString(run)
	return string(text), err == nil
}

func decodeHex(run string) (string, bool) {
	run = run[:len(run)&^1] // an odd number of digits comes from a truncated text
	first, err := hex.DecodeString(run[:8])
	if err != nil || !beginsPrintable(first) {
		return "", false
	}
	text, err := hex.DecodeString(run)
	return string(text), err == nil
}

// beginsPrintable reports whether bytes may begin a text. Their last character may be cut off.
func beginsPrintable(text []byte) bool {
	for _, c := range text {
		if c < ' ' && c != '\n' && c != '\t' && c != '\r' || c == 0x7F {
			return false
		}
	}
	return true
}

// printable reports whether bytes are a text without control characters.
func printable(text string) bool {
	return utf8.ValidString(text) && beginsPrintable([]byte(text))
}
