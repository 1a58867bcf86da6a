package pii

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// The natural form of the token of an IP address is an address in an unrouted range: 240.117.103.142 (240.0.0.0/4, RFC 1112) or
// 3fff:1a2:3b4c:5d6e::7f8a (3fff::/20, RFC 9637). The tokens of two addresses share a prefix exactly if the addresses share a network: /8,
// /16 and /24 in IPv4, /32, /48 and /64 in IPv6. The numbers are random. Each network is a value with its own token, of type IP_NETWORK.
// The following forms are tokens too, and are restored to the same form of the value:
//
//	240.117.103.142                          an address
//	3fff:01A2:3B4C:5D6E:0000:0000:0000:7F8A  an address, in full and in upper case
//	240.117.103, 3fff:1a2:3b4c               the first numbers of a /24 and of a /48
//	240.117.103.0/24, 240.117.0.0/16         a network
//	240.117.103.1, if no address has it      a network, followed by a number that a program chose
//
// The first numbers of an IPv4 /8 or /16 alone, 240 or 240.117, are not tokens, because any text may contain such numbers.
const (
	ipKind      = "IP_ADDRESS"
	networkKind = "IP_NETWORK"
	placeKind   = "IP_ADDRESS.PLACE" // type of vault entries that assign a token address to a value; their number is the address's code
)

// FirstCode is the lowest number of a vault entry that is a code: the code of a token address or of a network of token addresses (see
// tokenIP). Lower numbers count the tokens of a type.
const FirstCode = 1 << 40

const codeOfSix = 1 << 60

// tokenIP is a token address, which stands for the address of a value, or a network of token addresses. parts are the four numbers of an IPv4
// address, or the second to fourth and the last group of an IPv6 address. Parts that a network leaves open are 0.
type tokenIP struct {
	six   bool
	parts [4]uint16
}

// ranges holds the minimum and maximum of each part, for IPv4 and IPv6. All values of a part have the same number of digits. The exception is
// the last number of IPv4, because a network needs more addresses than the numbers from 100 on provide. No part but the first looks like the
// start of a token address, so addresses that follow each other can be parsed from any position.
var ranges = [2][4][2]uint16{
	{{240, 254}, {100, 239}, {100, 239}, {1, 239}},
	{{0x100, 0xFFF}, {0x1000, 0xFFFF}, {0x1000, 0xFFFF}, {0x1000, 0xFFFF}},
}

// networkBits returns the prefix lengths of the networks of an address.
func networkBits(six bool) [3]int {
	if six {
		return [3]int{32, 48, 64}
	}
	return [3]int{8, 16, 24}
}

// level returns the number of parts that are set.
func (a tokenIP) level() int {
	if i := slices.Index(a.parts[:], 0); i >= 0 {
		return i
	}
	return len(a.parts)
}

func (a tokenIP) code() int {
	p := a.parts
	if a.six {
		return codeOfSix | int(p[0])<<48 | int(p[1])<<32 | int(p[2])<<16 | int(p[3])
	}
	return FirstCode | int(p[0])<<24 | int(p[1])<<16 | int(p[2])<<8 | int(p[3])
}

// tokenIPOf decodes a code. ok is false for a number that is no code.
func tokenIPOf(code int) (a tokenIP, ok bool) {
	if code <= FirstCode {
		return a, false
	}
	width, mask := 8, 0xFF
	if a.six = code >= codeOfSix; a.six {
		width, mask = 16, 0xFFFF
	}
	for i := range a.parts {
		a.parts[i] = uint16(code &^ codeOfSix >> (width * (3 - i)) & mask)
	}
	return a, true
}

// network returns the network of an address at a level.
func (a tokenIP) network(level int) tokenIP {
	clear(a.parts[level:])
	return a
}

// addr returns the address itself, or the first address of a network.
func (a tokenIP) addr() netip.Addr {
	if !a.six {
		return netip.AddrFrom4([4]byte{byte(a.parts[0]), byte(a.parts[1]), byte(a.parts[2]), byte(a.parts[3])})
	}
	out := [16]byte{0: 0x3F, 1: 0xFF}
	for i, at := range [...]int{2, 4, 6, 14} {
		binary.BigEndian.PutUint16(out[at:], a.parts[i])
	}
	return netip.AddrFrom16(out)
}

// prefix returns a token network as a netip.Prefix.
func (a tokenIP) prefix() netip.Prefix {
	bits := networkBits(a.six)
	return netip.PrefixFrom(a.addr(), bits[min(max(a.level(), 1), len(bits))-1])
}

// name returns the key under which the table has the entry of an address or network.
func (a tokenIP) name() name {
	if a.level() == len(a.parts) {
		return name{placeKind, a.code()}
	}
	return name{networkKind, a.code()}
}

// isFree reports whether an address or network has never stood for a value.
func (t *table) isFree(a tokenIP) bool {
	const begins = 0x3FFF // start of every IPv6 token address; see ranges
	return !slices.Contains(a.parts[:], begins) && t.byName[a.name()] == nil && !t.retired[a.name()]
}

// below returns a free address or a free smaller network in the network a. It avoids numbers that programs often write themselves, such as 1 and 100,
// as long as other numbers are free. ok is false if nothing in a is free.
func (t *table) below(a tokenIP) (_ tokenIP, ok bool) {
	level := a.level()
	limits := ranges[0][level]
	if a.six {
		limits = ranges[1][level]
	}
	rare := func(n uint16) bool { return a.six || level < 3 || n > 100 && n%10 != 0 }
	for range 20 {
		a.parts[level] = limits[0] + uint16(t.f.opt.IntN(int(limits[1]-limits[0])+1))
		if rare(a.parts[level]) && t.isFree(a) {
			return a, true
		}
	}
	var free, rest []uint16
	for n := int(limits[0]); n <= int(limits[1]); n++ {
		a.parts[level] = uint16(n)
		switch {
		case !t.isFree(a):
		case rare(uint16(n)):
			free = append(free, uint16(n))
		default:
			rest = append(rest, uint16(n))
		}
	}
	if len(free) == 0 {
		free = rest
	}
	if len(free) == 0 {
		return a, false
	}
	a.parts[level] = free[t.f.opt.IntN(len(free))]
	return a, true
}

// anywhere returns a free network in a random larger network. level is the number of parts of the larger network.
func (t *table) anywhere(six bool, level int) (tokenIP, bool) {
	const tries = 100
	for range tries {
		a := tokenIP{six: six}
		limits := ranges[0]
		if six {
			limits = ranges[1]
		}
		for i := range level {
			a.parts[i] = limits[i][0] + uint16(t.f.opt.IntN(int(limits[i][1]-limits[i][0])+1))
		}
		if a, ok := t.below(a); ok {
			return a, true
		}
	}
	return tokenIP{}, false
}

func networkValue(network netip.Prefix, made bool) value {
	text := network.String()
	return value{kind: networkKind, form: asText, made: made, canonical: text, spelling: text}
}

func placeValue(addr string, made bool) value {
	return value{kind: placeKind, form: asText, made: made, canonical: addr, spelling: addr}
}

// networkOf returns the token of the network of an address with a prefix length of bits. If bits is 0, it is the smallest network, a /24 or a /64.
// networkOf creates tokens for the larger networks too. A token is in brackets if no network of token addresses is free. Only fifteen IPv4 /8
// networks can have a /8 of token addresses. The smaller networks of any further /8 get token networks within the /8 token networks of the fifteen.
func (t *table) networkOf(addr netip.Addr, bits int, made bool, origin string) (tok *token, err error) {
	larger, known := tokenIP{six: addr.Is6()}, t.whole
	for level, size := range networkBits(addr.Is6()) {
		prefix, err := addr.Prefix(size)
		if err != nil {
			return nil, err
		}
		v, n := networkValue(prefix, made), 0
		if t.byValue[v.shared()] == nil && t.whole {
			var at tokenIP
			ok := false
			if known {
				at, ok = t.below(larger)
			}
			if !ok {
				at, ok = t.anywhere(addr.Is6(), level)
			}
			if ok {
				n = at.code()
			}
		}
		if tok, err = t.numbered(v, origin, n); err != nil || size == bits {
			return tok, err
		}
		larger, known = tokenIPOf(tok.n)
	}
	return tok, nil
}

// locate assigns a token address to an address, if one is free.
func (t *table) locate(v value, origin string) error {
	addr, err := netip.ParseAddr(v.canonical)
	if err != nil || !t.whole { // the value is in base64 or another encoding, or the codes in use are not known
		return nil
	}
	if known := t.byValue[v.shared()]; known != nil && slices.Contains(known.origins, origin) {
		if _, ok := t.placeOf(known); ok {
			return nil
		}
	}
	network, err := t.networkOf(addr, 0, v.made, origin)
	if err != nil {
		return err
	}
	place, n := placeValue(v.canonical, v.made), 0
	if t.byValue[place.shared()] == nil {
		if at, ok := tokenIPOf(network.n); ok {
			if at, ok = t.below(at); ok {
				n = at.code()
			}
		}
		if n == 0 {
			return nil
		}
	}
	_, err = t.numbered(place, origin, n)
	return err
}

// placeOf returns the token address that stands for the address of a token.
func (t *table) placeOf(tok *token) (a tokenIP, ok bool) {
	place := t.byValue[placeValue(tok.canonical, tok.made).shared()]
	if place == nil || tok.form != asText {
		return a, false
	}
	return tokenIPOf(place.n)
}

// ipName returns the natural text of the token of an address or network whose value was spelled raw, if there is one.
func (t *table) ipName(tok *token, raw string) (text string, ok bool) {
	switch tok.kind {
	case ipKind:
		at, ok := t.placeOf(tok)
		if !ok || !t.natural() {
			return "", false
		}
		addr, err := netip.ParseAddr(tok.canonical)
		if err != nil {
			return "", false
		}
		spelling, _ := ipSpellingOf(raw, addr)
		return spelling.of(at.addr()), true
	case networkKind:
		at, ok := tokenIPOf(tok.n)
		if !ok {
			return "", false
		}
		prefix, err := netip.ParsePrefix(tok.canonical)
		if err != nil || networkText(prefix, raw) != raw {
			return tok.text, true
		}
		return networkText(at.prefix(), raw), true
	}
	return "", false
}

// ipSpelling is the way in which a text writes an address. The zero ipSpelling is the canonical one, of RFC 5952.
type ipSpelling struct {
	before string // the text ::ffff: before an IPv4 address; otherwise empty
	form   ipForm
	upper  bool
	colon  string // text in place of each colon, such as %3A; empty for a colon
}

// ipForm is the form of an IPv6 address.
type ipForm byte

const (
	shortForm  ipForm = iota // zeros are compressed
	groupsForm               // eight groups without leading zeros
	fullForm                 // eight groups of four digits
	ipForms
)

// colons are the ways to write a colon.
var colons = [...]string{":", "%3A", "%3a"}

// plainColons returns a text with plain colons, and what the text had in their place. ok is false for a text with other percent signs.
func plainColons(raw string) (text, colon string, ok bool) {
	for _, colon := range colons[1:] {
		if text := strings.ReplaceAll(raw, colon, ":"); text != raw {
			return text, colon, !strings.Contains(text, "%") && !strings.Contains(raw, ":")
		}
	}
	return raw, "", !strings.Contains(raw, "%")
}

// ipSpellingOf determines how a text writes an address. ok is false for a spelling that programs do not write; an address in such a spelling
// becomes a separate value.
func ipSpellingOf(raw string, addr netip.Addr) (s ipSpelling, ok bool) {
	text, colon, ok := plainColons(raw)
	if !ok {
		return s, false
	}
	s.colon = colon
	if addr.Is4() {
		if plain := addr.String(); strings.HasSuffix(raw, plain) {
			s.before = raw[:len(raw)-len(plain)]
			before, _ := strings.CutSuffix(text, plain)
			return s, before == "" || strings.EqualFold(before, "::ffff:")
		}
		return ipSpelling{}, false
	}
	lower := strings.ToLower(text)
	s.upper = text != lower
	if s.upper && text != strings.ToUpper(text) {
		return ipSpelling{}, false
	}
	for ; s.form < ipForms; s.form++ {
		if (ipSpelling{form: s.form}).of(addr) == lower {
			return s, true
		}
	}
	return ipSpelling{}, false
}

// of writes an address in the spelling.
func (s ipSpelling) of(addr netip.Addr) string {
	if addr.Is4() {
		return s.before + addr.String()
	}
	text := addr.String()
	switch s.form {
	case groupsForm:
		text = groupsOf(addr, 8, "%x")
	case fullForm:
		text = addr.StringExpanded()
	}
	return s.dress(text)
}

// dress applies the case and the colons of the spelling to a lower-case text with plain colons.
func (s ipSpelling) dress(text string) string {
	if s.upper {
		text = strings.ToUpper(text)
	}
	if s.colon != "" {
		text = strings.ReplaceAll(text, ":", s.colon)
	}
	return text
}

// groupsOf returns the first count groups of an address.
func groupsOf(addr netip.Addr, count int, format string) string {
	bytes, groups := addr.As16(), make([]string, count)
	for i := range groups {
		groups[i] = fmt.Sprintf(format, binary.BigEndian.Uint16(bytes[2*i:]))
	}
	return strings.Join(groups, ":")
}

// networkText formats a network like another text: 198.51.100 like 240.117.103, 198.51.100.0/24 like 240.117.103.0/24.
func networkText(network netip.Prefix, like string) string {
	body, _, hasBits := strings.Cut(like, "/")
	bits := ""
	if hasBits {
		bits = "/" + strconv.Itoa(network.Bits())
	}
	if network.Addr().Is4() {
		text := network.Addr().String()
		if strings.Count(body, ".") < 3 {
			text = text[:strings.LastIndexByte(text, '.')]
		}
		return text + bits
	}
	plain, colon, _ := plainColons(body)
	s := ipSpelling{colon: colon, upper: strings.ToLower(plain) != plain}
	if strings.HasSuffix(plain, "::") {
		return s.dress(network.Addr().String()) + bits
	}
	format := "%x"
	if _, second, ok := strings.Cut(plain, ":"); ok && strings.HasPrefix(second, "0") {
		format = "%04x"
	}
	return s.dress(groupsOf(network.Addr(), network.Bits()/16, format)) + bits
}

// ipValue returns the value of an address in the spelling that its token has. An address in an unusual spelling is a separate value.
func ipValue(v value, raw string) value {
	addr, err := netip.ParseAddr(v.canonical)
	if err != nil {
		return v
	}
	spelling, ok := ipSpellingOf(raw, addr)
	if !ok {
		v.form, v.canonical = asSpelled, raw
		return v
	}
	spelling.before, spelling.colon = "", ""
	v.spelling = spelling.of(addr)
	return v
}

// restoredIP returns the token and value of a token address or network, and the end of the replaced text. If a token address stands for no value, its
// network may still stand for one. If neither does, tok is nil.
func (t *table) restoredIP(at found, text string) (tok *token, restored string, end int) {
	entry := t.byName[at.name]
	if entry != nil && entry.kind == placeKind {
		tok = t.byValue[value{kind: ipKind, form: asText, made: entry.made, canonical: entry.canonical}]
		addr, err := netip.ParseAddr(entry.canonical)
		if tok == nil || err != nil {
			return nil, "", 0
		}
		spelling, _ := ipSpellingOf(text[at.start:at.end], at.ip.addr())
		return tok, spelling.of(addr), at.end
	}
	end = at.end
	if at.name.kind == placeKind {
		entry, end = t.byName[at.ip.network(3).name()], at.networkEnd
	}
	if entry == nil {
		return nil, "", 0
	}
	prefix, err := netip.ParsePrefix(entry.canonical)
	if err != nil {
		return nil, "", 0
	}
	return entry, networkText(prefix, text[at.start:end]), end
}

// mayRunOn is a quick check whether the text after a name could change how the name is parsed. False is certain; after true, endsAt must decide.
// Only networks, and IPv4 addresses whose last number has one or two digits, can be affected: all other token addresses have a fixed length.
func mayRunOn(kind, name string) bool {
	dot := strings.LastIndexByte(name, '.')
	return kind == networkKind || kind == ipKind && dot >= 0 && len(name)-dot <= len(".99")
}

// endsAt reports whether a name, the token of an address or network, is still parsed as the same token if the text after follows it. For other
// names it returns true.
func (f *Filter) endsAt(name, after string) bool {
	all := f.tokensIn(name + after)
	last := len(all) - 1
	for last >= 0 && all[last].start >= len(name) {
		last--
	}
	return last < 0 || all[last].ip == tokenIP{} || all[last].end == len(name)
}

// mayBeIP4 is a quick check whether a token address may have its first dot at i. False is certain; true may be wrong.
func mayBeIP4(text string, i int) bool {
	return i >= 3 && text[i-3] == '2' && (text[i-2] == '4' || text[i-2] == '5') && i+1 < len(text) && text[i+1] >= '0' && text[i+1] <= '2'
}

// mayHaveIP6 is a quick check whether a text may contain a token address of IPv6. False is certain; true may be wrong.
func mayHaveIP6(text string) bool {
	return strings.Contains(text, "3fff") || strings.Contains(text, "3FFF")
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isHex(c byte) bool { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }

// ip4At parses a token address or network whose first dot is at i. The text before the address or network does not matter. If there is no token,
// ip4At returns the zero found.
func ip4At(text string, i int) (f found) {
	start := i - 3
	if !mayBeIP4(text, i) {
		return f
	}
	f.start = start
	for level := range 3 {
		n, err := strconv.ParseUint(text[i-3:i], 10, 16)
		limits := ranges[0][level]
		if err != nil || n < uint64(limits[0]) || n > uint64(limits[1]) {
			return found{}
		}
		f.ip.parts[level] = uint16(n)
		if zeros := strings.Repeat(".0", 3-level); strings.HasPrefix(text[i:], zeros) && !startsWithDigit(text[i+len(zeros):]) {
			f.end = withBits(text, i+len(zeros), networkBits(false)[level])
			f.name = f.ip.name()
			return f
		}
		if level == 2 {
			break
		}
		if len(text)-i < 4 || text[i] != '.' {
			return found{}
		}
		i += 4
	}
	f.end, f.networkEnd = i, i
	if n, end := lastNumber(text, i); n > 0 {
		f.ip.parts[3], f.end = n, end
	}
	f.name = f.ip.name()
	return f
}

// lastNumber parses a dot and the last number of an address; n is 0 if there is none. It reads at most three digits, because a
// program must have appended a fourth one.
func lastNumber(text string, i int) (n uint16, end int) {
	if i+1 >= len(text) || text[i] != '.' || text[i+1] == '0' {
		return 0, i
	}
	for end = i + 1; end < len(text) && end-i <= 3 && isDigit(text[end]); end++ {
		n = 10*n + uint16(text[end]-'0')
	}
	if n > ranges[0][3][1] {
		return 0, i
	}
	return n, end
}

func startsWithDigit(text string) bool { return text != "" && isDigit(text[0]) }

// withBits returns the end of a network that ends at i, including a suffix such as /24.
func withBits(text string, i, bits int) int {
	if suffix := "/" + strconv.Itoa(bits); strings.HasPrefix(text[i:], suffix) && !startsWithDigit(text[i+len(suffix):]) {
		return i + len(suffix)
	}
	return i
}

// colonAt returns the length of a colon at i; 0 if there is none.
func colonAt(text string, i int) int {
	for _, colon := range colons {
		if strings.HasPrefix(text[i:], colon) {
			return len(colon)
		}
	}
	return 0
}

// group parses a colon and a group of the given number of hexadecimal digits. The first digit is not 0, except for a leading zero before a
// group of three.
func group(text string, i, digits int) (n uint16, end int) {
	size := colonAt(text, i)
	if size == 0 {
		return 0, i
	}
	i += size
	if digits == 3 && i < len(text) && text[i] == '0' {
		i++
	}
	if len(text)-i < digits || text[i] == '0' {
		return 0, i
	}
	parsed, err := strconv.ParseUint(text[i:i+digits], 16, 16)
	if err != nil || !isHex(text[i]) {
		return 0, i
	}
	return uint16(parsed), i + digits
}

// ip6At parses a token address or network that begins at i. The text before i does not matter. If there is no token, ip6At returns the zero found.
func ip6At(text string, i int) (f found) {
	if !strings.EqualFold(text[i:min(len(text), i+4)], "3fff") {
		return f
	}
	f.start, f.end, f.ip.six = i, i+4, true
	for level := range 3 {
		digits := 4
		if level == 0 {
			digits = 3
		}
		n, end := group(text, f.end, digits)
		if n == 0 {
			break
		}
		f.ip.parts[level], f.end = n, end
	}
	level := f.ip.level()
	if level == 0 {
		return found{}
	}
	f.networkEnd = f.end
	if level == 3 {
		for _, zeros := range [...]string{":", ":0:0:0", ":0000:0000:0000"} {
			end, ok := sameColons(text, f.end, zeros)
			if !ok {
				continue
			}
			if n, end := group(text, end, 4); n > 0 {
				f.ip.parts[3], f.end = n, end
				f.name = f.ip.name()
				return f
			}
		}
	}
	if end, ok := sameColons(text, f.end, "::"); ok && (end == len(text) || !isHex(text[end])) {
		f.end = withBits(text, end, networkBits(true)[level-1])
	}
	f.name = f.ip.name()
	return f
}

// sameColons compares the text at i with the parameter what. A colon in what matches every way to write a colon. ok is true if the text matches, and
// end is the end of the match.
func sameColons(text string, i int, what string) (end int, ok bool) {
	for _, c := range []byte(what) {
		size := 1
		if c == ':' {
			size = colonAt(text, i)
		} else if i >= len(text) || text[i] != c {
			size = 0
		}
		if size == 0 {
			return i, false
		}
		i += size
	}
	return i, true
}
