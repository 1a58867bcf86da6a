package detect

import (
	"slices"
	"strings"
)

// phone looks for a telephone number: a number with a calling code of the numbering plans, a number in a form that only telephone numbers have,
// or a number that is a telephone number according to a word near it or to the heading of its column. Any other sequence of digits is a count, a
// date or a size.
func (s *scanner) phone(n *number) int {
	if s.is(n.from-1, alnum|underscore) || s.at(n.from-1) == '.' && !s.is(n.from-2, letter|high) {
		return 0
	}
	if n.scaled != "" {
		if near, _ := s.wordsBefore(n); len(n.scaled) >= 8 && len(n.scaled) <= maxNational && (near|s.under(n))&aboutPhone != 0 {
			s.add(n.from, n.scaledTo, phone, canonical(n.scaled))
			return n.scaledTo
		}
		return 0
	}
	if s.around.number {
		if yes, _ := s.about(n, 1); !yes {
			return 0
		}
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

// canonical puts a plus before at least ten digits that begin with a calling code whose numbering plan has such numbers. It returns any other digits
// unchanged.
func canonical(digits string) string {
	if p, national, ok := callingCode(digits); ok && len(digits) >= 10 && p.assigned(national) {
		return "+" + digits
	}
	return digits
}

// about reports what the words around the first groups indicate: yes for a telephone number, no for something else. Both are false without such
// words.
func (s *scanner) about(n *number, groups int) (yes, no bool) {
	near, far := s.wordsBefore(n)
	after, unit := s.after(n.groups[groups-1].end)
	measure := unit && after&aboutUnit != 0
	other := near&(aboutOther|aboutID) != 0
	words := aboutPhone
	if s.callable(n, groups) {
		words |= aboutCall
	}
	yes = near&words != 0 || s.invites(n, groups) || after&(words|aboutLine) != 0 || !measure && !other && far&words != 0 || !other && s.under(n)&words != 0
	return yes, !yes && (near&(aboutOther|aboutID|aboutVersion|aboutSecret) != 0 || measure)
}

// The words of an invitation to call: "text me at", "reach us on", "my number is". Neither the verb nor the preposition alone is evidence.
var (
	invitations = wordSet("call phone ring text dial reach contact message messages sms whatsapp calling phoning texting reaching messaging callback")
	persons     = wordSet("me us him her them back")
	owners      = wordSet("my our his her their your new old direct contact emergency mobile main")
)

func wordSet(words string) map[string]bool {
	set := map[string]bool{}
	for _, word := range strings.Fields(words) {
		set[word] = true
	}
	return set
}

// invites reports whether the words before a number invite a person to call it. The number must have at least seven digits and must not be a date.
func (s *scanner) invites(n *number, groups int) bool {
	digits := s.digits(n, groups)
	if len(digits) < 7 || sameDigits(digits) || groups == 1 && len(digits) == 8 && (day(digits[:4], digits[4:6], digits[6:]) != "" || day(digits[4:], digits[2:4], digits[:2]) != "") {
		return false
	}
	w := strings.Fields(strings.ToLower(strings.TrimRight(s.text[max(0, n.from-40):n.from], ": \t")))
	last := func(i int) string {
		if i >= len(w) {
			return ""
		}
		return w[len(w)-1-i]
	}
	switch last(0) {
	case "at", "on", "under":
		return persons[last(1)] && (invitations[last(2)] || persons[last(2)] && invitations[last(3)])
	case "is":
		return (last(1) == "number" || last(1) == "no.") && owners[last(2)]
	}
	return false
}

// callable reports whether the first groups are as long as telephone numbers and are no number with a fraction. Digits without separators must be a
// number of North America, or have a calling code or a trunk prefix.
func (s *scanner) callable(n *number, groups int) bool {
	digits := s.digits(n, groups)
	switch {
	case len(digits) < 7 || sameDigits(digits):
		return false
	case groups > 1:
		return n.groups[0].sep != "." || groups > 2 && len(digits) >= 9
	case len(digits) < 10 || len(digits) > 13:
		return false
	}
	p, national, ok := callingCode(digits)
	return digits[0] == '0' && digits[1] != '0' || ok && p.assigned(national) || len(digits) == 10 && plans()["1"].assigned(digits) && digits[3] >= '2'
}

// ends reports whether a telephone number may end with the last of these groups. Words such as -Office may follow it.
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
	case '-', '.', '/', ':':
		if c == '.' && groups == 1 && s.zeroFraction(end) {
			return true
		}
		return !s.is(end+1, digit) && (c == '.' || c == ':' || !s.is(end+1, letter) || s.labelled(end))
	}
	return true
}

// labelled reports whether the word after a number is about telephones.
func (s *scanner) labelled(end int) bool {
	meaning, _ := s.after(end)
	return meaning&(aboutPhone|aboutCall|aboutLine) != 0
}

// international reads + or 00 or 011, a calling code, and a national number.
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
		if n.joined != 0 || !s.dialled(n, skip) {
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
		if !(groups > 1 && d == "0" && s.at(g.start-1) == '(') { // The group is the trunk prefix, as in +41 (0)71.
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
		if !yes && (decimal(n, groups) || groups == 1 && n.plus && len(digits) < 10 && s.signed(n)) {
			continue
		}
		trimmed := strings.TrimPrefix(national, "0") // A trunk prefix does not belong after a calling code.
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
		if !complete && (yes || !no && (n.plus && (len(digits) >= 10 || s.spaced(n, groups)) || n.shape("-.", 3, 3, 3, 4))) {
			possible, value = groups, "+"+whole
		}
	}
	return possible, value
}

// dialled reports whether 00 or 011, whose length is skip, stands for a plus. That is so if a word is about telephones, or if separators show where
// the calling code begins and ends.
func (s *scanner) dialled(n *number, skip int) bool {
	if yes, _ := s.about(n, n.count); yes {
		return true
	}
	first := s.text[n.groups[0].start+skip : n.groups[0].end]
	if n.count < 3 || s.inRow(n, n.count) || s.rowBefore(n.from) > 0 || s.rowAfter(n.groups[n.count-1].end) > 0 || s.at(n.from-1) == ':' && s.is(n.from-2, digit) {
		return false
	}
	if first == "" {
		first = s.text[n.groups[1].start:n.groups[1].end]
	}
	return plans()[first] != nil
}

// spaced reports whether the first groups are a calling code and further groups with the same separator.
func (s *scanner) spaced(n *number, groups int) bool {
	return groups > 2 && plans()[s.text[n.groups[0].start:n.groups[0].end]] != nil && uniform(n.groups[:groups])
}

// signed reports whether a plus before a short number is the sign of one of several numbers, or marks an added line of a diff.
func (s *scanner) signed(n *number) bool {
	end := n.groups[0].end
	next := s.skip(end, " ,\t")
	return next > end && (s.is(next, digit) || s.is(next+1, digit)) || s.at(n.from-1) == '\n'
}

// decimal reports whether the first groups look like a number with a fraction, such as 1.2025550143.
func decimal(n *number, groups int) bool {
	dots := 0
	for _, g := range n.groups[:groups-1] {
		if g.sep == "." {
			dots++
		}
	}
	return dots == 1
}

// northAmerican reads ten digits of the form 3-3-4 or without separators, which may have a 1 before them.
func (s *scanner) northAmerican(n *number) (int, string) {
	first := 0 // index of the group with the area code
	if n.groups[0].len() == 1 && s.text[n.groups[0].start] == '1' && n.count > 1 {
		first = 1
	}
	g := n.groups[first:n.count]
	var groups int
	switch {
	case len(g) >= 3 && g[0].len() == 3 && g[1].len() == 3 && g[2].len() == 4:
		groups = first + 3
	case len(g) >= 2 && g[0].len() == 3 && g[1].len() == 7, len(g) >= 2 && g[0].len() == 6 && g[1].len() == 4:
		groups = first + 2
	case g[0].len() == 10, g[0].len() == 11 && s.text[g[0].start] == '1' && first == 0:
		groups = first + 1
	default:
		return 0, ""
	}
	if !s.ends(n, groups) || n.joined == '-' && s.is(n.from-2, digit) {
		return 0, ""
	}
	digits := strings.TrimPrefix(s.digits(n, groups), "1")
	if len(digits) != 10 || digits[0] < '2' { // No area code begins with 0 or 1.
		return 0, ""
	}
	yes, no := s.about(n, groups)
	strict := groups == first+3 && plans()["1"].assigned(digits) && digits[3] >= '2' && n.joined == 0 &&
		(n.paren || strings.Contains(g[0].sep, ")") || uniform(n.groups[:groups]) && (g[0].sep == "-" || g[0].sep == "."))
	if !yes && (no && !n.paren || !strict) {
		return 0, ""
	}
	return groups, "+1" + digits
}

// pairs reports whether the first groups are pairs of digits as in French numbers, and not bytes of a dump or a row of numbers below ten.
func (s *scanner) pairs(n *number, groups int) bool {
	if groups != 5 || n.groups[0].len() != 2 {
		return false
	}
	start, end := n.groups[0].start, n.groups[4].end
	pair := func(i int) bool { return isHex(s.at(i)) && isHex(s.at(i+1)) && !s.is(i+2, ascii) }
	if start >= 6 && pair(start-3) && pair(start-6) || pair(end+1) && pair(end+4) {
		return false
	}
	for _, g := range n.groups[1:5] {
		if s.text[g.start] != '0' {
			return true
		}
	}
	return false
}

// equal reports whether groups are of the same length.
func equal(groups []group) bool {
	return !slices.ContainsFunc(groups, func(g group) bool { return g.len() != groups[0].len() })
}

func uniform(groups []group) bool {
	for _, g := range groups[:len(groups)-1] {
		if g.sep != groups[0].sep {
			return false
		}
	}
	return true
}

// sequence contains every run of consecutive digits, such as 456789. Such a run is no telephone number.
const sequence = "01234567890123456789"

// domestic reads numbers as people write them within their country.
func (s *scanner) domestic(n *number) (int, string) {
	if n.joined == '-' && s.is(n.from-2, digit) {
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
		if total >= 6 && s.ends(n, groups) && s.domesticShape(n, groups, total) {
			best, value = groups, s.digits(n, groups)
		}
		if groups < n.count && !continues(n, groups) {
			break
		}
	}
	if best == 1 {
		value = canonical(value)
	}
	return best, value
}

// continues reports whether the next group may belong to the number. After more than two groups, the separator must stay the same, or be a space or a
// dash.
func continues(n *number, groups int) bool {
	sep := n.groups[groups-1].sep
	return groups <= 2 || sep == n.groups[groups-2].sep || sep == " " || sep == "-"
}

// domesticShape reports whether the first groups are a telephone number: a word says so, or they are written in the form of a country where
// numbers begin with 0, with an area code in parentheses, or with the 8 of Russia.
func (s *scanner) domesticShape(n *number, groups, total int) bool {
	yes, no := s.about(n, groups)
	if no || s.isDate(n, groups) || groups == 2 && n.groups[0].sep == "." || n.shape("-", 4, 4) && isYear(s.digits(n, 2)[:4]) && isYear(s.digits(n, 2)[4:]) {
		return false
	}
	g := n.groups[:groups]
	first := s.text[g[0].start:g[0].end]
	if yes {
		if groups == 1 {
			return total >= 7
		}
		for i, part := range g {
			if part.len() > 9 || i == 0 && !n.paren && strings.Contains(part.sep, ")") {
				return false
			}
		}
		return true
	}
	if n.joined != 0 || s.inRow(n, groups) || s.at(n.from-1) == '.' || s.at(n.from-1) == ':' && isHex(s.at(n.from-2)) && isHex(s.at(n.from-3)) && !s.is(n.from-4, ascii) {
		return false
	}
	if groups == 1 { // The digits begin with the zero of an area code. They must be a whole text or in a sentence, because numbers in tables may be padded with zeros.
		quote, end := s.at(n.from-1), s.at(g[0].end)
		quoted := (quote == '"' || quote == '\'') && end == quote || s.around.inside && n.from == 0 && g[0].end == len(s.text)
		return (total == 10 || total == 11) && first[0] == '0' && first[1] != '0' && !strings.Contains(sequence, first) &&
			(quoted || quote == ' ' && s.is(n.from-2, lower|high) && end != '/')
	}
	if first == "8" { // The number may be Russian, such as 8 (912) 345-67-89.
		return g[0].sep == " (" && total == 11 && groups >= 3 && g[1].len() == 3 && strings.HasPrefix(g[1].sep, ")")
	}
	if groups == 2 && g[0].sep == "-" && total >= 11 && plans()[first] != nil { // The first group is a calling code.
		return plans()[first].assigned(s.text[g[1].start:g[1].end])
	}
	for i, part := range g[1:] {
		if part.len() < 2 || part.len() > 8 || i+1 < groups-1 && part.sep != "-" && part.sep != " " && part.sep != "." {
			return false
		}
	}
	if n.paren {
		return g[0].len() <= 5 && strings.HasPrefix(g[0].sep, ")") && total >= 8 && total <= 11 &&
			(first[0] == '0' || groups >= 3 && g[1].sep == "-" && total >= 10)
	}
	if first[0] != '0' || len(first) < 2 || first[1] == '0' || len(first) > 6 || total < 9 || total > 11 || strings.ContainsAny(g[0].sep, "()") {
		return false
	}
	switch g[0].sep {
	case "-", " ":
		if g[0].sep == " " && uniform(g) && (equal(g) && !s.pairs(n, groups) || s.betweenRows(n, groups)) {
			return false // The groups are a row of numbers with leading zeros.
		}
		return len(first) <= 5 && (groups > 2 && (uniform(g) || g[1].len() >= 3) || groups == 2 && g[1].len() >= 6) || groups == 2 && g[1].len() >= 5
	case ".":
		return uniform(g) && (groups == 5 || groups > 2 && len(first) >= 3 && total >= 10)
	case "/":
		return groups == 2 && g[1].len() >= 5 || groups > 2 && len(first) >= 3
	}
	return false
}

// isDate reports whether the first groups are a date such as 2026-11-20, 20.11.2026 or 20 11 2026, or begin with one.
func (s *scanner) isDate(n *number, groups int) bool {
	if groups < 3 {
		return false
	}
	a, b, c := n.groups[0], n.groups[1], n.groups[2]
	if a.sep != b.sep {
		return false
	}
	return a.len() == 4 && b.len() == 2 && c.len() == 2 && (s.text[a.start] == '1' || s.text[a.start] == '2') ||
		a.len() <= 2 && b.len() <= 2 && c.len() == 4 && (s.text[c.start] == '1' || s.text[c.start] == '2')
}

func isYear(digits string) bool { return digits >= "1500" && digits <= "2100" }

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
