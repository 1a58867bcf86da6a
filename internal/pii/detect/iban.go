package detect

import "strings"

// ibanLengths has the countries of the SWIFT registry, then those that use the format without being in it.
var ibanLengths = func() map[string]int {
	lengths := map[string]int{}
	for _, entry := range strings.Fields(`AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28
		EE20 EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32
		LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33 SA24
		SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30
		AO25 BF28 BJ28 CF27 CG27 CI28 CM27 CV25 DZ26 GA27 GQ27 GW25 IR26 KM27 MA28 MG27 ML28 MZ25 NE28 SN28 TD27 TG28
		BL27 GF27 GP27 MF27 MQ27 NC27 PF27 PM27 RE27 TF27 WF27 YT27`) {
		n := int(entry[2]-'0')*10 + int(entry[3]-'0')
		lengths[entry[:2]] = n
	}
	return lengths
}()

// iban looks for an account number at start: a country, two check digits, and as many letters and digits as the country has, in
// groups or not.
func (s *scanner) iban(start int) int {
	var compact [34]byte
	var country [2]byte
	for i := range country {
		if !s.is(start+i, letter) {
			return 0
		}
		country[i] = s.text[start+i] &^ 0x20
	}
	length := ibanLengths[string(country[:])]
	if length == 0 {
		return 0
	}
	i, n := start, 0
	for n < length {
		c := s.at(i)
		switch {
		case isDigit(c):
			compact[n] = c
		case classes[c]&letter != 0:
			compact[n] = c &^ 0x20
		case (c == ' ' || c == '-' || c == '.') && n >= 2 && s.is(i+1, alnum):
			i++
			continue
		default:
			return 0
		}
		n++
		i++
	}
	value := string(compact[:length])
	if s.is(i, word) || !mod97(value) {
		return 0
	}
	s.add(start, i, iban, value)
	return i
}

// mod97 is the check of ISO 7064 that ISO 13616 asks for.
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
