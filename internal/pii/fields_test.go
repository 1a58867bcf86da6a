package pii_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/jsonpath"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/pii/detect"
)

// withFields sets Options.Fields for the answers of crm, from the types of the fields by path.
func withFields(t testing.TB, paths map[string]string) func(*pii.Options) {
	t.Helper()
	return func(o *pii.Options) {
		for path, typ := range paths {
			steps, err := jsonpath.Parse(path)
			if err != nil {
				t.Fatal(err)
			}
			o.Fields = append(o.Fields, pii.Field{
				Field: detect.Field{Path: steps, Type: typ}, From: func(from pii.Origin) bool { return from == crm },
			})
		}
	}
}

var people = map[string]string{"$.name": "NAME", "$.customers[*].name": "NAME", "$.customers[*].address": "ADDRESS", "$.number": "CUSTOMER_NO"}

// A value at the path of a field becomes a token there, and later everywhere else in the session.
func TestFields(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		answer, hidden string
		later          map[string]string // hidden forms of later texts, by text
	}{
		{`{"note":"Ada Lovelace called","name":"Ada Lovelace"}`, `{"note":"[NAME_1] called","name":"[NAME_1]"}`, map[string]string{
			"Ada Lovelace's":                     "[NAME_1]'s",
			"ADA  LOVELACE and ada\nlovelace":    "[NAME_1] and [NAME_1]",
			"Ada Lovelaces, xAda Lovelace, Ada_": "Ada Lovelaces, xAda Lovelace, Ada_",
			"Ada, Lovelace; Ada-Lovelace":        "Ada, Lovelace; Ada-Lovelace",
			`{"to":["Ada Lovelace"],"a":1}`:      `{"to":["[NAME_1]"],"a":1}`,
			`{"Ada Lovelace":{"a":"b"}}`:         `{"[NAME_1]":{"a":"b"}}`,
		}},
		{
			`{"customers":[{"name":"Zoë O'Neil","address":"12 Elm St.\nSpringfield"},{"name":"王伟","address":{"street":"Hauptstraße 5","zip":10115}}]}`,
			`{"customers":[{"name":"[NAME_1]","address":"[ADDRESS_1]"},{"name":"[NAME_2]","address":{"street":"[ADDRESS_2]","zip":"[ADDRESS_3]"}}]}`,
			map[string]string{
				"to ZOË O’NEIL":                      "to [NAME_1]",
				"Zoe\u0308 O'Neil":                   "[NAME_1]",
				"at 12 elm st. Springfield, Zoë":     "at [ADDRESS_1], Zoë",
				"昨天王伟打电话了":                           "昨天[NAME_2]打电话了",
				"Hauptstraße 5, Hauptstraße 55, 101": "[ADDRESS_2], Hauptstraße 55, 101",
			},
		},
		{`{"name":"Ann","number":48213377}`, `{"name":"[NAME_1]","number":"[CUSTOMER_NO_1]"}`, map[string]string{
			"Ann, annual, Ann-Marie, joann": "[NAME_1], annual, [NAME_1]-Marie, joann",
			"48213377 and 148213377":        "[CUSTOMER_NO_2] and 148213377",
			`{"n":48213377,"m":482133.77}`:  `{"n":"[CUSTOMER_NO_1]","m":482133.77}`,
		}},
		// Short values and common words are found only at the path of the field.
		{
			`{"name":"Li","customers":[{"name":"Mark"},{"name":""},{"name":"-"},{"name":null}],"number":17}`,
			`{"name":"[NAME_1]","customers":[{"name":"[NAME_2]"},{"name":""},{"name":"[NAME_3]"},{"name":null}],"number":"[CUSTOMER_NO_1]"}`,
			map[string]string{"Li, Mark - 17": "Li, Mark - 17"},
		},
		// The first case has JSON in a text, and the next one has values at other paths.
		{`[{"text":"{\"name\":\"Ada \\\"T\\\" Byron\"}"}]`, `[{"text":"{\"name\":\"[NAME_1]\"}"}]`, map[string]string{`"Ada \"T\" Byron"`: `"[NAME_2]"`}}, // has one level of escapes less, and therefore another token
		{`{"other":{"name":"Ada Lovelace"},"names":["Ada"]}`, `{"other":{"name":"Ada Lovelace"},"names":["Ada"]}`, nil},
		{`{"name":"ann@example.com"}`, `{"name":"[NAME_1]"}`, map[string]string{"ann@example.com": "[NAME_1]"}},
		{`{"name":"[NAME_1]"}`, `{"name":"[LITERAL_1]"}`, nil},
		{`{"name":"Tom & Ann 5%"}`, `{"name":"[NAME_1]%"}`, map[string]string{"to Tom & Ann 5": "to [NAME_1]"}},
	} {
		s := filter(t, pii.NewMemory(1), withFields(t, people)).In("u", "s")
		got := hideJSON(t, s, crm, test.answer)
		if got != test.hidden {
			t.Errorf("%s is hidden as %s, want %s", test.answer, got, test.hidden)
		}
		if back := restoreJSON(t, s, got); back != test.answer {
			t.Errorf("%s is restored as %s, want %s", got, back, test.answer)
		}
		for text, want := range test.later {
			if got := hideJSON(t, s, "notes__read", text); got != want {
				t.Errorf("after %s, %q is hidden as %q, want %q", test.answer, text, got, want)
			}
			if other := hideJSON(t, filter(t, pii.NewMemory(1), withFields(t, people)).In("u", "t"), crm, text); other != text && !strings.Contains(other, "EMAIL") {
				t.Errorf("another session has %q", other)
			}
		}
	}
}

// The vault has the values of fields and the origins of their tokens, so that another process finds them.
func TestFieldsAreDurable(t *testing.T) {
	t.Parallel()
	memory := pii.NewMemory(1)
	hideJSON(t, filter(t, memory, withFields(t, people)).In("u", "s"), crm, `{"name":"Ada Lovelace"}`)
	s := filter(t, memory, withFields(t, people)).In("u", "s")
	if got := hide(t, s, pii.FromTask, "Ask Ada Lovelace."); got != "Ask [NAME_1]." {
		t.Errorf("the task is hidden as %s", got)
	}
	restored, tokens, err := s.RestoreJSON(t.Context(), json.RawMessage(`{"to":"[NAME_1]"}`))
	if err != nil || string(restored) != `{"to":"Ada Lovelace"}` || len(tokens) != 1 || fmt.Sprint(tokens[0].Origins) != "[crm__search task]" {
		t.Errorf("restored %s with %+v, %v", restored, tokens, err)
	}
	if got := hide(t, filter(t, memory, withFields(t, people)).In("u", "t"), pii.FromTask, "Ask Ada Lovelace."); got != "Ask Ada Lovelace." {
		t.Errorf("another session has %s", got)
	}
	f := filter(t, memory, withFields(t, people))
	if err := f.Clear(t.Context(), "u", "s"); err != nil {
		t.Fatal(err)
	}
	if got := hide(t, f.In("u", "s"), pii.FromTask, "Ask Ada Lovelace."); got != "Ask Ada Lovelace." {
		t.Errorf("a session that was cleared has %s", got)
	}
}

// Values that programs compose have tokens of their own. In the text of a program, a word that may be an identifier stays.
func TestFieldsInPrograms(t *testing.T) {
	t.Parallel()
	s := filter(t, pii.NewMemory(1), withFields(t, people)).In("u", "s")
	hideJSON(t, s, crm, `{"customers":[{"name":"Ada Lovelace"},{"name":"Sheldon"}]}`)
	code := `class Sheldon { sheldon = 'Sheldon' } // ask Ada Lovelace`
	if got, want := hide(t, s, pii.FromCode, code), `class Sheldon { sheldon = '[NAME_2]' } // ask [NAME_1]`; got != want {
		t.Errorf("the program is %s, want %s", got, want)
	}
	if got, want := hide(t, s, pii.FromProgram, "Ada Lovelace"), "[NAME_3]"; got != want {
		t.Errorf("what a program put together is %s, want %s", got, want)
	}
	if got, want := hide(t, s, crm, "Ada Lovelace"), "[NAME_1]"; got != want {
		t.Errorf("it is %s, want %s", got, want)
	}
}

// A tool that repeats the sent value of a field does not become an origin of the value.
func TestFieldsThatWereSent(t *testing.T) {
	t.Parallel()
	s := filter(t, pii.NewMemory(1), withFields(t, people)).In("u", "s")
	hideJSON(t, s, crm, `{"name":"Ada Lovelace"}`)
	_, sent, err := s.RestoreJSON(t.Context(), json.RawMessage(`["[NAME_1]"]`))
	if err != nil {
		t.Fatal(err)
	}
	if got := hideJSON(t, s, "mailer__send", `"sent to Ada Lovelace"`, sent...); got != `"sent to [NAME_1]"` {
		t.Errorf("the answer is %s", got)
	}
	_, sent, err = s.RestoreJSON(t.Context(), json.RawMessage(`["[NAME_1]"]`))
	if err != nil || len(sent[0].Origins) != 1 {
		t.Errorf("tokens %+v, %v", sent, err)
	}
}

// Tokens of fields count towards the maximum number of tokens.
func TestFieldsAreBounded(t *testing.T) {
	t.Parallel()
	s := filter(t, pii.NewMemory(1), func(o *pii.Options) {
		withFields(t, people)(o)
		o.Limits.Tokens = 2
	}).In("u", "s")
	if _, err := s.HideJSON(t.Context(), crm, json.RawMessage(`{"customers":[{"name":"Ann"},{"name":"Bea"},{"name":"Cleo"}]}`)); err == nil || !strings.Contains(err.Error(), "pii.maxTokens") {
		t.Errorf("the error is %v", err)
	}
}

// BenchmarkFields hides a text of 1 MiB in sessions that know no names or many names.
func BenchmarkFields(b *testing.B) {
	text := strings.Repeat("All orders of Maria Miller were shipped in time, and nothing is left to be done by Joe or Bob.\n", 1<<20/96)
	for _, n := range []int{0, 10_000, 100_000} {
		b.Run(fmt.Sprint(n, " names"), func(b *testing.B) {
			s := filter(b, pii.NewMemory(1), withFields(b, people)).In("u", "s")
			all := make([]string, n)
			for i := range all {
				all[i] = fmt.Sprintf(`{"name":"%s%d %s%d"}`, []string{"Maria", "Joe", "Bob", "Ann"}[i%4], i%1000, []string{"Miller", "Smith"}[i%2], i)
			}
			start := b.Elapsed()
			hideJSON(b, s, crm, `{"customers":[`+strings.Join(all, ",")+`]}`)
			b.Logf("%d names are learned in %v", n, b.Elapsed()-start)
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := s.Hide(b.Context(), crm, text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
