package detect

import "strings"

// brands are the ranges of the first four digits of card numbers, with the lengths of these numbers.
var brands = []struct {
	from, to int
	lengths  uint32 // Bit n is set if numbers may have n digits.
}{
	{604, 604, maestro},
	{1800, 1800, 1 << 15},
	{2131, 2131, 1 << 15}, // JCB, old
	{2014, 2014, 1 << 15},
	{2149, 2149, 1 << 15}, // enRoute
	{2200, 2204, upTo19},  // Mir
	{2221, 2720, 1 << 16}, // Mastercard
	{3000, 3059, diners},
	{3095, 3095, diners},
	{3600, 3699, diners},
	{3800, 3999, diners},
	{3088, 3102, 1 << 16},
	{3112, 3120, 1 << 16},
	{3158, 3159, 1 << 16},
	{3337, 3349, 1 << 16}, // JCB, old
	{3400, 3499, 1 << 15},
	{3700, 3799, 1 << 15},                       // American Express
	{3500, 3599, upTo19},                        // JCB
	{4000, 4999, 1<<13 | 1<<16 | 1<<18 | 1<<19}, // Visa
	{5000, 5099, maestro},                       // Maestro and Dankort
	{5100, 5599, 1 << 16},                       // Mastercard
	{5600, 6999, maestro},                       // Maestro, Discover, UnionPay and RuPay
	{8100, 8299, upTo19},                        // UnionPay, RuPay
	{8699, 8699, 1 << 15},                       // Voyager
	{9792, 9792, 1 << 16},                       // Troy
}

const (
	upTo19  = 1<<16 | 1<<17 | 1<<18 | 1<<19
	maestro = 1<<12 | 1<<13 | 1<<14 | 1<<15 | upTo19
	diners  = 1<<14 | 1<<16
)

// card looks for a payment card: a known range and length, and a correct Luhn check digit. It takes the longest sequence of groups that is a card
// number.
func (s *scanner) card(n *number) int {
	if n.scaled != "" && known(n.scaled) && luhn(n.scaled) && !n.glued && n.joined == 0 {
		s.add(n.groups[0].start, n.scaledTo, creditCard, n.scaled)
		return n.scaledTo
	}
	if n.groups[0].len() < 4 || n.total < 12 {
		return 0
	}
	most, total := 1, n.groups[0].len()
	for most < n.count && strings.Contains(" -.", n.groups[0].sep) && n.groups[most-1].sep == n.groups[0].sep && total+n.groups[most].len() <= 19 {
		total += n.groups[most].len()
		most++
	}
	for groups := most; groups > 0 && total >= 12; groups-- {
		g := n.groups[groups-1]
		if total <= 19 && s.isCard(n, groups, total) {
			s.add(n.groups[0].start, g.end, creditCard, s.digits(n, groups))
			return g.end
		}
		total -= g.len()
	}
	return 0
}

func (s *scanner) isCard(n *number, groups, total int) bool {
	if groups > 1 && !cardGroups(n.groups[:groups], total) || n.plus && total <= maxNational || !s.bounded(n, groups) {
		return false
	}
	digits := s.digits(n, groups)
	if !luhn(digits) || groups > 1 && s.inMatrix(n, groups) {
		return false
	}
	within := groups == 1 && (n.glued && s.is(n.from-1, letter) || s.is(n.groups[0].end, letter)) // Within a word, 13 or 14 digits are often not a card number.
	if (total >= 15 || total >= 13 && !within) && known(digits) {
		return true
	}
	near, far := s.wordsBefore(n)
	about := near&aboutCard != 0 || far&aboutCard != 0 && near&(aboutOther|aboutID) == 0
	return about && (total >= 13 && total <= 16 || known(digits))
}

// inMatrix reports whether groups of digits separated by spaces belong to a row of numbers. That is so if they have neighbours other than an expiry
// date and a verification code, or if they fill a line, and an adjacent line has as many numbers and is no card.
func (s *scanner) inMatrix(n *number, groups int) bool {
	if n.groups[0].sep != " " {
		return false
	}
	start, end := n.groups[0].start, n.groups[groups-1].end
	before, after := s.rowBefore(start), s.rowAfter(end)
	if before > 1 || before > 0 && (after > 0 || s.beginsLine(start)) || after > 0 && n.groups[1].len() == 3 || after > 3 || before > 0 && s.is(start-5, digit) {
		return true
	}
	if next := s.digitsAt(end+1, 5); after > 0 && (s.is(end+1+len(next), letter) || len(next) == 4 && (next[:2] < "01" || next[:2] > "12" || next[2:] < "20" || next[2:] > "45")) {
		return true
	}
	return s.betweenRows(n, groups)
}

// beginsLine reports whether the number before an offset is the first of its line.
func (s *scanner) beginsLine(i int) bool {
	for n := 0; n < 4 && s.at(i-1) == ' '; n++ {
		i--
	}
	for n := 0; n < 10 && s.is(i-1, digit); n++ {
		i--
	}
	return i == 0 || s.text[i-1] == '\n'
}

// cardGroups reports whether digits are grouped as on cards: fours, 4-6-5 and 4-6-4, 4-3-3-3, or 6 and the rest.
func cardGroups(groups []group, total int) bool {
	switch {
	case groups[0].len() == 4 && len(groups) == 3 && groups[1].len() == 6:
		return total == 15 || total == 14
	case total == 13 && len(groups) == 4 && groups[0].len() == 4 && groups[1].len() == 3 && groups[2].len() == 3:
		return true
	case groups[0].len() >= 6:
		return len(groups) == 2 && total >= 16 && groups[0].sep != "."
	}
	if groups[0].sep == "." && len(groups) < 4 {
		return false // Dots between fewer than four groups separate several numbers.
	}
	for i, g := range groups {
		if g.len() != 4 && i < len(groups)-1 || g.len() < 3 || g.len() > 4 && g.len() != 7 {
			return false
		}
	}
	return true
}

// known reports whether an issuer has numbers of this beginning and length.
func known(digits string) bool {
	first := 0
	for _, c := range digits[:4] {
		first = first*10 + int(c-'0')
	}
	for _, b := range brands {
		if first >= b.from && first <= b.to {
			return b.lengths&(1<<len(digits)) != 0
		}
	}
	return false
}

// luhn performs the check of ISO/IEC 7812-1.
func luhn(digits string) bool {
	sum := 0
	for i := range len(digits) {
		d := int(digits[len(digits)-1-i] - '0')
		if i%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0 && sum > 0
}
