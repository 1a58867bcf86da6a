package detect

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// mask is a set of meanings that the words around a value have, such as aboutPhone.
type mask uint32

const (
	aboutPhone mask = 1 << iota
	aboutCall       // words that often, but not always, are about telephoning; they count for numbers in the form of a telephone number
	aboutCard
	aboutSSN
	aboutIP
	aboutMAC
	aboutIBAN
	aboutWallet
	aboutSecret
	aboutBirth
	aboutZip
	aboutNIN
	aboutVAT
	aboutMyNumber
	aboutCNID
	aboutAadhaar
	aboutVersion // words about software versions and section numbers
	aboutLine    // words about a telephone line, such as office; they count after a number
	aboutUnit    // units of measure; they count after a number
	aboutBSN
	aboutID    // identifiers, some of which are personal
	aboutOther // amounts, times and measures, which are no personal data
)

var meanings = sync.OnceValue(func() map[string]mask {
	all := map[string]mask{}
	for meaning, words := range map[mask]string{
		aboutPhone: `phone phones telephone telephones tel mobile mobil mobiles cellphone cellular fax faxes sms whatsapp
			msisdn msisdns hotline landline telefon telefone telefono teléfono téléphone telefoon puhelin telefonnummer móvil celular
			phonenumber phonenumbers voicemail viber rufnummer 电话 手机 電話 携帯 телефон тел`,
		aboutCall: `cell cells call calls called calling dial handy portable movil ring answering reach contact pager text texted desk signal`,
		aboutLine: `office work home private business`,
		aboutCard: `card cards credit debit visa mastercard amex maestro discover pan cc creditcard cardnumber ccnumber ccnum kreditkarte karte
			carte tarjeta cartão carta unionpay jcb diners cardholder creditcards cardnumbers`,
		aboutSSN:    `ssn social ssns socials socialsecurity taxpayer itin ssa`,
		aboutIP:     `ip ips ipv ipaddr ipaddress addr address host client server remote peer gateway dns subnet cidr proxy upstream forwarded`,
		aboutMAC:    `mac ethernet hwaddr ether bssid lladdr hardware wifi bluetooth`,
		aboutIBAN:   `iban bank account konto bic swift transfer`,
		aboutWallet: `wallet wallets bitcoin btc eth ether ethereum solana sol crypto monero xmr coin deposit litecoin tron ripple address`,
		aboutSecret: `password passwd pwd passphrase passcode secret secrets token tokens apikey credential credentials creds auth authorization
			bearer accesskey secretkey privatekey signature sig session cookie jwt pat passwort contraseña senha`,
		aboutBirth:    `birth born dob birthday birthdate dateofbirth bday geburtsdatum geboren nacimiento naissance né née geburtstag nascita`,
		aboutZip:      `zip zipcode postal postcode plz postleitzahl`,
		aboutNIN:      `nin nino national insurance ni`,
		aboutVAT:      `vat vatin ust ustid ustidnr tva iva mwst umsatzsteuer btw partita steuernummer tax`,
		aboutMyNumber: `my mynumber kojin bango マイナンバー 個人番号`,
		aboutCNID:     `shenfenzheng sfz resident citizen 身份证 身份证号 identity`,
		aboutAadhaar:  `aadhaar aadhar adhaar uid uidai आधार`,
		aboutVersion: `version versions ver v release releases firmware revision rev build assembly oid rfc semver sdk driver kernel chrome firefox
			safari section chapter upgrade upgraded patch`,
		aboutBSN: `bsn burgerservicenummer sofinummer sofi`,
		aboutID:  `id ids uid`,
		aboutOther: `memory disk ram heap steps step exp iat nbf capacity pid gid tid order orders orderid ref reference tracking isbn issn ean upc oid rfc lat lon lng latitude longitude score part
			parts row rows byte bytes size issue ticket invoice ts timestamp time elapsed version release build commit sha hash uuid guid
			code sku serial amount price total count offset port line lines seed epoch block height width duration uptime batch job
			task request transaction txn trace span page pages item product model chassis vin docket case po weight balance revenue
			population nonce checksum crc md5 bug pr ticks quantity qty limit max min sum length`,
		aboutUnit: `ms px kb mb gb tb kib mib gib seconds secs minutes hours days usd eur gbp dollars euros km kg mg users people records entries files tokens requests percent rows bytes pages items lines`,
	} {
		for _, w := range strings.Fields(words) {
			all[w] |= meaning
		}
	}
	return all
})

// verbs have a meaning for a value in a sentence, but none as its key: {"text": …, "calls": …}.
var verbs = map[string]bool{
	"text": true, "texted": true, "call": true, "calls": true, "called": true, "calling": true, "reach": true, "ring": true, "answering": true,
	"signal": true, "dial": true, "from": true,
}

// words returns the union of the meanings of a key's words. A word ends where a lower case letter meets an upper case one.
func words(key string) mask {
	var all mask
	for end := len(key); end > 0; {
		start, meaning := lastWord(key[:end])
		if !verbs[strings.ToLower(strings.Trim(key[start:end], " _-.0123456789"))] {
			all |= meaning
		}
		end = start
	}
	return all
}

// maxWord is the length in bytes of the longest word that may have a meaning.
const maxWord = 24

// lastWord returns the beginning of the last word of a text, and its meaning. Digits do not belong to a word.
func lastWord(text string) (int, mask) {
	end := len(text)
	for end > 0 && classes[text[end-1]]&(letter|high) == 0 {
		end--
	}
	start := end
	for start > 0 && end-start <= maxWord {
		c := classes[text[start-1]]
		if c&(letter|high) == 0 || start < end && (c&lower != 0 && classes[text[start]]&upper != 0 || changesScript(text, start, c)) {
			break
		}
		start--
	}
	if end-start > maxWord || start == end {
		return start, 0
	}
	var low [maxWord]byte
	for i := start; i < end; i++ {
		low[i-start] = text[i]
		if classes[text[i]]&upper != 0 {
			low[i-start] |= 0x20
		}
	}
	return start, meanings()[string(low[:end-start])]
}

// changesScript reports whether a word ends before start, because an ASCII letter and a letter of a script other than Latin meet there.
func changesScript(text string, start int, before uint8) bool {
	after := classes[text[start]]
	if (before^after)&high == 0 {
		return false
	}
	var r rune
	if after&high != 0 {
		r, _ = utf8.DecodeRuneInString(text[start:])
	} else {
		r, _ = utf8.DecodeLastRuneInString(text[:start])
	}
	return !unicode.Is(unicode.Latin, r)
}

// unspaced are words of scripts without spaces between words, or with endings attached to words. They are looked for within the text before a value.
var unspaced = []struct {
	word    string
	meaning mask
}{
	{"电话", aboutPhone},
	{"手机", aboutPhone},
	{"電話", aboutPhone},
	{"携帯", aboutPhone},
	{"전화", aboutPhone},
	{"휴대", aboutPhone},
	{"โทร", aboutPhone},
	{"เบอร์", aboutPhone},
	{"телефон", aboutPhone},
	{"هاتف", aboutPhone},
	{"फ़ोन", aboutPhone},
	{"カード", aboutCard},
	{"卡", aboutCard},
	{"카드", aboutCard},
	{"карт", aboutCard},
	{"บัตร", aboutCard},
	{"社会保障", aboutSSN},
	{"社安", aboutSSN},
	{"사회보장", aboutSSN},
	{"身份证", aboutCNID},
	{"マイナンバー", aboutMyNumber},
	{"個人番号", aboutMyNumber},
}

// unspacedBefore returns the meanings of the unspaced words in the run of non-ASCII letters before a value.
func (s *scanner) unspacedBefore(at int) (all mask) {
	end := at
	for end > 0 && at-end < 4 && strings.IndexByte(" :=-(", s.text[end-1]) >= 0 {
		end--
	}
	if !s.is(end-1, high) {
		return 0
	}
	start := max(0, end-reach/2)
	for i := end; i > start; i-- {
		if classes[s.text[i-1]]&high == 0 {
			start = i
			break
		}
	}
	for _, w := range unspaced {
		if strings.Contains(s.text[start:end], w.word) {
			all |= w.meaning
		}
	}
	return all
}

const (
	reach     = 64 // maximum bytes before a value in which words count
	farWords  = 8
	nearWords = 2
)

// before returns two masks: near has the meanings of the two words before a value, and far has the meanings of the eight words before it and of all
// its keys. The near words end at a comma or a bar. If the near words reach the start of a JSON string, the key of the string counts as near.
func (s *scanner) before(at int) (near, far mask) {
	from := max(0, at-reach)
	end := at
	adjoins := true
	for n := 0; n < farWords && end > from; n++ {
		start, meaning := lastWord(s.text[from:end])
		start += from
		if adjoins && (n >= nearWords || strings.ContainsAny(s.text[start:end], ",;|>")) {
			adjoins = false
		}
		far |= meaning
		if adjoins {
			near |= meaning
		}
		end = start
	}
	if adjoins && end <= from && from == 0 {
		near |= s.around.key.words
	}
	near |= s.unspacedBefore(at)
	return near, far | s.around.key.words | s.around.parent
}

// nearest returns the meaning of the nearest word before a value that has a meaning in the mask of. It looks back at most four words, and returns 0
// at a comma, a semicolon, a bar or the end of a line. If the words have no such meaning, and the value is at most reach bytes from the start of the
// text, the key of the text counts.
func (s *scanner) nearest(at int, of mask) mask {
	from, end := max(0, at-reach), at
	for n := 0; n < farWords/2 && end > from; n++ {
		start, meaning := lastWord(s.text[from:end])
		if start += from; meaning&of != 0 {
			return lowest(meaning & of)
		}
		if strings.ContainsAny(s.text[start:end], ",;|\n") {
			return 0
		}
		end = start
	}
	if from > 0 {
		return 0
	}
	return lowest(s.around.key.words & of)
}

// lowest returns one of the meanings of a mask.
func lowest(m mask) mask { return m & -m }

// after returns the meaning of the word that follows a value. unit is true if the word follows directly or after a single space, so that it may
// be a unit of measurement.
func (s *scanner) after(at int) (meaning mask, unit bool) {
	end := min(len(s.text), at+maxWord)
	i := at
	for i < end && i-at < 3 && classes[s.text[i]]&(letter|high|digit) == 0 {
		i++
	}
	from := i
	for i < end && classes[s.text[i]]&(letter|high) != 0 {
		i++
	}
	_, meaning = lastWord(s.text[from:i])
	return meaning, from == at || from == at+1 && s.text[at] == ' '
}

// alone reports whether the range from start to end is a whole text, string, cell or field.
func (s *scanner) alone(start, end int) bool {
	for s.at(start-1) == ' ' {
		start--
	}
	for s.at(end) == ' ' {
		end++
	}
	return strings.IndexByte("\x00\n\t\"'`>|,;=:", s.at(start-1)) >= 0 && strings.IndexByte("\x00\r\n\t\"'`<|,;", s.at(end)) >= 0
}
