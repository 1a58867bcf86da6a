package docs

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// notKeys are names of the same form as keys: files, and functions of programs.
var notKeys = []string{"server.json", "approvals.key", "pii.kind", "pii.domain", "pii.last4", "pii.country", "pii.network", "pii.same", "pii.sortKey"}

// TestDocumentsNameKeys checks that the keys of the configuration that documents name, such as sandbox.maxCalls, are in the tables of CONFIGURATION.md, which a
// test of package config compares with the code. Names of groups, such as server.tls, count too.
func TestDocumentsNameKeys(t *testing.T) {
	t.Parallel()
	reference, err := os.ReadFile("CONFIGURATION.md")
	if err != nil {
		t.Fatal(err)
	}
	known, sections := map[string]bool{}, map[string]bool{}
	for _, key := range rows(string(reference)) {
		if !regexp.MustCompile(`^[a-zA-Z0-9.]+$`).MatchString(key) {
			continue
		}
		parts := strings.Split(key, ".")
		sections[parts[0]] = true
		for i := range parts {
			known[strings.Join(parts[:i+1], ".")] = true
		}
	}
	if len(known) < 200 || len(sections) < 15 {
		t.Fatalf("%d keys of %d sections", len(known), len(sections))
	}
	named := 0
	for name, p := range pages(t) {
		if name == "CHANGELOG.md" { // has keys of earlier versions
			continue
		}
		for _, m := range regexp.MustCompile("`([a-z][a-zA-Z0-9]*(?:\\.(?:[a-z][a-zA-Z0-9]*|NAME|N))+)(?:`|:)").FindAllStringSubmatch(p.text, -1) {
			section, _, _ := strings.Cut(m[1], ".")
			if !sections[section] || slices.Contains(notKeys, m[1]) {
				continue
			}
			if named++; !known[m[1]] {
				t.Errorf("%s names the key %s, which does not exist", name, m[1])
			}
		}
	}
	if named < 300 {
		t.Errorf("only %d keys", named)
	}
}
