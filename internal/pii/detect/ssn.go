package detect

// ssn looks for a social security number of the United States.
func (s *scanner) ssn(n *number) int {
	var groups int
	about := (n.near|n.far)&aboutSSN != 0
	switch {
	case n.shape("-", 3, 2, 4), about && n.shape(" .", 3, 2, 4):
		groups = 3
	case n.shape(" ", 3, 2, 4) && n.near&aboutOther == 0 && n.far&aboutPhone == 0:
		groups = 3
	case n.shape("-", 3, 6) || n.shape("-", 5, 4):
		if !about && (n.near|n.far)&^aboutSSN != 0 || n.groups[0].len() == 5 && s.afterState(n.from) {
			return 0
		}
		groups = 2
	case about && n.groups[0].len() == 9 && n.near&aboutOther == 0:
		groups = 1
	default:
		return 0
	}
	if n.plus || n.paren || !s.bounded(n, groups) || n.joined != 0 || n.near&aboutOther != 0 && !about {
		return 0
	}
	digits := s.digits(n, groups)
	if !issued(digits) {
		return 0
	}
	end := n.groups[groups-1].end
	if s.at(end) == '-' && s.is(end+1, alnum) {
		return 0
	}
	s.add(n.from, end, usSSN, digits)
	return end
}

// issued tells whether the administration gives out such a number: no area 000, 666 or above 899, no group 00, no serial 0000.
func issued(digits string) bool {
	area, group, serial := digits[:3], digits[3:5], digits[5:]
	return area != "000" && area != "666" && area[0] != '9' && group != "00" && serial != "0000"
}

// afterState tells whether two capitals stand before a number, as in CA 94103-1234.
func (s *scanner) afterState(at int) bool {
	return s.at(at-1) == ' ' && s.is(at-2, upper) && s.is(at-3, upper) && !s.is(at-4, word)
}
