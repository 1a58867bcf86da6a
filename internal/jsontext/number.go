package jsontext

import (
	"bytes"
	"strconv"
	"strings"
)

// kind is the form that a JSON number takes in a JavaScript program.
type kind uint8

const (
	exact   kind = iota // number with the same value
	beyond              // BigInt
	huge                // string with the text of the number
	halfway             // number with another value
)

// maxSafe is 2^53-1. A double represents every integer up to maxSafe.
const maxSafe = "9007199254740991"

// kindOf returns the kind of a JSON number.
func kindOf(number []byte) kind {
	exponent := bytes.IndexByte(number, 'e') >= 0 || bytes.IndexByte(number, 'E') >= 0
	if len(number) < len(maxSafe) && !exponent {
		return exact // a double keeps 15 significant digits
	}
	digits := bytes.TrimPrefix(number, []byte("-"))
	if !exponent && bytes.IndexByte(digits, '.') < 0 {
		if len(digits) > len(maxSafe) || len(digits) == len(maxSafe) && string(digits) > maxSafe {
			return beyond
		}
		return exact
	}
	text := string(number)
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return huge
	}
	var b [32]byte
	if written := strconv.AppendFloat(b[:0], n, 'e', -1, 64); !SameNumber(text, string(written)) {
		return halfway
	}
	return exact
}

// SameNumber reports whether two JSON numbers have the same decimal value.
func SameNumber(a, b string) bool {
	if a == b {
		return true
	}
	x, y := decimalOf(a), decimalOf(b)
	return x == y
}

// decimal is a number in parts: its sign, its significant digits, and the power of ten of the last digit.
type decimal struct {
	negative bool
	digits   string
	power    int64
	beyond   string // the exponent, if it is too large to calculate with
}

// decimalOf returns equal decimals for numbers of the same value, unless their exponents have more than 17 digits.
func decimalOf(text string) (d decimal) {
	mantissa, exponent := text, "0"
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		mantissa, exponent = text[:i], text[i+1:]
	}
	mantissa, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	d.digits = strings.TrimRight(digits, "0")
	if d.digits == "" {
		return decimal{}
	}
	d.negative = negative
	n, err := strconv.ParseInt(exponent, 10, 64)
	if err != nil || len(exponent) > 17 {
		d.beyond = exponent
		return d
	}
	d.power = n + int64(len(digits)-len(d.digits)-len(fraction))
	return d
}
