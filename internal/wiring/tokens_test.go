package wiring_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/wiring"
)

const tokenRows = `{"rows":[
	{"name":"Ada Lovelace","card":"4111 1111 1111 1111","phone":"+44 20 7946 0958","email":"ada@acme.com","key":"ghp_0123456789abcdefghijABCDEFGHIJ012345","ip":"198.51.100.7","note":"call +44 20 7946 0958 about order 77","total":12.5},
	{"name":"Grace Hopper","card":"5500-0000-0000-0004","phone":"+1 202 456 1111","email":"grace@navy.example","key":"AKIAIOSFODNN7EXAMPLQ","ip":"2001:db8::17","note":"[draft] nothing","total":3}]}`

// A program that uses a token in a way that cannot work gets one note about it, with the place. Other uses cause no note. A replay gives the same notes.
func TestTokensTold(t *testing.T) {
	t.Parallel()
	tellsOf(t, "bracket", []noted{
		{"return rows.map((r) => r.card.slice(-4))", "`slice` on [CREDIT_CARD_1] of crm__list $.rows[*].card, line 2: a part of the token is none of the value: use pii.last4"},
		{"return rows.map((r) => r.phone.startsWith('+44'))", "`startsWith` on [PHONE_1] of crm__list $.rows[*].phone, line 2: it looks in the token, not in the value: use pii.country, pii.kind or pii.same"},
		{"return rows.map((r) => r.email.split('@')[1])", "`split` on [EMAIL_1] of crm__list $.rows[*].email, line 2"},
		{"return rows.map((r) => r.name.split(' ')[0])", "`split` on [NAME_1] of crm__list $.rows[*].name, line 2"},
		{"return rows.map((r) => Number(r.card))", "`Number` on [CREDIT_CARD_1]"},
		{"return rows.map((r) => parseInt(r.card, 10))", "`parseInt` on [CREDIT_CARD_1]"},
		{"return rows.map((r) => String(new Date(r.name)))", "`Date` on [NAME_1]"},
		{"return rows.map((r) => /^[A-Z][a-z]+ [A-Z]/.test(r.name))", "`test` on [NAME_1]"},
		{"return rows.map((r) => r.phone.replace(/\\D/g, ''))", "`replace` on [PHONE_1]"},
		{"return rows.map((r) => r.card.match(/\\d{4}$/))", "`match` on [CREDIT_CARD_1]"},
		{"return rows.map((r) => r.name.toUpperCase())", "`toUpperCase` on [NAME_1]"},
		{"return rows.map((r) => r.name.padEnd(20) + '|')", "`padEnd` on [NAME_1]"},
		{"return rows.map((r) => (r.name + ':').padEnd(20) + '|')", "`padEnd` on [NAME_1]"},
		{"return rows.map((r) => r.name).sort()", "`sort` on [NAME_1]"},
		{"return rows.sort((a, b) => b.name.localeCompare(a.name))", "`localeCompare` on [NAME_"},
		{"return rows.sort((a, b) => (a.name < b.name ? 1 : -1))", "`sort` on [NAME_"},
		{"return rows.map((r) => `${r.name} (${r.total})`).sort()", "`sort` on [NAME_"},
		{"return rows.map((r) => `${r.total} ${r.name}`).sort()", ""},
		{"return rows.map((r) => `${r.name} (${r.total})`).sort(new Intl.Collator('en').compare)", "`sort` on [NAME_"},
		{"return rows.map((r) => r.note + r.name).sort((a, b) => a.split('order').length - b.split('order').length)", ""},
		{"const rank = {[rows[1].name]: 1, [rows[0].name]: 2}; return rows.sort((a, b) => rank[a.name] - rank[b.name])", ""},
		{"return rows.map((r) => `${r.name}; tel ${r.phone}`).filter((l) => l.includes('+44')).length", "`includes` on [PHONE_1]"},
		{"return rows.map((r) => `${r.name}; tel ${r.phone}`).filter((l) => l.includes('fax')).length", ""},
		{"const note = 'word '.repeat(60) + rows[0].note; return [...note.matchAll(/call \\+(\\d+)/g), ...note.matchAll(/word/g)].length", "`matchAll` on [PHONE_1]"},
		{"const re = new RegExp(rows[0].name); return rows.filter((r) => re.test('a')).length", "`test` on [NAME_1]"},
		{"return rows.map((r) => r.note.slice(0, 8))", "`slice` on [PHONE_1]"},
		{"return rows.map((r) => r.note.replace(/\\d/g, '#'))", "`replace` on [PHONE_1]"},
		{"return rows.map((r) => r.note.match(/\\+[\\d ]{10,}/)?.[0])", "`match` on [PHONE_1]"},
		{"return rows.map((r) => btoa(r.card))", "`btoa` on [CREDIT_CARD_1]"},
		{"return rows.map((r) => require('crypto').createHash('sha256').update(r.card).digest('hex'))", "`update` on [CREDIT_CARD_1]"},
		{"return rows.map((r) => [...r.card].length)", "`[...text]` on [CREDIT_CARD_1]"},
		{"return rows.map((r) => r.card.charCodeAt(0))", "`charCodeAt` on [CREDIT_CARD_1]"},
		{"await fs.writeFile('/workspace/card.txt', rows[0].card); return (await fs.readFile('/workspace/card.txt')).slice(0, 4)", "`slice` on [CREDIT_CARD_1]"},

		{"return rows.map((r) => `${r.name}: ${r.total}`).join('\\n')", ""},
		{"return rows.filter((r) => r.note.includes('order')).map((r) => r.name.trim())", ""},
		{"return rows.map((r) => r.note.split(' ').length)", "`split` on [PHONE_1]"}, // Values of this type contain spaces.
		{"return rows.map((r) => r.note.split(',').length)", ""},
		{"const re = /(\\d+)/g; const all = []; for (const r of rows) for (let m; (m = re.exec(r.note));) all.push(m[1]); return all", "`exec` on [PHONE_1]"},
		{"const re = /order (\\d+)/g; const all = []; for (let m; (m = re.exec(rows[0].note));) all.push(m[1]); return all", ""},
		{"return rows[0].note.replace(/\\d{4}/g, '#')", "`replace` on [PHONE_1]"},
		{"return btoa('ann:' + rows[0].card)", "`btoa` on [CREDIT_CARD_1]"},
		{"const n = {}; for (const r of rows) n[r.name] = (n[r.name] ?? 0) + r.total; return n", ""},
		{"return [...new Set(rows.map((r) => r.email))].length", ""},
		{"return rows.map((r) => [r.name, r.card].join(',')).join('\\n').split('\\n').map((l) => l.split(',')[0])", ""},
		{"return rows.map((r) => String(r.total).padStart(8) + Number(r.total).toFixed(2))", ""},
		{"return rows.map((r) => r.name === rows[0].name)", ""},
		{"return rows.sort((a, b) => a.total - b.total)", ""},
		{"return rows.map((r) => r.note.slice(r.note.indexOf(' ') + 1))", ""},
		{"return rows.map((r) => r.note.replace('order', 'Order').toLowerCase().length > 0)", ""},
		{"return String.prototype.slice.toString() + Number.toString() + (5).constructor.name + (Number === (5).constructor) + String.prototype.slice.length", ""},
		{"Object.freeze(String.prototype); Object.freeze(Number.prototype); let n = 0; for (let i = 0; i < 5000; i++) n += Number('12').toFixed(1).slice(1).length; return n", ""},
		{"for (let i = 0; i < 5000; i++) 'a,b'.slice(1); return rows.map((r) => 'x'.padEnd(30) + r.card.slice(-4))", "`slice` on [CREDIT_CARD_1]"},
		{"for (let i = 0; i < 5000; i++) 'a,b'.slice(1); const more = await callMCPTool('crm__list', {}); return rows.map((r) => 'x'.at(0) + r.card.slice(-4))", "`slice` on [CREDIT_CARD_1]"},
		{"return rows.map((r) => r.card['sl' + 'ice'](-4) + String.fromCharCode(65))", "`slice` on [CREDIT_CARD_1]"},
		{"return rows.map((r) => Number.parseFloat(r.card))", "`parseFloat` on [CREDIT_CARD_1]"},
		{"String.prototype.slice = function () { return 'own' }; return (await callMCPTool('crm__list', {})).rows[0].card.slice(1)", ""},
	})
	tellsOf(t, "natural", []noted{
		{"return rows[0].email.endsWith('@acme.com') && /@acme\\.com$/.test(rows[0].email)", ""},
		{"return rows.filter((r) => r.email.split('@')[1] === 'acme.com' && r.email.endsWith('acme.com')).map((r) => r.email.includes('ada'))", "`includes` on pii_1e@acme.com"},
		{"return ['www.acme.com', 'x'].filter((host) => host.endsWith(rows[0].email.split('@')[1]))", "`endsWith` on d1.pii.invalid"},
		{"return Array.from({length: 200}, () => `${rows[0].email},1`).map((l) => l.split(',')).map((c) => c[0].split('.')[1])", "`split` on pii_1e@d1.pii.invalid"},
		{"return rows.map((r) => r.email.split('@')[1]).filter((d, _, all) => d.endsWith(all[0]))", "`endsWith` on d2.pii.invalid"},
		{"return rows.map((r) => r.email.slice(0, 3))", "`slice` on pii_1e@d1.pii.invalid of crm__list $.rows[*].email, line 2: a part of the token is none of the value: use pii.domain"},
		{"return rows.map((r) => r.email.split('@')[0].split('.'))", "`split` on pii_1e"}, // The value may have more parts.
		{"return rows.map((r) => r.email.split(/[,;\\s]+/))", ""},
		{"return rows.map((r) => r.email.includes('_') || r.email.includes('+'))", "`includes` on pii_1e@d1.pii.invalid"},
		{"return rows.map((r) => r.email.includes('e'))", "`includes` on pii_1e@d1.pii.invalid"},
		{"return rows.map((r) => r.email.charAt(0))", "`charAt` on pii_1e@d1.pii.invalid"},
		{"return rows.map((r) => r.email.replace(/^(.).*@/, '$1***@'))", "`replace` on pii_1e@d1.pii.invalid"},
		{"return rows.map((r) => r.email.replace(/[aeiou]/g, '*'))", "`replace` on pii_1e@d1.pii.invalid"},
		{"return rows.map((r) => r.email.match(/\\w+/g))", "`match` on pii_1e@d1.pii.invalid"},
		{"return rows.map((r) => [...r.email.matchAll(/@(\\w+)\\./g)].map((m) => m[1]))", "`matchAll` on pii_1e@d1.pii.invalid"},
		{"return rows.map((r) => r.email).join(' ').match(/@(\\w+)/)[1]", "`match` on pii_1e@d1.pii.invalid"},
		{"return rows.map((r) => r.email).join(' ').split('.')", "`split` on pii_1e@d1.pii.invalid"},
		{"return rows.map((r) => /^(?!ada)/.test(r.email))", "`test` on pii_1e@d1.pii.invalid"},
		{"return rows.map((r) => ({email: r.email})).sort((a, b) => a.email < b.email ? -1 : 1)", "`sort` on pii_"},
		{"return rows.map((r) => ({email: r.email, total: r.total})).sort((a, b) => a.total - b.total)", ""},
		{"return rows.map((r) => /^[\\w.+-]+@[\\w-]+(\\.[\\w-]+)+$/.test(r.email) && r.email.split('@').length === 2 && !/[\\s,]/.test(r.email))", ""},

		{"return rows.map((r) => r.ip.split('.'))", "`split` on 2"},
		{"return rows[0].ip.startsWith('10.') || rows[0].ip.startsWith('192.168.')", "`startsWith` on 2"},
		{"return /^(?:10|192\\.168)\\./.test(rows[0].ip)", "`test` on 2"},
		{"return /^(?!10\\.)/.test(rows[0].ip)", "`test` on 2"},
		{"return rows[0].ip.match(/^(\\d+)\\.(\\d+)/).slice(1)", "`match` on 2"},
		{"return rows[0].ip.replaceAll('.', '-')", "`replaceAll` on 2"},
		{"return rows[0].ip.slice(0, 6)", "`slice` on 2"},
		{"return rows[0].ip.slice(rows[0].ip.lastIndexOf('.') - 3)", "`slice` on 2"},
		{"return rows[1].ip.split(':')", "`split` on 3fff:"},
		{"return rows[1].ip.includes('::')", "`includes` on 3fff:"},
		{"return rows[1].ip.startsWith('fe80:')", "`startsWith` on 3fff:"},
		{"return rows.map((r) => r.ip).sort()", "`sort` on "},
		{"return rows.map((r) => r.ip.includes(':') ? 6 : 4)", ""},
		{"return rows[0].ip.slice(0, rows[0].ip.lastIndexOf('.'))", ""},
		{"return rows[0].ip.replace(/\\.\\d+$/, '.0') + rows[0].ip.replace(/\\d+$/, '*') + rows[0].ip.replace(/\\.[^.]*$/, '.0/24')", ""},
		{"return rows[0].ip.match(/^(\\d+\\.\\d+\\.\\d+)\\.\\d+$/)[1]", ""},
		{"return /^\\d{1,3}(\\.\\d{1,3}){3}$/.test(rows[0].ip) && /^[0-9a-f:]+$/i.test(rows[1].ip) && !rows[0].ip.includes('/')", ""},
		{"return rows.map((r) => `${r.ip}:443`.startsWith(r.ip))", ""},
		{"const net = rows[0].ip.slice(0, rows[0].ip.lastIndexOf('.')); return rows.filter((r) => r.ip.startsWith(net + '.')).length", ""},
		{"return (await pii.network(rows[0].ip, 16)).split('/')", ""},

		{"return rows.map((r) => r.key.startsWith('ghp_') ? r.key.slice(0, 4) : r.key.slice(0, 4) + '…')", ""},
		{"return rows.map((r) => r.key.slice(-4))", "`slice` on ghp_pii_1s of crm__list $.rows[*].key, line 2: a part"},
		{"return rows.map((r) => /^ghp_[A-Za-z0-9]{36}$/.test(r.key))", "`test` on ghp_pii_1s"},
		{"return rows.map((r) => r.key.replace(/.(?=.{4})/g, '*'))", "`replace` on ghp_pii_1s"},
		{"return rows.map((r) => r.key.toLowerCase())", "`toLowerCase` on ghp_pii_1s"},
		{"return rows.map((r) => r.key.includes('EXAMPLE'))", "`includes` on ghp_pii_1s"},
		{"return rows.map((r) => ({Authorization: `Bearer ${r.key}`.trim()}))", ""},
		{"return rows.map((r) => r.email.split('@')[1].split('.')[0])", "`split` on d1.pii.invalid"},
		{"return rows.map((r) => r.email.endsWith('.com'))", "`endsWith` on pii_1e@d1.pii.invalid"},
		{"return rows.map((r) => /gmail/.test(r.email))", "`test` on pii_1e@d1.pii.invalid"},
		{"return rows.map((r) => r.email).sort()", "`sort` on pii_"},
		{"return rows.map((r) => r.email.charCodeAt(0))", "`charCodeAt` on pii_1e@d1.pii.invalid"},
		{"return rows.map((r) => r.email.padEnd(30) + '|')", "`padEnd` on pii_1e@d1.pii.invalid"},
		{"return rows.map((r) => r.card.slice(-4))", "`slice` on [CREDIT_CARD_1]"},
	})
}

// noted is a program and the beginning of its note; "" means that there is no note.
type noted struct{ code, note string }

func tellsOf(t *testing.T, tokens string, programs []noted) {
	t.Helper()
	up := newUpstream(t, "crm")
	safe := false
	up.add(&mcp.Tool{Name: "list", Annotations: &mcp.ToolAnnotations{DestructiveHint: &safe, ReadOnlyHint: true}})
	up.on = func(context.Context, string, string, json.RawMessage) (string, error) { return tokenRows, nil }
	up.offer()
	f := openIn(t, t.TempDir(), map[string]string{"pii.tokens": tokens, "pii.fields": "{crm__*: {'$.rows[*].name': NAME}}"}, wiring.Outside{}, up.entry)
	for _, test := range programs {
		out := f.exec(runs.Request{Code: "const {rows} = await callMCPTool('crm__list', {});\n" + test.code})
		var notes []string
		for _, l := range out.Logs {
			notes = append(notes, l.Text)
		}
		switch {
		case out.Error != nil:
			t.Errorf("%s: %v", test.code, out.Error)
		case test.note == "" && len(notes) > 0, test.note != "" && (len(notes) != 1 || !strings.HasPrefix(notes[0], test.note)):
			t.Errorf("%s: it was told %q, want %q (output %s)", test.code, notes, test.note, out.Output)
		}
		f.replay(out)
	}
}
