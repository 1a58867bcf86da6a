package journal

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// token matches a token in recorded text, such as [EMAIL_1], pii_1e@d1.pii.invalid or 240.117.103.142. quoted also matches the quotes that a
// token has in JSON if it replaces a number.
var (
	token  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(bracketed + natural) })
	quoted = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`\\*"` + bracketed + `\\*"|` + bracketed + natural)
	})
)

const (
	bracketed = `(?:\[[A-Z][A-Z0-9_]*_[0-9]+\]|%5[Bb][A-Z][A-Z0-9_]*_[0-9]+%5[Dd])`
	natural   = `|pii_[0-9]+s|(?i:pii_[0-9]+e(?:(?:@|%40)d[0-9]+\.pii\.invalid)?|d[0-9]+\.pii\.invalid|` +
		`2(?:4[0-9]|5[0-4])(?:\.(?:1[0-9]{2}|2[0-3][0-9])){2}\.[0-9]{1,3}|` +
		`3fff(?:(?::|%3a)[0-9a-f]{3,4}){3}(?:(?::|%3a){2}|(?:(?::|%3a)0+){3}(?::|%3a))[0-9a-f]{4})`
)

// Covers reports whether text can be the recorded text before its personal data was replaced: a token in recorded matches
// itself or any text without tokens.
func Covers(recorded, text string) bool {
	if recorded == text {
		return true
	}
	tokens := token().FindAllStringIndex(recorded, -1)
	if tokens == nil {
		return false
	}
	return coversAt(recorded, text, tokens) || coversAt(recorded, text, quoted().FindAllStringIndex(recorded, -1))
}

// coversAt does the same as Covers for given places of tokens in recorded.
func coversAt(recorded, text string, tokens [][]int) bool {
	rest, ok := strings.CutPrefix(text, recorded[:tokens[0][0]])
	for i, at := range tokens {
		next, last := len(recorded), i == len(tokens)-1
		if !last {
			next = tokens[i+1][0]
		}
		literal, end := recorded[at[1]:next], 0
		switch own := recorded[at[0]:at[1]]; {
		case !ok:
			return false
		case strings.HasPrefix(rest, own):
			end = len(own)
		case last:
			end = len(rest) - len(literal)
		case literal != "":
			end = strings.Index(rest, literal)
		default: // adjacent tokens: the last of them matches all their values
		}
		if end < 0 || !strings.HasPrefix(rest, recorded[at[0]:at[1]]) && token().MatchString(rest[:end]) {
			return false
		}
		rest, ok = strings.CutPrefix(rest[end:], literal)
	}
	return ok && rest == ""
}

// CoversJSON applies Covers to the strings of a JSON value. All other values must be equal; numbers are equal if they convert to the same
// JavaScript number. An empty text counts as null. If a recorded object has tokens in its keys, only the number of keys is compared.
func CoversJSON(recorded, text json.RawMessage) bool {
	w, err := parse(recorded)
	if err != nil {
		return string(recorded) == string(text)
	}
	g, err := parse(text)
	return err == nil && covers(w, g)
}

func covers(want, got any) bool {
	switch w := want.(type) {
	case string:
		switch g := got.(type) {
		case string:
			return Covers(w, g) || coversBase64(w, g)
		case json.Number:
			return Covers(w, g.String())
		}
		return false
	case json.Number:
		switch g := got.(type) {
		case json.Number:
			return w == g || sameDouble(w, g)
		case string: // programs get a number beyond the range of a double as a string
			return w.String() == g
		}
		return false
	case []any:
		g, ok := got.([]any)
		return ok && slices.EqualFunc(w, g, covers)
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok || len(g) != len(w) {
			return false
		}
		for key, value := range w {
			other, ok := g[key]
			if !ok {
				return slices.ContainsFunc(slices.Collect(maps.Keys(w)), token().MatchString)
			}
			if !covers(value, other) {
				return false
			}
		}
		return true
	}
	return want == got
}

// sameDouble reports whether two JSON numbers convert to the same double.
func sameDouble(a, b json.Number) bool {
	x, err := a.Float64()
	if err != nil {
		return false
	}
	y, err := b.Float64()
	return err == nil && x == y
}

// coversBase64 applies Covers to texts in base64, which is how calls that write files pass the content.
func coversBase64(recorded, text string) bool {
	w, err := base64.StdEncoding.DecodeString(recorded)
	if err != nil || !token().Match(w) {
		return false
	}
	g, err := base64.StdEncoding.DecodeString(text)
	return err == nil && Covers(string(w), string(g))
}
