package pii_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/testing/generated"
)

// pieces are the parts of generated texts. Each value has only one spelling, because the first spelling is restored. The exception is trunk.
var pieces = []string{
	"ann@example.com", "219-09-9999", "4111 1111 1111 1111", "10.20.30.40", "DE89370400440532013000", "EMP-AB-123456",
	"[EMAIL_1]", "[PII_EMAIL_2]", "[LITERAL_1]", "[EMAIL_", "_1]", "\\", "\"", "\n", "{", "}", "[", "]", "ü", "%40", "&amp;", "password=hunter2hunter2", "c2VuZCB0byBhbm5AZXhhbXBsZS5jb20=",
	" ", "x", "text", "é", "😀", "\x00", "{\"a\":\"ann@example.com\",\"phone\":3125550188}", "0",
}

func generate(r *rand.Rand, depth int) any {
	switch n := r.IntN(10); {
	case n < 2 && depth > 0:
		m := map[string]any{}
		for range r.IntN(4) {
			m[fmt.Sprint(generateText(r))] = generate(r, depth-1)
		}
		return m
	case n < 4 && depth > 0:
		var list []any
		for range r.IntN(4) {
			list = append(list, generate(r, depth-1))
		}
		return list
	case n == 4:
		return json.Number([]string{"3125550188", "5500005555555559", "12", "-1.5e300", "219099998"}[r.IntN(5)])
	case n == 5:
		return []any{true, nil}[r.IntN(2)]
	}
	return generateText(r)
}

func generateText(r *rand.Rand) string {
	var text strings.Builder
	for range r.IntN(6) {
		text.WriteString(pieces[r.IntN(len(pieces))])
	}
	return text.String()
}

// tokenLike matches texts that look like tokens.
var tokenLike = regexp.MustCompile(`\[(?:PII_)?([A-Z_]+)_[1-9][0-9]*\]`)

// trunk matches a zero, a separator and a number. After a word about telephones, this text is a telephone number, which may also be written without
// the separator.
var trunk = regexp.MustCompile(`0(?:\x00|\\u0000|\n|\\n| )219-09-9999`)

// spelled returns a text in which all matches of trunk have the same spelling, so that restored texts can be compared.
func spelled(text string) string { return trunk.ReplaceAllString(text, "0219-09-9999") }

// Every text is restored unchanged, except that an equal value may have another spelling.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	seed := generated.Seed(t)
	r := rand.New(rand.NewPCG(seed, 1))
	forms := [...]*pii.Filter{filter(t, pii.NewMemory(1), nil), filter(t, pii.NewMemory(1), natural)}
	for i := range 5000 {
		s := forms[i/50%len(forms)].In("u", fmt.Sprint(i/50))
		raw, err := json.Marshal(generate(r, 4))
		if err != nil {
			t.Fatal(err)
		}
		roundTrip(t, s, string(raw))
		text := generateText(r)
		hidden := hide(t, s, crm, text)
		if back, err := s.Restore(t.Context(), hidden); err != nil || spelled(back) != spelled(text) && hide(t, s, crm, back) != hidden {
			t.Fatalf("%q is hidden as %q, restored as %q, %v", text, hidden, back, err)
		}
	}
}

// A text that arrives in parts of any size is restored to the same text as the whole.
func TestRestoreSome(t *testing.T) {
	t.Parallel()
	seed := generated.Seed(t)
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range 200 {
		s := filter(t, pii.NewMemory(1), [...]func(*pii.Options){nil, natural}[i%2]).In("u", "s")
		number := hideJSON(t, s, crm, `{"card":4111111111111111}`) // The token of a number is restored without the quotes around it.
		var text strings.Builder
		for text.Len() < 6000 {
			text.WriteString(hide(t, s, crm, generateText(r)))
			if r.IntN(3) == 0 {
				text.WriteString(number)
			}
		}
		whole := text.String()
		want, err := s.Restore(t.Context(), whole)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for rest := whole; rest != ""; {
			n := min(len(rest), 1024+r.IntN(1500))
			restored, used, err := s.RestoreSome(t.Context(), rest[:n], n == len(rest))
			if err != nil || used == 0 {
				t.Fatalf("of %d bytes %d are restored: %v", n, used, err)
			}
			got += restored
			rest = rest[used:]
		}
		if got != want {
			t.Fatalf("%q\nis restored in parts as\n%q, and as a whole as\n%q", whole, got, want)
		}
	}
}

func roundTrip(t *testing.T, s pii.Session, raw string) {
	t.Helper()
	hidden := hideJSON(t, s, crm, raw)
	if back := restoreJSON(t, s, hidden); !equalJSON(spelled(back), spelled(raw)) && hideJSON(t, s, crm, back) != hidden { // another spelling
		t.Fatalf("%s\nis hidden as %s\nrestored as  %s", raw, hidden, back)
	}
	rest := strings.ReplaceAll(tokenLike.ReplaceAllString(hidden, ""), `\x0EMP-AB-123456`, "") // The first letter of this value belongs to the escape \x0E.
	if strings.Contains(rest, "EMP-AB-123456") {                                               // A custom pattern finds this value everywhere else.
		t.Fatalf("%s\nis hidden as %s", raw, hidden)
	}
}

// equalJSON compares two JSON values. Numbers are compared as they are written.
func equalJSON(a, b string) bool {
	decode := func(text string) (v any) {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		if d.Decode(&v) != nil {
			return text
		}
		return v
	}
	x, _ := json.Marshal(decode(a))
	y, _ := json.Marshal(decode(b))
	return string(x) == string(y)
}

func FuzzRoundTrip(f *testing.F) {
	for _, p := range pieces {
		raw, _ := json.Marshal([]string{p, "x" + p})
		f.Add(string(raw))
		f.Add(p)
	}
	forms := [...]*pii.Filter{filter(f, pii.NewMemory(1), nil), filter(f, pii.NewMemory(1), natural)}
	n := 0
	f.Fuzz(func(t *testing.T, text string) {
		n++
		s := forms[n%len(forms)].In("u", fmt.Sprint(n/len(forms)))
		if json.Valid([]byte(text)) {
			hidden := hideJSON(t, s, crm, text)
			if back := restoreJSON(t, s, hidden); !equalJSON(back, text) && hideJSON(t, s, crm, back) != hidden {
				t.Fatalf("%q is hidden as %q, restored as %q", text, hidden, back)
			}
		}
		hidden := hide(t, s, crm, text)
		if back, err := s.Restore(t.Context(), hidden); err != nil || spelled(back) != spelled(text) && hide(t, s, crm, back) != hidden { // another spelling
			t.Fatalf("%q is hidden as %q, restored as %q, %v", text, hidden, back, err)
		}
	})
}
