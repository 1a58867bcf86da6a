package pii_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/pii"
)

// Mentions finds tokens of both forms, with one key for all texts of a token.
func TestMentions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"no token: [1] [x_1] pii_ ann@acme.com 10.1.2.3": nil,
		"[EMAIL_1] and [PII_EMAIL_1], %5BPHONE_12%5D":    {"[EMAIL_1] EMAIL EMAIL_1", "[PII_EMAIL_1] EMAIL EMAIL_1", "%5BPHONE_12%5D PHONE PHONE_12"},
		"[EMPLOYEE_ID_3]":                                        {"[EMPLOYEE_ID_3] EMPLOYEE_ID EMPLOYEE_ID_3"},
		"to <pii_1e@d2.pii.invalid>":                             {"pii_1e@d2.pii.invalid EMAIL EMAIL_1 in EMAIL_DOMAIN_2"},
		"PII_1E@D2.PII.INVALID pii_1e%40d2.pii.invalid":          {"PII_1E@D2.PII.INVALID EMAIL EMAIL_1 in EMAIL_DOMAIN_2", "pii_1e%40d2.pii.invalid EMAIL EMAIL_1 in EMAIL_DOMAIN_2"},
		"pii_1e@acme.com.":                                       {"pii_1e@acme.com EMAIL EMAIL_1"},
		"pii_1e@ pii_1e":                                         {"pii_1e EMAIL EMAIL_1", "pii_1e EMAIL EMAIL_1"},
		"https://d2.pii.invalid/x":                               {"d2.pii.invalid EMAIL_DOMAIN EMAIL_DOMAIN_2"},
		"key=ghp_pii_3s, github_pat_pii_4s or pii_5s":            {"ghp_pii_3s SECRET SECRET_3", "github_pat_pii_4s SECRET SECRET_4", "pii_5s SECRET SECRET_5"},
		"dapi_pii_6s":                                            {"pii_6s SECRET SECRET_6"},
		"pii_1e@d1.pii.invalid;pii_2e@d1.pii.invalid [PHONE_1].": {"pii_1e@d1.pii.invalid EMAIL EMAIL_1 in EMAIL_DOMAIN_1", "pii_2e@d1.pii.invalid EMAIL EMAIL_2 in EMAIL_DOMAIN_1", "[PHONE_1] PHONE PHONE_1"},
	} {
		var got []string
		for _, m := range pii.Mentions(text) {
			line := strings.Join([]string{m.Text, m.Type, m.Key}, " ")
			if len(m.Within) > 0 {
				line += " in " + strings.Join(m.Within, " ")
			}
			got = append(got, line)
		}
		if !cmp.Equal(got, want) {
			t.Errorf("%q has %q, want %q", text, got, want)
		}
	}
}

// All forms of the token of a network have the same key, and the Mention of an address has the keys of its networks.
func TestMentionsOfNetworks(t *testing.T) {
	t.Parallel()
	for address, networks := range map[string][][]string{
		"240.117.103.142":          {{"240.117.103", "240.117.103.0/24"}, {"240.117.0.0/16"}, {"240.0.0.0/8"}},
		"3fff:1a2:3b4c:5d6e::7f8a": {{"3fff:1a2:3b4c:5d6e", "3fff:1a2:3b4c:5d6e::/64"}, {"3fff:1a2:3b4c", "3fff:1a2:3b4c::/48"}, {"3fff:1a2::/32"}},
	} {
		all := pii.Mentions("http://" + address + "/x")
		if len(all) != 1 || all[0].Text != address || all[0].Type != "IP_ADDRESS" || len(all[0].Within) != len(networks) {
			t.Errorf("%s: %+v", address, all)
			continue
		}
		for i, forms := range networks {
			for _, form := range forms {
				of := pii.Mentions(form)
				if len(of) != 1 || of[0].Text != form || of[0].Type != "IP_NETWORK" || of[0].Key != all[0].Within[i] || fmt.Sprint(of[0].Within) != fmt.Sprint(all[0].Within[i+1:]) {
					t.Errorf("%s within %s: %+v, want the key %s", form, address, of, all[0].Within[i])
				}
			}
		}
	}
}

// Mentions finds every token that a session puts into a text, in both forms of tokens. The number of keys is the number of values.
func TestMentionsOfSession(t *testing.T) {
	t.Parallel()
	for _, change := range []func(*pii.Options){nil, natural} {
		s := filter(t, pii.NewMemory(1), change).In("u", "s")
		text := hide(t, s, "crm__search", `ann@acme.com, bob@acme.com, ANN@acme.com, 198.51.100.7, 2a02:26f0:1234::7, +44 20 7946 0958, `+"ghp_0123456789abcdefghijABCDEFGHIJ012345")
		keys, types := map[string]bool{}, map[string]int{}
		for _, m := range pii.Mentions(text) {
			keys[m.Key] = true
			types[m.Type]++
			if restored := restore(t, s, m.Text); restored == m.Text {
				t.Errorf("%s is no token of the session, in %s", m.Text, text)
			}
		}
		if want := map[string]int{"EMAIL": 3, "IP_ADDRESS": 2, "PHONE": 1, "SECRET": 1}; !cmp.Equal(types, want) || len(keys) != 6 {
			t.Errorf("%s has %v with keys %v", text, types, keys)
		}
	}
}
