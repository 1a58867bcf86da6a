// Package detect finds personal data and secrets in texts and in JSON. It reads a text once, from its start to its end. At bytes and words that may
// begin a value, detectors look a bounded number of bytes back and ahead, so the time is linear.
//
// The types and their criteria follow. "By words" means that words around the value decide, as explained below the table. Types in the second part
// are looked for only if Options name them.
//
//	IBAN           country's format, ISO 7064 mod 97
//	CRYPTO         base58check, bech32, EIP-55, Stellar's CRC; Solana by words, Monero by length
//	CREDIT_CARD    issuer's range and length, Luhn
//	MAC            48 or 64 bits in pairs or groups of four; without separators by words
//	EMAIL          local part, @, domain with a top level; name (at) example (dot) com
//	IP_ADDRESS     valid for net/netip; four numbers that are not a version
//	US_SSN         areas, groups and serials that are issued; without dashes by words
//	SECRET         keys of known services, private keys, JSON web tokens, Authorization, user:password@, password=…, token: …
//	PHONE          numbering plans of libphonenumber for + and 00; national forms with their separators; other digits by words
//
//	IN_AADHAAR     Verhoeff
//	CN_ID          ISO 7064 mod 11-2, date of birth
//	JP_MY_NUMBER   check digit
//	UK_NIN         prefixes and suffixes that are issued
//	BR_CPF         two check digits; BR_CNPJ, TR_ID too
//	DE_TAX_ID      ISO 7064 mod 11,10, one digit repeated
//	ES_NIF         check letter, of DNI and NIE
//	FR_NIR         mod 97, month
//	IN_PAN         form
//	IT_FISCAL_CODE form, check letter
//	KR_RRN         date, check digit; PL_PESEL and SE_PERSONAL_ID too
//	NL_BSN         weighted sum; without dots by words
//	VAT            country's format and check digit; formats without one by words
//	DATE_OF_BIRTH  a date, by words
//	ZIP_CODE       digits after the two letters of a state, or by words
//
// Detectors read a view of the text: escapes of JSON, programs, URLs and HTML are decoded; digits, dashes, spaces, dots and @ of other scripts and
// widths become ASCII; invisible characters are left out. The words that decide are those before and after a value, the keys above it in JSON, and
// the heading of its column in a table. They decide about digits that have neither a checksum nor a form of their own. Runs of 11 or more base64 or
// hexadecimal digits are decoded and read; a run that contains a value is a value as a whole.
//
// If one value contains another, only the outer one is found. If two values overlap otherwise, the one whose type comes first in the table stays
// whole, and the other is shortened.
package detect
