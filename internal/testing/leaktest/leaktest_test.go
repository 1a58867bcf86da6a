package leaktest_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/testing/leaktest"
)

// TestSearcher: the searcher finds each form of a value at every position, and no other text.
func TestSearcher(t *testing.T) {
	t.Parallel()
	const value = "Grace.Hopper+1@example.com"
	s := leaktest.NewSearcher(t, []string{value, "+12125550123", "2a02:26f0:aa::17"})
	for form, text := range leaktest.Spellings(value) {
		for _, around := range []string{"%s", "xy%s", "%s.", strings.Repeat("z", 1000) + "%s" + strings.Repeat("é", 1000)} {
			for _, text := range []string{text, strings.ToUpper(text), strings.ToLower(text)} {
				if got := s.Find(fmt.Appendf(nil, around, text)); len(got) == 0 {
					t.Errorf("the form %s is not found in %q", form, fmt.Sprintf(around, text))
				}
			}
		}
	}
	for at := range 9 { // positions in a longer text
		text := strings.Repeat("a", at) + value + strings.Repeat("b", at/3)
		if len(s.Find([]byte(base64.StdEncoding.EncodeToString([]byte(text))))) == 0 {
			t.Errorf("base64 of %q", text)
		}
	}
	if got := s.Find([]byte("Grace.Hopper+1@example.org [EMAIL_1] +12125550124 2a02:26f0:aa::16")); len(got) > 0 {
		t.Errorf("found %q", got)
	}
}
