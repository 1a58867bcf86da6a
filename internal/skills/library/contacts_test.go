package library_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/runs"
)

// contacts are people with addresses and numbers, some of them in several spellings.
var contacts = []map[string]any{
	{"id": 1, "name": "Ann Lee", "email": "ann.lee@acme.example", "phone": "+44 20 7946 0958"},
	{"id": 2, "name": "Bob Stone", "email": "bob@stone.example", "phone": "+44 20 7946 0999"},
	{"id": 3, "name": "A. Lee", "email": "Ann.Lee@acme.example", "phone": nil},
	{"id": 4, "name": "Bob Stone", "email": "", "phone": "+442079460999"},
	{"id": 5, "name": "Cy Young", "email": "cy@stone.example", "phone": "+44 20 7946 0999"},
	{"id": 6, "name": "A. Lee", "email": "lee@home.example, ann.lee@acme.example", "phone": "+44 20 7946 0958"},
	{"id": 7, "name": "Dee Fox", "email": "dee@fox.example", "phone": "+44 20 7946 0111"},
}

// same are the places of contacts that are the same: by an address, and by a number and a name.
var same = []any{[]any{0.0, 2.0, 5.0}, []any{1.0, 3.0}}

const findSame = `const {groups} = await dedupe({contacts, sortKey: typeof sortKey === 'undefined' ? undefined : sortKey})
return groups.map((g) => g.contacts)`

// TestContacts checks that the groups of contacts are the same with values and with tokens in their place.
func TestContacts(t *testing.T) {
	t.Parallel()
	h := open(t, nil)
	values, err := json.Marshal(contacts)
	if err != nil {
		t.Fatal(err)
	}
	numbers := map[string]int{}
	token := func(kind, spelling string) string {
		key := kind + strings.ToLower(spelling)
		if numbers[key] == 0 {
			numbers[key] = len(numbers) + 1
		}
		return fmt.Sprintf("[%s_%d]", kind, numbers[key])
	}
	tokens := string(values)
	for kind, pattern := range map[string]string{"EMAIL": `[\w.]+@[\w.]+`, "PHONE": `\+44[\d ]+`, "NAME": `(Ann|A\.|Bob|Cy|Dee) \w+`} {
		tokens = regexp.MustCompile(pattern).ReplaceAllStringFunc(tokens, func(found string) string {
			if kind == "PHONE" {
				found = strings.ReplaceAll(found, " ", "")
			}
			return token(kind, found)
		})
	}
	if strings.Contains(tokens, "example") || strings.Contains(tokens, "+44") || strings.Contains(tokens, "Stone") {
		t.Fatalf("values are left in %s", tokens)
	}
	for name, text := range map[string]string{"values": string(values), "tokens": tokens} {
		got := execute(t, h, runs.Request{Code: "import dedupe from '/skills/dedupe-contacts/index.js'\nconst contacts = " + text + "\n" + findSame})
		if diff := cmp.Diff(same, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

// TestContactsHidden checks the same where the harness hides the values, in both forms of tokens.
func TestContactsHidden(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(contacts)
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{"natural", "bracket"} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			h := open(t, map[string]string{"pii.enabled": "true", "pii.tokens": form})
			saved, err := h.Skills()
			if err != nil {
				t.Fatal(err)
			}
			home, err := saved.Dir("local")
			if err != nil {
				t.Fatal(err)
			}
			defer home.Close()
			if err := home.WriteFile("contacts.json", text); err != nil {
				t.Fatal(err)
			}
			got := execute(t, h, runs.Request{Session: "s", Code: `import dedupe from '/skills/dedupe-contacts/index.js'
const contacts = JSON.parse(await fs.readFile('/skills/contacts.json', 'utf8'))
const seen = JSON.stringify(contacts)
const hidden = !seen.includes('acme') && !seen.includes('7946')
const sortKey = pii.sortKey
const groups = await (async () => { ` + findSame + ` })()
return {hidden, groups}`})
			if diff := cmp.Diff(map[string]any{"hidden": true, "groups": same}, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
