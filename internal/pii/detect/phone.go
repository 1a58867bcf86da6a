package detect

import "strings"

// phone looks for a telephone number. One with a calling code is held against the numbering plans. One without is judged by its
// shape and the words around it: nearly every sequence of seven to eleven digits is a number somewhere.
func (s *scanner) phone(n *number) int {
	if s.around.number && n.near&aboutPhone == 0 {
		return 0
	}
	if s.is(n.from-1, letter|underscore|digit) {
		return 0
	}
	groups, value := s.international(n)
	if groups == 0 {
		groups, value = s.northAmerican(n)
	}
	if groups == 0 {
		groups, value = s.domestic(n)
	}
	if groups == 0 {
		return 0
	}
	extension, end := s.extension(n.groups[groups-1].end)
	s.add(n.from, end, phone, value+extension)
	return end
}

// about tells what the words around the first groups say: that they are a telephone number, or that they are something else.
func (s *scanner) about(n *number, groups int) (yes, no bool) {
	after, unit := s.after(n.groups[groups-1].end)
	measure := unit && after&aboutUnit != 0
	yes = n.near&aboutPhone != 0 || after&(aboutPhone|aboutLine) != 0 || !measure && n.far&aboutPhone != 0 && n.near&(aboutOther|aboutID) == 0
	return yes, !yes && (n.near&(aboutOther|aboutID|aboutVersion|aboutSecret) != 0 || measure)
}

// ends tells whether a telephone number may end with the last of these groups. Words such as -Office may follow it.
func (s *scanner) ends(n *number, groups int) bool {
	end := n.groups[groups-1].end
	if s.is(end, digit|underscore) {
		return false
	}
	if s.is(end, letter) {
		_, to := s.extension(end)
		return to > end
	}
	switch c := s.at(end); c {
	case '-', '.', '/':
		return !s.is(end+1, digit) && (c == '.' || !s.is(end+1, letter) || s.labelled(end))
	}
	return true
}

// labelled tells whether the word behind a number says that it is one of a telephone.
func (s *scanner) labelled(end int) bool {
	meaning, _ := s.after(end)
	return meaning&(aboutPhone|aboutLine) != 0
}

// international takes + or 00 or 011, a calling code, and a national number.
func (s *scanner) international(n *number) (int, string) {
	skip := 0
	if !n.plus {
		first := s.text[n.groups[0].start:n.groups[0].end]
		switch {
		case strings.HasPrefix(first, "00"):
			skip = 2
		case first == "011", len(first) >= 12 && strings.HasPrefix(first, "011"):
			skip = 3
		default:
			return 0, ""
		}
		if n.joined != 0 {
			return 0, ""
		}
	}
	possible, value, complete := 0, "", false
	var room [2 * maxNational]byte
	digits := room[:0]
	for groups := 1; groups <= n.count; groups++ {
		g := n.groups[groups-1]
		d := s.text[g.start:g.end]
		if len(digits)+len(d) > maxNational+skip {
			break
		}
		if !(groups > 1 && d == "0" && s.at(g.start-1) == '(') { // the trunk prefix in +41 (0)71
			digits = append(digits, d...)
		}
		if len(digits) < 7+skip || !s.ends(n, groups) {
			continue
		}
		whole := string(digits[skip:])
		p, national, ok := callingCode(whole)
		if !ok {
			return 0, ""
		}
		yes, no := s.about(n, groups)
		trimmed := strings.TrimPrefix(national, "0") // a trunk prefix that does not belong behind a calling code
		if p.assigned(national) || p.assigned(trimmed) {
			if !p.assigned(national) {
				whole = strings.TrimSuffix(whole, national) + trimmed
			}
			possible, value, complete = groups, "+"+whole, true
			if groups < n.count && n.groups[groups-1].sep == " " && n.groups[groups].len() >= 3 {
				break
			}
			continue
		}
		if !complete && (yes || !no && (n.plus || n.shape("-. ", 3, 3, 3, 4))) {
			possible, value = groups, "+"+whole
		}
	}
	return possible, value
}

// northAmerican takes ten digits of the form 3-3-4 or without separators, and perhaps a 1 before them.
func (s *scanner) northAmerican(n *number) (int, string) {
	first := 0 // group with the area code
	if n.groups[0].len() == 1 && s.text[n.groups[0].start] == '1' && n.count > 1 {
		first = 1
	}
	g := n.groups[first:n.count]
	var groups int
	split := true
	switch {
	case len(g) >= 3 && g[0].len() == 3 && g[1].len() == 3 && g[2].len() == 4:
		groups = first + 3
	case len(g) >= 2 && g[0].len() == 3 && g[1].len() == 7, len(g) >= 2 && g[0].len() == 6 && g[1].len() == 4:
		groups = first + 2
	case g[0].len() == 10, g[0].len() == 11 && s.text[g[0].start] == '1' && first == 0:
		groups, split = first+1, first > 0
	default:
		return 0, ""
	}
	if !s.ends(n, groups) || n.joined == '.' || n.joined == '-' && s.is(n.from-2, digit) {
		return 0, ""
	}
	digits := strings.TrimPrefix(s.digits(n, groups), "1")
	if len(digits) != 10 {
		return 0, ""
	}
	yes, no := s.about(n, groups)
	valid := plans()["1"].assigned(digits) && digits[3] >= '2'
	switch {
	case yes, valid && n.paren:
	case no || n.joined != 0:
		return 0, ""
	case valid && split, valid && !contrived(digits) && !strings.ContainsRune("#$", rune(s.at(n.from-1))):
	case split && (n.paren || uniform(n.groups[:groups]) && digits[0] >= '2'):
	default:
		return 0, ""
	}
	return groups, "+1" + digits
}

func uniform(groups []group) bool {
	for _, g := range groups[:len(groups)-1] {
		if g.sep != groups[0].sep {
			return false
		}
	}
	return true
}

// domestic takes numbers as people write them within their country.
func (s *scanner) domestic(n *number) (int, string) {
	if n.joined == '.' || n.joined == '-' && s.is(n.from-2, digit) {
		return 0, ""
	}
	best, value := 0, ""
	total := 0
	for groups := 1; groups <= min(n.count, 6); groups++ {
		g := n.groups[groups-1]
		total += g.len()
		if total > 13 {
			break
		}
		if total >= 6 && s.ends(n, groups) && s.domesticShape(n, groups, total) && !s.withinRow(n, groups) {
			best, value = groups, s.digits(n, groups)
		}
		if groups < n.count && !continues(n, groups) {
			break
		}
	}
	return best, value
}

// withinRow tells whether the first groups are part of a longer row of digits, such as one of a card, and no word says that they are
// a telephone number.
func (s *scanner) withinRow(n *number, groups int) bool {
	if yes, _ := s.about(n, groups); yes {
		return false
	}
	last := n.groups[groups-1]
	after := last.sep == " " && groups > 1 && n.groups[groups-2].sep == " " && n.groups[groups].len() > 1
	before := s.at(n.from-1) == ' ' && s.is(n.from-2, digit)
	return after || before
}

// continues tells whether the next group may belong to the number: the separator stays the same, but for the area code's.
func continues(n *number, groups int) bool {
	sep := n.groups[groups-1].sep
	return groups <= 2 || sep == n.groups[groups-2].sep || sep == " "
}

func (s *scanner) domesticShape(n *number, groups, total int) bool {
	zero := s.text[n.groups[0].start] == '0'
	yes, no := s.about(n, groups)
	if no {
		return false
	}
	if groups == 1 {
		return s.bareNumber(n, total, zero, yes)
	}
	if s.isDate(n, groups) || !yes && n.shape("- ", 4, 4) && isYear(s.digits(n, 2)[:4]) && isYear(s.digits(n, 2)[4:]) {
		return false
	}
	if !yes && (n.near&aboutPlace != 0 || n.shape("-", 3, 2, 4)) {
		return false
	}
	if p, national, ok := callingCode(s.digits(n, groups)); ok && !zero && total >= 10 && p.assigned(national) && n.joined == 0 {
		return true
	}
	for i, g := range n.groups[:groups] {
		if g.len() < 2 && i > 0 && !yes || g.len() > 9 || i == 0 && !n.paren && strings.Contains(g.sep, ")") {
			return false
		}
	}
	sep := n.groups[0].sep
	switch {
	case yes:
		return total >= 6
	case sep == "/" && !zero, n.joined != 0:
		return false
	case zero || n.paren:
		return total >= 8 && total <= 12
	case sep == "." && !uniform(n.groups[:groups]), sep == "." && groups < 4:
		return false
	}
	return total >= 7 && total <= 11 && n.groups[groups-1].len() > 1 && (s.alone(n.from, n.groups[groups-1].end) || total >= 8)
}

// bareNumber judges digits without separators.
func (s *scanner) bareNumber(n *number, total int, zero, yes bool) bool {
	digits := s.digits(n, 1)
	switch {
	case yes:
		return total >= 7
	case n.joined != 0 || total < 8 || contrived(digits) || s.at(n.from-1) == '#' || s.at(n.from-1) == '$' || s.isDay(digits):
		return false
	case zero:
		return total >= 9 && total <= 12
	}
	if total == 11 && digits[0] == '1' && plans()["86"].assigned(digits) { // a mobile number of China
		return true
	}
	p, national, ok := callingCode(digits)
	if ok && total >= 10 && p.assigned(national) {
		return !(total == 13 && digits[0] == '1') // milliseconds since 1970
	}
	return total <= 10 && s.alone(n.from, n.groups[0].end) && !(total == 10 && digits[0] == '1')
}

// isDate tells whether the first groups are a date such as 2026-11-20 or 20.11.2026.
func (s *scanner) isDate(n *number, groups int) bool {
	if groups < 3 {
		return false
	}
	a, b, c := n.groups[0], n.groups[1], n.groups[2]
	if a.sep == " " || a.sep != b.sep {
		return false
	}
	return a.len() == 4 && b.len() == 2 && c.len() == 2 && (s.text[a.start] == '1' || s.text[a.start] == '2') ||
		a.len() <= 2 && b.len() <= 2 && c.len() == 4 && (s.text[c.start] == '1' || s.text[c.start] == '2')
}

// contrived tells whether digits are more likely a round number or a sequence than a telephone number.
func contrived(digits string) bool {
	return strings.HasSuffix(digits, "000000") || strings.Trim(digits, digits[:1]) == "" || strings.Contains("01234567890123456789", digits) ||
		digits == "2147483647" || digits == "4294967295"
}

func isYear(digits string) bool { return digits >= "1500" && digits <= "2100" }

// isDay tells whether eight digits are a day such as 20261120.
func (s *scanner) isDay(digits string) bool {
	return len(digits) == 8 && (digits[:2] == "19" || digits[:2] == "20") && digits[4:6] >= "01" && digits[4:6] <= "12" &&
		digits[6:] >= "01" && digits[6:] <= "31"
}

// extension reads x123, ext. 123 or #123 at i, and returns it in the form of RFC 3966.
func (s *scanner) extension(i int) (string, int) {
	at := i
	for s.at(at) == ' ' || s.at(at) == ',' {
		if at++; at-i > 2 {
			return "", i
		}
	}
	rest := s.text[at:min(len(s.text), at+12)]
	for _, word := range []string{"extension", "ext.", "ext", "x.", "x", "#"} {
		if len(rest) < len(word) || !strings.EqualFold(rest[:len(word)], word) {
			continue
		}
		from := at + len(word)
		for s.at(from) == ' ' || s.at(from) == ':' {
			if from++; from-at > 12 {
				return "", i
			}
		}
		to := from
		for to-from < 7 && isDigit(s.at(to)) {
			to++
		}
		if to == from || to-from > 6 || s.is(to, alnum) {
			return "", i
		}
		return ";ext=" + s.text[from:to], to
	}
	return "", i
}
