package detect

import (
	_ "embed"
	"strconv"
	"strings"
	"sync"
)

// phonePlan has a line for each calling code. The line lists the possible first three digits of national numbers, by the length of the numbers. A
// test generates phonePlan from libphonenumber's metadata.
//
//go:embed phones.txt
var phonePlan string

// prefixes is a set of prefixes of three digits.
type prefixes [16]uint64

func (p *prefixes) has(digits string) bool {
	n := int(digits[0]-'0')*100 + int(digits[1]-'0')*10 + int(digits[2]-'0')
	return p[n/64]&(1<<(n%64)) != 0
}

const maxNational = 15 // maximum number of digits of a telephone number, including the calling code (ITU-T E.164)

// plan holds the prefixes of the national numbers of a calling code, by the length of the numbers.
type plan [maxNational + 1]*prefixes

// plans returns the numbering plans by calling code.
var plans = sync.OnceValue(func() map[string]*plan {
	all := map[string]*plan{}
	for line := range strings.Lines(phonePlan) {
		fields := strings.Fields(line)
		p := &plan{}
		for _, field := range fields[1:] {
			length, ranges, _ := strings.Cut(field, ":")
			n, _ := strconv.Atoi(length)
			p[n] = &prefixes{}
			for _, r := range strings.Split(ranges, ",") {
				first, last, isRange := strings.Cut(r, "-")
				if !isRange {
					last = first
				}
				from, _ := strconv.Atoi(first)
				to, _ := strconv.Atoi(last)
				for i := from; i <= to; i++ {
					p[n][i/64] |= 1 << (i % 64)
				}
			}
		}
		all[fields[0]] = p
	}
	return all
})

// assigned reports whether the plan has national numbers with this length and prefix.
func (p *plan) assigned(national string) bool {
	return p != nil && len(national) >= 3 && len(national) <= maxNational && p[len(national)] != nil && p[len(national)].has(national)
}

// callingCode splits digits into a calling code and a national number; ok is false if the code is unknown.
func callingCode(digits string) (p *plan, national string, ok bool) {
	for n := 1; n <= 3 && n < len(digits); n++ {
		if p := plans()[digits[:n]]; p != nil {
			return p, digits[n:], true
		}
	}
	return nil, "", false
}
