package wiring_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/wiring"
)

// worlds have the same structure and different values. The structure is which values are equal, which addresses share a domain or a network, and which
// letters are upper case. Lengths, letters, numbers, top-level domains and the order of values differ.
var worlds = [2][]map[string]any{
	{
		{"email": "ada@acme.com", "ip": "198.51.100.7", "ip6": "2a02:26f0:1234::1", "card": "4111 1111 1111 1111", "phone": "+44 20 7946 0958", "ssn": "219-09-9999", "key": "ghp_0123456789abcdefghijABCDEFGHIJ012345"},
		{"email": "Bob@acme.com", "ip": "198.51.100.8", "ip6": "2a02:26f0:1234::2", "card": "5500 0000 0000 0004", "phone": "+44 20 7946 0958", "ssn": "219-09-9998", "key": "ghp_ABCDEFGHIJ0123456789abcdefghij012345"},
		{"email": "zoe@zeta.example", "ip": "198.51.7.8", "ip6": "2a02:26f0:99::2", "card": "4111 1111 1111 1111", "phone": "+1 202 456 1111", "ssn": "219-09-9999", "key": "ghp_0123456789abcdefghijABCDEFGHIJ012345"},
		{"email": "ADA@ACME.COM", "ip": "10.1.2.3", "ip6": "2A02:26F0:1234::1", "card": "4000 0000 0000 0002", "phone": "+1 202 456 1414", "ssn": "219-09-9997", "key": "ghp_9876543210abcdefghijABCDEFGHIJ543210"},
	},
	{
		{"email": "wilhelmina.longname+news@subsidiary.holding.co.uk", "ip": "8.8.4.4", "ip6": "fd00:1:2:3:4:5:6:7", "card": "3782 822463 10005", "phone": "+49 30 901820", "ssn": "123-45-6788", "key": "ghp_zyxwvutsrqponmlkjihgZYXWVUTSRQPONML9"},
		{"email": "Al@subsidiary.holding.co.uk", "ip": "8.8.4.200", "ip6": "fd00:1:2:3::8", "card": "6011 1111 1111 1117", "phone": "+49 30 901820", "ssn": "123-45-6787", "key": "ghp_aaabbbcccdddeeefffggg000111222333444"},
		{"email": "a@b.io", "ip": "8.8.250.250", "ip6": "fd00:1:77::8", "card": "3782 822463 10005", "phone": "+33 1 42 68 53 00", "ssn": "123-45-6788", "key": "ghp_zyxwvutsrqponmlkjihgZYXWVUTSRQPONML9"},
		{"email": "WILHELMINA.LONGNAME+NEWS@SUBSIDIARY.HOLDING.CO.UK", "ip": "172.16.254.1", "ip6": "FD00:1:2:3:4:5:6:7", "card": "5555 5555 5555 4444", "phone": "+33 1 42 68 53 01", "ssn": "123-45-6786", "key": "ghp_QqWwEeRrTtYyUuIiOoPp0987654321AaSsDd"},
	},
}

// curious are programs that examine what tokens reveal.
var curious = []string{
	`return rows`,
	`return rows.map((r) => Object.values(r).map((v) => [v.length, v.charCodeAt(0), /^[23]/.test(v) || v.charCodeAt(v.length - 1), v.toUpperCase(), v.toLowerCase()]))`,
	`return rows.map((r) => [r.email.split(/[@.]/), r.ip.split('.').length, r.ip6.split(':').length])`,
	`return rows.map((r) => r.email).sort().concat(rows.map((r) => r.card).sort(), rows.map((r) => r.phone).sort())`,
	`return rows.map((a) => rows.map((b) => Object.keys(a).map((k) => a[k] === b[k])))`,
	`return rows.map((r) => Object.values(r).map((v) => [/\d/.test(v), /[._+-]/.test(v), isNaN(v), encodeURIComponent(v).length, btoa(v).length]))`,
	`console.log(rows, JSON.stringify(rows).length); await fs.writeFile('/workspace/rows.json', JSON.stringify(rows)); return (await fs.stat('/workspace/rows.json')).size`,
	`const all = []; for (const r of rows) all.push(await pii.kind(r.email), await pii.same(r.email, rows[0].email), await pii.network(r.ip, 16) === await pii.network(rows[0].ip, 16), await pii.network(r.ip6, 48) === await pii.network(rows[0].ip6, 48)); return all`,
	`return callMCPTool('crm__list', {about: rows[2].email, ip: rows[0].ip})`,
	`throw new Error('no ' + JSON.stringify(rows[1]))`,
}

// TestDistinguish: programs, models and journals see the same of both worlds, except for the random numbers in tokens of IP addresses, whose structure is the
// same. The numbers of tokens in a session do not depend on what another session has seen.
func TestDistinguish(t *testing.T) {
	t.Parallel()
	inForms(t, func(t *testing.T, tokens string) {
		var seen [2][]string
		for i, rows := range worlds {
			up := newUpstream(t, "crm")
			safe := false
			up.add(&mcp.Tool{Name: "list", Annotations: &mcp.ToolAnnotations{DestructiveHint: &safe, ReadOnlyHint: true}})
			up.on = func(_ context.Context, _, _ string, args json.RawMessage) (string, error) {
				answer, err := json.Marshal(map[string]any{"rows": rows, "sent": args})
				return string(answer), err
			}
			up.offer()
			f := openIn(t, t.TempDir(), map[string]string{"pii.tokens": tokens}, wiring.Outside{}, up.entry)
			// The second world first has another session, which sees the values in another order.
			if i == 1 {
				f.exec(runs.Request{Session: "before", Code: `const {rows} = await callMCPTool('crm__list', {}); return rows`})
				rows = []map[string]any{rows[3], rows[1], rows[2], rows[0]}
				f.exec(runs.Request{Session: "before, too", Code: `const {rows} = await callMCPTool('crm__list', {}); return rows`})
				rows = worlds[i]
			}
			for _, code := range curious {
				out := f.exec(runs.Request{Session: "one", Code: "const {rows} = await callMCPTool('crm__list', {})\n" + code})
				shown, err := json.Marshal(map[string]any{"output": out.Output, "logs": out.Logs, "error": out.Error, "journal": f.journalOf(out.RunID)})
				if err != nil {
					t.Fatal(err)
				}
				seen[i] = append(seen[i], string(shown))
			}
		}
		var a, b renaming
		for i, code := range curious {
			one, two := a.of(seen[0][i]), b.of(seen[1][i])
			if diff := cmp.Diff(strings.Split(one, ","), strings.Split(two, ",")); diff != "" {
				t.Errorf("%s tells the worlds apart:\n%.3000s", code, diff)
			}
		}
	})
}

// passing matches what differs between any two runs.
var passing = regexp.MustCompile(`"(?:now|time|mtimeMs|seed|id|durationUs)":(?:[0-9.]+|"[^"]*")|run_[0-9A-Za-z]+|\d{4}-\d\d-\d\dT[^"]*Z`)

// tokenIPs matches the tokens of IP addresses and networks.
var tokenIPs = regexp.MustCompile(`2[45]\d(?:\.(?:0|[12]\d\d)){2}(?:\.\d{1,3})?|(?i:3fff(?::[0-9a-f]{3,4}){1,3}(?:::[0-9a-f]{4}|::)?)`)

// renaming replaces the numbers in tokens of IP addresses by numbers in the order in which they occur.
type renaming struct{ names map[string]string }

func (r *renaming) of(text string) string {
	if r.names == nil {
		r.names = map[string]string{}
	}
	text = passing.ReplaceAllString(text, "-")
	return tokenIPs.ReplaceAllStringFunc(text, func(token string) string {
		parts := strings.FieldsFunc(token, func(c rune) bool { return c == '.' || c == ':' })
		for i := range parts {
			prefix := strings.ToLower(strings.Join(parts[:i+1], "."))
			if _, ok := r.names[prefix]; !ok {
				r.names[prefix] = fmt.Sprint("#", len(r.names))
			}
		}
		upper := token != strings.ToLower(token)
		return fmt.Sprint(r.names[strings.ToLower(strings.Join(parts, "."))], upper)
	})
}
