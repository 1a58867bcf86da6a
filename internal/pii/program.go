package pii

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"

	"mcp-code-exec-harness/internal/pii/detect"
)

// HideProgram is Hide for the source of a program in JavaScript or TypeScript. Numbers outside of literals and comments stay, because a
// token would change the program. The address 127.0.0.1 stays too. A number that has the length of a card number is replaced if it is a card
// number: the program then fails, but no journal contains the number.
func (s Session) HideProgram(ctx context.Context, code string) (string, error) {
	return s.hideProgram(ctx, FromCode, code)
}

// HideModule is HideProgram for a module whose first border bytes have the origin first and whose other bytes have the origin rest. Outside of
// literals and comments, a text that looks like a token, such as row[EMAIL_1], is not one.
func (s Session) HideModule(ctx context.Context, code string, border int64, first, rest Origin) (string, error) {
	at := int(min(max(0, border), int64(len(code))))
	head, err := s.hideProgram(ctx, first, code[:at])
	if err != nil {
		return "", err
	}
	tail, err := s.hideProgram(ctx, rest, code[at:])
	return head + tail, err
}

func (s Session) hideProgram(ctx context.Context, from Origin, code string) (string, error) {
	if s.filter == nil || code == "" {
		return code, nil
	}
	if from == FromCode {
		var err error
		if code, err = s.plainDomains(ctx, code); err != nil {
			return "", fmt.Errorf("hide personal data: %w", err)
		}
	}
	masked := strings.ReplaceAll(maskNumbers(code), loopback, strings.Repeat("x", len(loopback)))
	spans, tokens, err := s.filter.tokenize(ctx, s.scope, from, masked, false, nil)
	if err != nil {
		return "", fmt.Errorf("hide personal data: %w", err)
	}
	for i := len(spans) - 1; i >= 0; i-- {
		if span := spans[i]; code[span.Start:span.End] != masked[span.Start:span.End] || span.Type == addressKind && isPattern(code, span) {
			spans, tokens = slices.Delete(spans, i, i+1), slices.Delete(tokens, i, i+1)
		}
	}
	return string(splice(code, spans, tokens)), nil
}

// codeDomain matches a domain that follows a quote, as in 'acme.com', or that follows an @ without the first part of an address before it, as in
// '@acme.com' or \S+@acme\.com.
var codeDomain = regexp.MustCompile("(?i)(?:['\"`]@?|(?:^|[^\\w.+-]|[\\])wS.]\\+)@)((?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\\\\{0,2}\\.)+[a-z]{2,})")

const quotes = "'\"`"

// plainDomains registers the domains that a program names, so that the program can compare them with the domains of addresses. If the session
// already has addresses with a domain, plainDomains replaces the domain by its token. Any other domain stays as it is, also in the tokens of
// later addresses: pii_1e@acme.com. The program learns which addresses have the domain, as for any literal that it compares (see maxCoded).
func (s Session) plainDomains(ctx context.Context, code string) (string, error) {
	var places []detect.Span
	for _, at := range codeDomain.FindAllStringSubmatchIndex(code, -1) {
		domain, ended := strings.ReplaceAll(code[at[2]:at[3]], `\`, ""), strings.IndexByte(quotes, code[min(at[3], len(code)-1)]) >= 0
		if code[at[2]-1] != '@' && !ended {
			continue
		}
		if suffix, known := publicsuffix.PublicSuffix(strings.ToLower(domain)); known && !strings.EqualFold(suffix, domain) {
			places = append(places, detect.Span{Start: at[2], End: at[3], Value: domain})
		}
	}
	if len(places) == 0 {
		return code, nil
	}
	var spans []detect.Span
	var names []string
	err := s.filter.use(ctx, s.scope, func(t *table) error {
		spans, names = spans[:0], names[:0]
		if !t.natural() {
			return nil
		}
		for _, at := range places {
			v, quoted := domainValue(at.Value, false), strings.IndexByte(quotes, code[min(at.End, len(code)-1)]) >= 0
			if t.byValue[v.shared()] == nil {
				v, quoted = plainValue(at.Value), false
			}
			if known := t.byValue[v.shared()]; t.coded >= maxCoded && (known == nil || !slices.Contains(known.origins, string(FromCode))) {
				continue
			}
			tok, err := t.token(v, FromCode)
			if err != nil {
				return err
			}
			if quoted {
				name, err := t.spell(tok, at.Value)
				if err != nil {
					return err
				}
				spans, names = append(spans, at), append(names, name)
			}
		}
		return nil
	})
	return string(splice(code, spans, names)), err
}

// isPattern reports whether a text that looks like an address has no real first part: ${name}@acme.com, or an expression such as
// \S+@acme\.com.
func isPattern(code string, span detect.Span) bool {
	local, _, _ := strings.Cut(code[span.Start:span.End], "@")
	return strings.ContainsAny(local, "{}$*?^|\\") && !strings.Contains(local, `\.`) || strings.HasSuffix(local, "+") || span.Start > 0 && code[span.Start-1] == '\\'
}

const loopback = "127.0.0.1"

// cardDigits is the minimum number of digits in a number that may be a card number.
const cardDigits = 15

// maskNumbers replaces digits outside of literals and comments by letters, except in numbers of at least cardDigits digits. The length of the
// text stays the same.
func maskNumbers(code string) string {
	out := []byte(code)
	var templates []int // number of open braces in each open ${
	value := false      // whether a value ends before i; a slash at i then divides
	for i := 0; i < len(code); {
		c := code[i]
		switch {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			i++
		case strings.HasPrefix(code[i:], "//"):
			i += upTo(code[i:], "\n")
		case strings.HasPrefix(code[i:], "/*"):
			i += 2
			i += upTo(code[i:], "*/")
		case c == '"' || c == '\'':
			i, value = endOfQuoted(code, i), true
		case c == '`':
			var open bool
			if i, open = endOfTemplate(code, i+1); open {
				templates = append(templates, 0)
			}
			value = !open
		case c == '}' && len(templates) > 0 && templates[len(templates)-1] == 0:
			templates = templates[:len(templates)-1]
			var open bool
			if i, open = endOfTemplate(code, i+1); open {
				templates = append(templates, 0)
			}
			value = !open
		case c == '/' && !value && endOfRegExp(code, i) > 0:
			i, value = endOfRegExp(code, i), true
		case isWord(c):
			end, digits := i, 0
			for end < len(code) && (isWord(code[end]) || code[end] == '.') {
				if code[end] >= '0' && code[end] <= '9' {
					digits++
				} else {
					mask(out[end-digits : end])
					digits = 0
				}
				end++
			}
			mask(out[end-digits : end])
			value = !slices.Contains(beforeValues, code[i:end])
			i = end
		default:
			if len(templates) > 0 {
				switch c {
				case '{':
					templates[len(templates)-1]++
				case '}':
					templates[len(templates)-1]--
				}
			}
			value = c == ')' || c == ']' || c == '}'
			i++
		}
	}
	return string(out)
}

// mask replaces the digits of a number by letters, unless it is long enough for a card number.
func mask(digits []byte) {
	if len(digits) < cardDigits {
		for i := range digits {
			digits[i] = 'x'
		}
	}
}

// beforeValues are the keywords after which a slash begins a regular expression.
var beforeValues = []string{"return", "typeof", "case", "in", "of", "delete", "void", "throw", "new", "do", "else", "instanceof", "yield", "await"}

func isWord(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '$' || c >= 0x80
}

// upTo returns the length of text up to the end of mark, or of all of text if mark is not in it.
func upTo(text, mark string) int {
	before, _, found := strings.Cut(text, mark)
	if !found {
		return len(text)
	}
	return len(before) + len(mark)
}

// endOfQuoted returns the end of the string literal that begins at i. A literal without a closing quote ends at the line break.
func endOfQuoted(code string, i int) int {
	quote := code[i]
	for i++; i < len(code); i++ {
		switch code[i] {
		case '\\':
			i++
		case '\n':
			return i
		case quote:
			return i + 1
		}
	}
	return len(code)
}

// endOfTemplate returns the end of the template text at i; open reports whether an expression follows.
func endOfTemplate(code string, i int) (end int, open bool) {
	for ; i < len(code); i++ {
		switch {
		case code[i] == '\\':
			i++
		case code[i] == '`':
			return i + 1, false
		case strings.HasPrefix(code[i:], "${"):
			return i + 2, true
		}
	}
	return len(code), false
}

// endOfRegExp returns the end of the regular expression that begins at i, or 0 if there is none.
func endOfRegExp(code string, i int) int {
	class := false
	for i++; i < len(code) && code[i] != '\n'; i++ {
		switch c := code[i]; {
		case c == '\\':
			i++
		case c == '[':
			class = true
		case c == ']':
			class = false
		case c == '/' && !class:
			return i + 1
		}
	}
	return 0
}
