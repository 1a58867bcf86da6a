package detect

import (
	"slices"
	"strings"
)

// maxGroups is how many groups of digits a value may have: +49 (0) 30 12 34 56 78.
const maxGroups = 8

// shortest is how many digits a value has at least, but for addresses of four parts and types that are opt-in.
const shortest = 6

// group is a run of digits. sep is what stands between it and the next one: a space, a dash, a dot or a slash, and parentheses.
type group struct {
	start, end int
	sep        string
}

func (g group) len() int { return g.end - g.start }

// number is a sequence of groups of digits. Detectors take as many of them as they need from the first one on.
type number struct {
	groups [maxGroups]group
	count  int
	total  int    // digits in all groups
	all    string // these digits; empty until they are asked for
	from   int    // where it begins with + and (
	plus   bool   // + before the first digit
	paren  bool   // ( before the first digit
	glued  bool   // a letter or an underscore before it
	joined byte   // '-', '.' or '/' with a letter or a digit before it; 0 for none
	near   mask   // before it
	far    mask
}

// numbers looks at the number whose first digit is at start, and returns where to go on.
func (s *scanner) numbers(start int) int {
	var n number
	s.number(&n, start)
	if n.total < shortest && n.count < 4 && !s.on[zipCode] && !s.on[dateOfBirth] {
		return n.groups[0].end
	}
	n.near, n.far = s.before(n.from)
	// The first that finds something has it. Types with a checksum come first.
	end := s.chinese(&n)
	if end == 0 {
		end = s.ipv4(&n)
	}
	if end == 0 {
		end = s.card(&n)
	}
	if end == 0 {
		end = s.ssn(&n)
	}
	if end == 0 {
		end = s.twelveDigits(&n)
	}
	if end == 0 {
		end = s.date(&n)
	}
	if end == 0 {
		end = s.zip(&n)
	}
	if end == 0 {
		end = s.phone(&n)
	}
	return max(end, n.groups[0].end)
}

// number reads what is before start, and the groups from there on.
func (s *scanner) number(n *number, start int) {
	n.from = start
	for n.from > 0 && start-n.from < 3 {
		switch s.text[n.from-1] {
		case '+':
			n.plus = true
		case '(':
			n.paren = true
		case ' ':
			if !n.plus && !n.paren && s.at(n.from-2) == '+' {
				break
			}
			goto done
		default:
			goto done
		}
		n.from--
	}
done:
	if n.from == start || !n.plus {
		n.glued = s.is(n.from-1, letter|underscore)
	}
	if c := s.at(n.from - 1); (c == '-' || c == '.' || c == '/') && s.is(n.from-2, word) {
		n.joined = c
	}
	i := start
	plus := ""
	if c := s.at(n.from - 1); n.plus || c == '=' {
		plus = "+" // as in find?phone=%2B1+212+555+0123
	}
	for n.count < maxGroups {
		g := group{start: i}
		for i < len(s.text) && isDigit(s.text[i]) {
			i++
		}
		g.end = i
		n.total += g.len()
		i = s.separator(i, plus)
		if g.sep = s.text[g.end:i]; plus != "" {
			g.sep = strings.ReplaceAll(g.sep, plus, " ")
		}
		n.groups[n.count] = g
		n.count++
		if g.sep == "" {
			break
		}
	}
	n.groups[n.count-1].sep = ""
}

// separator is where the next group begins after the digits that end at i; i if there is none. space stands for a space too.
func (s *scanner) separator(i int, space string) int {
	const longest = 4 // ") - "
	spaces, marks := 0, 0
	for j := i; j < len(s.text) && j-i <= longest; j++ {
		switch c := s.text[j]; {
		case isDigit(c):
			return j
		case c == ' ' || space != "" && c == space[0]:
			spaces++
		case c == '-' || c == '.' || c == '/':
			marks++
		case c == '(' || c == ')':
		default:
			return i
		}
		if spaces > 2 || marks > 1 {
			return i
		}
	}
	return i
}

// digits joins the first groups.
func (s *scanner) digits(n *number, groups int) string {
	if groups == 1 {
		return s.text[n.groups[0].start:n.groups[0].end]
	}
	size := 0
	for _, g := range n.groups[:groups] {
		size += g.len()
	}
	if n.all == "" {
		all := make([]byte, 0, n.total)
		for _, g := range n.groups[:n.count] {
			all = append(all, s.text[g.start:g.end]...)
		}
		n.all = string(all)
	}
	return n.all[:size]
}

// shape tells whether the first groups have these lengths and the same separator, which is one of seps.
func (n *number) shape(seps string, lengths ...int) bool {
	if n.count < len(lengths) {
		return false
	}
	for i, length := range lengths {
		g := n.groups[i]
		if g.len() != length {
			return false
		}
		if i+1 < len(lengths) && (g.sep != n.groups[0].sep || len(g.sep) != 1 || !slices.Contains([]byte(seps), g.sep[0])) {
			return false
		}
	}
	return true
}

// bounded tells whether the value made of the first groups stands on its own: no letter is next to it, and no digit after
// a mark.
func (s *scanner) bounded(n *number, groups int) bool {
	if n.glued || n.joined == '.' || n.joined == '-' && s.is(n.from-2, digit) {
		return false
	}
	last := n.groups[groups-1]
	if s.is(last.end, letter|underscore) {
		return false
	}
	c := s.at(last.end)
	return (c != '-' && c != '.' && c != '/') || !s.is(last.end+1, digit)
}
