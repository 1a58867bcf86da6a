package catalog

import (
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Limits of the patterns of a schema. RE2 matches in time linear in the size of the text and of the compiled pattern, but a short pattern can compile
// to megabytes: (...){1000} is written out a thousand times.
const (
	maxPattern      = 2000    // maximum length of a pattern in bytes
	maxInstructions = 100_000 // approximate maximum number of instructions of all patterns of a schema together
	maxInputPattern = 10_000  // maximum number of instructions of a pattern that is a value of the input
)

// pattern is a compiled regular expression. instructions is the approximate number of its instructions; it is set only for patterns of the schema.
type pattern struct {
	*regexp.Regexp
	instructions int
}

// anyText is a pattern that is not checked: it matches every text.
type anyText string

func (p anyText) String() string        { return string(p) }
func (anyText) MatchString(string) bool { return true }

// pattern compiles a regular expression. While the schema is compiled, the expression is a pattern of the schema. After that it is a value of an
// input, for which the schema requires a regular expression.
func (v *validator) pattern(p string) (jsonschema.Regexp, error) {
	if v.compiled != nil {
		if complexity(p) > maxInputPattern {
			return anyText(p), nil
		}
		if re, err := regexp.Compile(p); err == nil {
			return pattern{Regexp: re}, nil
		}
		return anyText(p), nil
	}
	unchecked := func(why string) (jsonschema.Regexp, error) {
		v.broken = "a pattern of the input schema is not checked: it is " + why
		return anyText(p), nil
	}
	if len(p) > maxPattern {
		return unchecked("too long")
	}
	n := complexity(p)
	if v.instructions += n; v.instructions > maxInstructions {
		return unchecked("too complex")
	}
	re, err := regexp.Compile(p)
	if err != nil {
		return unchecked("no RE2 expression")
	}
	return pattern{re, n}, nil
}

// complexity returns about how many instructions a pattern compiles to. It returns 1 for a text that is not a valid pattern.
func complexity(p string) int {
	if len(p) > maxPattern {
		return maxInputPattern + 1
	}
	parsed, err := syntax.Parse(p, syntax.Perl)
	if err != nil {
		return 1
	}
	return instructions(parsed)
}

func instructions(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		n += instructions(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1) // the parser limits this product
	}
	return n
}
