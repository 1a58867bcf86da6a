package detect

// kind is a type of value. If two hits overlap and neither contains the other, the hit whose kind comes first stays whole. The kinds have the order
// of the table in the package's documentation, except for types that share a line there.
type kind int

const (
	iban kind = iota
	crypto
	creditCard
	mac
	email
	ipAddress
	usSSN
	secret
	phone

	inAadhaar
	cnID
	jpMyNumber
	ukNIN
	brCPF
	brCNPJ
	deTaxID
	esNIF
	frNIR
	inPAN
	itFiscalCode
	krRRN
	nlBSN
	plPESEL
	sePersonalID
	trID
	vat
	dateOfBirth
	zipCode

	kindCount
	firstOptIn = inAadhaar

	knownWord kind = -1 // kind of a value of Known; its type is in hit.word
)

var kindNames = [kindCount]string{
	iban: "IBAN", crypto: "CRYPTO", creditCard: "CREDIT_CARD", mac: "MAC", email: "EMAIL", ipAddress: "IP_ADDRESS", usSSN: "US_SSN",
	secret: "SECRET", phone: "PHONE", inAadhaar: "IN_AADHAAR", cnID: "CN_ID", jpMyNumber: "JP_MY_NUMBER", ukNIN: "UK_NIN",
	brCPF: "BR_CPF", brCNPJ: "BR_CNPJ", deTaxID: "DE_TAX_ID", esNIF: "ES_NIF", frNIR: "FR_NIR", inPAN: "IN_PAN", itFiscalCode: "IT_FISCAL_CODE",
	krRRN: "KR_RRN", nlBSN: "NL_BSN", plPESEL: "PL_PESEL", sePersonalID: "SE_PERSONAL_ID", trID: "TR_ID",
	vat: "VAT", dateOfBirth: "DATE_OF_BIRTH", zipCode: "ZIP_CODE",
}
