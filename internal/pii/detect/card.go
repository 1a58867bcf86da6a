package detect

// brands are the ranges of the first four digits that issuers of cards have, and the lengths of their numbers.
var brands = []struct {
	from, to int
	lengths  uint32 // bit n: n digits
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
	{5000, 5099, maestro},                       // and Dankort
	{5100, 5599, 1 << 16},                       // Mastercard
	{5600, 6999, maestro},                       // and Discover, UnionPay, RuPay
	{8100, 8299, upTo19},                        // UnionPay, RuPay
	{8699, 8699, 1 << 15},                       // Voyager
	{9792, 9792, 1 << 16},                       // Troy
}

const (
	upTo19  = 1<<16 | 1<<17 | 1<<18 | 1<<19
	maestro = 1<<12 | 1<<13 | 1<<14 | 1<<15 | upTo19
	diners  = 1<<14 | 1<<16
)

// card looks for a payment card: a known range and length, and Luhn's check digit.
func (s *scanner) card(n *number) int {
	if n.groups[0].len() < 4 || n.plus {
		return 0
	}
	total := 0
	for groups := 1; groups <= n.count; groups++ {
		g := n.groups[groups-1]
		total += g.len()
		if total > 19 {
			break
		}
		if total >= 12 && s.isCard(n, groups, total) {
			s.add(n.groups[0].start, g.end, creditCard, s.digits(n, groups))
			return g.end
		}
		if g.sep != " " && g.sep != "-" && g.sep != "." || g.sep != n.groups[0].sep {
			break
		}
	}
	return 0
}

func (s *scanner) isCard(n *number, groups, total int) bool {
	if groups > 1 && !cardGroups(n.groups[:groups], total) || !s.bounded(n, groups) {
		return false
	}
	digits := s.digits(n, groups)
	if !luhn(digits) {
		return false
	}
	about := n.near&aboutCard != 0 || n.far&aboutCard != 0 && n.near&(aboutOther|aboutID) == 0
	switch {
	case about && total >= 13 && total <= 16:
		return true
	case !known(digits):
		return false
	case about:
		return true
	case n.near&(aboutOther|aboutID) != 0 || n.joined != 0:
		return false
	case s.around.number || groups == 1 && digits[0] == '1':
		return total == 15 || total == 16
	}
	return total >= 13
}

// cardGroups tells whether digits are grouped as on cards: fours, 4-6-5 and 4-6-4, or 6 and the rest.
func cardGroups(groups []group, total int) bool {
	switch {
	case groups[0].len() == 4 && len(groups) == 3 && groups[1].len() == 6:
		return total == 15 || total == 14
	case groups[0].len() >= 6:
		return len(groups) == 2 && total >= 16
	}
	for i, g := range groups {
		if g.len() != 4 && i < len(groups)-1 || g.len() > 4 && g.len() != 7 {
			return false
		}
	}
	return true
}

// known tells whether an issuer has numbers of this beginning and length.
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

// luhn is the check of ISO/IEC 7812-1.
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
