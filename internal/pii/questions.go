package pii

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"

	"mcp-code-exec-harness/internal/pii/detect"
	"mcp-code-exec-harness/internal/pii/seal"
)

// A question asks about tokens; its answer reveals a part of a value, or how two values compare. The answers about a token never change,
// so repeating a question reveals nothing more. No answer depends on a value that the program chooses, except for same, which maxGuesses
// limits.
type question struct {
	tokens int
	types  []string // permitted types of the token; nil means any
	answer func(t *table, of []*token) (any, error)
}

// networkQuestion is the name of the question that Session.Network asks. It takes a prefix length in addition to the token.
const networkQuestion = "network"

var questions = map[string]question{
	"kind":    {1, nil, func(_ *table, of []*token) (any, error) { return of[0].kind, nil }},
	"domain":  {1, []string{addressKind, domainKind}, domain},
	"last4":   {1, []string{"CREDIT_CARD", "IBAN", "PHONE", "US_SSN"}, last4},
	"country": {1, []string{"IBAN", "PHONE"}, country},
	"same":    {2, nil, same},
	"sortKey": {1, nil, sortKey},
}

// IsQuestion reports whether Ask knows a question.
func IsQuestion(name string) bool {
	_, ok := questions[name]
	return ok || name == networkQuestion
}

// QuestionError explains why a question has no answer. The message contains tokens but no values.
type QuestionError struct{ message string }

func (e *QuestionError) Error() string { return e.message }

func unanswerable(format string, args ...any) error {
	return &QuestionError{fmt.Sprintf(format, args...)}
}

// maxGuesses is the maximum number of questions per session that compare a value made by a program with one from outside. Each such question
// tells the program whether its guess is right. The count is kept in memory only: it begins at 0 again after a restart of the process, and after
// the tokens of an idle session are dropped from memory.
const maxGuesses = 100

// ErrGuesses is the error of a question that exceeds maxGuesses.
var ErrGuesses = fmt.Errorf("programs of this session have compared values of their own with personal data %d times, and may not do so again", maxGuesses)

// Ask answers a question about tokens of the session. Each text must be exactly a token:
//
//   - kind: the type, such as EMAIL
//   - domain, of an EMAIL or an EMAIL_DOMAIN: the registered domain, such as example.co.uk for grace@mail.example.co.uk
//   - last4, of a CREDIT_CARD, an IBAN, a PHONE, or a US_SSN: the last four characters; a PHONE counts without its extension
//   - country, of an IBAN: the country it begins with; of a PHONE: the main country of its calling code
//   - same, of two tokens: whether both have the same type and value, whatever the spelling
//   - sortKey: 16 letters that are equal for equal values in this session. Their order is unrelated to the order of the values,
//     because otherwise it would reveal them. Values made by programs have other keys than equal values from outside
//
// The answer is a string or a bool. *QuestionError and ErrGuesses are mistakes of the caller.
func (s Session) Ask(ctx context.Context, ask string, texts ...string) (any, error) {
	q, ok := questions[ask]
	if !ok {
		return nil, unanswerable("there is no question %q", ask)
	}
	return s.ask(ctx, ask, q, texts)
}

// Network returns the token of the network that contains an IP address or a smaller network. bits is 8, 16 or 24 for IPv4, and 32, 48 or
// 64 for IPv6. The token is restored to a text such as 198.51.0.0/16. The errors are those of Ask.
func (s Session) Network(ctx context.Context, bits int, texts ...string) (any, error) {
	return s.ask(ctx, networkQuestion, question{1, []string{ipKind, networkKind}, func(t *table, of []*token) (any, error) {
		return network(t, of[0], bits)
	}}, texts)
}

func (s Session) ask(ctx context.Context, ask string, q question, texts []string) (any, error) {
	switch {
	case len(texts) != q.tokens:
		return nil, unanswerable("the number of tokens must be %d, not %d", q.tokens, len(texts))
	case s.filter == nil:
		return nil, unanswerable("there are no tokens: personal data is not replaced (pii.enabled)")
	}
	places, domains := make([][]found, len(texts)), make([]string, len(texts))
	for i, text := range texts {
		var ok bool
		if places[i], domains[i], ok = s.filter.wholeToken(text); !ok {
			return nil, unanswerable("the question takes a whole token, such as [PHONE_1], and no other text")
		}
	}
	var answer any
	err := s.filter.use(ctx, s.scope, func(t *table) (err error) {
		if err := t.current(ctx, slices.Concat(places...)); err != nil {
			return err
		}
		of := make([]*token, len(texts))
		for i, parts := range places {
			if of[i] = t.named(parts[0].name); of[i] == nil || len(parts) > 1 && !t.hasDomain(of[i], parts[1].name) ||
				domains[i] != "" && !t.hasPlain(of[i], domains[i]) {
				return unanswerable("%s is not a token of this session", texts[i])
			}
			if q.types != nil && !slices.Contains(q.types, of[i].kind) {
				return unanswerable("%s has no %s: only tokens of type %s do", of[i], ask, strings.Join(q.types, ", "))
			}
		}
		answer, err = q.answer(t, of)
		return err
	})
	if _, ok := errors.AsType[*QuestionError](err); err != nil && !ok && !errors.Is(err, ErrGuesses) {
		err = fmt.Errorf("ask about personal data: %w", err)
	}
	return answer, err
}

// wholeToken parses a text that is exactly a token. parts are its parts, two for a natural address; domain is set if the domain is not
// replaced by a token.
func (f *Filter) wholeToken(text string) (parts []found, domain string, ok bool) {
	parts = f.tokensIn(text[:min(len(text), maxName+1)])
	last := len(parts) - 1
	if last < 0 {
		return nil, "", false
	}
	if rest := text[parts[last].end:]; rest != "" {
		if domain, ok = strings.CutPrefix(rest, "@"); !ok || domain == "" || last > 0 || parts[0].part != localPart {
			return nil, "", false
		}
	}
	begins := parts[0].start == 0 || parts[0].part == secretPart && detect.IsKeyPrefix(text[:parts[0].start])
	return parts, domain, begins && (last == 0 || last == 1 && parts[1].joins)
}

// plain returns the canonical form of a value. A number or an encoded spelling has the canonical form of the value that the detector finds in it.
func (t *table) plain(v *value) string {
	if v.form == asText {
		return v.canonical
	}
	text, around := v.spelling, 0
	if v.form == asNumber {
		text, around = "["+text+"]", 1
	}
	spans := t.f.opt.Detector.FindWith(text, detect.Known{Name: v.kind, Words: t.words})
	if len(spans) == 1 && spans[0].Type == v.kind && spans[0].Start == around && spans[0].End == len(text)-around {
		return spans[0].Value
	}
	return v.canonical
}

const upper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

func domain(t *table, of []*token) (any, error) {
	address := t.plain(&of[0].value)
	host := address[strings.LastIndexByte(address, '@')+1:]
	if host == address && of[0].kind == addressKind || strings.HasPrefix(host, "[") { // The address is in base64, or has an IP address instead of a domain.
		return nil, unanswerable("%s has no domain that can be told", of[0])
	}
	if registered, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		return registered, nil
	}
	return host, nil // The host is a public suffix, under which others register domains.
}

// minHidden is the minimum number of characters that last4 must not reveal: fewer could be guessed.
const minHidden = 4

func last4(t *table, of []*token) (any, error) {
	text, _, _ := strings.Cut(strings.TrimPrefix(t.plain(&of[0].value), "+"), ";") // The canonical form may be +12025550123;ext=1.
	characters := "0123456789"
	if of[0].kind == "IBAN" {
		characters += upper
	}
	if len(text) < 4+minHidden || strings.Trim(text, characters) != "" { // The value is too short, or it is in base64.
		return nil, unanswerable("%s has no last four characters that can be told", of[0])
	}
	return text[len(text)-4:], nil
}

func country(t *table, of []*token) (any, error) {
	text := t.plain(&of[0].value)
	if of[0].kind == "IBAN" {
		if len(text) < 2 || strings.Trim(text, upper+"0123456789") != "" { // The IBAN is in base64.
			return nil, unanswerable("%s has no country that can be told", of[0])
		}
		return text[:2], nil
	}
	found, ok := detect.Country(text)
	if !ok {
		return nil, unanswerable("%s has no calling code of a country", of[0])
	}
	return found, nil
}

// named returns the token with a name. If the name is that of an address that stands for an IP address (see placeKind), it returns the token of
// the IP address.
func (t *table) named(n name) *token {
	tok := t.byName[n]
	if tok == nil || tok.kind != placeKind {
		return tok
	}
	return t.byValue[value{kind: ipKind, form: asText, made: tok.made, canonical: tok.canonical}]
}

func network(t *table, of *token, bits int) (any, error) {
	prefix, err := netip.ParsePrefix(of.canonical)
	if of.kind == ipKind {
		var addr netip.Addr
		if addr, err = netip.ParseAddr(t.plain(&of.value)); err == nil {
			prefix = netip.PrefixFrom(addr, addr.BitLen())
		}
	}
	if err != nil { // The value is in base64.
		return nil, unanswerable("%s has no network that can be told", of)
	}
	sizes := networkBits(prefix.Addr().Is6())
	if !slices.Contains(sizes[:], bits) || bits > prefix.Bits() {
		return nil, unanswerable("%s has no network of %d bits: they are 8, 16 and 24 of IPv4, 32, 48 and 64 of IPv6", of, bits)
	}
	var tok *token
	for _, origin := range of.origins {
		if tok, err = t.networkOf(prefix.Addr(), bits, of.made, origin); err != nil {
			return nil, err
		}
	}
	return tok.text, nil
}

func same(t *table, of []*token) (any, error) {
	a, b := of[0], of[1]
	if a.made != b.made {
		if t.guesses >= maxGuesses {
			return nil, ErrGuesses
		}
		t.guesses++
	}
	return a.kind == b.kind && t.plain(&a.value) == t.plain(&b.value), nil
}

// sortKey returns a key that depends on the value and on whether a program made the value. If the key depended on the value alone, a program could
// make a value, compare the keys, and so learn whether its guess is right.
func sortKey(t *table, of []*token) (any, error) {
	v := value{kind: of[0].kind, form: asText, made: of[0].made, canonical: t.plain(&of[0].value)}
	sum := t.keys.Key(seal.Scope(t.scope), "sortKey", v.key()) // no type of value has the name sortKey
	letters := make([]byte, 16)
	for i, bits := 0, binary.BigEndian.Uint64(sum[:]); i < len(letters); i++ { // The key has letters, because digits could look like a card number.
		letters[i] = 'a' + byte(bits>>60)
		bits <<= 4
	}
	return string(letters), nil
}
