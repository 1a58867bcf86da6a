package wiring_test

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/testing/npmtest"
	"mcp-code-exec-harness/internal/wiring"
)

// ordinarySet is a set of programs in testdata/ordinary, with the data that they read.
type ordinarySet struct {
	names    []string
	programs map[string]string // programs by name; the first line of each reads the data
	answers  map[string]string // answers of the tools of the server crm, by name
}

func readOrdinarySet(t *testing.T, dir string) *ordinarySet {
	t.Helper()
	s := &ordinarySet{programs: map[string]string{}, answers: map[string]string{}}
	glob := func(pattern string) []string {
		paths, err := filepath.Glob(filepath.Join("testdata", "ordinary", dir, pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s has no %s, %v", dir, pattern, err)
		}
		return paths
	}
	for _, path := range glob("data/*") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(filepath.Base(path), ".")
		s.answers[name] = string(text)
	}
	for _, path := range glob("programs/*.txt") {
		names, programs := readSections(t, path)
		for _, name := range names {
			head := ""
			for data := range s.answers {
				if regexp.MustCompile(`\b` + data + `\b`).MatchString(programs[name]) {
					head += "const " + data + " = await callMCPTool('crm__" + data + "', {}); "
				}
			}
			if head == "" || s.programs[name] != "" {
				t.Fatalf("%s: %q reads no data, or there are two", path, name)
			}
			s.names, s.programs[name] = append(s.names, name), head+"\n"+programs[name]
		}
	}
	return s
}

// ordinaryFields are the paths of names of persons in the data of the sets.
const ordinaryFields = `{
	crm__orders: {'$[*].customer.name': NAME}, crm__signups: {'$[*].name': NAME}, crm__ticketData: {'$.tickets[*].requester_name': NAME},
	crm__contactData: {'$.contacts[*].name.first': NAME, '$.contacts[*].name.last': NAME},
	crm__bookings: {'$.bookings[*].member.name': NAME}, crm__feedback: {'$[*].from': NAME}}`

// tokensVar names the form of tokens that TestOrdinarySet measures without judging. By default, it judges natural tokens.
const tokensVar = "HARNESS_TEST_TOKENS"

// ordinaryShares are the minimum shares of the programs of each set that give the same result with natural tokens.
var ordinaryShares = map[string]float64{"judge": 0.75, "second": 0.80}

// beyondMethods maps programs to the operations on tokens for which they get no note, because no method is involved: they measure and index texts (see
// docs/PRIVACY.md).
var beyondMethods = map[string]string{"country of contacts": "[0]", "report histogram of local parts": ".length"}

// TestOrdinarySet: of programs that were written without regard to privacy, most give their owner the same result as without privacy. For each of the others,
// a note names the operation and the line.
func TestOrdinarySet(t *testing.T) {
	t.Parallel()
	packages := filepath.Join(npmtest.Install(t, "ordinary", os.DirFS("testdata/ordinary/packages")), "node_modules")
	form := cmp.Or(os.Getenv(tokensVar), "natural")
	judge := testing.TB.Errorf
	if form != "natural" {
		judge = testing.TB.Logf
	}
	for dir, least := range ordinaryShares {
		t.Run(dir, func(t *testing.T) {
			t.Parallel()
			set := readOrdinarySet(t, dir)
			up := newUpstream(t, "crm")
			safe := false
			for name := range set.answers {
				up.add(&mcp.Tool{Name: name, Annotations: &mcp.ToolAnnotations{DestructiveHint: &safe, ReadOnlyHint: true}})
			}
			up.on = func(_ context.Context, tool, _ string, _ json.RawMessage) (string, error) {
				return set.answers[tool], nil
			}
			up.offer()
			open := openIn(t, t.TempDir(), map[string]string{"sandbox.packages": packages, "pii.enabled": "false"}, wiring.Outside{}, up.entry)
			private := openIn(t, t.TempDir(), map[string]string{"sandbox.packages": packages, "pii.tokens": form, "pii.fields": ordinaryFields}, wiring.Outside{}, up.entry)
			ran, same, told, needless := 0, 0, 0, 0
			for _, name := range set.names {
				code := set.programs[name]
				want, _ := open.owned(code)
				if strings.Contains(want, "Object.groupBy is not a function") { // Node.js 20, in the process tier, lacks Object.groupBy.
					continue
				}
				if strings.HasPrefix(want, "error: ") {
					t.Errorf("%s does not run without privacy: %s", name, want)
				}
				ran++
				got, notes := private.owned(code)
				for _, note := range notes {
					if !ordinaryNote.MatchString(note) {
						judge(t, "%s: the note %q does not say where", name, note)
					}
				}
				untold := beyondMethods[name]
				switch {
				case got == want:
					same++
					if len(notes) > 0 {
						needless++
					}
				case len(notes) > 0:
					told++
					t.Logf("%s:\n%.200s\n%.200s\n%s", name, want, got, strings.Join(notes, "\n"))
				case untold == "":
					judge(t, "%s\n%s\ngives without privacy %s\nand with it, and says nothing, %s", name, code, want, got)
				}
				if untold != "" && (got == want || len(notes) > 0) {
					judge(t, "%s: %s is no longer beyond what is told: take it from the list", name, untold)
				}
			}
			share := float64(same) / float64(ran)
			t.Logf("%s tokens: of %d programs %d give the same, %.1f %%, of which %d are told something; %d of the others are told, %d are not",
				form, ran, same, 100*share, needless, told, ran-same-told)
			if share < least {
				judge(t, "%.3f of the programs give the same, less than %.2f", share, least)
			}
		})
	}
}
