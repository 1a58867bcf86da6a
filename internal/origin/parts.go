package origin

import (
	"encoding/base64"
	"encoding/json"
	"hash/maphash"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// MinPart is the minimum size in bytes of a part of an answer.
	MinPart = 6
	// maxNested is the maximum depth to which JSON within strings is read.
	maxNested = 3
	// maxSegments is the maximum number of segments, at the beginning of a word, that form runs. Each run of consecutive segments is a part. Each
	// later segment is only a part by itself.
	maxSegments = 8
	// maxGroups is the maximum number of groups of a number written in groups, such as an IBAN; maxGroup is the maximum size of a group in bytes.
	maxGroups = 12
	maxGroup  = 6
	// maxPhrase is the maximum number of words of a phrase, which is a sequence of words in a user's text.
	maxPhrase = 6
	// maxDigits is the maximum number of digits of a small number. Small numbers are too common to be marked as sent.
	maxDigits = 5
	// minBase64 is the minimum number of characters that are decoded as base64.
	minBase64 = 12
	// maxKept is the maximum size of buffers that are kept for the next text.
	maxKept = 1 << 20
)

// splitter splits texts into parts and passes the hashes of the normalised parts to take. It has buffers and handles one text at a time.
type splitter struct {
	seed  maphash.Seed
	least int                             // minimum size of a part in bytes; 1 for texts of the user
	take  func(h uint64, small bool) bool // receives a part; small is true for a number of at most maxDigits digits
	done  bool                            // whether take accepts no more parts

	line  []byte
	words []word // last words of the line that may form a phrase or a number in groups
}

// span is a part of a normalised line.
type span struct{ from, to int }

// word is a word of a line. Its span excludes the punctuation around it.
type word struct {
	span
	ends  bool // whether punctuation follows
	group bool // whether the word may be a group of a number, such as GB33 or BUKB
}

func (p *splitter) start(seed maphash.Seed, least int, take func(h uint64, small bool) bool) {
	p.seed, p.least, p.take, p.done = seed, least, take, false
	if cap(p.line) > maxKept {
		p.line = nil
	}
}

// hash returns the hash of a value; 0 if the normalised value is empty.
func (p *splitter) hash(seed maphash.Seed, text string) uint64 {
	p.line = normalise(p.line[:0], text)
	return hashOf(seed, p.line)
}

func hashOf(seed maphash.Seed, text []byte) uint64 {
	if len(text) == 0 {
		return 0
	}
	return max(maphash.Bytes(seed, text), 1)
}

// normalise appends a text in lower case, without white space and invisible characters.
func normalise(to []byte, text string) []byte {
	for i := 0; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf {
			i++
			switch {
			case c <= ' ' || c == 0x7F:
			case 'A' <= c && c <= 'Z':
				to = append(to, c|0x20)
			default:
				to = append(to, c)
			}
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		i += size
		if !unicode.IsSpace(r) && !unicode.Is(unicode.Cf, r) {
			to = utf8.AppendRune(to, plain(r))
		}
	}
	return to
}

// plain returns a character in lower case. Typographic quotation marks and brackets of all scripts become ASCII quotation marks.
func plain(r rune) rune {
	switch {
	case r == '\u2018' || r == '\u2019':
		return '\''
	case unicode.In(r, unicode.Pi, unicode.Pf, unicode.Ps, unicode.Pe):
		return '"'
	}
	return unicode.ToLower(r)
}

// part passes on a normalised part, unless it is empty or shorter than least bytes.
func (p *splitter) part(text []byte, least int) {
	if p.done || len(text) < least || len(text) == 0 {
		return
	}
	small := len(text) <= maxDigits && !slices.ContainsFunc(text, func(c byte) bool { return c < '0' || c > '9' })
	p.done = !p.take(hashOf(p.seed, text), small)
}

// whole passes on a whole value.
func (p *splitter) whole(text string) {
	p.line = normalise(slices.Grow(p.line[:0], len(text)), text)
	p.part(p.line, 1)
}

// json passes on the strings, numbers and keys of a JSON text, and the parts of the strings.
func (p *splitter) json(value string, nested int) {
	for at := 0; at < len(value) && !p.done; {
		c := value[at]
		switch {
		case c == '"':
			end, escaped := endOfString(value, at)
			text := value[at+1 : max(at+1, end-1)]
			if escaped && json.Unmarshal([]byte(value[at:end]), &text) != nil {
				text = ""
			}
			at = end
			if next := skipSpace(value, at); next < len(value) && value[next] == ':' {
				p.whole(text)
				continue
			}
			p.text(text, nested)
		case c == '-' || '0' <= c && c <= '9':
			from := at
			for at < len(value) && (value[at] == '-' || value[at] == '+' || value[at] == '.' || value[at]|0x20 == 'e' || '0' <= value[at] && value[at] <= '9') {
				at++
			}
			text := value[from:at]
			if number, err := strconv.ParseFloat(text, 64); err == nil && strings.ContainsAny(text, ".eE") {
				p.whole(numeral(number))
			}
			p.whole(text)
		default:
			at++
		}
	}
}

// numeral formats a number approximately as JavaScript does.
func numeral(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

func endOfString(value string, from int) (end int, escaped bool) {
	for i := from + 1; i < len(value); i++ {
		switch value[i] {
		case '\\':
			escaped = true
			i++
		case '"':
			return i + 1, escaped
		}
	}
	return len(value), escaped
}

func skipSpace(value string, at int) int {
	for at < len(value) && (value[at] == ' ' || value[at] == '\n' || value[at] == '\t' || value[at] == '\r') {
		at++
	}
	return at
}

// text passes on a text and its parts: its values if it is JSON, else its lines, fields and words. nested is the depth to which JSON and encoded
// texts within the text are read.
func (p *splitter) text(text string, nested int) {
	if nested > 0 {
		if trimmed := strings.TrimSpace(text); trimmed != "" && (trimmed[0] == '{' || trimmed[0] == '[') && json.Valid([]byte(trimmed)) {
			p.whole(text)
			p.json(trimmed, nested-1)
			return
		}
	}
	if !strings.Contains(text, "\n") {
		p.splitLine(text, true, nested)
		return
	}
	p.whole(text)
	for line := range strings.SplitSeq(text, "\n") {
		if p.done {
			return
		}
		p.splitLine(line, false, nested)
	}
}

// Sets of characters. Separators divide a line into fields, delimiters divide a word into segments, edges are dropped around words and fields, and
// enders end a phrase. inBase64 contains the characters of both alphabets of base64.
var (
	separators = set(`,;|<>()"`)
	delimiters = set("/?&=#:@,;<>()[]{}\"'|\\*`")
	edges      = set(".,;:!?=\"'()[]{}<>*`|")
	enders     = set(".,;:!?|")
	inBase64   = set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_")
)

func set(of string) (in [256]bool) {
	for i := range len(of) {
		in[of[i]] = true
	}
	return in
}

// splitLine passes on a line and its parts; alone is true if the line is the whole text.
func (p *splitter) splitLine(line string, alone bool, nested int) {
	p.line, p.words = slices.Grow(p.line[:0], len(line)), p.words[:0]
	field := 0
	endField := func(at, next int) {
		p.trimmed(span{field, at})
		field = next
	}
	for i := 0; i < len(line) && !p.done; {
		from, at := i, len(p.line)
		for i < len(line) {
			c := line[i]
			if c < utf8.RuneSelf {
				if c <= ' ' || c == 0x7F {
					break
				}
				i++
				if separators[c] {
					endField(len(p.line), len(p.line)+1)
				}
				if 'A' <= c && c <= 'Z' {
					c |= 0x20
				}
				p.line = append(p.line, c)
				continue
			}
			r, size := utf8.DecodeRuneInString(line[i:])
			if unicode.IsSpace(r) {
				break
			}
			i += size
			if unicode.Is(unicode.Cf, r) {
				continue
			}
			if r = plain(r); r == '"' {
				endField(len(p.line), len(p.line)+1)
			}
			p.line = utf8.AppendRune(p.line, r)
		}
		if len(p.line) > at {
			p.word(line[from:i], span{at, len(p.line)}, alone && from == 0 && i == len(line), nested)
		}
		// skip the white space after the word
		for i < len(line) {
			r, size := utf8.DecodeRuneInString(line[i:])
			if r > ' ' && r != 0x7F && !unicode.IsSpace(r) {
				break
			}
			if n := len(p.line); r == '\t' || n > 0 && (p.line[n-1] == ':' || p.line[n-1] == '=') {
				endField(n, n)
			}
			i += size
		}
	}
	p.group()
	if field > 0 {
		p.trimmed(span{field, len(p.line)})
	}
	if alone {
		p.part(p.line, 1)
	} else {
		p.trimmed(span{0, len(p.line)})
	}
}

// trimmed passes on a part of the line without the punctuation around it.
func (p *splitter) trimmed(s span) {
	s = p.trim(s)
	p.part(p.line[s.from:s.to], p.least)
}

func (p *splitter) trim(s span) span {
	for s.from < s.to && edges[p.line[s.from]] {
		s.from++
	}
	for s.from < s.to && edges[p.line[s.to-1]] {
		s.to--
	}
	return s
}

// word passes on a word of the line, its segments, its decoded text, and the phrases whose last word it is. whole is true if the word is the whole
// text.
func (p *splitter) word(text string, s span, whole bool, nested int) {
	w := word{span: p.trim(s)}
	if !whole {
		p.part(p.line[s.from:s.to], p.least)
		if w.span != s {
			p.part(p.line[w.from:w.to], p.least)
		}
	} else if w.span != s {
		p.part(p.line[w.from:w.to], p.least)
	}
	w.ends = s.to > w.to && slices.ContainsFunc(p.line[w.to:s.to], func(c byte) bool { return enders[c] })
	w.group = w.to-w.from <= maxGroup && isGroup(text)
	p.segments(s)
	p.phrases(w)
	if nested > 0 {
		p.decoded(text)
	}
}

// isGroup reports whether a word has a digit before any lower-case or non-ASCII character, or has capital letters and no such character.
func isGroup(word string) bool {
	capital := false
	for i := range len(word) {
		switch c := word[i]; {
		case '0' <= c && c <= '9':
			return true
		case 'a' <= c && c <= 'z' || c >= utf8.RuneSelf:
			return false
		case 'A' <= c && c <= 'Z':
			capital = true
		}
	}
	return capital
}

// segments passes on all runs of consecutive segments of a word, and the tokens of personal data in the word.
func (p *splitter) segments(s span) {
	var all [maxSegments]span
	n := 0
	text := p.line[s.from:s.to]
	for i := 0; i < len(text); {
		if delimiters[text[i]] {
			if text[i] == '[' {
				if end := tokenEnd(text[i:]); end > 0 {
					p.part(text[i:i+end], p.least)
				}
			}
			i++
			continue
		}
		from := i
		for i < len(text) && !delimiters[text[i]] {
			i++
		}
		if from == 0 && i == len(text) {
			return
		}
		if n == maxSegments {
			p.part(text[from:i], p.least)
			continue
		}
		all[n] = span{from, i}
		n++
	}
	for i := range n {
		for j := i; j < n; j++ {
			p.part(text[all[i].from:all[j].to], p.least)
		}
	}
	if n == maxSegments { // The text from each of these segments to the end of the word is a part too.
		for i := range n {
			p.part(text[all[i].from:], p.least)
		}
	}
}

// tokenEnd returns the end of a token such as [email_1] at the beginning of a text, or 0 if there is none.
func tokenEnd(text []byte) int {
	for i := 1; i < min(len(text), 64); i++ {
		switch c := text[i]; {
		case c == ']':
			return i + 1
		case c != '_' && (c < 'a' || c > 'z') && (c < '0' || c > '9'):
			return 0
		}
	}
	return 0
}

// phrases handles the word w of a line. In a text of the user, it passes on the phrases and the numbers in groups that end with w. In an answer, it
// collects the groups of a number for the method group.
func (p *splitter) phrases(w word) {
	if n := len(p.words); n > 0 && p.words[n-1].ends {
		p.group()
		p.words = p.words[:0]
	}
	if p.least == 1 {
		for i, n := len(p.words)-1, 1; i >= 0 && n < maxPhrase; i, n = i-1, n+1 {
			p.part(p.line[p.words[i].from:w.to], 1)
		}
		if len(p.words) == maxGroups {
			p.words = slices.Delete(p.words, 0, 1)
		}
		p.words = append(p.words, w)
		p.grouped(w)
		return
	}
	if !w.group {
		p.group()
		p.words = p.words[:0]
		return
	}
	if len(p.words) == maxGroups {
		p.group()
		p.words = p.words[:0]
	}
	p.words = append(p.words, w)
}

// grouped passes on the numbers in groups that end with the word w of a user's text and have more than maxPhrase groups. Shorter numbers are phrases.
func (p *splitter) grouped(w word) {
	for i := len(p.words) - 1; i >= 0 && p.words[i].group && w.group; i-- {
		if len(p.words)-i > maxPhrase {
			p.part(p.line[p.words[i].from:w.to], 1)
		}
	}
}

// group passes on the last words of the line as a number in groups, and the beginnings and ends of that number.
func (p *splitter) group() {
	if p.least == 1 || len(p.words) < 2 {
		return
	}
	first, last := p.words[0].from, p.words[len(p.words)-1].to
	for i := range p.words {
		if i > 0 {
			p.part(p.line[first:p.words[i].to], p.least)
		}
		if i > 0 && i < len(p.words)-1 {
			p.part(p.line[p.words[i].from:last], p.least)
		}
	}
}

// decoded passes on the text to which a word in percent-encoding or base64 decodes, and the parts of that text.
func (p *splitter) decoded(word string) {
	plain := ""
	if strings.Contains(word, "%") {
		if text, err := url.PathUnescape(word); err == nil && text != word {
			plain = text
		}
	} else if len(word) >= minBase64 {
		plain = fromBase64(word)
	}
	if plain == "" {
		return
	}
	inner := splitter{}
	inner.start(p.seed, p.least, p.take)
	inner.text(plain, 0)
	p.done = inner.done
}

// fromBase64 decodes a word as base64. It returns "" if the word is not base64 of a printable text.
func fromBase64(word string) string {
	from, end := 0, len(word)
	for from < end && edges[word[from]] {
		from++
	}
	for from < end && edges[word[end-1]] {
		end--
	}
	word = word[from:end]
	alphabet := base64.RawStdEncoding
	for i := range len(word) {
		switch c := word[i]; {
		case c == '-' || c == '_':
			alphabet = base64.RawURLEncoding
		case !inBase64[c]:
			return ""
		}
	}
	if len(word) < minBase64 {
		return ""
	}
	text, err := alphabet.DecodeString(word)
	if err != nil || !printable(text) {
		return ""
	}
	return string(text)
}

func printable(text []byte) bool {
	return utf8.Valid(text) && !slices.ContainsFunc(text, func(c byte) bool { return c < ' ' && c != '\n' && c != '\r' && c != '\t' || c == 0x7F })
}
