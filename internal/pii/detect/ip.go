package detect

import (
	"net/netip"
	"strings"
)

const maxIPv6 = 45 // length of "::ffff:255.255.255.255" with all groups written in full (RFC 4291)

func parseIP(text string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(text)
	return addr, err == nil
}

// ipv4 looks for an address in the groups of digits that begin a number, and returns its end.
func (s *scanner) ipv4(n *number) int {
	if n.count < 4 || n.plus || n.groups[3].end-n.groups[0].start > len("255.255.255.255") {
		return 0
	}
	var parts [4]byte
	padded := false
	for i, g := range n.groups[:4] {
		digits := s.text[g.start:g.end]
		if len(digits) > 3 || i < 3 && g.sep != "." {
			return 0
		}
		part := atoi(digits)
		if part > 255 {
			return 0
		}
		padded = padded || len(digits) > 1 && digits[0] == '0'
		parts[i] = byte(part)
	}
	start, end := n.groups[0].start, n.groups[3].end
	if n.groups[3].sep == "." || s.at(start-1) == '.' && s.is(start-2, ascii) {
		return 0 // More than four numbers are not an address.
	}
	addr := netip.AddrFrom4(parts)
	if padded || parts[0] == 10 || !addr.IsPrivate() { // An address in a private range other than 10.0.0.0/8 is not a version.
		if about := s.nearest(start, aboutVersion|aboutIP); about == aboutVersion || padded && about != aboutIP || about != aboutIP && s.isVersion(start, end, parts) {
			return 0
		}
	}
	s.add(start, end, ipAddress, addr.String())
	return end
}

// isVersion reports whether four numbers are written like a version: after an operator or the name of a product, in the heading of a change log,
// before the word for a kind of release, or next to a letter and smaller than in most addresses.
func (s *scanner) isVersion(start, end int, parts [4]byte) bool {
	switch before := s.at(start - 1); before {
	case '^', '~':
		return true
	case '<', '>': // a version, as in foo<1.2.3.4, but not in <b>1.2.3.4
		if s.is(start-2, alnum) && (before == '<' || strings.IndexByte(s.text[max(0, start-maxName):start-1], '<') < 0) {
			return true
		}
	case '=':
		if strings.IndexByte("=<>~!^", s.at(start-2)) >= 0 && start > 1 {
			return true
		}
	case '-': // a version, as in foo-1.2.3.4 and foo-1.2.3.4.tar.gz, but not in log-1.2.3.4.txt
		named := s.at(end) == '.' && s.is(end+1, letter)
		if s.is(start-2, letter) && !named && parts[0] < 40 {
			return true
		}
	case '/': // a version, as in Chrome/108.0.21.193, but not in /hosts/10.0.21.193
		i := start - 1
		for start-i < maxName && s.is(i-1, ascii) {
			i--
		}
		if i < start-1 && s.at(i-1) != '/' {
			return true
		}
	case '[', ' ':
		i := start
		for start-i < maxName && i > 0 && strings.IndexByte("[# ", s.text[i-1]) >= 0 {
			i--
		}
		if strings.Contains(s.text[i:start], "#") && (i == 0 || s.text[i-1] == '\n') {
			return true
		}
	}
	after := s.at(end)
	if after == '-' || after == '+' || after == '.' && s.is(end+1, letter) {
		i := end + 1
		for i-end < maxWord && s.is(i, letter) {
			i++
		}
		if i > end+1 && (after != '.' || releases[strings.ToLower(s.text[end+1:i])]) {
			return true
		}
	}
	if s.is(start-1, letter) || s.is(end, letter) {
		i := start
		for start-i < maxWord && s.is(i-1, letter) {
			i--
		}
		return products[strings.ToLower(s.text[i:start])] || max(parts[0], parts[1], parts[2], parts[3]) < 32
	}
	return false
}

// products are words directly before a version.
var products = set("v ver version r rev rel release rc b build go php jdk jre java python py node ruby openssl lib so")

// releases are words that, joined by a dot to four numbers, show that the numbers are a version and not an IP address, as in 1.2.3.4.dev or
// 1.2.3.4.tar.
var releases = set("dev post rc alpha beta final release ga snapshot jar tar tgz zip gz bz xz whl deb rpm dll so nupkg exe msi dmg apk")

// ipv6 looks for an address whose first colon is at i, and returns its end.
func (s *scanner) ipv6(i int) int {
	start := i
	for start > 0 && i-start < 4 && isHex(s.text[start-1]) {
		start--
	}
	if s.is(start-1, ascii) && (isHex(s.at(start-1)) || !s.longIPv6(start)) || s.at(start-1) == ':' && (isHex(s.at(start-2)) || s.at(start-2) == ':') || s.at(start-1) == '.' && start < i {
		return 0
	}
	end := i
	for end < len(s.text) && end-start < maxIPv6 && (isHex(s.text[end]) || s.text[end] == ':' || s.text[end] == '.') {
		end++
	}
	if s.is(end, ascii) && !s.longIPv6(start) || s.at(end) == ':' {
		return 0
	}
	for end > start && (s.text[end-1] == '.' || s.text[end-1] == ':' && (end < 2 || s.text[end-2] != ':')) {
		end--
	}
	addr, ok := parseIP(s.text[start:end])
	if !ok || !s.plausibleIPv6(start, end) {
		return 0
	}
	if s.at(end) == '%' { // A zone follows the address.
		zone := end + 1
		for zone-end <= 16 && s.is(zone, alnum) {
			zone++
		}
		if zone > end+1 {
			end = zone
		}
	}
	s.add(start, end, ipAddress, addr.Unmap().String())
	return end
}

// longIPv6 reports whether the groups from start on are so many that they are an address even if a letter is next to them.
func (s *scanner) longIPv6(start int) bool {
	end := start
	for end < len(s.text) && end-start < maxIPv6 && (isHex(s.text[end]) || s.text[end] == ':') {
		end++
	}
	return strings.Count(s.text[start:end], ":") >= 5
}

// plausibleIPv6 distinguishes addresses from names such as std::dec and from ratios: a short address without digits must stand alone or have a word
// about addresses before it.
func (s *scanner) plausibleIPv6(start, end int) bool {
	text := s.text[start:end]
	if strings.ContainsAny(text, "0123456789") && (len(text) > 3 || text == "::1" || text == "::0") || len(text) > 20 {
		return true
	}
	near, far := s.before(start)
	return (near|far)&aboutIP != 0 || s.alone(start, end) && len(text) > 2 || strings.ContainsAny(text, "0123456789")
}
