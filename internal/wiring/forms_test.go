package wiring_test

import "testing"

// tokenPattern matches the tokens of both forms, in Go and in JavaScript: [EMAIL_1], pii_1e@d1.pii.invalid, 240.117.103.142.
const tokenPattern = `(?:\[[A-Z0-9_]+_\d+\]|(?:AKIA|ghp_|sk_live_)?pii_\d+s|pii_\d+e(?:@d\d+\.pii\.invalid)?|d\d+\.pii\.invalid|2[45]\d(?:\.[12]\d\d){2}\.\d{1,3}|3fff(?::[0-9a-f]{3,4}){3}::[0-9a-f]{4})`

// inForms runs a test with each form of tokens.
func inForms(t *testing.T, test func(t *testing.T, tokens string)) {
	for _, tokens := range []string{"bracket", "natural"} {
		t.Run(tokens, func(t *testing.T) {
			t.Parallel()
			test(t, tokens)
		})
	}
}
