package detect

import "strings"

// accounts has, for each country, the characters after the check digits: digits (n), letters (a), or either (c). The countries of the SWIFT registry
// come first, then those that use the format without being in the registry.
var accounts = func() map[string]string {
	formats := map[string]string{}
	for _, entry := range strings.Fields(`AD8n12c AE19n AL8n16c AT16n AZ4a20c BA16n BE12n BG4a6n8c BH4a14c BI23n BR23n1a1c BY4c4n16c CH5n12c
		CR18n CY8n16c CZ20n DE18n DJ23n DK14n DO4c20n EE16n EG25n ES20n FI14n FK2a12n FO14n FR10n11c2n GB4a14n GE2a16n GI4a15c GL14n
		GR7n16c GT24c HN4a20n HR17n HU24n IE4a14n IL19n IQ4a15n IS22n IT1a10n12c JO4a4n18c KW4a22c KZ3n13c LB4n20c LC4a24c LI5n12c LT16n
		LU3n13c LV4a13c LY21n MC10n11c2n MD20c ME18n MK3n10c2n MN16n MR23n MT4a5n18c MU4a19n3a NI4a20n NL4a10n NO11n OM3n16c PK4a16c PL24n
		PS4a21c PT21n QA4a21c RO4a16c RS18n RU14n15c SA2n18c SC4a20n3a SD14n SE20n SI15n SK20n SM1a10n12c SO19n ST21n SV4a20n TL19n TN20n
		TR6n16c UA6n19c VA18n VG4a16n XK16n YE4a4n18c
		AO21n BF2c22n BJ2c22n CF23n CG23n CI2c22n CM23n CV21n DZ22n GA23n GQ23n GW2c19n IR22n KM23n MA24n MG23n ML2c22n MZ21n NE2c22n SN2c22n
		TD23n TG2c22n BL10n11c2n GF10n11c2n GP10n11c2n MF10n11c2n MQ10n11c2n NC10n11c2n PF10n11c2n PM10n11c2n RE10n11c2n TF10n11c2n
		WF10n11c2n YT10n11c2n`) {
		var classes strings.Builder
		n := 0
		for _, c := range entry[2:] {
			if c < 'a' {
				n = n*10 + int(c-'0')
				continue
			}
			classes.WriteString(strings.Repeat(string(c), n))
			n = 0
		}
		formats[entry[:2]] = "aann" + classes.String()
	}
	return formats
}()

// iban looks for an account number at start: a country, two check digits, and the letters and digits that the country uses, in groups or not.
func (s *scanner) iban(start int) int {
	var compact [34]byte
	var country [2]byte
	for i := range country {
		if !s.is(start+i, letter) {
			return 0
		}
		country[i] = s.text[start+i] &^ 0x20
	}
	if s.is(start+2, letter) { // Most words have a letter there, so this check comes first.
		return 0
	}
	format := accounts[string(country[:])]
	if format == "" {
		return 0
	}
	i, n, cases := start, 0, uint8(0)
	for n < len(format) {
		c := s.at(i)
		if (c == ' ' || c == '-' || c == '.') && n >= 2 && s.is(i+1, alnum) {
			i++
			continue
		}
		class := classes[c]
		if class&alnum == 0 || format[n] == 'n' && class != digit || format[n] == 'a' && class == digit {
			return 0
		}
		if cases |= class & letter; class != digit {
			c &^= 0x20
		}
		compact[n] = c
		n++
		i++
	}
	value := string(compact[:n])
	if s.is(i, digit) || cases == letter || value[2:4] < "02" || value[2:4] > "98" || !mod97(value) {
		return 0
	}
	s.add(start, i, iban, value)
	return i
}

// mod97 performs the check of ISO 7064 that ISO 13616 requires.
func mod97(value string) bool {
	rest := 0
	for i := range len(value) {
		switch c := value[(i+4)%len(value)]; {
		case isDigit(c):
			rest = (rest*10 + int(c-'0')) % 97
		default:
			rest = (rest*100 + int(c-'A') + 10) % 97
		}
	}
	return rest == 1
}
