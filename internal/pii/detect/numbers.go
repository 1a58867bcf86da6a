package detect

import (
	"slices"
	"strings"
)

// maxGroups is the maximum number of groups of digits in a value, such as +49 (0) 30 12 34 56 78.
const maxGroups = 8

// shortest is the minimum number of digits in a value, except for addresses of four parts and opt-in types.
const shortest = 6

// shortestWithin is the minimum length of a run of digits that is a value although a letter directly follows it.
const shortestWithin = 9

// group is a run of digits. sep is the text between it and the next group: a space, a dash, a dot or a slash, and parentheses.
type group struct {
	start, end int
	sep        string
}

func (g group) len() int { return g.end - g.start }

// number is a sequence of groups of digits, which the scanner offers to the detectors. A detector takes the first groups, as many as it needs.
type number struct {
	groups [maxGroups]group
	count  int
	total  int    // digits in all groups
	all    string // all digits; empty until needed
	from   int    // start, including + and (
	plus   bool   // whether a + is before the first digit
	paren  bool   // whether a ( is before the first digit
	glued  bool   // a letter or an underscore is directly before the number
	joined byte   // '-', '.' or '/' before the number, after a letter or a digit; 0 if there is none

	read     bool // near and far are known
	near     mask // meanings of the nearest words before the number
	far      mask
	placed   bool   // heading is known
	heading  mask   // meanings of the heading of the number's column
	scaled   string // digits of a number with an exponent, written out; empty for other numbers
	scaledTo int    // end of the exponent, if scaled is not empty
}

// numerals looks for values in the digits of the word from start to end, and returns where to continue: end if there are none.
func (s *scanner) numerals(start, end int) int {
	for i := start; i < end; {
		if !isDigit(s.text[i]) {
			i++
			continue
		}
		from := i
		for i < end && isDigit(s.text[i]) {
			i++
		}
		if i < end && i-from < shortestWithin && s.text[i] != 'e' && s.text[i] != 'E' {
			continue // The run is too short for a value within a word.
		}
		if from > start && s.text[from-1]|0x20 == 'x' && s.at(from-2) == '0' && !s.is(from-3, ascii) {
			return end // The word is a hexadecimal number, such as 0x10.
		}
		if done := s.numbers(from); done > i {
			if done >= end {
				return done
			}
			i = done
		}
	}
	return end
}

// numbers looks for a value in the number whose first digit is at start, and returns where to continue.
func (s *scanner) numbers(start int) int {
	var n number
	s.number(&n, start)
	if n.total < shortest && n.count < 4 && !s.on[zipCode] && !s.on[dateOfBirth] {
		return n.groups[0].end
	}
	// The first detector that finds something decides. Types with a checksum come first.
	end := s.chinese(&n)
	if end == 0 {
		end = s.ipv4(&n)
	}
	if end == 0 {
		end = s.person(&n)
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

// number reads the marks before start, and the groups of digits from there on.
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
	if c := s.at(n.from - 1); (c == '-' || c == '.' || c == '/') && s.is(n.from-2, ascii) {
		n.joined = c
	}
	i := start
	plus := ""
	if c := s.at(n.from - 1); n.plus || c == '=' {
		plus = "+" // A plus encodes a space in a query, as in find?phone=%2B1+212+555+0123.
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
	if n.paren && !slices.ContainsFunc(n.groups[:n.count], func(g group) bool { return strings.Contains(g.sep, ")") }) {
		n.paren = false // The parentheses enclose the whole number or more.
		for n.from < start && s.text[n.from] != '+' {
			n.from++
		}
	}
	s.scale(n)
}

// scale reads a number with an exponent, such as 4.111111111111111e15, if it is a whole number and all its digits are written. A zero at the end may
// be missing.
func (s *scanner) scale(n *number) {
	last := n.groups[0].end
	fraction := ""
	if n.groups[0].sep == "." {
		last = n.groups[1].end
		fraction = s.text[n.groups[1].start:last]
	}
	if s.at(last)|0x20 != 'e' || n.groups[0].len() != 1 || len(fraction) < shortest {
		return
	}
	i := last + 1
	if s.at(i) == '+' {
		i++
	}
	power := 0
	for ; isDigit(s.at(i)) && power < maxNational*2; i++ {
		power = power*10 + int(s.text[i]-'0')
	}
	if zeros := power - len(fraction); zeros >= 0 && zeros <= 1 && !s.is(i, ascii) {
		n.scaled, n.scaledTo = s.text[n.groups[0].start:n.groups[0].end]+fraction+"0"[:zeros], i
	}
}

// wordsBefore returns the meanings of the words before the number.
func (s *scanner) wordsBefore(n *number) (near, far mask) {
	if !n.read {
		n.read = true
		n.near, n.far = s.before(n.from)
	}
	return n.near, n.far
}

// under returns the meaning of the heading of the number's column.
func (s *scanner) under(n *number) mask {
	if !n.placed {
		n.placed = true
		n.heading = s.headings.over(s.text, n.groups[0].start, n.groups[n.count-1].end)
	}
	return n.heading
}

// separator returns the beginning of the next group after the digits that end at i, or i if there is none. The character in space counts as a space.
func (s *scanner) separator(i int, space string) int {
	const longest = 4 // length of the longest separator, ") - "
	spaces, marks := 0, 0
	for j := i; j < len(s.text) && j-i <= longest; j++ {
		switch c := s.text[j]; {
		case isDigit(c):
			return j
		case c == ' ':
			spaces++
		case space != "" && c == space[0]:
			spaces += 2 // This character must not be repeated, and must not have a space beside it.
		case c == '-' && spaces > 0 && s.is(j+1, digit):
			return i // The dash is a sign.
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

// digits returns the digits of the first groups.
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

// shape reports whether the first groups have these lengths and the same separator, which is one of seps.
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

// bounded reports whether the value made of the first groups stands on its own: it is not part of a longer number, of a decimal fraction or of
// hexadecimal digits. A letter may be next to it.
func (s *scanner) bounded(n *number, groups int) bool {
	last := n.groups[groups-1]
	digitBefore := s.is(n.from-2, digit)
	switch {
	case s.at(n.from-1) == '.' && !s.is(n.from-2, letter|high) && s.at(n.from-2) != '.', n.joined == '-' && digitBefore && groups > 1:
		return false
	case (n.glued || s.is(last.end, letter)) && s.amongHex(n.groups[0].start, last.end), groups > 1 && s.cutHex(n, groups):
		return false
	case !isDigit(s.at(last.end + 1)):
		return true
	}
	switch s.at(last.end) {
	case '.':
		return s.zeroFraction(last.end)
	case '-':
		return groups == 1
	}
	return true
}

// cutHex reports whether a row of hexadecimal numbers is cut off in its last number, as in 4301 0020 001A: with the hexadecimal digits after it, the
// last of the first groups is as long as the first group.
func (s *scanner) cutHex(n *number, groups int) bool {
	last := n.groups[groups-1]
	end := last.end
	for isHex(s.at(end)) && end-last.start < n.groups[0].len() {
		end++
	}
	return end > last.end && end-last.start == n.groups[0].len() && !s.is(end, ascii)
}

// zeroFraction reports whether a dot and one to three zeros follow at i, as in the whole number 12.0, and the number ends after them.
func (s *scanner) zeroFraction(i int) bool {
	const most = 3
	end := i + 1
	for end-i <= most && s.at(end) == '0' {
		end++
	}
	return s.at(i) == '.' && end > i+1 && !s.is(end, ascii) && !(s.at(end) == '.' && s.is(end+1, digit))
}

// amongHex reports whether digits with a letter next to them are part of a hexadecimal number: all letters of the word are hexadecimal digits, and
// the word has further digits.
func (s *scanner) amongHex(start, end int) bool {
	const most = 64
	digits := false
	for i := start; i > 0 && s.is(i-1, alnum); i-- {
		if !isHex(s.text[i-1]) {
			return false
		}
		if digits = digits || isDigit(s.text[i-1]); start-i > most {
			return true
		}
	}
	for i := end; s.is(i, alnum); i++ {
		if !isHex(s.text[i]) {
			return false
		}
		if digits = digits || isDigit(s.text[i]); i-end > most {
			return true
		}
	}
	return digits
}

// zeros reports whether one of the first groups begins with a zero, which does not happen in numbers that count something.
func (s *scanner) zeros(n *number, groups int) bool {
	for _, g := range n.groups[:groups] {
		if g.len() > 1 && s.text[g.start] == '0' {
			return true
		}
	}
	return false
}

// inRow reports whether digits are beside the first groups, after a space or a comma, as in a row of numbers.
func (s *scanner) inRow(n *number, groups int) bool {
	end := n.groups[groups-1].end
	for _, c := range " ,;\t" {
		if s.at(end) == byte(c) && isDigit(s.at(s.skip(end, " ,;\t"))) {
			return true
		}
	}
	i := n.from
	for n.from-i < 3 && i > 0 && strings.IndexByte(" ,;\t", s.text[i-1]) >= 0 {
		i--
	}
	return i < n.from && s.is(i-1, digit)
}

// maxRowLine is more than the maximum length of a line that consists of one value in groups.
const maxRowLine = 32

// betweenRows reports whether the first groups fill a line of a table of numbers. That is so if an adjacent line has as many groups and is no card
// number, and if at most one of the two lines begins with a zero.
func (s *scanner) betweenRows(n *number, groups int) bool {
	start, end := n.groups[0].start, n.groups[groups-1].end
	if start > 0 && s.text[start-1] != '\n' || end < len(s.text) && s.text[end] != '\n' {
		return false
	}
	before := s.text[max(0, start-maxRowLine):max(0, start-1)]
	after, _, _ := strings.Cut(s.text[min(len(s.text), end+1):min(len(s.text), end+maxRowLine)], "\n")
	for _, line := range [...]string{before[strings.LastIndexByte(before, '\n')+1:], after} {
		digits := strings.ReplaceAll(line, " ", "")
		if strings.Count(line, " ") == groups-1 && digits != "" && digitsOnly(digits) &&
			!(s.text[start] == '0' && line[0] == '0') && !(len(digits) >= 13 && known(digits) && luhn(digits)) {
			return true
		}
	}
	return false
}

// rowBefore counts the numbers directly before an offset. The numbers may be hexadecimal and are separated by spaces. rowBefore stops at 2.
func (s *scanner) rowBefore(i int) (n int) {
	for ; n < 2; n++ {
		at := i
		for i-at < 4 && s.at(at-1) == ' ' {
			at--
		}
		end := at
		for end-at < 10 && isHex(s.at(at-1)) {
			at--
		}
		if end == i || at == end || s.is(at-1, ascii) || !strings.ContainsAny(s.text[at:end], "0123456789") {
			break
		}
		i = at
	}
	return n
}

// rowAfter counts the numbers directly after an offset. The numbers may be hexadecimal and are separated by spaces. rowAfter stops at 4.
func (s *scanner) rowAfter(i int) (n int) {
	for ; n < 4; n++ {
		from := s.skip(i, " ")
		to := from
		for to-from < 10 && isHex(s.at(to)) {
			to++
		}
		if from == i || to == from || s.is(to, ascii) || !strings.ContainsAny(s.text[from:to], "0123456789") {
			break
		}
		i = to
	}
	return n
}
