package wiring_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/run"
)

// instants matches the times in records, which may have any digits.
var instants = regexp.MustCompile(`"(now|time)":[0-9]+`)

// people is the answer of the server of these tests.
const people = `{"mail":"Grace@Mail.Example.co.uk","again":"<grace@mail.example.co.uk>","card":4111111111111111,` +
	`"iban":"DE89 3704 0044 0532 0130 00","phone":"+49 30 901820","ssn":"219-09-9999"}`

// questioned opens a harness with a server that returns people.
func questioned(t *testing.T, flags map[string]string) *fixture {
	t.Helper()
	up := newUpstream(t, "up")
	up.on = func(context.Context, string, string, json.RawMessage) (string, error) { return people, nil }
	return setup(t, flags, up.entry)
}

// TestQuestions: a program learns about values only what the answers to its questions say. A replay gets the same answers from the journal, although the
// questions could not be answered any more.
func TestQuestions(t *testing.T) {
	t.Parallel()
	f := questioned(t, map[string]string{"policy.preset": "strict"})
	out := f.exec(code(`
const p = await callMCPTool('up__read', {})
const failure = (promise) => promise.then((v) => 'answered ' + v, (e) => [e.name, e.message, e instanceof TypeError])
const keys = await Promise.all([pii.sortKey(p.mail), pii.sortKey(p.again.slice(1, -1)), pii.sortKey(p.ssn)])
return [
  await pii.kind(p.iban), await pii.domain(p.mail), await pii.last4(p.card), await pii.last4(p.iban), await pii.last4(p.phone), await pii.last4(p.ssn),
  await pii.country(p.iban), await pii.country(p.phone), await pii.same(p.mail, p.again.slice(1, -1)), await pii.same(p.mail, p.ssn),
  keys[0] === keys[1], keys[0] === keys[2], /^[a-p]{16}$/.test(keys[0]),
  await failure(pii.domain(p.ssn)), await failure(pii.kind('[EMAIL_99]')), await failure(pii.kind('grace')), await failure(pii.same(p.mail)),
]`))
	const want = `["IBAN","example.co.uk","1111","3000","1820","9999","DE","DE",true,false,true,false,true,` +
		`["TypeError","pii.domain: [US_SSN_1] has no domain: only tokens of type EMAIL, EMAIL_DOMAIN do",true],` +
		`["TypeError","pii.kind: [EMAIL_99] is not a token of this session",true],` +
		`["TypeError","pii.kind: the question takes a whole token, such as [PHONE_1], and no other text",true],` +
		`["TypeError","pii.same takes a token, as a string; got nothing",true]]`
	if out.Error != nil || string(out.Output) != want {
		t.Errorf("got  %s, %+v\nwant %s", out.Output, out.Error, want)
	}
	asked := 0
	for _, r := range f.journalOf(out.RunID) {
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, value := range []string{"race@", "411111", "370400", "901820", "219-09"} {
			if strings.Contains(strings.ToLower(instants.ReplaceAllString(string(text), "")), value) {
				t.Errorf("the journal has %s", text)
			}
		}
		if r.Call != nil && frame.Kind(r.Call.Kind) == frame.PII {
			asked++
		}
	}
	if asked != 16 {
		t.Errorf("the journal has %d questions", asked)
	}
}

// TestGuessing: a program that tries one made-up value after another does not find a value that it has not seen, in one run or in several.
func TestGuessing(t *testing.T) {
	t.Parallel()
	f := questioned(t, nil)
	const loop = `
const {ssn} = await callMCPTool('up__read', {})
let asked = 0, found
try {
  for (let n = %d; n < 9999 && !found; n++) {
    if (await pii.same(ssn, ['219', '09', String(n)].join('-'))) found = n
    asked++
  }
} catch (e) {
  return [asked, e.name, e instanceof ToolError, found ?? null]
}
return [asked, null, null, found ?? null]`
	for _, c := range []struct {
		from int
		want string
	}{
		{9930, `[69,null,null,null]`},
		{9900, `[31,"LimitError",true,null]`},
		{9000, `[0,"LimitError",true,null]`},
	} {
		if out := f.exec(code(fmt.Sprintf(loop, c.from))); out.Error != nil || string(out.Output) != c.want {
			t.Errorf("from %d: %s, %+v; want %s", c.from, out.Output, out.Error, c.want)
		}
	}
	// A key or an ending reveals nothing about a made-up value, and a question about one counts as no tool call.
	out := f.exec(code(`
const {ssn} = await callMCPTool('up__read', {})
const made = ['219', '09', '9999'].join('-')
return [await pii.sortKey(ssn) === await pii.sortKey(made), await pii.last4(made), await pii.last4(ssn)]`))
	if want := `[false,"9999","9999"]`; string(out.Output) != want || out.Calls != 1 {
		t.Errorf("%s after %d tool calls, %+v; want %s", out.Output, out.Calls, out.Error, want)
	}
}

// TestQuestionsUnderPolicy: one rule denies a question, and another makes a person decide about a question.
func TestQuestionsUnderPolicy(t *testing.T) {
	t.Parallel()
	f := questioned(t, map[string]string{"policy.rules": `[{tools: pii__last4, tokens: {type: us_ssn}, action: deny, reason: no part of it},
		{tools: pii__country, action: ask}]`})
	out := f.exec(code(`
const {ssn, phone} = await callMCPTool('up__read', {})
const denied = await pii.last4(ssn).catch((e) => [e.name, e.tool, e.message])
return [await pii.last4(phone), denied]`))
	const want = `["1820",["DeniedError","pii__last4",` +
		`"pii__last4 was not called: rule 1 (tools pii__last4, tokens us_ssn) denies [US_SSN_1] from up__read: no part of it"]]`
	if out.Error != nil || string(out.Output) != want {
		t.Errorf("got  %s, %+v\nwant %s", out.Output, out.Error, want)
	}
	waiting := f.waits(`const {phone} = await callMCPTool('up__read', {}); return pii.country(phone)`)
	if calls := waiting.Approval.Calls; len(calls) != 1 || calls[0].Tool != "pii__country" || !calls[0].ReadOnly || calls[0].Destructive {
		t.Errorf("people are asked %+v", calls)
	}
	if out := f.decide(waiting, approve); out.Status != run.Succeeded || string(out.Output) != `"DE"` {
		t.Errorf("after the approval: %s, %+v", out.Output, out.Error)
	}
}
