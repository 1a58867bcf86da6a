package wiring_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/wiring"
)

// person is one row of the data of TestOrdinaryPrograms.
type person struct {
	ID      int    `json:"id"`
	Name    string `json:"name"`
	Email   string `json:"email"`
	Phone   string `json:"phone"`
	Card    string `json:"card"`
	SSN     string `json:"ssn"`
	IP      string `json:"ip"`
	IP6     string `json:"ip6"`
	Key     string `json:"key"`
	URL     string `json:"url"`
	Country string `json:"country"`
	Sum     int    `json:"sum"`
	Note    string `json:"note"`
}

// crowd returns rows with equal values, with values in several spellings, and with addresses of one domain and one network.
func crowd() []person {
	var all []person
	for i, line := range strings.Split(strings.TrimSpace(`
Ada Lovelace|ada.lovelace@acme.com|+44 20 7946 0958|4111 1111 1111 1111|219-09-9999|198.51.100.7|2a02:26f0:1234::1:2|ghp_0123456789abcdefghijABCDEFGHIJ012345|GB|12
Grace Hopper|GRACE@NAVY.EXAMPLE|+1 202 456 1111|5500 0000 0000 0004|219-09-9998|198.51.100.8|2A02:26F0:1234::1:3|AKIAIOSFODNN7EXAMPLQ|US|5
Ada Lovelace|Ada.Lovelace@Acme.com|+44 20 7946 0958|4111 1111 1111 1111|219-09-9999|198.51.7.8|2a02:26f0:1234:0:0:0:1:2|ghp_0123456789abcdefghijABCDEFGHIJ012345|GB|30
Alan Turing|alan+bombe@bletchley.co.uk|+44 1908 640404|4000 0000 0000 0002|123-45-6788|10.1.2.3|2a02:26f0:0077:0000:0000:0000:0000:0001|ghp_zyxwvutsrqponmlkjihgZYXWVUTSRQPONML9|GB|9
Edsger Dijkstra|mcdijkstra@acme.com|+31 20 525 9111|5105 1051 0510 5100|123-45-6787|203.0.113.255|2001:db8::17|ghp_aaabbbcccdddeeefffggg000111222333444|NL|4
Barbara Liskov|barbara_l@mail.acme.com|+1 202 456 1414|6011 1111 1111 1117|123-45-6786|127.0.0.1|::1|AKIAZZZZODNN7EXAMPLQ|US|18`), "\n") {
		f := strings.Split(line, "|")
		p := person{ID: i + 1, Name: f[0], Email: f[1], Phone: f[2], Card: f[3], SSN: f[4], IP: f[5], IP6: f[6], Key: f[7], Country: f[8]}
		if _, err := fmt.Sscan(f[9], &p.Sum); err != nil {
			panic(err)
		}
		p.URL = "https://crm.example/u/" + fmt.Sprint(i+1) + "?email=" + strings.NewReplacer("@", "%40", "+", "%2B").Replace(p.Email) + "&ip=" + p.IP + "&page=2"
		p.Note = fmt.Sprintf("Please call %s or write to %s about order %d today", p.Phone, p.Email, 70+i)
		all = append(all, p)
	}
	return all
}

// ordinaryNote matches a note that names an operation, a token with its place, and a line.
var ordinaryNote = regexp.MustCompile("^`[^`]+` on \\S+ of (?:the program|crm__\\w+(?: \\$\\S*)?), line (?:[2-9]|[1-9][0-9]+): .")

// owned runs a program. It returns the output as its owner gets it, or the error, and the notes about tokens on the console.
func (f *fixture) owned(code string) (shown string, notes []string) {
	f.t.Helper()
	out, err := f.Runs().Execute(f.t.Context(), runs.Request{Code: code})
	if err != nil {
		f.t.Fatal(err)
	}
	for _, l := range out.Logs {
		if strings.HasPrefix(l.Text, "`") {
			notes = append(notes, l.Text)
		}
	}
	records, err := f.Runs().Journal(f.t.Context(), out.RunID)
	if err != nil {
		f.t.Fatal(err)
	}
	revealed, err := f.Runs().Shown(f.t.Context(), records[0].Start.User, records[0].Start.Session, out)
	if err != nil {
		f.t.Fatal(err)
	}
	if revealed.Error != nil {
		return "error: " + revealed.Error.Message, notes
	}
	return string(revealed.Output), notes
}

// TestOrdinaryPrograms: with personal values, ordinary programs give their owner the same results as without privacy. If a result differs, a note names the
// operation and the line.
func TestOrdinaryPrograms(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/ordinary.txt")
	if err != nil {
		t.Fatal(err)
	}
	var programs []string
	begun := false
	for line := range strings.Lines(string(text)) {
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "== "):
			begun = true
		case !begun || line == "":
		case strings.Contains(line, "FIELD"):
			for _, field := range []string{"email", "phone", "card", "ssn", "name", "key", "ip", "ip6"} {
				programs = append(programs, strings.ReplaceAll(line, "FIELD", field))
			}
		default:
			programs = append(programs, line)
		}
	}
	people := crowd()
	answers := map[string]any{"list": map[string]any{"rows": people}}
	table, lines := "id,email,ip,card,sum\n", ""
	var orders []map[string]any
	for i, p := range people {
		table += fmt.Sprintf("%d,%s,%s,%s,%d\n", p.ID, p.Email, p.IP, p.Card, p.Sum)
		lines += fmt.Sprintf("%s - user%d [12/Oct/2024:10:0%d:00 +0000] \"GET /a/%d HTTP/1.1\" %d 512\n", people[i*2%len(people)].IP, i, i, i, 200+i%2*300)
		if i%2 == 0 {
			orders = append(orders, map[string]any{"email": p.Email, "ip": p.IP, "amount": 10*i + 5}, map[string]any{"email": fmt.Sprintf("guest%d@acme.com", i), "ip": "198.51.100.200", "amount": i})
		}
	}
	answers["orders"], answers["csv"], answers["log"] = orders, table, lines
	up := newUpstream(t, "crm")
	safe := false
	for name := range answers {
		up.add(&mcp.Tool{Name: name, Annotations: &mcp.ToolAnnotations{DestructiveHint: &safe, ReadOnlyHint: true}})
	}
	up.on = func(_ context.Context, tool, _ string, _ json.RawMessage) (string, error) {
		if text, ok := answers[tool].(string); ok {
			return text, nil
		}
		answer, err := json.Marshal(answers[tool])
		return string(answer), err
	}
	up.offer()
	open, private := openIn(t, t.TempDir(), map[string]string{"pii.enabled": "false", "sandbox.maxCalls": "5000"}, wiring.Outside{}, up.entry), openIn(t, t.TempDir(), map[string]string{
		"pii.tokens": "natural", "pii.fields": "{crm__list: {'$.rows[*].name': NAME}}",
	}, wiring.Outside{}, up.entry)
	all := "const all = []\n"
	for i, code := range programs {
		head := ""
		for variable, name := range map[string]string{"rows": "list", "orders": "orders", "csv": "csv", "log": "log"} {
			if regexp.MustCompile(`\b` + variable + `\b`).MatchString(code) {
				head += fmt.Sprintf("const %s = (await callMCPTool('crm__%s', {}))%s; ", variable, name, map[bool]string{true: ".rows"}[name == "list"])
			}
		}
		programs[i] = head + "\n" + code
		all += "all.push(await (async () => { " + programs[i] + " })())\n"
	}
	shown, _ := open.owned(all + "return all")
	var want []json.RawMessage
	if err := json.Unmarshal([]byte(shown), &want); err != nil || len(want) != len(programs) {
		t.Fatalf("without privacy: %.400s, %v", shown, err)
	}
	same, told, needless := 0, 0, 0
	for i, code := range programs {
		got, notes := private.owned(code)
		for _, note := range notes {
			if !ordinaryNote.MatchString(note) {
				t.Errorf("%s: the note %q does not say where", code, note)
			}
		}
		switch {
		case got == string(want[i]):
			same++
			if len(notes) > 0 {
				needless++
			}
		case len(notes) > 0:
			told++
		default:
			t.Errorf("%s\ngives without privacy %s\nand with it, and says nothing, %s", code, want[i], got)
		}
	}
	t.Logf("of %d programs %d give the same, of which %d are told something; %d of the others are told", len(programs), same, needless, told)
	if len(programs) < 300 {
		t.Errorf("there are %d programs", len(programs))
	}
}
