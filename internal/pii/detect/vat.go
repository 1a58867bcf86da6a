package detect

import "strings"

// taxNumber is the format of a country's VAT numbers after the country code. In a format, n stands for a digit, c for a digit or a letter, and every
// other character for itself. check verifies the check digit. If check is nil, a word such as VAT must be near.
type taxNumber struct {
	format string
	check  func(digits string) bool
}

// taxNumbers follow the European Commission's VIES, with the check digits of its "VAT number structure" paper.
var taxNumbers = map[string][]taxNumber{
	"AT": {{"Unnnnnnnn", nil}},
	"BE": {{"nnnnnnnnnn", func(d string) bool { return 97-atoi(d[:8])%97 == atoi(d[8:]) }}},
	"BG": {{"nnnnnnnnnn", nil}, {"nnnnnnnnn", nil}},
	"CH": {{"Ennnnnnnnn", nil}},
	"CY": {{"nnnnnnnnc", nil}},
	"CZ": {{"nnnnnnnnnn", nil}, {"nnnnnnnnn", nil}, {"nnnnnnnn", nil}},
	"DE": {{"nnnnnnnnn", mod11x10}},
	"DK": {{"nnnnnnnn", weighted(11, 2, 7, 6, 5, 4, 3, 2, 1)}},
	"EE": {{"nnnnnnnnn", weighted(10, 3, 7, 1, 3, 7, 1, 3, 7, 1)}},
	"EL": {{"nnnnnnnnn", nil}},
	"ES": {{"cnnnnnnnc", nil}},
	"FI": {{"nnnnnnnn", weighted(11, 7, 9, 10, 5, 8, 4, 2, 1)}},
	"FR": {{"nnnnnnnnnnn", func(d string) bool { return (12+3*(atoi(d[2:])%97))%97 == atoi(d[:2]) }}, {"ccnnnnnnnnn", nil}},
	"GB": {{"nnnnnnnnnnnn", nil}, {"nnnnnnnnn", british}},
	"HR": {{"nnnnnnnnnnn", mod11x10}},
	"HU": {{"nnnnnnnn", weighted(10, 9, 7, 3, 1, 9, 7, 3, 1)}},
	"IE": {{"ncnnnnncc", nil}, {"ncnnnnnc", nil}},
	"IT": {{"nnnnnnnnnnn", luhn}},
	"LT": {{"nnnnnnnnnnnn", nil}, {"nnnnnnnnn", nil}},
	"LU": {{"nnnnnnnn", func(d string) bool { return atoi(d[:6])%89 == atoi(d[6:]) }}},
	"LV": {{"nnnnnnnnnnn", nil}},
	"MT": {{"nnnnnnnn", weighted(37, 3, 4, 6, 7, 8, 9, 10, 1)}},
	"NL": {{"nnnnnnnnnBnn", nil}},
	"NO": {{"nnnnnnnnnMVA", nil}, {"nnnnnnnnn", weighted(11, 3, 2, 7, 6, 5, 4, 3, 2, 1)}},
	"PL": {{"nnnnnnnnnn", weighted(11, 6, 5, 7, 2, 3, 4, 5, 6, 7, -1)}},
	"PT": {{"nnnnnnnnn", weighted(11, 9, 8, 7, 6, 5, 4, 3, 2, 1)}},
	"RO": {{"nnnnnnnnnn", nil}, {"nnnnnnnnn", nil}, {"nnnnnnnn", nil}, {"nnnnnnn", nil}, {"nnnnnn", nil}},
	"SE": {{"nnnnnnnnnnnn", func(d string) bool { return luhn(d[:10]) }}},
	"SI": {{"nnnnnnnn", nil}},
	"SK": {{"nnnnnnnnnn", func(d string) bool { return atoi(d)%11 == 0 }}},
	"XI": {{"nnnnnnnnn", british}},
}

const longestTax = 14

// tax looks for a VAT number: the letters of a country and the digits after them.
func (s *scanner) tax(start int) int {
	formats := taxNumbers[s.text[start:start+2]]
	if formats == nil {
		return 0
	}
	value, ends := s.compact(start, longestTax)
	near, far := s.before(start)
	for _, f := range formats {
		size := 2 + len(f.format)
		if len(value) < size || !matches(f.format, value[2:size]) || s.is(ends[size-1], ascii) {
			continue
		}
		about := (near|far)&aboutVAT != 0
		if !about && (f.check == nil || near&aboutOther != 0 || !f.check(value[2:size])) {
			continue
		}
		s.add(start, ends[size-1], vat, value[:size])
		return ends[size-1]
	}
	return 0
}

func matches(format, value string) bool {
	for i := range len(format) {
		switch c := value[i]; format[i] {
		case 'n':
			if !isDigit(c) {
				return false
			}
		case 'c':
		default:
			if c != format[i] {
				return false
			}
		}
	}
	return true
}

func atoi(digits string) int {
	n := 0
	for i := range len(digits) {
		n = n*10 + int(digits[i]-'0')
	}
	return n
}

// weighted returns a function that checks whether the weighted sum of digits is a multiple of mod.
func weighted(mod int, weights ...int) func(string) bool {
	return func(digits string) bool {
		sum := 0
		for i, w := range weights {
			sum += int(digits[i]-'0') * w
		}
		return sum%mod == 0 && strings.Trim(digits, "0") != ""
	}
}

// mod11x10 performs the check of ISO 7064, mod 11,10.
func mod11x10(digits string) bool {
	product := 10
	for i := range len(digits) - 1 {
		sum := (int(digits[i]-'0') + product) % 10
		if sum == 0 {
			sum = 10
		}
		product = 2 * sum % 11
	}
	return (11-product)%10 == int(digits[len(digits)-1]-'0')
}

// british checks the weighted sum of nine digits in its two forms, 97 and 97-55.
func british(digits string) bool {
	sum := atoi(digits[7:])
	for i := range 7 {
		sum += int(digits[i]-'0') * (8 - i)
	}
	return sum%97 == 0 || (sum+55)%97 == 0
}
