package detect

import (
	"slices"
	"strings"
)

// ofCountry maps ISO 3166 codes of countries to the types that are looked for if Options name the country.
var ofCountry = map[string][]kind{
	"BR": {brCPF, brCNPJ}, "CN": {cnID}, "DE": {deTaxID}, "ES": {esNIF}, "FR": {frNIR}, "GB": {ukNIN}, "IN": {inAadhaar, inPAN}, "IT": {itFiscalCode}, "JP": {jpMyNumber},
	"KR": {krRRN}, "NL": {nlBSN}, "PL": {plPESEL}, "SE": {sePersonalID}, "TR": {trID},
}

// Countries returns the codes that Options.Countries may contain, in lower case and sorted.
func Countries() []string {
	var all []string
	for code := range ofCountry {
		all = append(all, strings.ToLower(code))
	}
	slices.Sort(all)
	return all
}

// personal describes a personal number that consists of digits.
type personal struct {
	kind   kind
	digits int
	forms  []string // ways to group the digits: lengths of the groups, with separators; digits without separators are always read
	check  func(digits string) bool
	about  mask // words that must be around the number unless it has dots; 0 if it needs none
}

// personals lists the personal numbers. The first one that matches a number decides.
var personals = []personal{
	{brCPF, 11, []string{"3.3.3-2", "3.3.3.2", "3 3 3 2", "9-2"}, func(d string) bool { return checksMod11(d, 9, 11) && checksMod11(d, 10, 11) && !sameDigits(d) }, 0},
	{brCNPJ, 14, []string{"2.3.3/4-2", "2.3.3.4-2", "2 3 3 4 2", "8/4-2"}, func(d string) bool { return checksMod11(d, 12, 9) && checksMod11(d, 13, 9) && !sameDigits(d) }, 0},
	{frNIR, 15, []string{"1 2 2 2 3 3 2", "13 2", "1-2-2-2-3-3-2", "1.2.2.2.3.3.2"}, socialFrance, 0},
	{deTaxID, 11, []string{"2 3 3 3", "3 3 3 2", "2-3-3-3", "2/3/3/3"}, taxGermany, 0},
	{nlBSN, 9, []string{"4.2.3", "3.3.3", "3 3 3"}, weighted(11, 9, 8, 7, 6, 5, 4, 3, 2, -1), aboutBSN},
	{trID, 11, []string{"3 3 3 2"}, identityTurkey, 0},
	{krRRN, 13, []string{"6-7", "6 7"}, residentKorea, 0},
	{plPESEL, 11, []string{"6 5"}, peselPoland, 0},
	{sePersonalID, 12, []string{"8-4", "8 4"}, func(d string) bool { return personSweden(d[2:]) && (d[:2] == "19" || d[:2] == "20") }, 0},
	{sePersonalID, 10, []string{"6-4", "6 4"}, personSweden, 0},
}

// person looks for a personal number of a country that Options name.
func (s *scanner) person(n *number) int {
	if !s.persons || n.total < 9 || n.plus {
		return 0
	}
	var form [2 * maxGroups]byte
	size, total := 0, 0
	for groups := 1; groups <= n.count; groups++ {
		g := n.groups[groups-1]
		length := g.len()
		if total += length; length > 13 && groups > 1 || total > 15 {
			break
		}
		if length > 9 {
			form[size] = '0' + byte(length/10)
			size++
		}
		form[size] = '0' + byte(length%10)
		size++
		if total >= 9 && s.bounded(n, groups) {
			for i := range personals {
				if p := &personals[i]; total == p.digits && s.isPerson(n, groups, p, string(form[:size])) {
					s.add(n.groups[0].start, g.end, p.kind, s.digits(n, groups))
					return g.end
				}
			}
		}
		if len(g.sep) != 1 || size >= len(form)-3 {
			break
		}
		form[size] = g.sep[0]
		size++
	}
	return 0
}

func (s *scanner) isPerson(n *number, groups int, p *personal, form string) bool {
	if !s.on[p.kind] || groups > 1 && !slices.Contains(p.forms, form) || !p.check(s.digits(n, groups)) {
		return false
	}
	if p.about == 0 || groups > 1 && strings.Contains(form, ".") {
		return true
	}
	near, far := s.wordsBefore(n)
	return (near|far|s.under(n))&p.about != 0
}

func sameDigits(d string) bool { return strings.Trim(d, d[:1]) == "" }

// checksMod11 checks the digit at i by Brazil's rule: the weights of the digits before it rise from 2 to most, from right to left, and then begin
// again.
func checksMod11(d string, i, most int) bool {
	sum, weight := 0, 2
	for k := i - 1; k >= 0; k-- {
		sum += int(d[k]-'0') * weight
		if weight++; weight > most {
			weight = 2
		}
	}
	check := 11 - sum%11
	if check > 9 {
		check = 0
	}
	return int(d[i]-'0') == check
}

// socialFrance checks the key of a NIR: 97 minus the remainder of the number divided by 97. Numbers with the letters of Corsica are not read.
func socialFrance(d string) bool {
	month := atoi(d[3:5])
	return strings.IndexByte("123478", d[0]) >= 0 && (month >= 1 && month <= 12 || month >= 20 && month <= 42 || month >= 50) && 97-atoi(d[:13])%97 == atoi(d[13:])
}

// taxGermany checks a tax identification number: ISO 7064 mod 11,10, and exactly one of the first ten digits occurs twice or three times.
func taxGermany(d string) bool {
	var counts [10]int
	for i := range 10 {
		counts[d[i]-'0']++
	}
	repeated := 0
	for _, n := range counts {
		if n > 3 {
			return false
		}
		if n > 1 {
			repeated++
		}
	}
	return d[0] != '0' && repeated == 1 && mod11x10(d)
}

// identityTurkey checks the last two digits of a T.C. kimlik number.
func identityTurkey(d string) bool {
	odd, even := 0, 0
	for i := range 9 {
		if i%2 == 0 {
			odd += int(d[i] - '0')
		} else {
			even += int(d[i] - '0')
		}
	}
	tenth := ((odd*7-even)%10 + 10) % 10
	return d[0] != '0' && int(d[9]-'0') == tenth && int(d[10]-'0') == (odd+even+tenth)%10
}

// residentKorea checks the date and the check digit of a resident registration number. Numbers issued since October 2020 have no check digit.
func residentKorea(d string) bool {
	sum := 0
	for i, w := range [12]int{2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5} {
		sum += int(d[i]-'0') * w
	}
	return d[6] >= '1' && d[6] <= '8' && validDay("2000", d[2:4], d[4:6]) && (11-sum%11)%10 == int(d[12]-'0')
}

// peselPoland checks the date, whose month encodes the century, and the check digit.
func peselPoland(d string) bool {
	sum := 0
	for i := range 11 {
		sum += int(d[i]-'0') * [4]int{1, 3, 7, 9}[i%4]
	}
	if month := atoi(d[2:4]) % 20; month < 1 || month > 12 || d[4:6] < "01" || d[4:6] > "31" {
		return false
	}
	last := int(d[10] - '0')
	return (sum-last*7+last)%10 == 0
}

// personSweden checks the date and Luhn's digit of a personnummer; a samordningsnummer has 60 added to the day.
func personSweden(d string) bool {
	day := atoi(d[4:6]) % 60
	return d[2:4] >= "01" && d[2:4] <= "12" && day >= 1 && day <= 31 && luhn(d)
}

// lettersOfPerson checks whether the word from start to end is a personal number with letters.
func (s *scanner) lettersOfPerson(start, end int) int {
	size := end - start
	switch {
	case s.on[itFiscalCode] && size == 16:
		if code := strings.ToUpper(s.text[start:end]); fiscalItaly(code) {
			s.add(start, end, itFiscalCode, code)
			return end
		}
	case s.on[inPAN] && size == 10:
		if code := strings.ToUpper(s.text[start:end]); matches("cccccnnnnc", code) && lettersOnly(code[:5]) && lettersOnly(code[9:]) && strings.IndexByte("PCHFATBLJG", code[3]) >= 0 {
			s.add(start, end, inPAN, code)
			return end
		}
	case s.on[esNIF] && (size == 9 || size == 8):
		stop := end
		if size == 8 && (s.at(end) == '-' || s.at(end) == ' ') && s.is(end+1, letter) && !s.is(end+2, ascii) { // The number may be written as 12345678-Z.
			stop = end + 2
		}
		if code := strings.ToUpper(s.text[start:end]) + strings.ToUpper(strings.TrimLeft(s.text[end:stop], "- ")); len(code) == 9 && identitySpain(code) {
			s.add(start, stop, esNIF, code)
			return stop
		}
	}
	return 0
}

func lettersOnly(text string) bool { return strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" }

// identitySpain checks the letter of a DNI, or of a NIE, in which X, Y and Z stand for 0, 1 and 2.
func identitySpain(code string) bool {
	digits := code[:8]
	if i := strings.IndexByte("XYZ", code[0]); i >= 0 {
		digits = string('0'+byte(i)) + code[1:8]
	}
	return digitsOnly(digits) && "TRWAGMYFPDXBNJZSQVHLCKE"[atoi(digits)%23] == code[8]
}

// fiscalItaly checks the form and the last letter of a codice fiscale (decree of 23 December 1976). If two persons would have the same code, letters
// replace digits.
func fiscalItaly(code string) bool {
	const odd = "BAKPLCQDREVOSFTGUHMINJWZYX" // the value of a character at an odd position is the index of its letter in this text
	sum := 0
	for i := range 15 {
		c := code[i]
		number := i == 6 || i == 7 || i == 9 || i == 10 || i >= 12
		value := int(c - 'A')
		switch {
		case isDigit(c) && number:
			value = int(c - '0')
		case c < 'A' || c > 'Z' || number && strings.IndexByte("LMNPQRSTUV", c) < 0:
			return false
		}
		if i == 8 && strings.IndexByte("ABCDEHLMPRST", c) < 0 { // The letter encodes the month.
			return false
		}
		if i%2 == 0 {
			value = strings.IndexByte(odd, 'A'+byte(value))
		}
		sum += value
	}
	return code[15] == 'A'+byte(sum%26)
}
