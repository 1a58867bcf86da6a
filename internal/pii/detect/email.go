package detect

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxLocal  = 64  // maximum bytes of a local part (RFC 5321, section 4.5.3.1.1)
	maxDomain = 253 // maximum bytes of a domain as text (RFC 1035)
)

const localMarks = "!#$%&'*+/=?^_`{|}~.-"

// email looks for an address around an @, whose domain begins at from.
func (s *scanner) email(at, from int) {
	start := s.local(at)
	if start == at {
		return
	}
	end := s.domain(from)
	if end == from {
		return
	}
	if s.userinfo(start, at, end) || s.at(end) == ':' && repositories[s.text[start:at]] { // git@host:path is not an address, but names a repository.
		return
	}
	s.add(start, end, email, strings.ToLower(s.text[start:at]+"@"+s.text[from:end]))
}

// repositories are user names in addresses of repositories, as in git@host:path.
var repositories = map[string]bool{"git": true, "hg": true, "svn": true}

// userinfo reports whether the text from start to at is the password in scheme://user:password@host, or the user in ssh://user@host. It returns false
// in two cases. A user in an http or https URL may be the local part of an e-mail address, unless it is one of repositories. A user after whose host
// another @ follows is the local part of an address, as in ssh://ann@example.com@host.
func (s *scanner) userinfo(start, at, end int) bool {
	before := s.text[max(0, start-maxLocal):start]
	if scheme, ok := strings.CutSuffix(before, "://"); ok {
		return s.at(end) != '@' && (repositories[s.text[start:at]] || !strings.HasSuffix(scheme, "http") && !strings.HasSuffix(scheme, "https"))
	}
	if s.at(start-1) != ':' {
		return false
	}
	slashes := strings.LastIndex(before, "//")
	return slashes >= 0 && !strings.ContainsAny(before[slashes:], " \t\n\"'")
}

// local returns the beginning of the local part before at, or at if there is none.
func (s *scanner) local(at int) int {
	if s.at(at-1) == '"' {
		return s.quotedLocal(at)
	}
	i, ascii := at, s.at(at-1) < utf8.RuneSelf
	for i > 0 && at-i < maxLocal {
		if c := s.text[i-1]; classes[c]&(alnum|underscore) != 0 || strings.IndexByte(localMarks, c) >= 0 {
			i--
			continue
		}
		r, size := utf8.DecodeLastRuneInString(s.text[:i])
		if r < utf8.RuneSelf || r == utf8.RuneError || ascii && !unicode.Is(unicode.Latin, r) && !(s.is(i, alnum) && s.is(i-size-1, alnum)) {
			break
		}
		i -= size
	}
	if strings.Trim(s.text[i:at], localMarks) == "" { // The local part has marks only.
		if at-i > 4 && s.text[at-1] != '.' {
			return i
		}
		return at
	}
	// Marks at the beginning are left out: they are more often punctuation than a part of the address.
	for i < at && classes[s.text[i]]&(alnum|high|underscore) == 0 {
		i++
	}
	for cut := at - 1; cut > i; cut-- { // The address begins after a key, a path or a quote: key=address, path/address, 'address'.
		c := s.text[cut-1]
		if strings.IndexByte("=/|?&{}", c) >= 0 || (c == '\'' || c == '`') && !s.is(cut-2, alnum) {
			i = cut
		}
	}
	if i == at || s.text[at-1] == '.' {
		return at
	}
	return i
}

func (s *scanner) quotedLocal(at int) int {
	from := max(0, at-1-maxLocal)
	open := strings.LastIndexByte(s.text[from:at-1], '"')
	for open > 0 && strings.IndexByte(" \t\n,;:<>|(=[\"", s.text[from+open-1]) < 0 { // The quote is within quotes.
		next := strings.LastIndexByte(s.text[from:from+open], '"')
		if next < 0 {
			break
		}
		open = next
	}
	if open < 0 || open == at-2-from || strings.ContainsAny(s.text[from+open:at], "\n\r<>") {
		return at
	}
	return from + open
}

// files are file extensions, which do not count as top-level domains, as in icon@2x.png.
var files = map[string]bool{
	"png": true, "jpg": true, "jpeg": true, "gif": true, "svg": true, "webp": true, "ico": true, "js": true, "ts": true, "jsx": true,
	"tsx": true, "json": true, "css": true, "scss": true, "html": true, "xml": true, "yaml": true, "yml": true, "tgz": true, "gz": true,
	"txt": true, "pdf": true, "mjs": true, "cjs": true, "jar": true, "war": true, "exe": true, "dll": true, "conf": true, "lock": true,
}

// domain returns the end of the domain that begins at from, or from if there is none.
func (s *scanner) domain(from int) int {
	if s.at(from) == '[' { // The domain is an IP address in brackets.
		end := strings.IndexByte(s.text[from:min(len(s.text), from+48)], ']')
		if end < 0 {
			return from
		}
		if _, ok := parseIP(strings.TrimPrefix(s.text[from+1:from+end], "IPv6:")); !ok {
			return from
		}
		return from + end + 1
	}
	label, good := from, from // start of the last label; end of the longest domain so far
	for i := from; i <= len(s.text) && i-from <= maxDomain; i++ {
		if s.is(i, alnum|high) || s.at(i) == '-' && i > label {
			continue
		}
		if i == label || s.at(i-1) == '-' && s.at(i) == '.' {
			break
		}
		end := s.topLevel(label, i)
		if label > from && end > label {
			good = end
		}
		if s.at(i) != '.' || label > from && end > label && end < i && s.is(end, high) {
			break
		}
		label = i + 1
	}
	for good > from {
		dot := strings.LastIndexByte(s.text[from:good], '.') + from
		if !files[strings.ToLower(s.text[dot+1:good])] {
			break
		}
		good = from // The domain ends with a file extension. In icon@2x.png there is no domain at all; in ada@example.org.txt the domain is what comes before the extension.
		if last := strings.LastIndexByte(s.text[from:dot], '.') + from + 1; last > from && isTopLevel(s.text[last:dot]) {
			good = dot
		}
	}
	return good
}

// isTopLevel reports whether a label before a file extension is a country's or another common top-level domain.
func isTopLevel(label string) bool {
	label = strings.ToLower(label)
	if len(label) == 2 {
		return classes[label[0]]&classes[label[1]]&letter != 0 && !files[label]
	}
	return strings.Contains(" com org net edu gov mil int info biz name pro io dev app ai example test invalid localhost ", " "+label+" ")
}

// topLevel returns the end of the top-level domain in the label from start to end, or start if there is none. Text of a script without spaces may
// directly follow the domain.
func (s *scanner) topLevel(start, end int) int {
	if end-start > 63 {
		return start
	}
	label := s.text[start:end]
	if len(label) > 4 && strings.EqualFold(label[:4], "xn--") {
		return end
	}
	i := 0
	for i < len(label) {
		r, size := rune(label[i]), 1
		if r >= utf8.RuneSelf && i > 0 {
			r, size = utf8.DecodeRuneInString(label[i:])
		}
		if r < utf8.RuneSelf && classes[r]&letter == 0 || r >= utf8.RuneSelf && (i == 0 || !unicode.Is(unicode.Latin, r)) {
			break
		}
		i += size
	}
	switch {
	case i == len(label) && i >= 2, i == 0 && classes[label[0]]&high != 0 && !strings.ContainsAny(label, "0123456789"):
		return end
	case i >= 2 && label[i] == '-' || i >= 2 && classes[label[i]]&high != 0:
		return start + i
	}
	return start
}

// spelledAt looks for an address whose @ is written as "(at)" or "[at]" and whose dots may be written as "(dot)".
func (s *scanner) spelledAt(i int) {
	const longest = len(" [at] ")
	if len(s.text) < i+4 || !strings.EqualFold(s.text[i+1:i+3], "at") || s.text[i+3] != ']' && s.text[i+3] != ')' {
		return
	}
	at, from := i, i+4
	for s.at(at-1) == ' ' && i-at < 2 {
		at--
	}
	for s.at(from) == ' ' && from-i < longest {
		from++
	}
	start := s.local(at)
	if start == at {
		return
	}
	domain, end := s.spelledDomain(from)
	if end > from {
		s.add(start, end, email, strings.ToLower(s.text[start:at]+"@"+domain))
	}
}

// spelledDomain reads a domain whose dots may be spelled, and returns it with dots.
func (s *scanner) spelledDomain(from int) (string, int) {
	rest := s.text[from:min(len(s.text), from+maxDomain)]
	var domain strings.Builder
	i, dots, end := 0, 0, 0
	for i < len(rest) {
		n := i
		for n < len(rest) && (classes[rest[n]]&alnum != 0 || rest[n] == '-') {
			n++
		}
		if n == i {
			break
		}
		domain.WriteString(rest[i:n])
		end = n
		m := dot(rest[n:])
		if m == 0 || n+m == len(rest) || classes[rest[n+m]]&alnum == 0 {
			break
		}
		dots++
		domain.WriteByte('.')
		i = n + m
	}
	if dots == 0 {
		return "", from
	}
	return domain.String(), from + end
}

// dot returns the length of a dot, which may be spelled as (dot) or [dot]; 0 if there is none.
func dot(text string) int {
	if strings.HasPrefix(text, ".") {
		return 1
	}
	i := 0
	for i < len(text) && text[i] == ' ' && i < 2 {
		i++
	}
	if len(text) < i+5 || text[i] != '[' && text[i] != '(' || !strings.EqualFold(text[i+1:i+4], "dot") || text[i+4] != ']' && text[i+4] != ')' {
		return 0
	}
	for i += 5; i < len(text) && text[i] == ' ' && i < 12; i++ {
	}
	return i
}
