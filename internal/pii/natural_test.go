package pii_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/testing/generated"
)

func natural(o *pii.Options) { o.Natural = true }

func restore(t testing.TB, s pii.Session, text string) string {
	t.Helper()
	restored, err := s.Restore(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	return restored
}

// A token with percent-encoded brackets is restored to the percent-encoded value. A text from outside that looks like such a token is restored
// unchanged.
func TestPercentBrackets(t *testing.T) {
	t.Parallel()
	s := filter(t, pii.NewMemory(1), nil).In("u", "s")
	if got := hide(t, s, crm, "4111 1111 1111 1111 or O'Brien+x@acme.com"); got != "[CREDIT_CARD_1] or [EMAIL_1]" {
		t.Fatal(got)
	}
	for made, want := range map[string]string{
		"https://x.example/?q=" + url.QueryEscape("[CREDIT_CARD_1]"): "https://x.example/?q=4111%201111%201111%201111",
		"?a=%5bEMAIL_1%5d&b=%5BPII_EMAIL_1%5D":                       "?a=O%27Brien%2Bx%40acme.com&b=O'Brien%2Bx%40acme.com",
		"%5BEMAIL_2%5D %5BEMAIL_1] [EMAIL_1%5D %5BEMAIL_1":           "%5BEMAIL_2%5D %5BEMAIL_1] [EMAIL_1%5D %5BEMAIL_1",
	} {
		if got := restore(t, s, made); got != want {
			t.Errorf("%s is restored as %s, want %s", made, got, want)
		}
	}
	const text = "a text before it, https://x.example/?a=%5BEMAIL_1%5D&b=%5BCREDIT_CARD_1%5D and so on, with some more words behind it, so that it is long"
	want := restore(t, s, text)
	for cut := range text { // The text arrives in two parts.
		got, used, err := s.RestoreSome(t.Context(), text[:cut], false)
		if got += restore(t, s, text[used:]); err != nil || got != want {
			t.Errorf("parted at %d: %s, %v", cut, got, err)
		}
	}
	number := hideJSON(t, s, crm, `{"card":4111111111111111}`)
	token := number[len(`{"card":"`) : len(number)-len(`"}`)]
	made, err := s.Restore(t.Context(), "{\"q\":\""+url.QueryEscape(token)+"\"}")
	if want := `{"q":"4111111111111111"}`; err != nil || made != want { // The percent-encoded token of a number is restored as a text, as by encodeURIComponent.
		t.Errorf("%s is restored as %s, want %s; %v", number, made, want, err)
	}
	hidden := hide(t, s, crm, "see %5BEMAIL_1%5D there")
	if got := restore(t, s, hidden); strings.Contains(hidden, "EMAIL") || got != "see %5BEMAIL_1%5D there" {
		t.Errorf("hidden as %s, restored as %s", hidden, got)
	}
}

// A text that a program makes from a natural token is restored to the text that the program would have made from the value.
func TestNatural(t *testing.T) {
	t.Parallel()
	s := filter(t, pii.NewMemory(1), natural).In("u", "s")
	for _, step := range []struct{ text, hidden string }{
		{"to ada@acme.com, bob@acme.com and eve@other.example", "to pii_1e@d1.pii.invalid, pii_2e@d1.pii.invalid and pii_3e@d2.pii.invalid"},
		{"ADA@ACME.COM Ada@acme.com ada@Acme.Com", "PII_1E@D1.PII.INVALID Pii_1e@d1.pii.invalid pii_1e@d1.pii.inValid"},
		{"McKay@acme.com mckay@acme.com MCkay@aCme.com", "pii_4E@d1.pii.invalid pii_4e@d1.pii.invalid piI_4e@d1.pii.iNvalid"},
		{"https://x.example/?to=ada%40acme.com", "https://x.example/?to=pii_1e%40d1.pii.invalid"},
		{"mailto:ada@acme.com?cc=bob@acme.com", "mailto:pii_1e@d1.pii.invalid?cc=pii_2e@d1.pii.invalid"},
		{"o'brien@acme.com", "[EMAIL_5]"}, // Some formats have to escape the apostrophe.
		{"the card 4111 1111 1111 1111", "the card [CREDIT_CARD_1]"},
	} {
		if got := hide(t, s, crm, step.text); got != step.hidden {
			t.Errorf("%q is hidden as %q, want %q", step.text, got, step.hidden)
		}
	}
	const ada, plus = "pii_1e@d1.pii.invalid", "ada+news@acme.com"
	plusToken := hide(t, s, crm, plus)
	local, domain, _ := strings.Cut(ada, "@")
	for made, want := range map[string]string{
		local:                                      "ada",
		domain:                                     "acme.com",
		strings.ToUpper(ada):                       "ADA@ACME.COM",
		strings.ToUpper(local[:1]) + local[1:]:     "Ada",
		"user_" + local + "_1 " + domain:           "user_ada_1 acme.com",
		local + "1" + domain + "2":                 "ada1acme.com2",
		"mail." + domain:                           "mail.acme.com",
		"https://" + domain + "/x?u=" + local:      "https://acme.com/x?u=ada",
		local + "@d2.pii.invalid":                  "ada@other.example",
		local + "@gmail.com":                       "ada@gmail.com",
		url.QueryEscape(ada):                       "ada%40acme.com",
		url.QueryEscape(plusToken):                 url.QueryEscape(plus),
		strings.ToLower("pii_4E@D1.PII.INVALID"):   "mckay@acme.com",
		"[EMAIL_1] [PII_EMAIL_1] [EMAIL_DOMAIN_1]": "ada@acme.com ada@acme.com acme.com",
		"pii_9e@d9.pii.invalid":                    "pii_9e@d9.pii.invalid",
		"pii_1 d1.pii pii_1e":                      "pii_1 d1.pii ada",
		"pii_1e pii_9e@d1.pii.invalid":             "ada pii_9e@acme.com",
		"pii_1e@pii_9e@d1.pii.invalid":             "ada@pii_9e@acme.com",
		"pii_6e pii_9e@d1.pii.invalid":             "ada+news pii_9e@acme.com",
	} {
		if got := restore(t, s, made); got != want {
			t.Errorf("%q is restored as %q, want %q", made, got, want)
		}
		raw, err := json.Marshal([]string{made})
		if err != nil {
			t.Fatal(err)
		}
		wantRaw, err := json.Marshal([]string{want})
		if err != nil {
			t.Fatal(err)
		}
		if got := restoreJSON(t, s, string(raw)); got != string(wantRaw) {
			t.Errorf("%s is restored as %s, want %s", raw, got, wantRaw)
		}
		if got := hide(t, s, pii.FromProgram, made); got != made && !strings.Contains(made, "pii_9e") {
			t.Errorf("what a program made of tokens, %q, is hidden as %q", made, got)
		}
	}
}

// A text from outside that looks like a natural token, or like a part of one, is restored to that text and never to a value.
func TestNaturalLiterals(t *testing.T) {
	t.Parallel()
	s := filter(t, pii.NewMemory(1), natural).In("u", "s")
	hide(t, s, crm, "ada@acme.com")
	for _, text := range []string{
		"pii_1e@d1.pii.invalid", "pii_1e", "PII_1E", "d1.pii.invalid", "x@d1.pii.invalid", "pii_1e@acme.org", "pii_1e%40d1.pii.invalid", "mail.d1.pii.invalid",
		`p\u0069i_1e and d1.\u0070ii.invalid`, "[EMAIL_1]", "[EMAIL_DOMAIN_1]",
	} {
		hidden := hide(t, s, crm, text)
		if got := restore(t, s, hidden); got != text {
			t.Errorf("%q is hidden as %q and restored as %q", text, hidden, got)
		}
		restoresInJSON(t, s, text)
	}
}

// restoresInJSON checks that a JSON string with the given content, which may contain escapes, is restored to an equal string after it was hidden.
func restoresInJSON(t *testing.T, s pii.Session, text string) {
	t.Helper()
	raw := `{"text":"` + text + `"}`
	hidden := hideJSON(t, s, crm, raw)
	var want, got map[string]string
	if err := json.Unmarshal([]byte(raw), &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(restoreJSON(t, s, hidden)), &got); err != nil || got["text"] != want["text"] {
		t.Errorf("%s is hidden as %s and restored as %v, %v", raw, hidden, got, err)
	}
}

// The token of a whole address is one token. A domain alone is the token of the domain, which has the origins of all addresses in it. An address that
// a program composes from the parts of two addresses has the tokens of both parts.
func TestNaturalOrigins(t *testing.T) {
	t.Parallel()
	s := filter(t, pii.NewMemory(1), natural).In("u", "s")
	hide(t, s, crm, "ada@acme.com")
	hide(t, s, "mail__read", "bob@acme.com and eve@other.example")
	for args, want := range map[string]string{
		`{"to":"pii_1e@d1.pii.invalid"}`:                   "EMAIL pii_1e@d1.pii.invalid [crm__search]",
		`{"to":"PII_1E@D1.PII.INVALID"}`:                   "EMAIL pii_1e@d1.pii.invalid [crm__search]",
		`{"to":"pii_1e"}`:                                  "EMAIL pii_1e@d1.pii.invalid [crm__search]",
		`{"to":"d1.pii.invalid"}`:                          "EMAIL_DOMAIN d1.pii.invalid [crm__search mail__read]",
		`{"to":"pii_1e@d2.pii.invalid"}`:                   "EMAIL pii_1e@d1.pii.invalid [crm__search]; EMAIL_DOMAIN d2.pii.invalid [mail__read]",
		`{"to":"pii_1e@d1.pii.invalid or d1.pii.invalid"}`: "EMAIL pii_1e@d1.pii.invalid [crm__search]; EMAIL_DOMAIN d1.pii.invalid [crm__search mail__read]",
		`{"to":"\u0070ii_1e"}`:                             "EMAIL pii_1e@d1.pii.invalid [crm__search]",
	} {
		_, tokens, err := s.RestoreArguments(t.Context(), json.RawMessage(args), nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, tok := range tokens {
			got = append(got, fmt.Sprint(tok.Type, " ", tok.Text, " ", tok.Origins))
		}
		if strings.Join(got, "; ") != want {
			t.Errorf("%s has %q, want %s", args, got, want)
		}
	}
}

// If a server repeats a part of an address that it was sent, the program gets the token of this part only.
func TestNaturalEcho(t *testing.T) {
	t.Parallel()
	s := filter(t, pii.NewMemory(1), natural).In("u", "s")
	hide(t, s, crm, "adalovelace@acmecorporation.com bob@acme.com")
	for args, want := range map[string]string{
		`{"x":"pii_1e"}`:                       `{"got":"pii_1e"}`,
		`{"x":"PII_1E!"}`:                      `{"got":"PII_1E!"}`,
		`{"x":"d1.pii.invalid"}`:               `{"got":"d1.pii.invalid"}`,
		`{"x":"pii_2e@d1.pii.invalid pii_2e"}`: `{"got":"pii_2e@d1.pii.invalid pii_2e"}`,
	} {
		sent, tokens, err := s.RestoreArguments(t.Context(), json.RawMessage(args), nil)
		if err != nil {
			t.Fatal(err)
		}
		echo := `{"got":` + strings.TrimPrefix(string(sent), `{"x":`)
		got := hideJSON(t, s, "echo__say", echo, tokens...)
		if want != got && restoreJSON(t, s, got) != echo || strings.Contains(got, "ada") || strings.Contains(got, "acme") || strings.Contains(got, "bob") {
			t.Errorf("the echo of %s is hidden as %s", args, got)
		}
	}
}

// A session keeps its first form of tokens until it is cleared, even if the setting changes. Both forms are restored, and questions accept both.
func TestNaturalAndBrackets(t *testing.T) {
	t.Parallel()
	memory := pii.NewMemory(1)
	const values = "ada@acme.com 198.51.100.7 127.0.0.1 ghp_0123456789abcdefghijABCDEFGHIJ012345"
	for _, c := range []struct {
		session, begin string
		first, then    func(*pii.Options)
	}{
		{"brackets", values, nil, natural},
		{"s", values, natural, nil},
		{"a key in brackets", "ghp_0123456789abcdefghijABCDEFGHIJ012345", nil, natural},
		{"a key", "ghp_0123456789abcdefghijABCDEFGHIJ012345", natural, nil},
		{"a number in brackets", "+44 20 7946 0958", nil, natural},
		{"a number", "+44 20 7946 0958", natural, nil},
	} {
		begun := filter(t, memory, c.first).In("u", c.session)
		hide(t, begun, crm, c.begin)
		first := hide(t, begun, crm, values)
		if got := hide(t, filter(t, memory, c.then).In("u", c.session), crm, values); got != first || strings.Contains(first, "[EMAIL_1]") == (c.first != nil) {
			t.Errorf("%s: %s, then %s", c.session, first, got)
		}
	}
	cleared := filter(t, memory, natural)
	if err := cleared.Clear(t.Context(), "u", "brackets"); err != nil {
		t.Fatal(err)
	}
	if got := hide(t, cleared.In("u", "brackets"), crm, "ada@acme.com"); got != "pii_2e@d1.pii.invalid" {
		t.Errorf("after it was cleared: %s", got)
	}
	again := filter(t, memory, nil).In("u", "s")
	for text, want := range map[string]string{"pii_1e@d1.pii.invalid": "ada@acme.com", "[EMAIL_1]": "ada@acme.com", "d1.pii.invalid": "acme.com"} {
		if got := restore(t, again, text); got != want {
			t.Errorf("%s is restored as %s", text, got)
		}
	}
	for _, text := range []string{"pii_1e@d1.pii.invalid", "[EMAIL_1]", "D1.PII.INVALID", "pii_1e%40d1.pii.invalid"} {
		if got, err := again.Ask(t.Context(), "domain", text); err != nil || got != "acme.com" {
			t.Errorf("the domain of %s is %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"pii_1e@d2.pii.invalid", "pii_1e@", "x pii_1e", "pii_2e"} {
		if got, err := again.Ask(t.Context(), "kind", text); err == nil {
			t.Errorf("%q is a %v", text, got)
		}
	}
	f := filter(t, memory, natural)
	names, other := again, f.In("u", "other")
	hide(t, other, crm, "bob@other.example")
	odd := hide(t, names, crm, "McKay@Acme.Com")
	got, err := names.Translate(t.Context(), other, "to pii_1e@d1.pii.invalid, PII_1E, d1.pii.invalid, "+odd)
	if err != nil || got != "to pii_2e@d2.pii.invalid, PII_2E, d2.pii.invalid, pii_3E@d2.pii.inValid" {
		t.Errorf("in another session: %s, %v", got, err)
	}
}

// A token has up to 13 spellings in an odd case. A value with a further spelling is a separate value. The vault keeps all spellings.
func TestNaturalSpellings(t *testing.T) {
	t.Parallel()
	memory := pii.NewMemory(1)
	s := filter(t, memory, natural).In("u", "s")
	var texts, hidden []string
	seen := map[string]bool{}
	for i := range 1 << 5 {
		local := []byte("adals@Acme.Com")
		for j := range 5 {
			if i&(1<<j) != 0 {
				local[j] -= 'a' - 'A'
			}
		}
		texts = append(texts, string(local))
		hidden = append(hidden, hide(t, s, crm, string(local)))
		if seen[hidden[i]] {
			t.Errorf("%s has two meanings", hidden[i])
		}
		seen[hidden[i]] = true
	}
	texts, hidden = append(texts, "adAls@aCME.com", "x@AcMe.cOm"), append(hidden, hide(t, s, crm, "adAls@aCME.com"), hide(t, s, crm, "x@AcMe.cOm"))
	again := filter(t, memory, natural).In("u", "s")
	for i, text := range texts {
		for _, session := range []pii.Session{s, again} {
			if got := restore(t, session, hidden[i]); got != text {
				t.Errorf("%s is restored as %s, want %s", hidden[i], got, text)
			}
			if got := hide(t, session, crm, text); got != hidden[i] {
				t.Errorf("%s is hidden as %s and as %s", text, hidden[i], got)
			}
		}
	}
}

// All parts of the tokens of values that a program composes differ from the tokens of values from outside.
func TestNaturalGuesses(t *testing.T) {
	t.Parallel()
	s := filter(t, pii.NewMemory(1), natural).In("u", "s")
	outside := hide(t, s, crm, "ada@acme.com")
	made := hide(t, s, pii.FromProgram, "ada@acme.com bob@acme.com")
	if diff := cmp.Diff("pii_2e@d2.pii.invalid pii_3e@d2.pii.invalid", made); diff != "" || outside != "pii_1e@d1.pii.invalid" {
		t.Errorf("a guess becomes %s beside %s", made, outside)
	}
}

// Generated texts with addresses are restored unchanged, as a whole and in parts.
func TestNaturalRoundTrip(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(generated.Seed(t), 2))
	s := filter(t, pii.NewMemory(1), natural).In("u", "s")
	parts := []string{
		"ada@acme.com", "ADA@ACME.COM", "Bob@acme.com", "eve@mail.acme.com", "pii_1e", "PII_2E", "d1.pii.invalid", "@", "%40", " ", ",", "\"", "\\", "x", "1", "[EMAIL_1]", "\n", "ü", "<", "_", ".",
	}
	for range 3000 {
		var text strings.Builder
		for range r.IntN(8) {
			text.WriteString(parts[r.IntN(len(parts))])
		}
		hidden := hide(t, s, crm, text.String())
		if got := restore(t, s, hidden); got != text.String() {
			t.Fatalf("%q is hidden as %q, restored as %q", text.String(), hidden, got)
		}
		if len(hidden) == 0 {
			continue
		}
		got := ""
		for rest := strings.Repeat(hidden, 1+2000/len(hidden)); rest != ""; {
			n := min(len(rest), 1024+r.IntN(200))
			restored, used, err := s.RestoreSome(t.Context(), rest[:n], n == len(rest))
			if err != nil || used == 0 {
				t.Fatalf("%d of %d bytes are restored, %v", used, n, err)
			}
			got, rest = got+restored, rest[used:]
		}
		if want := restore(t, s, strings.Repeat(hidden, 1+2000/len(hidden))); got != want {
			t.Fatalf("%q\nin parts: %q\nwhole: %q", hidden, got, want)
		}
	}
}

// The natural token of a service's key is the service's prefix, followed by a token for the rest of the key.
func TestNaturalSecrets(t *testing.T) {
	t.Parallel()
	s := filter(t, pii.NewMemory(1), natural).In("u", "s")
	const github, aws, openai = "ghp_0123456789abcdefghijABCDEFGHIJ012345", "AKIAIOSFODNN7EXAMPLQ", "sk-proj-abcDEF0123456789abcDEF0123456789"
	for _, step := range []struct{ text, hidden string }{
		{"token " + github, "token ghp_pii_1s"},
		{`{"apiKey":"` + github + `"}`, `{"apiKey":"ghp_pii_1s"}`},
		{"Authorization: Bearer " + github, "Authorization: Bearer ghp_pii_1s"},
		{aws + " and " + openai, "AKIApii_2s and sk-pii_3s"},
		{"password=correcthorse9battery", "password=[SECRET_4]"},
	} {
		if got := hide(t, s, crm, step.text); got != step.hidden {
			t.Errorf("%q is hidden as %q, want %q", step.text, got, step.hidden)
		}
		if got := restore(t, s, step.hidden); got != step.text {
			t.Errorf("%q is restored as %q, want %q", step.hidden, got, step.text)
		}
		if got := hide(t, s, pii.FromProgram, step.hidden); got != step.hidden {
			t.Errorf("what a program made of tokens, %q, is hidden as %q", step.hidden, got)
		}
	}
	for made, want := range map[string]string{
		"ghp_…": "ghp_…", "pii_1s": github[4:], "https://x:ghp_pii_1s@github.com/": "https://x:" + github + "@github.com/", "[SECRET_1] pii_4s PII_1S pii_9s": github + " pii_4s PII_1S pii_9s",
		"x=ghp_pii_1s&y": "x=" + github + "&y",
	} {
		if got := restore(t, s, made); got != want {
			t.Errorf("%q is restored as %q, want %q", made, got, want)
		}
	}
	for _, text := range []string{"ghp_pii_1s", "pii_1s", "token=AKIApii_2s"} {
		hidden := hide(t, s, crm, text)
		if got := restore(t, s, hidden); got != text || hidden == text {
			t.Errorf("%q is hidden as %q and restored as %q", text, hidden, got)
		}
	}
	_, tokens, err := s.RestoreArguments(t.Context(), json.RawMessage(`{"k":"pii_1s"}`), nil)
	if err != nil || len(tokens) != 1 || tokens[0].Type != "SECRET" || tokens[0].Text != "ghp_pii_1s" {
		t.Errorf("the rest of a key is judged as %+v, %v", tokens, err)
	}
	got := hideJSON(t, s, "echo__say", `{"got":"`+github[4:]+`","all":"x`+github+`"}`, tokens...)
	if back := restoreJSON(t, s, got); strings.Contains(got, "0123456789") || back != `{"got":"`+github[4:]+`","all":"x`+github+`"}` {
		t.Errorf("the echo of a key is hidden as %s, restored as %s", got, back)
	}
	if kind := ask(t, s, "kind", "ghp_pii_1s"); kind != "SECRET" {
		t.Errorf("it is a %v", kind)
	}
}

// A percent-encoded value has a percent-encoded token, which a program may decode. The token is restored to the percent-encoded value.
func TestNaturalPercent(t *testing.T) {
	t.Parallel()
	s := filter(t, pii.NewMemory(1), natural).In("u", "s")
	for _, step := range []struct{ text, hidden string }{
		{"https://x.example/?to=ada%2Bnews%40acme.com&x=1", "https://x.example/?to=pii_1e%40d1.pii.invalid&x=1"},
		{"https://x.example/?to=ada%2bnews%40acme.com&x=1", "https://x.example/?to=[EMAIL_2]&x=1"},
		{"https://x.example/?card=4111%201111%201111%201111", "https://x.example/?card=%5BCREDIT_CARD_1%5D"},
		{"the card 4111 1111 1111 1111", "the card [CREDIT_CARD_1]"},
		{"https://x.example/?card=4111+1111+1111+1111", "https://x.example/?card=[CREDIT_CARD_2]"},
		{"phone=%2B44%2020%207946%200958", "phone=%5BPHONE_1%5D"},
	} {
		if got := hide(t, s, crm, step.text); got != step.hidden {
			t.Errorf("%q is hidden as %q, want %q", step.text, got, step.hidden)
		}
		if got := restore(t, s, step.hidden); got != step.text {
			t.Errorf("%q is restored as %q, want %q", step.hidden, got, step.text)
		}
	}
	decoded, err := url.PathUnescape("pii_1e%40d1.pii.invalid and %5BPHONE_1%5D")
	if got := restore(t, s, decoded); err != nil || got != "ada+news@acme.com and +44 20 7946 0958" {
		t.Errorf("decoded, they are restored as %s, %v", got, err)
	}
}

// A domain that a program names stays unchanged in the tokens of later addresses, so that the program can compare their domains with it.
func TestPlainDomains(t *testing.T) {
	t.Parallel()
	s := filter(t, pii.NewMemory(1), natural).In("u", "s")
	hide(t, s, crm, "bob@known.example.org")
	program := func(code, want string) {
		t.Helper()
		if got, err := s.HideProgram(t.Context(), code); err != nil || got != want {
			t.Errorf("%s is hidden as %s, want %s, %v", code, got, want, err)
		}
	}
	const code = `['acme.com', "@beta.co.uk", 'known.example.org', r.site.name, 'index.js'], /@gamma\.de$/, "see other.example.net"`
	program(code, strings.Replace(code, "known.example.org", "d1.pii.invalid", 1))
	for _, same := range []string{"`UID:${b.ref}@acme.com`", `/user=\S+@acme\.com /`, `/^.+@(acme\.com|beta\.co\.uk)$/`, `/[a-z]+@acme.com/`} {
		program(same, same) // The text is not an address, because it has no real first part.
	}
	for text, want := range map[string]string{
		"ada@acme.com, Ada@Acme.com": "pii_2e@acme.com, Pii_2e@Acme.com",
		"eve@beta.co.uk":             "pii_3e@beta.co.uk",
		"kim@gamma.de":               "pii_4e@gamma.de",
	} {
		kim := hide(t, s, crm, text)
		if got := regexp.MustCompile(`[0-9]+`).ReplaceAllString(kim, "N"); got != regexp.MustCompile(`[0-9]+`).ReplaceAllString(want, "N") {
			t.Errorf("%s is hidden as %s, want %s", text, kim, want)
		}
		if got := restore(t, s, kim); got != text {
			t.Errorf("%s is restored as %s, want %s", kim, got, text)
		}
		if got := hide(t, s, pii.FromProgram, kim); got != kim {
			t.Errorf("a program's %s is hidden as %s", kim, got)
		}
	}
	for _, text := range []string{"x@other.example.net", "x@www.acme.com"} {
		if got := hide(t, s, crm, text); !strings.HasSuffix(got, ".pii.invalid") {
			t.Errorf("%s, whose domain no program names, is hidden as %s", text, got)
		}
	}
	token := hide(t, s, crm, "ada+news@acme.com")
	if got := restore(t, s, "?to="+url.QueryEscape(token)+"&x="+token); got != "?to=ada%2Bnews%40acme.com&x=ada+news@acme.com" {
		t.Errorf("%s is restored as %s", token, got)
	}
	if got := ask(t, s, "domain", token); got != "acme.com" {
		t.Errorf("the domain of %s is %v", token, got)
	}
	var failed *pii.QuestionError
	if _, err := s.Ask(t.Context(), "domain", strings.Replace(token, "acme", "other", 1)); !errors.As(err, &failed) {
		t.Errorf("a token with another domain is answered, %v", err)
	}
	for i := range 100 {
		if _, err := s.HideProgram(t.Context(), fmt.Sprintf("'guess%d.com'", i)); err != nil {
			t.Fatal(err)
		}
	}
	if got := hide(t, s, crm, "x@guess99.com"); !strings.HasSuffix(got, ".pii.invalid") {
		t.Errorf("a program that names more than 100 domains learns that %s is one of the session", got)
	}
}

// In a session with natural tokens, a value in another spelling has another token, which is restored to that spelling.
func TestSpellings(t *testing.T) {
	t.Parallel()
	s := filter(t, pii.NewMemory(1), natural).In("u", "s")
	const text = "+44 20 7946 0958, +442079460958, +44 20 7946 0958 and 4111 1111 1111 1111, 4111111111111111"
	hidden := hide(t, s, crm, text)
	if want := "[PHONE_1], [PHONE_2], [PHONE_1] and [CREDIT_CARD_1], [CREDIT_CARD_2]"; hidden != want || restore(t, s, hidden) != text {
		t.Errorf("%s is hidden as %s, want %s, and restored as %s", text, hidden, want, restore(t, s, hidden))
	}
	if got := ask(t, s, "same", "[PHONE_1]", "[PHONE_2]"); got != true {
		t.Errorf("both spellings of a number are the same: %v", got)
	}
}

// URLSearchParams writes brackets as %5b and %5d. The restored value has the encoding that URLSearchParams would have given it.
func TestForms(t *testing.T) {
	t.Parallel()
	s := filter(t, pii.NewMemory(1), natural).In("u", "s")
	hide(t, s, crm, "+44 20 7946 0958")
	if got := restore(t, s, "a=%5bPHONE_1%5d&b=%5BPHONE_1%5D"); got != "a=%2B44+20+7946+0958&b=%2B44%2020%207946%200958" {
		t.Error(got)
	}
}

// The token of an address in a regular expression of a program has no brackets, because brackets would be a character class.
func TestAddressInExpression(t *testing.T) {
	t.Parallel()
	s := filter(t, pii.NewMemory(1), natural).In("u", "s")
	got, err := s.HideProgram(t.Context(), `/ada\.l@acme\.com/i.test('ada.l@acme.com') || new RegExp('ada\\.l@acme\\.com')`)
	if want := `/pii_1e@acme.com/i.test('pii_1e@acme.com') || new RegExp('pii_1e@acme.com')`; err != nil || strings.ReplaceAll(got, "d1.pii.invalid", "acme.com") != want {
		t.Errorf("%s, %v", got, err)
	}
}
