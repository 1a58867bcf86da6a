package pii_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/pii/detect"
)

// Replacements are the places where RestoreArguments puts values, with what of an embedded value may end a text in code.
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
	all, err := s.Replacements(t.Context(), args)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range all {
		got = append(got, fmt.Sprintf("%s %s %t %q %q", r.Token, r.Path, r.Embedded, r.Value, r.Marks()))
	}
	if diff := cmp.Diff([]string{
		`[PLAIN_1] $["a b"][1]["[PLAIN_1]!"] (key) true "Smith" []`,
		`[TEMPLATE_1] $["a b"][1]["[PLAIN_1]!"] true "x` + "`" + `${y}\\\n" ["a backtick" "a backslash" "a line break" "${"]`,
		`[NAME_1] $.name false "O'Brien'); DROP." []`,
		`[NAME_1] $.query true "O'Brien'); DROP." ["a quote" "a semicolon"]`,
		`[PLAIN_1] $.query true "Smith" []`,
	}, got); diff != "" {
		t.Error(diff)
	}
	many, err := json.Marshal(make([]string, 300))
	if err != nil {
		t.Fatal(err)
	}
	if all, err = s.Replacements(t.Context(), json.RawMessage(string(many[:len(many)-1])+jsonTokens(300)+"]")); err != nil || len(all) != 100 {
		t.Errorf("%d places, %v", len(all), err)
	}
}

// jsonTokens is so many further items of a list, each with a token.
func jsonTokens(n int) (text string) {
	for range n {
		text += `,"[PLAIN_1]"`
	}
	return text
}
