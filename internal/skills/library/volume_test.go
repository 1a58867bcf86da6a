package library_test

import (
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/runs"
)

// TestVolume executes skills on 100,000 rows, and those that keep indexes or make long texts on 20,000, within the memory of a program by default.
func TestVolume(t *testing.T) {
	if os.Getenv("HARNESS_TEST_LONG") == "" {
		t.Skip("set HARNESS_TEST_LONG=1: it takes minutes")
	}
	t.Parallel()
	h := open(t, nil)
	for name, test := range map[string]struct{ code, want string }{
		"data-processor": {`
const rows = Array.from({length: 100_000}, (_, i) => ({id: i, group: 'g' + i % 1000, amount: (i * 7919 % 10007) / 100}))
const out = await skill({rows, steps: [
  {filter: {field: 'amount', op: '>=', value: 50}}, {map: {double: {multiply: ['amount', 2]}}}, {sort: ['group', '-amount']},
  {group: ['group'], totals: {n: {count: true}, sum: {sum: 'double'}, median: {median: 'amount'}}}, {aggregate: {groups: {count: true}, n: {sum: 'n'}}},
]})
return [out.rows, out.problems, rows.filter((r) => r.amount >= 50).length === out.rows[0].n]`, `[[{"groups":1000,"n":50035}],[],true]`},
		"csv-profile": {
			`
const lines = ['id;name;betrag;datum;note']
for (let i = 0; i < 20_000; i++) lines.push(i + ';"Kunde ""' + i % 5000 + '"""; ' + i % 900 + ',5 ;' + (1 + i % 28) + '.12.2024;' + (i % 3 ? 'x' : ''))
const out = await skill({text: lines.join('\n'), output: 'rows'})
return [out.rows, out.columns.map((c) => [c.name, c.type, c.missing, c.distinct]), out.cleaned.at(-1)]`,
			`[20000,[["id","integer",0,20000],["name","text",0,5000],["betrag","number",0,900],["datum","date",0,28],["note","text",6667,1]],
				{"id":19999,"name":"Kunde \"4999\"","betrag":199.5,"datum":"2024-12-08","note":"x"}]`,
		},
		"join-sources": {
			`
const left = Array.from({length: 20_000}, (_, i) => ({id: i, a: i * 2}))
const right = Array.from({length: 20_000}, (_, i) => ({id: 19_999 - i + 10_000, b: i}))
const out = await skill({left, right, on: 'id', kind: 'full'})
return [out.counts, out.rows[10_000], out.rows.at(-1)]`,
			`[{"rows":30000,"matchedLeft":10000,"matchedRight":10000,"unmatchedLeft":10000,"unmatchedRight":10000},{"id":10000,"a":20000,"b":19999},{"id":20000,"a":null,"b":9999}]`,
		},
		"dedupe-contacts": {`
const contacts = Array.from({length: 20_000}, (_, i) => ({id: i, name: '[NAME_' + i % 14_000 + ']', email: '[EMAIL_' + i % 12_000 + ']', phone: '[PHONE_' + i % 18_000 + ']'}))
const out = await skill({contacts})
return [out.counts, out.groups.length]`, `[{"contacts":20000,"groups":8000,"duplicates":8000,"unique":12000},8000]`},
		"snapshot-diff": {
			`
const before = Array.from({length: 20_000}, (_, i) => ({id: i, tags: ['a', 'b'], o: {v: i % 7}}))
const after = before.slice(10).reverse().map((r) => r.id % 1000 ? {...r} : {...r, o: {v: -1}})
const out = await skill({before, after, key: 'id'})
return [out.counts, out.changed[0]]`,
			`[{"before":20000,"after":19990,"added":0,"removed":10,"changed":19,"unchanged":19971,"withoutKey":0},{"key":1000,"changes":[{"path":"o.v","before":6,"after":-1}]}]`,
		},
		"log-triage": {
			`
const lines = Array.from({length: 100_000}, (_, i) => new Date(1735639200000 + i * 10).toISOString() + (i % 10 ? ' INFO request ' + i + ' from 10.0.' + i % 250 + '.1 took ' + i % 977 + 'ms' : ' ERROR job 9f' + i.toString(16).padStart(8, '0') + 'e1 failed: code ' + i % 17))
const out = await skill({lines})
return [out.levels, out.groups.map((g) => [g.template, g.count])]`,
			`[{"fatal":0,"error":10000,"warn":0,"info":90000,"debug":0,"none":0},[["job <hex> failed: code <n>",10000],["request <n> from <ip> took <n>ms",90000]]]`,
		},
		"calendar-arithmetic": {`
const questions = Array.from({length: 20_000}, (_, i) => ({do: 'addBusinessDays', date: '2024-01-' + String(1 + i % 31).padStart(2, '0'), days: i % 500}))
const out = await skill({questions, holidays: ['01-01', '12-25', '2024-03-29']})
return [out.errors, out.answers.length, out.answers.at(-1)]`, `[0,20000,{"date":"2025-12-09","weekday":"Tuesday"}]`},
		"report": {`
const rows = Array.from({length: 20_000}, (_, i) => ({id: i, text: '<b>' + i, amount: i / 100}))
const {html, markdown} = await skill({title: 'T', sections: [{rows, totals: ['amount'], maxRows: 20_000}]})
return [html.includes('<b>'), markdown.split('\n').length]`, `[false,20006]`},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			got := execute(t, h, runs.Request{Code: "import skill from '/skills/" + name + "/index.js'" + test.code})
			t.Log(time.Since(began))
			if diff := cmp.Diff(decoded(t, test.want), got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
