package pii_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/pii/detect"
	"mcp-code-exec-harness/internal/pii/language"
)

// Replacements returns the places where RestoreArguments inserts values. Marks names the characters of an embedded value that may end a string in
// code.
func TestReplacements(t *testing.T) {
	t.Parallel()
	d, err := detect.New(detect.Options{Custom: map[string]string{"NAME": `O'B[^.]+\.`, "PLAIN": `Smith`, "TEMPLATE": "x`\\$\\{y\\}\\\\\n"}})
	if err != nil {
		t.Fatal(err)
	}
	f := filter(t, pii.NewMemory(1), func(o *pii.Options) { o.Detector, o.Types = d, d.Types() })
	s := f.In("ann", "s")
	for value, token := range map[string]string{"O'Brien'); DROP.": "[NAME_1]", "Smith": "[PLAIN_1]", "x`${y}\\\n": "[TEMPLATE_1]"} {
		if got := hide(t, s, crm, value); got != token {
			t.Fatalf("%q becomes %q", value, got)
		}
	}
	args := json.RawMessage(`{"query":"VALUES ('[NAME_1]', '[PLAIN_1]', '[NAME_1]')","name":"[NAME_1]","a b":["x",{"[PLAIN_1]!":"\u005bTEMPLATE_1]."}],"other":"[NAME_9] [EMAIL_1]"}`)
	all, err := s.Replacements(t.Context(), args, func(of language.String) language.Language {
		if len(of.Path) == 1 && of.Path[0] == "query" {
			return language.SQL
		}
		return language.None
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range all {
		got = append(got, fmt.Sprintf("%s %s %s %t %q %q %q", r.Token, r.Path, r.Language, r.Embedded, r.Value, r.Written, r.Marks()))
	}
	if diff := cmp.Diff([]string{
		`[NAME_1] $.query sql true "O'Brien'); DROP." "O''Brien''); DROP." []`,
		`[PLAIN_1] $.query sql true "Smith" "Smith" []`,
		`[NAME_1] $.name none false "O'Brien'); DROP." "O'Brien'); DROP." []`,
		`[PLAIN_1] $["a b"][1]["[PLAIN_1]!"] (key) none true "Smith" "Smith" []`,
		`[TEMPLATE_1] $["a b"][1]["[PLAIN_1]!"] none true "x` + "`" + `${y}\\\n" "x` + "`" + `${y}\\\n" ["a backtick" "a backslash" "a line break" "${"]`,
	}, got); diff != "" {
		t.Error(diff)
	}
	many, err := json.Marshal(make([]string, 300))
	if err != nil {
		t.Fatal(err)
	}
	if all, err = s.Replacements(t.Context(), json.RawMessage(string(many[:len(many)-1])+jsonTokens(300)+"]"), nil); err != nil || len(all) != 100 {
		t.Errorf("%d places, %v", len(all), err)
	}
}

// RestoreArguments escapes values for JSON texts within strings and for code, and inserts them unchanged elsewhere. The error for a value that cannot be
// escaped names the token, the path and the reason.
func TestInCode(t *testing.T) {
	t.Parallel()
	d, err := detect.New(detect.Options{Custom: map[string]string{"NAME": `O"B[^.]+\.`, "TEMPLATE": `T\\x`}})
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []pii.InCode{"", pii.EscapeInCode, pii.RefuseInCode, pii.KeepInCode} {
		f := filter(t, pii.NewMemory(1), func(o *pii.Options) { o.Detector, o.Types, o.InCode = d, d.Types(), mode })
		s := f.In("ann", "s")
		for value, token := range map[string]string{`O"Brien, 'x'.`: "[NAME_1]", `T\x`: "[TEMPLATE_1]", "+44 20 7946 0958": "[PHONE_1]"} {
			if got := hide(t, s, crm, value); got != token && mode == "" {
				t.Logf("%q becomes %q", value, got)
			}
		}
		for _, c := range []struct{ args, want, kept string }{
			{`{"sql":"VALUES ('[NAME_1]')","n":1.50}`, `{"sql":"VALUES ('O\"Brien, ''x''.')","n":1.50}`, `{"sql":"VALUES ('O\"Brien, 'x'.')","n":1.50}`},
			{`{"body":"{\"a\":[\"[NAME_1]\", {\"sql\": \"SELECT '[NAME_1]'\"}]}"}`, `{"body":"{\"a\":[\"O\\\"Brien, 'x'.\", {\"sql\": \"SELECT 'O\\\"Brien, ''x''.'\"}]}"}`, ""},
			{`{"b":[{"path":"x.csv","text":"a,[NAME_1]\n"},{"text":"a,[NAME_1]\n"}]}`, `{"b":[{"path":"x.csv","text":"a,\"O\"\"Brien, 'x'.\"\n"},{"text":"a,O\"Brien, 'x'.\n"}]}`, ""},
			{`{"sql":"[NAME_1]","note":"Dear [NAME_1]"}`, `{"sql":"O\"Brien, 'x'.","note":"Dear O\"Brien, 'x'."}`, ""},
			{`{"url":"https://a.example/?q=[NAME_1]&r=%5BNAME_1%5D"}`, `{"url":"https://a.example/?q=O%22Brien,%20%27x%27.&r=O%22Brien%2C%20'x'."}`, ""},
			{`{"sql":"SELECT [NAME_1]"}`, `[NAME_1] is in sql at $.sql, and its value has characters other than letters and digits, and stands outside of quotes: put it between quotes, or give it as a parameter (pii.inCode)`, `{"sql":"SELECT O\"Brien, 'x'."}`},
			{`{"body":"{\"sql\": \"SELECT '[TEMPLATE_1]'\"}"}`, `[TEMPLATE_1] is in sql at $.body (JSON).sql, and its value has a backslash, which databases read in different ways: give it as a parameter (pii.inCode)`, ""},
		} {
			got, tokens, err := s.RestoreArguments(t.Context(), json.RawMessage(c.args), language.Guess)
			text := string(got)
			if err != nil {
				text = err.Error()
			}
			switch mode {
			case pii.KeepInCode:
				if plain, _, err := s.RestoreArguments(t.Context(), json.RawMessage(c.args), nil); err != nil || text != string(plain) || c.kept != "" && text != c.kept {
					t.Errorf("kept: %s becomes %s, want %s, %v", c.args, text, plain, err)
				}
			case pii.RefuseInCode:
				if escaped := !strings.Contains(c.args, `"note"`); escaped != strings.Contains(text, "(pii.inCode)") {
					t.Errorf("refused: %s becomes %s", c.args, text)
				}
			default:
				if text != c.want || len(tokens) != 1 {
					t.Errorf("%s becomes\n%s, want\n%s", c.args, text, c.want)
				}
				if err != nil {
					continue
				}
				if back, err := s.HideJSON(t.Context(), crm, got, tokens...); err != nil || strings.Contains(string(back), "Brien") {
					t.Errorf("the answer %s has %s, %v", got, back, err)
				}
			}
		}
	}
}

// A value that comes only from programs is inserted unchanged, because the program knew it when it wrote the text around it.
func TestOwnValuesInCode(t *testing.T) {
	t.Parallel()
	s := filter(t, pii.NewMemory(1), func(*pii.Options) {}).In("ann", "s")
	const args = `{"sql":"SELECT '[EMAIL_1]'"}`
	for _, c := range []struct {
		from pii.Origin
		want string
	}{{pii.FromCode, "o'brien@example.com"}, {crm, "o''brien@example.com"}} {
		if got := hide(t, s, c.from, "o'brien@example.com"); got != "[EMAIL_1]" {
			t.Fatalf("%s: %s", c.from, got)
		}
		if got, _, err := s.RestoreArguments(t.Context(), json.RawMessage(args), language.Guess); err != nil || !strings.Contains(string(got), "'"+c.want+"'") {
			t.Errorf("from %s: %s, %v", c.from, got, err)
		}
	}
}

// A value with so many origins that not all are recorded is escaped like a value from outside.
func TestValuesOfManyToolsInCode(t *testing.T) {
	t.Parallel()
	s := filter(t, pii.NewMemory(1), func(*pii.Options) {}).In("ann", "s")
	for i := range 100 {
		if got := hide(t, s, pii.Origin(fmt.Sprintf("%s%d", crm, i)), "o'brien@example.com"); got != "[EMAIL_1]" {
			t.Fatal(got)
		}
	}
	got, _, err := s.RestoreArguments(t.Context(), json.RawMessage(`{"sql":"SELECT '[EMAIL_1]'"}`), language.Guess)
	if err != nil || !strings.Contains(string(got), "'o''brien@example.com'") {
		t.Errorf("%s, %v", got, err)
	}
}

// jsonTokens returns n further elements of a JSON array, each with a token.
func jsonTokens(n int) (text string) {
	for range n {
		text += `,"[PLAIN_1]"`
	}
	return text
}
