package pii_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/pii/seal"
)

func ask(t testing.TB, s pii.Session, question string, tokens ...string) any {
	t.Helper()
	answer, err := s.Ask(t.Context(), question, tokens...)
	if err != nil {
		t.Errorf("%s of %s: %v", question, tokens, err)
	}
	return answer
}

func TestQuestions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		json, question string
		want           any // answer, or expected error
	}{
		{`["grace@example.com"]`, "kind", "EMAIL"},
		{`{"phone":2025550123}`, "kind", "PHONE"},
		{`["see [EMAIL_7]"]`, "kind", "LITERAL"},
		{`["grace@example.com"]`, "domain", "example.com"},
		{`["Grace@Mail.Eu.Example.CO.UK"]`, "domain", "example.co.uk"},
		{`["x?q=grace%40mail.example.com"]`, "domain", "example.com"},
		{`["grace@alice.github.io"]`, "domain", "alice.github.io"},
		{`["grace@github.io"]`, "domain", "github.io"},
		{`["to a@[192.0.2.1]"]`, "domain", errors.New("[EMAIL_1] has no domain that can be told")},
		{`["Z3JhY2VAZXhhbXBsZS5jb20="]`, "domain", errors.New("[EMAIL_1] has no domain that can be told")},
		{`["(202) 555-0123"]`, "domain", errors.New("[PHONE_1] has no domain: only tokens of type EMAIL, EMAIL_DOMAIN do")},
		{`["4111 1111 1111 1111"]`, "last4", "1111"},
		{`{"card":4111111111111111}`, "last4", "1111"},
		{`["219-09-9999"]`, "last4", "9999"},
		{`["DE89 3704 0044 0532 0130 00"]`, "last4", "3000"},
		{`["BR15 0000 0000 0000 1093 2840 814P 2"]`, "last4", "14P2"},
		{`["(202) 555-0123 ext. 77"]`, "last4", "0123"},
		{`["phone 555-1234"]`, "last4", errors.New("[PHONE_1] has no last four characters that can be told")},
		{`["IBAN REU4OTM3MDQwMDQ0MDUzMjAxMzAwMA=="]`, "last4", errors.New("[IBAN_1] has no last four characters that can be told")},
		{`["grace@example.com"]`, "last4", errors.New("[EMAIL_1] has no last4: only tokens of type CREDIT_CARD, IBAN, PHONE, US_SSN do")},
		{`["+49 30 901820"]`, "country", "DE"},
		{`["(202) 555-0123"]`, "country", "US"},
		{`{"phone":"2025550123"}`, "country", "US"},
		{`{"phone":2025550123}`, "country", "US"},
		{`["phone 555-1234"]`, "country", errors.New("[PHONE_1] has no calling code of a country")},
		{`["de89 3704 0044 0532 0130 00"]`, "country", "DE"},
		{`["IBAN REU4OTM3MDQwMDQ0MDUzMjAxMzAwMA=="]`, "country", errors.New("[IBAN_1] has no country that can be told")},
		{`["219-09-9999"]`, "country", errors.New("[US_SSN_1] has no country: only tokens of type IBAN, PHONE do")},
		{`["grace@example.com"]`, "name", errors.New(`there is no question "name"`)},
	} {
		s := filter(t, pii.NewMemory(1), nil).In("u", "s")
		hidden := hideJSON(t, s, crm, c.json)
		got, err := s.Ask(t.Context(), c.question, regexp.MustCompile(`\[[A-Z_]+_1\]`).FindString(hidden))
		want, wrong := c.want.(error)
		switch _, ok := errors.AsType[*pii.QuestionError](err); {
		case wrong && (!ok || err.Error() != want.Error()):
			t.Errorf("%s of %s (%s): %v, %v; want the error %v", c.question, c.json, hidden, got, err, want)
		case !wrong && (err != nil || got != c.want):
			t.Errorf("%s of %s (%s): %v, %v; want %v", c.question, c.json, hidden, got, err, c.want)
		}
	}
}

func TestWrongQuestions(t *testing.T) {
	t.Parallel()
	f := filter(t, pii.NewMemory(1), nil)
	s := f.In("u", "s")
	hide(t, s, crm, "grace@example.com")
	for _, c := range []struct {
		tokens []string
		want   string
	}{
		{nil, "the number of tokens must be 1, not 0"},
		{[]string{"[EMAIL_1]", "[EMAIL_1]"}, "the number of tokens must be 1, not 2"},
		{[]string{""}, "the question takes a whole token, such as [PHONE_1], and no other text"},
		{[]string{"grace"}, "the question takes a whole token, such as [PHONE_1], and no other text"},
		{[]string{"[EMAIL_1] "}, "the question takes a whole token, such as [PHONE_1], and no other text"},
		{[]string{"[EMAIL_1][EMAIL_1]"}, "the question takes a whole token, such as [PHONE_1], and no other text"},
		{[]string{"[NOTE_1]"}, "the question takes a whole token, such as [PHONE_1], and no other text"},
		{[]string{"[EMAIL_2]"}, "[EMAIL_2] is not a token of this session"},
	} {
		_, err := s.Ask(t.Context(), "kind", c.tokens...)
		if _, ok := errors.AsType[*pii.QuestionError](err); !ok || err.Error() != c.want {
			t.Errorf("%q: %v; want %s", c.tokens, err, c.want)
		}
	}
	if got := ask(t, s, "kind", "[PII_EMAIL_1]"); got != "EMAIL" {
		t.Errorf("[PII_EMAIL_1] is %v", got)
	}
	_, err := f.In("u", "other").Ask(t.Context(), "kind", "[EMAIL_1]")
	if _, ok := errors.AsType[*pii.QuestionError](err); !ok {
		t.Errorf("a token of another session: %v", err)
	}
	_, err = pii.Session{}.Ask(t.Context(), "same", "[EMAIL_1]", "[EMAIL_1]")
	if _, ok := errors.AsType[*pii.QuestionError](err); !ok {
		t.Errorf("without a filter: %v", err)
	}
	_, err = s.Ask(t.Context(), "same", "[EMAIL_1]")
	if _, ok := errors.AsType[*pii.QuestionError](err); !ok || err.Error() != "the number of tokens must be 2, not 1" {
		t.Errorf("same of one token: %v", err)
	}
	broken := errors.New("no key")
	_, err = filter(t, pii.NewMemory(1), func(o *pii.Options) {
		o.Keys = func() (*seal.Keys, error) { return nil, broken }
	}).In("u", "s").Ask(t.Context(), "kind", "[EMAIL_1]")
	if _, ok := errors.AsType[*pii.QuestionError](err); ok || !errors.Is(err, broken) {
		t.Errorf("without keys: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := filter(t, pii.NewMemory(1), nil).In("u", "s").Ask(ctx, "kind", "[EMAIL_1]"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// For tokens of one value in several forms, same is true and the sort keys are equal. For an equal value that a program composed, same is true too,
// but the sort key differs.
func TestSame(t *testing.T) {
	t.Parallel()
	f := filter(t, pii.NewMemory(1), nil)
	s := f.In("u", "s")
	hideJSON(t, s, crm, `["grace@example.com","ada@example.com",{"phone":2025550123},"(202) 555-0123","x?q=grace%40example.com"]`)
	hide(t, s, pii.FromProgram, "grace@example.com")
	restored, err := s.Restore(t.Context(), "[EMAIL_1] [EMAIL_2] [PHONE_1] [PHONE_2] [EMAIL_3] [EMAIL_4]")
	if want := "grace@example.com ada@example.com 2025550123 (202) 555-0123 grace%40example.com grace@example.com"; err != nil || restored != want {
		t.Fatalf("the tokens are %s, %v; want %s", restored, err, want)
	}
	for _, c := range []struct {
		a, b          string
		same, sameKey bool
	}{
		{"[EMAIL_1]", "[EMAIL_1]", true, true},
		{"[EMAIL_1]", "[EMAIL_2]", false, false},
		{"[EMAIL_1]", "[EMAIL_3]", true, true},
		{"[PHONE_1]", "[PHONE_2]", true, true},
		{"[EMAIL_1]", "[PHONE_1]", false, false},
		{"[EMAIL_1]", "[EMAIL_4]", true, false},
		{"[EMAIL_4]", "[EMAIL_4]", true, true},
	} {
		if got := ask(t, s, "same", c.a, c.b); got != c.same {
			t.Errorf("same of %s and %s is %v", c.a, c.b, got)
		}
		if a, b := ask(t, s, "sortKey", c.a), ask(t, s, "sortKey", c.b); (a == b) != c.sameKey {
			t.Errorf("the keys of %s and %s are %v and %v", c.a, c.b, a, b)
		}
	}
	key := ask(t, s, "sortKey", "[EMAIL_1]").(string)
	if !regexp.MustCompile(`^[a-p]{16}$`).MatchString(key) || hide(t, s, pii.FromProgram, key) != key {
		t.Errorf("the key is %s", key)
	}
	other := f.In("u", "other")
	hide(t, other, crm, "grace@example.com")
	if got := ask(t, other, "sortKey", "[EMAIL_1]"); got == key {
		t.Errorf("the key is %v in another session too", got)
	}
}

// The number of comparisons of a program's own values with values from outside is bounded, whatever the order of the two tokens.
func TestGuesses(t *testing.T) {
	t.Parallel()
	f := filter(t, pii.NewMemory(1), nil)
	s := f.In("u", "s")
	hide(t, s, crm, "219-09-9999 and 219-09-9998")
	var guesses []string
	for i := range 110 {
		guesses = append(guesses, hide(t, s, pii.FromProgram, fmt.Sprintf("SSN 219-09-%04d", 9990-i)))
	}
	token := func(text string) string { return strings.TrimPrefix(text, "SSN ") }
	for i, guess := range guesses[:100] {
		of := []string{"[US_SSN_1]", token(guess)}
		if i%2 == 0 {
			of[0], of[1] = of[1], of[0]
		}
		if got := ask(t, s, "same", of...); got != false {
			t.Errorf("%s is the same", guess)
		}
	}
	for _, guess := range guesses[100:] {
		if _, err := s.Ask(t.Context(), "same", token(guess), "[US_SSN_2]"); !errors.Is(err, pii.ErrGuesses) {
			t.Errorf("the guess beyond the cap: %v", err)
		}
	}
	if got := ask(t, s, "same", "[US_SSN_1]", "[US_SSN_2]"); got != false {
		t.Errorf("two values from outside are the same")
	}
	if got := ask(t, s, "same", token(guesses[0]), token(guesses[0])); got != true {
		t.Errorf("a value of the program's is not itself")
	}
	if got := ask(t, s, "last4", "[US_SSN_1]"); got != "9999" {
		t.Errorf("last4 is %v", got)
	}
	other := f.In("u", "other")
	hide(t, other, crm, "219-09-9999")
	if got := ask(t, other, "same", "[US_SSN_1]", token(hide(t, other, pii.FromProgram, "SSN 219-09-9999"))); got != true {
		t.Errorf("another session: %v", got)
	}
}
