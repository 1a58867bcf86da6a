package detect

import (
	"encoding/base64"
	"math"
	"slices"
	"strings"
)

// keyFormat looks for a key of a known service that begins at start.
func (s *scanner) keyFormat(start int) int {
	if !isHead(s.text, start) || s.at(start-1) == '-' {
		return 0
	}
	switch s.text[start] {
	case 'e':
		if end := s.webToken(start); end > 0 {
			return end
		}
	case 'B', 'b', 'T', 't':
		if end := s.authorization(start); end > 0 {
			return end
		}
	case 'h', 'd', 'w':
		if end := s.hook(start); end > 0 {
			return end
		}
	}
	rest := s.text[start:]
	for _, f := range formatsOf[[2]byte{rest[0], rest[1]}] {
		if !strings.HasPrefix(rest, f.prefix) {
			continue
		}
		n := len(f.prefix)
		for n < len(rest) && n-len(f.prefix) < f.max && in(f.alphabet, rest[n]) {
			n++
		}
		for f.alphabet == inDotted && strings.IndexByte(".:", rest[n-1]) >= 0 {
			n--
		}
		if n-len(f.prefix) < f.min || n < len(rest) && classes[rest[n]]&(alnum|underscore) != 0 || !f.random(rest[len(f.prefix):n]) {
			continue
		}
		s.add(start, start+n, secret, rest[:n])
		return start + n
	}
	return 0
}

// KeyPrefix returns the prefix of the keys of a service, such as ghp_, if key has the format of these keys. For any other text it returns "".
func KeyPrefix(key string) (prefix string) {
	if len(key) < 2 {
		return ""
	}
	for _, f := range formatsOf[[2]byte{key[0], key[1]}] {
		rest, ok := strings.CutPrefix(key, f.prefix)
		if ok && len(rest) >= f.min && len(rest) <= f.max && len(f.prefix) > len(prefix) && strings.IndexFunc(rest, func(c rune) bool {
			return c >= 0x80 || !in(f.alphabet, byte(c))
		}) < 0 {
			prefix = f.prefix
		}
	}
	return prefix
}

// IsKeyPrefix reports whether a text is the prefix of a service's keys.
func IsKeyPrefix(text string) bool {
	return len(text) >= 2 && slices.ContainsFunc(formatsOf[[2]byte{text[0], text[1]}], func(f format) bool { return f.prefix == text })
}

// random distinguishes keys from words and from placeholders such as xxxxxxxx.
func random(text string) bool {
	classesSeen := uint8(0)
	for i := range len(text) {
		classesSeen |= classes[text[i]]
	}
	return entropy(text) >= 2.8 && (classesSeen&digit != 0 || classesSeen&letter == letter && len(text) >= 16)
}

// random checks the characters after the prefix of a format. For capitals and hexadecimal digits it requires less than the function random,
// because the prefix is evidence already.
func (f *format) random(text string) bool {
	if f.alphabet == inUpper || f.alphabet == inHex {
		return entropy(text) >= 2.3
	}
	return random(text)
}

// entropy returns the Shannon entropy of the first 64 bytes, in bits per character.
func entropy(text string) float64 {
	text = text[:min(len(text), 64)]
	var counts [256]uint8
	for i := range len(text) {
		counts[text[i]]++
	}
	sum, all := 0.0, float64(len(text))
	for i := range len(text) {
		if n := counts[text[i]]; n > 0 {
			counts[text[i]] = 0
			p := float64(n) / all
			sum -= p * math.Log2(p)
		}
	}
	return sum
}

// webToken looks for a JSON web token: two or more parts in base64, of which the first is a JSON object.
func (s *scanner) webToken(start int) int {
	i, parts := start, 0
	for {
		from := i
		for i < len(s.text) && in(inURL, s.text[i]) {
			i++
		}
		if parts++; parts == 2 && i-from < 4 || parts == 1 && i-from < 16 {
			return 0
		}
		if parts == 5 || s.at(i) != '.' || !s.is(i+1, alnum|underscore) && s.at(i+1) != '-' {
			break
		}
		i++
	}
	if parts < 2 || s.text[start:start+3] != "eyJ" {
		return 0
	}
	s.add(start, i, secret, s.text[start:i])
	return i
}

// authorization looks for the credentials of RFC 7235 after the name of a scheme.
func (s *scanner) authorization(start int) int {
	rest := s.text[start:min(len(s.text), start+8)]
	scheme, _, ok := strings.Cut(rest, " ")
	if !ok || len(scheme) < len("basic") {
		return 0
	}
	from := start + len(scheme) + 1
	end := from
	for end < len(s.text) && in(inDotted, s.text[end]) {
		end++
	}
	value := s.text[from:end]
	switch strings.ToLower(scheme) {
	case "bearer":
		if len(value) < 16 || !random(value) {
			return 0
		}
	case "basic":
		decoded, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(value, "="))
		if err != nil || !strings.Contains(string(decoded), ":") || !printable(string(decoded)) {
			return 0
		}
	case "token":
		if len(value) < 20 || !random(value) {
			return 0
		}
	default:
		return 0
	}
	s.add(from, end, secret, value)
	return end
}

// hook looks for addresses of webhooks, which are secrets: hooks.slack.com/services/T…/B…/….
func (s *scanner) hook(start int) int {
	const shortest = 30 // minimum number of characters of the path
	rest := s.text[start:min(len(s.text), start+300)]
	for _, host := range schemes {
		if !strings.HasSuffix(host, "/") || !strings.HasPrefix(rest, host) {
			continue
		}
		n := len(host)
		for n < len(rest) && (in(inURL, rest[n]) || rest[n] == '/' || rest[n] == '@') {
			n++
		}
		if n >= len(host)+shortest {
			s.add(start, start+n, secret, rest[:n])
			return start + n
		}
	}
	return 0
}

// dotted looks for the tokens of Discord's bots, whose first part is the word from start to end, and for those of Terraform.
func (s *scanner) dotted(start, end int) int {
	const terraform = ".atlasv1."
	if strings.HasPrefix(s.text[end:], terraform) {
		last := s.run64(end + len(terraform))
		if last-end < 60 {
			return 0
		}
		s.add(start, last, secret, s.text[start:last])
		return last
	}
	middle := s.run64(end + 1)
	if c := s.text[start]; c != 'M' && c != 'N' && c != 'O' || middle-end != 7 || s.at(middle) != '.' {
		return 0
	}
	last := s.run64(middle + 1)
	if last-middle < 28 {
		return 0
	}
	s.add(start, last, secret, s.text[start:last])
	return last
}

// run64 returns the end of the characters of URL-safe base64 that begin at i.
func (s *scanner) run64(i int) int {
	end := i
	for end < len(s.text) && end-i < 100 && in(inURL, s.text[end]) {
		end++
	}
	return end
}

// telegram looks for the token of a bot around the colon at i: 123456789:AA…. In a URL, the word bot is directly before the token.
func (s *scanner) telegram(i int) {
	start := i
	for i-start < 10 && s.is(start-1, digit) {
		start--
	}
	end := s.run64(i + 1)
	if i-start < 8 || end-i != 36 || s.text[i+1] != 'A' || s.is(start-1, digit) || s.is(start-1, ascii) && !strings.HasSuffix(s.text[:start], "bot") {
		return
	}
	s.add(start, end, secret, s.text[start:end])
}

// userOption looks for user:password around the colon at i, as an argument of curl and other clients of HTTP: -u ann:…, --user=ann:….
func (s *scanner) userOption(i int) {
	const most = 64
	start := i
	for i-start < most && start > 0 && strings.IndexByte(" \t\n\"'=", s.text[start-1]) < 0 {
		start--
	}
	before := strings.TrimRight(s.text[s.border(max(0, start-most)):start], " \"'")
	if start == i || !strings.HasSuffix(before, "-u") && !strings.HasSuffix(before, "--user") && !strings.HasSuffix(before, "--user=") && !strings.HasSuffix(before, "-a") &&
		!strings.HasSuffix(before, "--proxy-user") {
		return
	}
	line := s.text[s.border(max(0, start-4*most)):start]
	line = line[strings.LastIndexByte(line, '\n')+1:]
	if !strings.Contains(line, "curl") && !strings.Contains(line, "http") {
		return
	}
	value := s.text[i+1 : s.border(i+1+maxUserinfo)]
	if end := strings.IndexAny(value, " \t\r\n\"'"); end >= 0 {
		value = value[:end]
	}
	if len(value) >= 3 && !placeholder(value) {
		s.add(start, i+1+len(value), secret, s.text[start:i+1+len(value)])
	}
}

// azure looks for a client secret of Entra around the ~ at i: three characters, a digit, Q~, and the rest.
func (s *scanner) azure(i int) {
	start := i - 5
	if start < 0 || s.text[i-1] != 'Q' || !isDigit(s.text[i-2]) {
		return
	}
	end := i + 1
	for end < len(s.text) && end-i <= 35 && (in(inURL, s.text[end]) || s.text[end] == '.' || s.text[end] == '~') {
		end++
	}
	if end-i > 31 && classes[s.text[start]]&high == 0 {
		s.add(start, end, secret, s.text[start:end])
	}
}

// maxKeyBlock is the maximum size of a private key in PEM form; a key of 16384 bits has 12,500 bytes.
const maxKeyBlock = 32 << 10

// privateKey looks for a private key in PEM form. start is the offset of its first dash.
func (s *scanner) privateKey(start int) int {
	const begin, end, dashes = "-----BEGIN ", "-----END ", "-----"
	if !strings.HasPrefix(s.text[start:], begin) {
		return 0
	}
	block := s.text[start:min(len(s.text), start+maxKeyBlock)]
	title := strings.Index(block[len(begin):min(len(block), 80)], dashes)
	if title < 0 || !strings.Contains(block[:len(begin)+title], "PRIVATE KEY") {
		return 0
	}
	n := strings.Index(block, end)
	switch {
	case n < 0: // The end of the block is missing, so everything that may belong to the block counts.
		for n = len(begin) + title + len(dashes); n < len(block) && (in(inDotted, block[n]) || strings.IndexByte(" \r\n,", block[n]) >= 0); n++ {
		}
	default:
		n += len(end)
		for n < len(block) && (classes[block[n]]&upper != 0 || block[n] == ' ') {
			n++
		}
		for n < len(block) && block[n] == '-' {
			n++
		}
	}
	block = strings.TrimRight(block[:n], " \r\n")
	s.add(start, start+len(block), secret, block)
	return start + len(block)
}

// maxUserinfo is the maximum length of user:password in a URL or a data source name.
const maxUserinfo = 256

// userinfoAt looks for user:password@ after the colon of scheme://.
func (s *scanner) userinfoAt(colon int) int {
	if !strings.HasPrefix(s.text[colon:], "://") {
		return 0
	}
	from := colon + 3
	rest := s.text[from:s.border(from+maxUserinfo)]
	if end := strings.IndexAny(rest, " \t\r\n\"'`<>/"); end >= 0 {
		rest = rest[:end]
	}
	at := strings.LastIndexByte(rest, '@')
	if at < 0 {
		return 0
	}
	user, password, ok := strings.Cut(rest[:at], ":")
	if ok && (password == "" || placeholder(password)) || !ok && (len(user) < 20 || !random(user)) {
		return 0
	}
	s.add(from, from+at, secret, rest[:at])
	return from + at
}

// dataSource looks for user:password before the @ of user:password@tcp(host).
func (s *scanner) dataSource(at int) {
	rest := s.text[at:]
	if !strings.HasPrefix(rest, "@tcp(") && !strings.HasPrefix(rest, "@unix(") && !strings.HasPrefix(rest, "@(") {
		return
	}
	host, _, closed := strings.Cut(rest[strings.IndexByte(rest, '(')+1:], ")")
	if !closed || strings.ContainsAny(host, " \\+*?|(^$'\"`") { // The text is a regular expression, such as name:([a-z]+)@([a-z]+).
		return
	}
	before := s.text[s.border(max(0, at-maxUserinfo)):at]
	start := strings.LastIndexAny(before, " \t\r\n\"'`=") + 1
	user, password, ok := strings.Cut(before[start:], ":")
	if ok && user != "" && password != "" && !placeholder(password) {
		s.add(at-len(before)+start, at, secret, before[start:])
	}
}
