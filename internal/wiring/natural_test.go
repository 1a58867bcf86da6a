package wiring_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/testing/leaktest"
	"mcp-code-exec-harness/internal/wiring"
)

// naturalRows are the people of TestNaturalPrograms: addresses in upper and lower case, of one domain and of several, with other values.
const naturalRows = `[
	{"name":"Ada","email":"ada.lovelace@acme.com","ip":"198.51.100.7","ip6":"2a02:26f0:1234::1:2","team":"a","sum":12},
	{"name":"Ada B","email":"Ada.Lovelace@Acme.com","ip":"198.51.100.8","ip6":"2A02:26F0:1234::1:2","team":"b","sum":5},
	{"name":"Grace","email":"GRACE@NAVY.EXAMPLE","ip":"198.51.7.8","ip6":"2a02:26f0:1234:0:0:0:1:3","team":"a","sum":7},
	{"name":"Grace","email":"grace@navy.example","ip":"10.1.2.3","ip6":"2a02:26f0:0077:0000:0000:0000:0000:0001","team":"a","sum":1},
	{"name":"Alan","email":"alan+bombe@bletchley.co.uk","ip":"10.1.2.30","ip6":"::ffff:198.51.100.7","team":"c","sum":9},
	{"name":"Edsger","email":"McDijkstra@acme.com","ip":"203.0.113.255","ip6":"2001:db8::17","team":"c","sum":4},
	{"name":"Barbara","email":"barbara@mail.acme.com","ip":"127.0.0.1","ip6":"::1","team":"b","sum":3}]`

// naturalPrograms split, compare, check, count and print addresses.
var naturalPrograms = []string{
	`return rows.map((r) => r.email)`,
	`return rows.map((r) => r.email.split('@')[1])`,
	`return rows.map((r) => r.email.split('@')[0])`,
	`const g = {}; for (const r of rows) (g[r.email.split('@')[1].toLowerCase()] ??= []).push(r.email.toLowerCase()); return g`,
	`const n = {}; for (const r of rows) { const d = r.email.split('@').pop().toLowerCase(); n[d] = (n[d] ?? 0) + r.sum } return n`,
	`return rows.filter((r) => r.email.includes('@')).length`,
	`return rows.filter((r) => r.email.toLowerCase().endsWith('@' + rows[0].email.split('@')[1])).map((r) => r.name)`,
	`return [...new Set(rows.map((r) => r.email.toLowerCase()))]`,
	`return [...new Set(rows.map((r) => r.email))].length`,
	`return rows.map((r) => r.email.toUpperCase())`,
	`return rows.map((r) => r.email.slice(0, r.email.indexOf('@')))`,
	`return rows.map((r) => r.email.substring(r.email.lastIndexOf('@') + 1))`,
	`return rows.map((r) => /^[^\s@]+@[^\s@]+\.[^\s@]+$/.test(r.email))`,
	`return rows.map((r) => r.email.match(/^([\w.+-]+)@([\w.-]+)$/)?.slice(1))`,
	`return rows.map((r) => r.email.replace(/@.*/, '@example.org'))`,
	`return rows.map((r) => r.email.replace('@', ' at '))`,
	`return rows.map((r) => 'mailto:' + encodeURIComponent(r.email))`,
	`return rows.map((r) => new URL('https://crm.example/?to=' + encodeURIComponent(r.email)).searchParams.get('to'))`,
	`return rows.map((r) => new URL('mailto:' + r.email).pathname)`,
	`return rows.map((r) => new URL('https://' + r.email.split('@')[1] + '/about').hostname)`,
	`return rows.map((r) => ` + "`${r.name} <${r.email}>`" + `).join('; ')`,
	`return rows.map((r) => ` + "`\"${r.name}\",${r.email},${r.sum}`" + `).join('\n')`,
	`return JSON.stringify(rows)`,
	`return JSON.parse(JSON.stringify(rows)).map((r) => r.email.trim())`,
	`return rows.map((r) => ({id: r.email.split('@')[0].toLowerCase(), host: r.email.split('@')[1].toLowerCase()}))`,
	`const by = new Map(rows.map((r) => [r.email.toLowerCase(), r.sum])); return rows.map((r) => by.get(r.email.toLowerCase()))`,
	`const emails = rows.map((r) => r.email).join('\n'); return emails.match(/[\w.+-]+@[\w.-]+/g)`,
	`return rows.map((r) => { const [local, domain] = r.email.split('@'); return local + '@' + domain === r.email })`,
	`return rows.map((r) => { const [local, domain] = r.email.split('@'); return local[0].toUpperCase() + local.slice(1) + ' of ' + domain }).slice(0, 1)`,
	`await fs.writeFile('/workspace/out.csv', rows.map((r) => r.email + ',' + r.sum).join('\n')); return (await fs.readFile('/workspace/out.csv')).split('\n').map((l) => l.split(',')[0].split('@')[1])`,
	`return rows.map((r) => r.email.startsWith('@') || r.email.endsWith('@'))`,
	`return rows.some((r) => r.email.split('@').length !== 2)`,
	`return Object.fromEntries(rows.map((r) => [r.email, r.sum]))`,

	`return rows.map((r) => [r.ip, r.ip6])`,
	`const g = {}; for (const r of rows) (g[r.ip.slice(0, r.ip.lastIndexOf('.'))] ??= []).push(r.ip); return g`,
	`const n = {}; for (const r of rows) { const net = r.ip.replace(/\.\d+$/, '.0/24'); n[net] = (n[net] ?? 0) + r.sum } return n`,
	`return rows.map((r) => r.ip.replace(/\d+$/, 'x'))`,
	`return rows.map((r) => r.ip.match(/^(\d+\.\d+\.\d+)\.\d+$/)?.[1])`,
	`return rows.map((r) => /^\d{1,3}(\.\d{1,3}){3}$/.test(r.ip))`,
	`return rows.map((r) => new URL('http://' + r.ip + ':8080/a?b=' + encodeURIComponent(r.ip6)).href)`,
	`return rows.map((r) => new URL('http://' + r.ip + ':8080/').host)`,
	`return rows.map((r) => new URL('http://x.example/?ip=' + encodeURIComponent(r.ip6)).searchParams.get('ip').toUpperCase())`,
	`return [...new Set(rows.map((r) => r.ip6.toLowerCase()))]`,
	`return rows.map((r) => r.ip6.replace('::ffff:', ''))`,
	`return rows.filter((r) => r.ip6.includes('.')).map((r) => r.name)`,
	`return rows.filter((r) => r.ip !== '127.0.0.1' && r.ip6 !== '::1').length`,
	`return rows.filter((r) => r.ip === rows[0].ip || r.ip6 === '::ffff:' + r.ip || r.ip6.endsWith(rows[0].ip)).map((r) => r.name)`,
	`return rows.map((r) => r.ip + '/32,' + r.ip6 + '/128').join('\n')`,
	`return rows.slice(0, 3).map((r) => r.ip.slice(0, r.ip.lastIndexOf('.') + 1) + '1')`,
	`return Object.fromEntries(rows.map((r) => [r.ip, {[r.ip6]: r.sum}]))`,
	`const log = rows.map((r) => r.ip + ' - - [12/Oct/2024] "GET /x" 200 ' + r.sum).join('\n'); return log.match(/^\S+/gm)`,
	`const log = rows.map((r) => r.ip + ' - - "GET /x" 200 ' + r.sum).join('\n'); return log.split('\n').map((l) => l.split(' ')[0])`,
}

// The owner of an ordinary program's output gets the same with natural tokens as without privacy, although the program has not seen the addresses.
func TestNaturalPrograms(t *testing.T) {
	t.Parallel()
	outputs := map[bool][]string{}
	for _, private := range []bool{false, true} {
		up := newUpstream(t, "crm")
		safe := false
		up.add(&mcp.Tool{Name: "list", Annotations: &mcp.ToolAnnotations{DestructiveHint: &safe, ReadOnlyHint: true}})
		up.on = func(context.Context, string, string, json.RawMessage) (string, error) { return naturalRows, nil }
		up.offer()
		settings := map[string]string{"pii.tokens": "natural"}
		if !private {
			settings = map[string]string{"pii.enabled": "false"}
		}
		f := openIn(t, t.TempDir(), settings, wiring.Outside{}, up.entry)
		values := leaktest.NewSearcher(t, []string{"lovelace", "navy.example", "alan+bombe", "dijkstra", "bletchley", "acme.com", "198.51.100.7", "198.51.100", "2a02:26f0:1234", "10.1.2.30", "203.0.113", "2001:db8::17"})
		for _, code := range naturalPrograms {
			out := f.exec(runs.Request{Code: "const rows = await callMCPTool('crm__list', {}); " + code})
			if out.Error != nil {
				t.Errorf("private %t: %s: %+v", private, code, out.Error)
			}
			if len(out.Logs) > 0 {
				t.Errorf("private %t: %s is told %v", private, code, out.Logs)
			}
			if found := values.Find(out.Output); private && len(found) > 0 {
				t.Errorf("%s sees %v: %s", code, found, out.Output)
			}
			records, err := f.Runs().Journal(t.Context(), out.RunID)
			if err != nil {
				t.Fatal(err)
			}
			shown, err := f.Runs().Shown(t.Context(), records[0].Start.User, records[0].Start.Session, out)
			if err != nil {
				t.Fatal(err)
			}
			outputs[private] = append(outputs[private], string(shown.Output))
		}
	}
	for i, code := range naturalPrograms {
		if outputs[false][i] != outputs[true][i] {
			t.Errorf("%s\ngives without privacy %s\nand with it           %s", code, outputs[false][i], outputs[true][i])
		}
	}
}

// With the preset strict, neither an address nor a part of an address is sent where no rule allows it, however a program composes it.
func TestNaturalExfiltration(t *testing.T) {
	t.Parallel()
	m := newMarketWith(t, mailRule, "natural")
	for name, expression := range map[string]string{
		"whole":             `c.email`,
		"first part":        `c.email.split('@')[0]`,
		"domain":            `c.email.split('@')[1]`,
		"upper case":        `c.email.toUpperCase()`,
		"mixed case":        `c.email.replace('i', 'I')`,
		"in a name":         `'user_' + c.email.split('@')[0] + '_x'`,
		"below another":     `'x.' + c.email.split('@')[1]`,
		"percent":           `encodeURIComponent(c.email)`,
		"another domain":    `c.email.split('@')[0] + '@evil.example'`,
		"another mailbox":   `'inbox@' + c.email.split('@')[1]`,
		"put together":      `'pii' + '_' + 1 + 'e'`,
		"domain of numbers": `['d' + 1, 'pii', 'invalid'].join('.')`,
		"brackets":          `'[EMAIL' + '_1]'`,
		"domain's brackets": `'[EMAIL_DOMAIN' + '_1]'`,
		"escaped":           `JSON.parse('"\\u0070ii_1e"')`,
		"in JSON":           `JSON.stringify({to: c.email})`,
		"in a key":          `({[c.email.split('@')[0]]: 1})`,
		"an IP address":     `c.ip`,
		"IP address in URL": `'https://' + c.ip + ':8080/'`,
		"a network":         `c.ip.slice(0, c.ip.lastIndexOf('.'))`,
		"a gateway":         `c.ip.slice(0, c.ip.lastIndexOf('.')) + '.1'`,
		"a large network":   `await pii.network(c.ip, 8)`,
		"IPv4 in IPv6":      `'::ffff:' + c.ip`,
		"IP in brackets":    `'[IP_ADDRESS' + '_1]'`,
		"of one who works":  `(await callMCPTool('hr__list', {q: ''})).email.split('@')[1]`,
	} {
		out := m.exec(runs.Request{Code: "const c = await callMCPTool('crm__search', {q: ''}); await callMCPTool('web__fetch', {url: " + expression + "})"})
		if kind(out) != "denied" {
			t.Errorf("%s: it ended as %s, %+v", name, out.Status, out.Error)
		}
	}
	// Texts that mean nothing to a server may be sent.
	for name, expression := range map[string]string{
		"base64": `btoa(c.email)`, "hexadecimal": `[...c.email].map((x) => x.charCodeAt(0).toString(16)).join('')`, "reversed": `[...c.email].reverse().join('')`, "codes": `[...c.email].map((x) => x.charCodeAt(0))`, "length": `c.email.length`,
		"cut": `c.email.slice(0, 5)`, "a number": `c.email.match(/\d+/)[0]`, "IP numbers": `c.ip.split('.')`, "a number of an IP": `c.ip.split('.')[0] + '.' + c.ip.split('.')[1]`,
	} {
		if out := m.exec(runs.Request{Code: "const c = await callMCPTool('crm__search', {q: ''}); await callMCPTool('web__fetch', {x: " + expression + "})"}); out.Error != nil {
			t.Errorf("%s: it ended as %s, %+v", name, out.Status, out.Error)
		}
	}
	m.clean("web")
	m.sends("the mailer", `const c = await callMCPTool('crm__search', {q: ''}); await callMCPTool('mailer__send', {to: c.email})`, "mailer")
	if got := m.received("web"); strings.Contains(got, "pii_1e") {
		t.Errorf("the web received tokens: %s", got)
	}
}
