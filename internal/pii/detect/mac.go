package detect

import "strings"

// mac looks for a hardware address of 48 or 64 bits that begins with the word from start to end: pairs of digits with :, - or spaces between them,
// or groups of four with dots. It returns the end of the address, or 0 if there is none.
func (s *scanner) mac(start, end int) int {
	size := end - start
	sep := s.at(end)
	switch {
	case size == 2 && (sep == ':' || sep == '-' || sep == ' '), size == 4 && sep == '.':
	case size == 12:
		return s.bareMAC(start, end)
	default:
		return 0
	}
	if s.at(start-1) == sep && sep != ' ' || s.at(start-1) == ' ' && s.is(start-2, alnum) && sep == ' ' {
		return 0
	}
	digits := s.text[start:end]
	i := end
	for s.at(i) == sep && len(digits) < 17 && s.hexRun(i+1, size) {
		digits += s.text[i+1 : i+1+size]
		i += 1 + size
	}
	if len(digits) != 12 && len(digits) != 16 || s.at(i) == sep && sep != ' ' && s.is(i+1, alnum) {
		return 0
	}
	if len(digits) == 16 && digitsOnly(digits) && known(digits) && luhn(digits) {
		return 0 // The digits are a card number.
	}
	if sep == ' ' {
		if near, far := s.before(start); (near|far)&aboutMAC == 0 {
			return 0
		}
	}
	s.add(start, i, mac, strings.ToLower(digits))
	return i
}

// hexRun reports whether a word of size hexadecimal digits begins at i.
func (s *scanner) hexRun(i, size int) bool {
	for n := range size {
		if i+n >= len(s.text) || !isHex(s.text[i+n]) {
			return false
		}
	}
	return !s.is(i+size, ascii)
}

// bareMAC accepts twelve hexadecimal digits as an address if a word is about hardware addresses.
func (s *scanner) bareMAC(start, end int) int {
	if !s.hexRun(start, end-start) {
		return 0
	}
	if near, _ := s.before(start); near&aboutMAC == 0 {
		return 0
	}
	s.add(start, end, mac, strings.ToLower(s.text[start:end]))
	return end
}
