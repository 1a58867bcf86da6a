package pii

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"mcp-code-exec-harness/internal/pii/detect"
)

// The natural form of the token of an e-mail address is pii_1e@d2.pii.invalid. pii_1e stands for the part before the @, d2.pii.invalid for
// the domain, which is a value with its own token: addresses of one domain share it. A program may separate the parts, and each is
// restored on its own. The case of a token's letters encodes the case of the value, so that a program which changes the token's case
// changes the value's:
//
//	pii_1e  d2.pii.invalid  the value in lower case
//	PII_1E  D2.PII.INVALID  in upper case
//	Pii_1e  D2.pii.invalid  in lower case, except for the first letter
//	pii_1E  d2.pii.inValid  in its first other spelling; 12 more patterns stand for further spellings
//
// If a program names a domain before the session has an address in it, the domain stays as it is: pii_1e@acme.com.
//
// The natural form of the token of a secret that begins with a service's prefix, such as ghp_, is the prefix and pii_1s, which stands for
// the rest.
const (
	secretKind   = "SECRET"
	addressKind  = "EMAIL"
	domainKind   = "EMAIL_DOMAIN"
	spellingKind = "EMAIL.SPELLING" // type of vault entries that spell adds
	formKind     = "TOKENS"         // type of the vault entry that marks a session with natural tokens
	plainKind    = "EMAIL.PLAIN"    // type of domains that a program names before the session has an address in them; see plainDomains

	localStart = "pii_"
	localEnd   = 'e'
	secretEnd  = 's'
	domainEnd  = ".pii.invalid"
)

// addressPart is the part of a value that a text stands for.
type addressPart byte

const (
	wholePart  addressPart = iota
	localPart              // text before the @ of an address
	domainPart             // text after the @
	secretPart             // text after the prefix of a secret
)

// letterCase is the case of a value's letters. Any case other than lowerCase, upperCase and capitalCase is odd. A token numbers its spellings in an
// odd case from 0: oddCase+i stands for spelling i.
type letterCase int

const (
	lowerCase letterCase = iota
	upperCase
	capitalCase // lower case, except for the first letter
	oddCase
)

// masks tells, for each case, which of four letters of a token are upper case: their bits are set. The highest bit is the first letter.
var masks = [...]byte{0b0000, 0b1111, 0b1000, 0b0001, 0b0010, 0b0011, 0b0100, 0b0101, 0b0110, 0b0111, 0b1001, 0b1010, 0b1011, 0b1100, 0b1101, 0b1110}

// caseIn decodes the case from four letters of a token.
func caseIn(letters ...byte) letterCase {
	mask := byte(0)
	for _, c := range letters {
		mask <<= 1
		if c < 'a' {
			mask |= 1
		}
	}
	return letterCase(slices.Index(masks[:], mask))
}

// letter converts a lower-case letter to the case that the token has at place. The four places are numbered from 0.
func (c letterCase) letter(letter byte, place int) byte {
	if masks[c]&(0b1000>>place) != 0 {
		return letter - 'a' + 'A'
	}
	return letter
}

// caseOf returns the case of a text, or oddCase for any odd case.
func caseOf(text string) letterCase {
	for c := range oddCase {
		if c.of(text) == text {
			return c
		}
	}
	return oddCase
}

// of converts a text to the case c. If c is an odd case, it returns the text unchanged.
func (c letterCase) of(text string) string {
	switch c {
	case lowerCase:
		return strings.ToLower(text)
	case upperCase:
		return strings.ToUpper(text)
	case capitalCase:
		_, size := utf8.DecodeRuneInString(text)
		return strings.ToUpper(text[:size]) + strings.ToLower(text[size:])
	}
	return text
}

// separators are the texts that may separate the parts of an address.
var separators = [...]string{"@", "%40"}

// splitAddress splits an address whose token has a natural form. %40 instead of @ means that the address is part of a URL.
func splitAddress(spelling string) (local, separator, domain string, ok bool) {
	for _, separator = range separators {
		if strings.Count(spelling, separator) != 1 {
			continue
		}
		local, domain, _ = strings.Cut(spelling, separator)
		if separator != "@" {
			if plain, err := url.PathUnescape(local); err == nil && encodeComponent(plain) == local {
				local = plain
			}
		}
		ok = local != "" && domain != "" && !strings.ContainsFunc(local, unnatural) && !strings.ContainsFunc(domain, func(c rune) bool {
			return c != '.' && c != '-' && !unicode.IsLetter(c) && !unicode.IsDigit(c)
		})
		return local, separator, domain, ok
	}
	return "", "", "", false
}

// unnatural reports whether some formats have to encode a character. A value with such a character cannot simply replace a natural token.
func unnatural(c rune) bool {
	return c <= ' ' || c == 0x7F || strings.ContainsRune("\"'\\<>&%@", c) || unicode.IsSpace(c)
}

// inPercent returns the percent-encoded token of a percent-encoded value, such as %5BPHONE_1%5D in a URL. A program may decode the token. ok is false
// if the percent-encoded token would not be restored to raw.
func (t *table) inPercent(v value, raw string, from Origin, canonical string) (text string, ok bool, err error) {
	if !t.natural() || v.form != asSpelled || !strings.Contains(raw, "%") {
		return "", false, nil
	}
	plain, err := url.PathUnescape(raw)
	if err != nil || encodeComponent(plain) != raw {
		return "", false, nil
	}
	v.form, v.canonical, v.spelling = asText, canonical, plain
	tok, err := t.token(v, from)
	if err != nil || tok.spelling != plain || t.name(tok, plain) != tok.text {
		return "", false, err
	}
	return encodeComponent(tok.text), true, nil
}

// naturalAddress returns the spelling of an address that its token records: the address with @ as its separator. ok reports whether the token has a
// natural form.
func naturalAddress(raw string) (spelling string, ok bool) {
	local, separator, domain, ok := splitAddress(raw)
	return local + "@" + domain, ok && (separator == "@" || encodeComponent(local)+separator+domain == raw)
}

// localName returns the first part of the token of address n.
func localName(n int, c letterCase) string {
	if c == upperCase {
		return fmt.Sprintf("PII_%dE", n)
	}
	return fmt.Sprintf("%c%c%c_%d%c", c.letter('p', 0), c.letter('i', 1), c.letter('i', 2), n, c.letter(localEnd, 3))
}

// domainName returns the token of domain n.
func domainName(n int, c letterCase) string {
	if c == upperCase {
		return fmt.Sprintf("D%d.PII.INVALID", n)
	}
	return fmt.Sprintf("%c%d.pii.%c%c%calid", c.letter('d', 0), n, c.letter('i', 1), c.letter('n', 2), c.letter('v', 3))
}

// encodeComponent encodes a text as encodeURIComponent of JavaScript does.
func encodeComponent(text string) string {
	var out strings.Builder
	for _, c := range []byte(text) {
		if c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("-_.!~*'()", c) >= 0 {
			out.WriteByte(c)
		} else {
			fmt.Fprintf(&out, "%%%02X", c)
		}
	}
	return out.String()
}

// spelledPart is a spelling of the named part of a token's value; see token.named.
type spelledPart struct {
	of   *token
	text string
}

// name returns the part as it appears in a natural token.
func (p spelledPart) name() string {
	switch p.of.kind {
	case plainKind:
		return p.text
	case domainKind:
		return domainName(p.of.n, p.of.caseOf(p.text))
	}
	return localName(p.of.n, p.of.caseOf(p.text))
}

// parts returns the parts of a natural token whose value was spelled raw, and the separator between them; nil if there is no natural form.
// raw may be the first part of an address alone, if a server returned that.
func (t *table) parts(tok *token, raw string) (parts []spelledPart, separator string) {
	if !t.natural() || tok.form != asText {
		return nil, ""
	}
	switch tok.kind {
	case domainKind:
		return []spelledPart{{tok, raw}}, ""
	case addressKind:
		domain := t.domainOf(tok)
		if domain == nil {
			return nil, ""
		}
		if strings.EqualFold(raw, tok.named()) {
			return []spelledPart{{tok, raw}}, ""
		}
		local, separator, host, ok := splitAddress(raw)
		if !ok {
			local, separator, host, _ = splitAddress(tok.spelling)
		}
		return []spelledPart{{tok, local}, {domain, host}}, separator
	}
	return nil, ""
}

// name returns the text of a token whose value was spelled raw, in natural form if there is one. A spelling unknown to the token counts as
// its first one.
func (t *table) name(tok *token, raw string) string {
	if text, ok := t.ipName(tok, raw); ok {
		return text
	}
	if text, ok := t.secretName(tok, raw); ok {
		return text
	}
	parts, separator := t.parts(tok, raw)
	if parts == nil {
		return tok.text
	}
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = p.name()
	}
	return strings.Join(names, separator)
}

// secretRest splits the value of a secret with a natural token into the service's prefix and the rest. ok is false if there is no natural
// form.
func (t *token) secretRest() (prefix, rest string, ok bool) {
	if t.kind != secretKind || t.form != asText {
		return "", "", false
	}
	prefix = detect.KeyPrefix(t.spelling)
	rest = t.spelling[len(prefix):]
	return prefix, rest, prefix != "" && encodeComponent(t.spelling) == t.spelling
}

// secretName returns the natural text of the token of a secret whose value was spelled raw, if there is one.
func (t *table) secretName(tok *token, raw string) (text string, ok bool) {
	prefix, rest, ok := tok.secretRest()
	if !ok || !t.natural() {
		return "", false
	}
	text = fmt.Sprintf("%s%d%c", localStart, tok.n, secretEnd)
	switch raw {
	case tok.spelling:
		return prefix + text, true
	case rest:
		return text, true
	}
	return "", false
}

// spell returns what name returns, for a new occurrence of a value. If raw is a new spelling in an odd case, spell adds it to the token and
// stores it as an entry of its own.
func (t *table) spell(tok *token, raw string) (string, error) {
	parts, _ := t.parts(tok, raw)
	for _, p := range parts {
		if p.of.kind == plainKind || caseOf(p.text) != oddCase || slices.Contains(p.of.odd(), p.text) || !strings.EqualFold(p.text, p.of.named()) {
			continue
		}
		if len(p.of.odd()) == len(masks)-int(oddCase) { // if no pattern is left, the spelling becomes a separate value
			own, err := t.tokenOf(value{kind: tok.kind, form: asSpelled, made: tok.made, canonical: raw, spelling: raw}, tok.origins[0])
			if err != nil {
				return "", err
			}
			return own.text, nil
		}
		text := strings.Join([]string{p.of.kind, strconv.Itoa(p.of.n), p.text}, " ")
		if _, err := t.tokenOf(value{kind: spellingKind, form: asText, canonical: text, spelling: text}, tok.origins[0]); err != nil {
			return "", err
		}
		p.of.spellings = append(p.of.spellings, strings.Clone(p.text))
	}
	return t.name(tok, raw), nil
}

// spellingOf decodes an entry that spell has stored. of is nil if the session does not have the token.
func (t *table) spellingOf(entry *token) (of *token, spelling string) {
	kind, rest, _ := strings.Cut(entry.canonical, " ")
	number, spelling, _ := strings.Cut(rest, " ")
	n, _ := strconv.Atoi(number)
	return t.byName[name{kind, n}], spelling
}

// named returns the part of the value that this token itself stands for in the natural form. For an e-mail address that is the text before
// the @, because the domain has its own token. For a domain it is the whole value.
func (t *token) named() string {
	if t.kind == addressKind {
		local, _, _, _ := splitAddress(t.spelling)
		return local
	}
	return t.spelling
}

// odd returns those spellings of the named part that are in an odd case, in order of occurrence.
func (t *token) odd() []string {
	if first := t.named(); caseOf(first) == oddCase {
		return append([]string{first}, t.spellings...)
	}
	return t.spellings
}

// caseOf returns the case of a spelling of the named part.
func (t *token) caseOf(text string) letterCase {
	c := caseOf(text)
	if c == oddCase {
		return oddCase + letterCase(max(0, slices.Index(t.odd(), text)))
	}
	return c
}

// in returns the named part in a case. ok is false for an odd case without a spelling.
func (t *token) in(c letterCase) (text string, ok bool) {
	if c < oddCase {
		return c.of(t.named()), true
	}
	odd := t.odd()
	if int(c-oddCase) >= len(odd) {
		return "", false
	}
	return odd[c-oddCase], true
}

// domainOf returns the token of an address's domain, or its entry of plainKind, or nil if there is neither.
func (t *table) domainOf(address *token) *token {
	_, _, domain, ok := splitAddress(address.spelling)
	if !ok || address.kind != addressKind || address.form != asText {
		return nil
	}
	if known := t.byValue[domainValue(domain, address.made).shared()]; known != nil {
		return known
	}
	return t.byValue[plainValue(domain).shared()]
}

// hasPlain reports whether text is the domain of an address and appears unchanged in the address's token.
func (t *table) hasPlain(address *token, text string) bool {
	domain := t.domainOf(address)
	return domain != nil && domain.kind == plainKind && strings.EqualFold(domain.spelling, text)
}

// hasDomain reports whether of is the name of the token that stands for the domain of an address.
func (t *table) hasDomain(address *token, of name) bool {
	_, _, domain, ok := splitAddress(address.spelling)
	known := t.byName[of]
	return ok && known != nil && strings.EqualFold(domain, known.spelling)
}

func domainValue(domain string, made bool) value {
	return value{kind: domainKind, form: asText, made: made, canonical: strings.ToLower(domain), spelling: domain}
}

func plainValue(domain string) value {
	domain = strings.ToLower(domain)
	return value{kind: plainKind, form: asText, canonical: domain, spelling: domain}
}

// localAt parses the first part of a natural address, or the token of a secret without its prefix. i is the offset of the underscore in the token.
// For any other text, localAt returns the zero found.
func localAt(text string, i int) (f found) {
	start := i + 1 - len(localStart)
	if start < 0 || !strings.EqualFold(text[start:i+1], localStart) {
		return f
	}
	n, end := number(text, i+1)
	switch {
	case n == 0 || end == len(text):
		return f
	case text[end] == secretEnd && text[start:i+1] == localStart:
		return found{start: start, end: end + 1, name: name{secretKind, n}, part: secretPart}
	case text[end]|0x20 != localEnd:
		return f
	}
	return found{start: start, end: end + 1, name: name{addressKind, n}, part: localPart, letters: caseIn(text[start], text[start+1], text[start+2], text[end])}
}

// domainAt parses the token of a domain whose first dot is at i. It returns the zero found if there is none.
func domainAt(text string, i int) (f found) {
	if len(text)-i < len(domainEnd) || text[i+1]|0x20 != 'p' || !strings.EqualFold(text[i:i+len(domainEnd)], domainEnd) {
		return f
	}
	start := i - 1
	for start >= 0 && i-start <= maxDigits && text[start] >= '0' && text[start] <= '9' {
		start--
	}
	n, end := number(text, start+1)
	if n == 0 || end != i || start < 0 || text[start]|0x20 != 'd' {
		return f
	}
	invalid := text[i+len(".pii."):]
	return found{
		start: start, end: i + len(domainEnd), name: name{domainKind, n}, part: domainPart, letters: caseIn(text[start], invalid[0], invalid[1], invalid[2]),
	}
}

// maxDigits is the maximum number of digits in the number of a token.
const maxDigits = 10

// number parses the number of a token at i; n is 0 if there is none.
func number(text string, i int) (n, end int) {
	for end = i; end < len(text) && end-i < maxDigits && text[end] >= '0' && text[end] <= '9'; end++ {
	}
	if end == i || text[i] == '0' {
		return 0, end
	}
	parsed, err := strconv.ParseUint(text[i:end], 10, 31)
	if err != nil {
		return 0, end
	}
	return int(parsed), end
}

// inURL changes base64 to its form in URLs, without padding.
var inURL = strings.NewReplacer("+", "-", "/", "_", "=", "")

// hasNatural reports whether a value contains a part of a natural token. The value may be encoded in base64 or hexadecimal.
func (f *Filter) hasNatural(value string) bool {
	if !strings.Contains(value, "@") {
		if plain, err := hex.DecodeString(value); err == nil {
			value = string(plain)
		} else if plain, err := base64.RawURLEncoding.DecodeString(inURL.Replace(value)); err == nil {
			value = string(plain)
		}
	}
	return mayHaveNatural(value) && len(f.tokensIn(value)) > 0
}

// mayHaveNatural is a quick check whether a text may contain a part of a natural token. False is certain; true may be wrong.
func mayHaveNatural(text string) bool {
	for at := 0; ; at++ {
		i := strings.IndexByte(text[at:], '_')
		if i < 0 {
			break
		}
		if at += i; at >= 3 && strings.EqualFold(text[at-3:at+1], localStart) {
			return true
		}
	}
	for at := 0; ; at++ {
		i := strings.IndexByte(text[at:], '.')
		if i < 0 {
			return mayHaveIP6(text)
		}
		if at += i; len(text)-at >= len(domainEnd) && strings.EqualFold(text[at:at+len(".pii.")], ".pii.") || mayBeIP4(text, at) {
			return true
		}
	}
}
