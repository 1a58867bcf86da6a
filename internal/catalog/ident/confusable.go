package ident

import (
	"fmt"
	"strings"
	"unicode"
)

// lookalikes are letters of other alphabets that look like Latin letters in most fonts.
const lookalikes = "аеорсухіјѕһԁԛԝвкмнтгьАВЕКМНОРСТУХІЈЅԌԚԜ" + // Cyrillic
	"ονιαρυκγωΑΒΕΖΗΙΚΜΝΟΡΤΥΧ" + // Greek
	"օոսցզհԼՕՍ" + // Armenian
	"ᎪᏴᏟᎠᎬᏀᎻᎥᎫᏦᏞᎷᏢᏒᏚᎢᏙᎳᏃ" // Cherokee

// Confusable reports whether a name can be taken for another one. Such a name has a word that mixes Latin letters with similar letters of other
// alphabets, or that has letters of another width or style. Words of one alphabet, in any language, are not confusable.
func Confusable(name string) bool {
	latin, like := false, false
	for _, r := range name {
		switch {
		case r >= 0xff21 && r <= 0xff5a, r >= 0x1d400 && r <= 0x1d7ff: // full width, mathematical
			return true
		case strings.ContainsRune(lookalikes, r):
			like = true
		case unicode.Is(unicode.Latin, r):
			latin = true
		case !unicode.IsLetter(r) && !unicode.IsMark(r): // the end of a word
			latin, like = false, false
		}
		if latin && like {
			return true
		}
	}
	return false
}

// Codes returns a name in which characters that are not ASCII are replaced by their codes.
func Codes(name string) string {
	var b strings.Builder
	for _, r := range name {
		if r < 0x80 {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\u{%x}`, r)
		}
	}
	return b.String()
}
