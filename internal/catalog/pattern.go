package catalog

import (
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// What the patterns of a schema may cost. RE2 matches in linear time, but what it compiles a short pattern into can
// take megabytes: (...){1000} is written out a thousand times.
const (
	maxPattern  = 2000    // bytes of a pattern
	maxPatterns = 100_000 // instructions of all patterns of a schema, or of an input, about
)

// anyText stands for a pattern that is not checked.
type anyText string

func (p anyText) String() string        { return string(p) }
func (anyText) MatchString(string) bool { return true }

// pattern compiles a pattern of the schema, or of an input that is to be one.
func (v *validator) pattern(p string) (jsonschema.Regexp, error) {
	unchecked := func(why string) (jsonschema.Regexp, error) {
		if v.compiled == nil { // else it is the input's
			v.broken = "a pattern of the input schema is not checked: it is " + why
		}
		return anyText(p), nil
	}
	if len(p) > maxPattern {
		return unchecked("too long")
	}
	parsed, err := syntax.Parse(p, syntax.Perl)
	if err != nil {
		return unchecked("no RE2 expression")
	}
	if v.instructions += instructions(parsed); v.instructions > maxPatterns {
		return unchecked("too complex")
	}
	re, err := regexp.Compile(p)
	if err != nil {
		return unchecked("no RE2 expression")
	}
	return re, nil
}

// instructions is about how many instructions an expression is compiled to.
func instructions(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		n += instructions(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1) // whose product the parser limits
	}
	return n
}
