package detect

import "strings"

// date looks for a date of birth: a date with words about birth around it.
func (s *scanner) date(n *number) int {
	if !s.on[dateOfBirth] || n.plus || n.glued {
		return 0
	}
	near, far := s.wordsBefore(n)
	if (near|far|s.under(n))&aboutBirth == 0 {
		return 0
	}
	g := n.groups
	part := func(i int) string { return s.text[g[i].start:g[i].end] }
	end, value := 0, ""
	switch {
	case n.shape("-/. ", 4, 2, 2), n.shape("-/.", 4, 1, 2), n.shape("-/.", 4, 2, 1), n.shape("-/.", 4, 1, 1):
		end, value = g[2].end, day(part(0), part(1), part(2))
	case n.count >= 3 && g[0].len() <= 2 && g[1].len() <= 2 && (g[2].len() == 4 || g[2].len() == 2) && strings.TrimSpace(g[0].sep) == strings.TrimSpace(g[1].sep):
		if value = day(part(2), part(1), part(0)); value == "" || g[0].sep == "/" && day(part(2), part(0), part(1)) != "" {
			value = day(part(2), part(0), part(1))
		}
		end = g[2].end
	case g[0].len() == 8 && (near|s.under(n))&aboutBirth != 0:
		end, value = g[0].end, day(part(0)[:4], part(0)[4:6], part(0)[6:])
	case g[0].len() <= 2:
		end, value = s.dayAndMonth(n)
	}
	if value == "" || s.is(end, digit|letter|underscore) {
		return 0
	}
	s.add(n.from, end, dateOfBirth, value)
	return end
}

var months = []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}

// month reads the name of a month at i, and returns its number and its end.
func (s *scanner) month(i int) (string, int) {
	end := i
	for end < len(s.text) && end-i < 10 && s.is(end, letter) {
		end++
	}
	if end-i < 3 {
		return "", i
	}
	for m, name := range months {
		if strings.EqualFold(s.text[i:i+3], name) {
			return string([]byte{'0' + byte((m+1)/10), '0' + byte((m+1)%10)}), end
		}
	}
	return "", i
}

// dayAndMonth reads dates such as 12 March 1985 and 12th of March, 1985, whose day is the first group.
func (s *scanner) dayAndMonth(n *number) (int, string) {
	i := n.groups[0].end
	for _, ordinal := range []string{"st", "nd", "rd", "th", "."} {
		if strings.HasPrefix(s.text[i:], ordinal) {
			i += len(ordinal)
			break
		}
	}
	i = s.skip(i, " -/")
	if strings.HasPrefix(s.text[i:], "of ") {
		i += len("of ")
	}
	month, end := s.month(i)
	if month == "" {
		return 0, ""
	}
	i = s.skip(end, " -/,.")
	year := s.digitsAt(i, 4)
	return i + len(year), day(year, month, s.text[n.groups[0].start:n.groups[0].end])
}

// monthFirst looks for a date such as March 12, 1985 that begins at start.
func (s *scanner) monthFirst(start int) int {
	month, end := s.month(start)
	if month == "" {
		return 0
	}
	i := s.skip(end, " .-/")
	d := s.digitsAt(i, 2)
	i += len(d)
	if s.is(i, letter) && s.is(i+1, letter) { // an ordinal such as 12th
		i += 2
	}
	i = s.skip(i, " ,-/")
	year := s.digitsAt(i, 4)
	value := day(year, month, d)
	if near, far := s.before(start); value == "" || (near|far)&aboutBirth == 0 || s.is(i+len(year), ascii) {
		return 0
	}
	s.add(start, i+len(year), dateOfBirth, value)
	return i + len(year)
}

// skip returns the offset after the marks at i. It skips at most three marks.
func (s *scanner) skip(i int, marks string) int {
	for n := 0; n < 3 && i < len(s.text) && strings.IndexByte(marks, s.text[i]) >= 0; n++ {
		i++
	}
	return i
}

func (s *scanner) digitsAt(i, limit int) string {
	i = min(i, len(s.text))
	end := i
	for end < len(s.text) && end-i < limit && isDigit(s.text[end]) {
		end++
	}
	return s.text[i:end]
}

// day returns a date in the form of ISO 8601, or "" if the year, the month or the day is out of range; see validDay. Of years with two digits, those
// below 27 are in the 21st century.
func day(year, month, dayOfMonth string) string {
	if len(year) == 2 {
		century := "19"
		if year < "27" {
			century = "20"
		}
		year = century + year
	}
	if len(month) == 1 {
		month = "0" + month
	}
	if len(dayOfMonth) == 1 {
		dayOfMonth = "0" + dayOfMonth
	}
	if !validDay(year, month, dayOfMonth) {
		return ""
	}
	return year + "-" + month + "-" + dayOfMonth
}

func validDay(year, month, dayOfMonth string) bool {
	return len(year) == 4 && len(month) == 2 && len(dayOfMonth) == 2 && year >= "1880" && year <= "2099" && month >= "01" && month <= "12" &&
		dayOfMonth >= "01" && dayOfMonth <= "31"
}

// zip looks for a ZIP code of the United States after the letters of a state, and for other postal codes if a word is about them.
func (s *scanner) zip(n *number) int {
	if !s.on[zipCode] || n.plus || n.paren || n.glued || n.joined != 0 {
		return 0
	}
	groups := 1
	if n.shape("-", 5, 4) {
		groups = 2
	}
	if !s.bounded(n, groups) || s.is(n.groups[groups-1].end, letter) {
		return 0
	}
	size := n.groups[0].len()
	near, _ := s.wordsBefore(n)
	about := (near|s.under(n))&aboutZip != 0
	switch {
	case size == 5 && (about || s.afterState(n.from) || groups == 2 && near&aboutOther&^aboutZip == 0):
	case (size == 4 || size == 6) && about:
	default:
		return 0
	}
	end := n.groups[groups-1].end
	s.add(n.from, end, zipCode, s.text[n.from:end])
	return end
}
