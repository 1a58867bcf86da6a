package cli_test

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
)

// TestDoctorOfPersonalData: harness doctor says whether values can be kept.
func TestDoctorOfPersonalData(t *testing.T) {
	t.Parallel()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	for config, want := range map[string]struct{ state, detail string }{
		"":                                 {"ok", "tokens, with a vault in the store"},
		"pii: {enabled: false}\n":          {"warning", "models, logs and files see it"},
		"pii: {vault: memory}\n":           {"warning", "after a restart"},
		"pii: {keyFile: ./harness.yaml}\n": {"failed", "harness.yaml"},
		"pii: {key: short}\n":              {"failed", "HARNESS_PII_KEY (pii.key)"},
		"pii: {vault: redis}\nredis: {address: '" + nobody + "'}\n": {"failed", nobody},
	} {
		f := setup(t)
		f.write("harness.yaml", config)
		var findings []struct{ Name, State, Detail, Fix string }
		exit := 0
		if want.state == "failed" {
			exit = 3
		}
		f.run("doctor", "--json").want(exit).value(&findings)
		found := false
		for _, is := range findings {
			if is.Name != "personal data" {
				continue
			}
			found = true
			if is.State != want.state || !strings.Contains(is.Detail, filepath.FromSlash(want.detail)) || is.State == "warning" && is.Fix == "" {
				t.Errorf("%q: %+v, want %+v", config, is, want)
			}
		}
		if !found {
			t.Errorf("%q: got %+v", config, findings)
		}
	}
}
