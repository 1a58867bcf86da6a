package detect

// ssn looks for a social security number of the United States. A number with dashes is found in any context. Other forms need a word about social
// security, or a group with a leading zero, which no count has.
func (s *scanner) ssn(n *number) int {
	if n.scaled != "" && len(n.scaled) == 9 && issued(n.scaled) && s.aboutSSN(n) {
		s.add(n.groups[0].start, n.scaledTo, usSSN, n.scaled)
		return n.scaledTo
	}
	var groups int
	switch {
	case n.shape("-", 3, 2, 4):
		groups = 3
	case n.shape(" .", 3, 2, 4) && (s.aboutSSN(n) || n.groups[0].sep == " " && s.zeros(n, 3) && !s.inRow(n, 3)):
		groups = 3
	case n.shape("-", 3, 6) && (s.aboutSSN(n) || s.zeros(n, 2) && n.joined == 0 || s.besideSSN(n)),
		n.shape("-", 5, 4) && (s.aboutSSN(n) || s.besideSSN(n)):
		groups = 2
	case n.groups[0].len() == 9 && (n.count == 1 || n.groups[0].sep != "-" && n.groups[0].sep != "/") && s.aboutSSN(n):
		groups = 1
	default:
		return 0
	}
	if n.plus || !s.bounded(n, groups) || groups == 2 && (n.glued || s.is(n.groups[1].end, letter)) {
		return 0
	}
	digits := s.digits(n, groups)
	if !issued(digits) {
		return 0
	}
	start, end := n.groups[0].start, n.groups[groups-1].end
	s.add(start, end, usSSN, digits)
	s.lastSSN = end
	return end
}

// aboutSSN reports whether a word before the number or above its column is about social security.
func (s *scanner) aboutSSN(n *number) bool {
	near, far := s.wordsBefore(n)
	return (near|far)&aboutSSN != 0 && near&(aboutOther|aboutPhone|aboutZip)&^aboutSSN == 0 || near&aboutSSN != 0 || s.under(n)&aboutSSN != 0
}

// besideSSN reports whether a number directly follows a social security number.
func (s *scanner) besideSSN(n *number) bool { return s.lastSSN > 0 && n.from-s.lastSSN <= 2 }

// issued reports whether the administration issues such a number: no area 000, 666 or above 899, no group 00, no serial 0000.
func issued(digits string) bool {
	area, group, serial := digits[:3], digits[3:5], digits[5:]
	return area != "000" && area != "666" && area[0] != '9' && group != "00" && serial != "0000"
}

// afterState reports whether two capitals stand before a number, as in CA 94103-1234.
func (s *scanner) afterState(at int) bool {
	return s.at(at-1) == ' ' && s.is(at-2, upper) && s.is(at-3, upper) && !s.is(at-4, ascii)
}
