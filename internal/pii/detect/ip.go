package detect

import (
	"net/netip"
	"strconv"
	"strings"
)

const maxIPv6 = 45 // "::ffff:255.255.255.255" in full, RFC 4291

func parseIP(text string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(text)
	return addr, err == nil
}

// ipv4 looks for an address in the groups of digits that begin a number, and returns where it ends.
func (s *scanner) ipv4(n *number) int {
	if n.count < 4 || n.glued || n.plus {
		return 0
	}
	var parts [4]byte
	padded := false
	for i, g := range n.groups[:4] {
		digits := s.text[g.start:g.end]
		part, err := strconv.Atoi(digits)
		if err != nil || part > 255 || len(digits) > 3 || i < 3 && g.sep != "." {
			return 0
		}
		padded = padded || len(digits) > 1 && digits[0] == '0'
		parts[i] = byte(part)
	}
	start, end := n.groups[0].start, n.groups[3].end
	if s.is(end, alnum|underscore) || s.at(end) == '.' && s.is(end+1, alnum) || (s.at(end) == '-' || s.at(end) == '+') && s.is(end+1, letter) {
		return 0
	}
	if before := s.at(start - 1); before == '.' || before == '-' && s.is(start-2, letter) || before == '/' && s.is(start-2, letter) {
		return 0
	}
	near, far := s.before(start)
	if near&aboutVersion != 0 && near&aboutIP == 0 || padded && (near|far)&aboutIP == 0 {
		return 0
	}
	s.add(start, end, ipAddress, netip.AddrFrom4(parts).String())
	return end
}

// ipv6 looks for an address whose first colon is at i, and returns where it ends.
func (s *scanner) ipv6(i int) int {
	start := i
	for start > 0 && i-start < 4 && isHex(s.text[start-1]) {
		start--
	}
	if s.is(start-1, word) || s.at(start-1) == ':' || s.at(start-1) == '.' && start < i {
		return 0
	}
	end := i
	for end < len(s.text) && end-start < maxIPv6 && (isHex(s.text[end]) || s.text[end] == ':' || s.text[end] == '.') {
		end++
	}
	if s.is(end, word) || s.at(end) == ':' {
		return 0
	}
	for end > start && (s.text[end-1] == '.' || s.text[end-1] == ':' && (end < 2 || s.text[end-2] != ':')) {
		end--
	}
	addr, ok := parseIP(s.text[start:end])
	if !ok || !s.plausibleIPv6(start, end) {
		return 0
	}
	if s.at(end) == '%' { // a zone
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

// plausibleIPv6 tells addresses from names such as std::dec and from ratios: a short one without digits needs a word for it.
func (s *scanner) plausibleIPv6(start, end int) bool {
	text := s.text[start:end]
	if strings.ContainsAny(text, "0123456789") && (len(text) > 3 || text == "::1" || text == "::0") || len(text) > 20 {
		return true
	}
	near, far := s.before(start)
	return (near|far)&aboutIP != 0 || s.alone(start, end) && len(text) > 2 || strings.ContainsAny(text, "0123456789")
}
