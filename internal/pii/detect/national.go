package detect

import (
	"strings"
)

// twelveDigits looks for personal numbers of India and Japan.
func (s *scanner) twelveDigits(n *number) int {
	if !s.on[inAadhaar] && !s.on[jpMyNumber] || n.plus || n.joined != 0 {
		return 0
	}
	groups := 1
	switch {
	case n.groups[0].len() == 12:
	case n.shape(" -", 4, 4, 4) && n.groups[2].sep == "":
		groups = 3
	default:
		return 0
	}
	near, far := s.wordsBefore(n)
	if !s.bounded(n, groups) || s.is(n.groups[groups-1].end, letter) || groups == 1 && near&(aboutOther|aboutID|aboutPhone) != 0 && (near|far)&(aboutAadhaar|aboutMyNumber) == 0 {
		return 0
	}
	digits := s.digits(n, groups)
	japanese := s.on[jpMyNumber] && myNumber(digits)
	indian := s.on[inAadhaar] && digits[0] >= '2' && verhoeff(digits)
	if japanese && indian {
		indian = far&aboutMyNumber == 0 || far&aboutAadhaar != 0
	}
	end := n.groups[groups-1].end
	switch {
	case indian:
		s.add(n.groups[0].start, end, inAadhaar, digits)
	case japanese:
		s.add(n.groups[0].start, end, jpMyNumber, digits)
	default:
		return 0
	}
	return end
}

// chinese looks for a resident identity number: 17 digits with the date of birth, and a check digit (GB 11643, ISO 7064 mod 11-2).
func (s *scanner) chinese(n *number) int {
	start := n.groups[0].start
	end := start + 18
	if !s.on[cnID] || n.groups[0].len() < 17 || n.glued || s.is(end, ascii) || end > len(s.text) {
		return 0
	}
	id := strings.ToUpper(s.text[start:end])
	rest := 0
	for i := range 17 {
		if !isDigit(id[i]) {
			return 0
		}
		rest = (rest + int(id[i]-'0')) * 2 % 11
	}
	if "10X98765432"[rest%11] != id[17] || !validDay(id[6:10], id[10:12], id[12:14]) {
		return 0
	}
	s.add(start, end, cnID, id)
	return end
}

// myNumber checks the last digit of an individual number (ordinance 85 of 2014, article 5).
func myNumber(digits string) bool {
	sum := 0
	for i := range 11 { // right to left
		weight := i + 2
		if i >= 6 {
			weight = i - 4
		}
		sum += int(digits[10-i]-'0') * weight
	}
	check := 11 - sum%11
	if check > 9 {
		check = 0
	}
	return int(digits[11]-'0') == check && strings.Trim(digits, digits[:1]) != ""
}

var (
	verhoeffProduct = [10]string{
		"0123456789", "1234067895", "2340178956", "3401289567", "4012395678", "5987604321", "6598710432", "7659821043", "8765932104", "9876543210",
	}
	verhoeffOrder = [8]string{
		"0123456789", "1576283094", "5803796142", "8916043527", "9453126870", "4286573901", "2793806415", "7046913258",
	}
)

// verhoeff checks the last digit by Verhoeff's scheme.
func verhoeff(digits string) bool {
	c := byte('0')
	for i := range len(digits) {
		c = verhoeffProduct[c-'0'][verhoeffOrder[i%8][digits[len(digits)-1-i]-'0']-'0']
	}
	return c == '0'
}

// lettered looks for numbers that begin with two letters: national insurance numbers of the United Kingdom, and VAT numbers.
func (s *scanner) lettered(start int) int {
	if s.on[ukNIN] {
		if end := s.insurance(start); end > 0 {
			return end
		}
	}
	if s.on[vat] {
		return s.tax(start)
	}
	return 0
}

// compact reads up to limit letters and digits from start on, and skips single separators between them. It returns the characters in upper case, and
// the end of each.
func (s *scanner) compact(start, limit int) (string, []int) {
	var all []byte
	var ends []int
	for i := start; len(all) < limit; i++ {
		c := s.at(i)
		if (c == ' ' || c == '.' || c == '-') && i > start && s.is(i-1, alnum) {
			continue
		}
		if classes[c]&alnum == 0 {
			break
		}
		if classes[c]&lower != 0 {
			c &^= 0x20
		}
		all = append(all, c)
		ends = append(ends, i+1)
	}
	return string(all), ends
}

// insurance looks for two letters, six digits, and a letter from A to D (HMRC's NIM39110).
func (s *scanner) insurance(start int) int {
	value, ends := s.compact(start, 9)
	if len(value) < 8 || !digitsOnly(value[2:8]) || strings.IndexByte("DFIQUV", value[0]) >= 0 || strings.IndexByte("DFIOQUV", value[1]) >= 0 ||
		classes[value[0]]&classes[value[1]]&letter == 0 {
		return 0
	}
	switch value[:2] {
	case "BG", "GB", "NK", "KN", "TN", "NT", "ZZ":
		return 0
	}
	near, far := s.before(start)
	size := 9
	if len(value) < 9 || value[8] < 'A' || value[8] > 'D' || s.is(ends[8], ascii) {
		if size = 8; (near|far)&aboutNIN == 0 || s.is(ends[7], ascii) {
			return 0
		}
	}
	end := ends[size-1]
	spread := end-start > size // whether the number has separators
	if near&aboutOther != 0 && near&aboutNIN == 0 || !spread && s.text[start:start+2] != value[:2] && (near|far)&aboutNIN == 0 {
		return 0
	}
	s.add(start, end, ukNIN, value[:size])
	return end
}

func digitsOnly(text string) bool { return strings.Trim(text, "0123456789") == "" }
