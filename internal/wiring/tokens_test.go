package wiring_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/wiring"
)

// echoing is a harness with a server that answers with its arguments, or with what answer is.
func echoing(t *testing.T, flags map[string]string, answer string) (*fixture, *upstream) {
	t.Helper()
	up := newUpstream(t, "up")
	up.on = func(_ context.Context, _, _ string, args json.RawMessage) (string, error) {
		if answer != "" {
			return answer, nil
		}
		return string(args), nil
	}
	return setup(t, flags, up.entry), up
}

// returned is what a program of a user in a session returns.
func (f *fixture) returned(user, session, code string) string {
	f.t.Helper()
	out, err := f.Runs().Execute(f.t.Context(), runs.Request{User: user, Session: session, Code: code})
	if err != nil || out.Error != nil {
		f.t.Fatalf("the run ended as %+v, %v", out, err)
	}
	return string(out.Output)
}

// A token that the session does not know is text, or a reason not to make a call.
func TestUnknownTokens(t *testing.T) {
	t.Parallel()
	for setting, want := range map[string]string{
		"text": `{"to":"[LITERAL_1] a@example.com"}`,
		"fail": "DeniedError: up__send was not called: [EMAIL_7] is not a token of this session (pii.unknownTokens: fail)",
	} {
		f, up := echoing(t, map[string]string{"pii.unknownTokens": setting}, "")
		got := f.returned("ann", "s", `
			const known = await callMCPTool('up__read', {to: 'a@example.com [NOTE_1]'})
			if (known.to !== '[EMAIL_1] [NOTE_1]') throw new Error(known.to)
			try { return JSON.stringify(await callMCPTool('up__send', {to: '[EMAIL_' + 7 + '] a@example.com'})) } catch (e) { return e.name + ': ' + e.message }`)
		var text string
		if err := json.Unmarshal([]byte(got), &text); err != nil {
			t.Fatal(err)
		}
		if want = strings.ReplaceAll(want, "a@example.com", "[EMAIL_1]"); text != want {
			t.Errorf("%s: the program gets %s, want %s", setting, text, want)
		}
		if calls := len(up.sent()); calls != map[string]int{"text": 1, "fail": 0}[setting] {
			t.Errorf("%s: the server got %d calls", setting, calls)
		}
	}
}

// What a program's calls restore are the tokens of the user and the session that its console and answers have, and of no other.
func TestTokensOfOneSession(t *testing.T) {
	t.Parallel()
	f, up := echoing(t, nil, "")
	const program = `
		const got = await callMCPTool('up__send', {to: '%s'})
		console.log(got.to)
		return [got.to, await callMCPTool('up__send', {again: got.to, other: '[EMAIL_' + 2 + ']'})]`
	for _, who := range []struct{ user, session, address string }{
		{"ann", "s", "ann@example.com"}, {"bob", "s", "bob@example.com"}, {"ann", "t", "cleo@example.com"},
	} {
		before := len(up.sent())
		out, err := f.Runs().Execute(t.Context(), runs.Request{User: who.user, Session: who.session, Code: fmt.Sprintf(program, who.address)})
		if err != nil || out.Error != nil {
			t.Fatalf("%+v, %v", out, err)
		}
		if want := `["[EMAIL_1]",{"again":"[EMAIL_1]","other":"[LITERAL_1]"}]`; string(out.Output) != want {
			t.Errorf("%+v: the program returned %s, want %s", who, out.Output, want)
		}
		// A console line has the token alone.
		if len(out.Logs) != 1 || out.Logs[0].Text != "[EMAIL_1]" {
			t.Errorf("%+v: the console has %+v", who, out.Logs)
		}
		if calls := up.sent(); len(calls) != before+2 || !strings.Contains(strings.Join(calls, "\n"), `{"again":"`+who.address+`","other":"[EMAIL_2]"}`) {
			t.Errorf("%+v: the server got %q", who, calls)
		}
	}
}

// Neither values nor tokens are written into a program: it runs as it was written, but for the values in it.
func TestProgramsAreNotRewritten(t *testing.T) {
	t.Parallel()
	f, _ := echoing(t, nil, `"quoted \\ \" ann@example.com"`)
	const code = `const text = await callMCPTool('up__read', {})
return [text, typeof pii, 'a "[EMAIL_1]" \' b']`
	out, err := f.Runs().Execute(t.Context(), runs.Request{User: "ann", Session: "s", Code: code})
	if err != nil || out.Error != nil {
		t.Fatalf("%+v, %v", out, err)
	}
	if got := f.journalOf(out.RunID)[0].Start.Source; got != code {
		t.Errorf("the program is %s", got)
	}
}

// Numbers of programs are numbers, also those that look like phone numbers or cards; texts of programs have tokens.
func TestNumbersOfPrograms(t *testing.T) {
	t.Parallel()
	f, _ := echoing(t, nil, "")
	for code, want := range map[string]string{
		"return [1700000000000 % 7, Math.round(1234.5678), 1700000000000000 % 7, 5551234567 / 5551234567 / 1]": "[1,1235,6,1]",
		"return new URL('http://127.0.0.1:8080/x').port":                                                       `"8080"`,
		"return 'call 555-123-4567 or ann@example.com' // 4111111111111111":                                    `"call [PHONE_1] or [EMAIL_1]"`,
	} {
		if got := f.returned("ann", "s", code); got != want {
			t.Errorf("%s: %s, want %s", code, got, want)
		}
	}
}

// A custom type has its own values only, all of them, under a name with _; other harnesses do not know it.
func TestCustomTypes(t *testing.T) {
	t.Parallel()
	const answer = "EMP-AB-123456, EMP-AB-123457 and EMP-AB-123456"
	with, _ := echoing(t, map[string]string{"pii.custom": `{employee_badge_no: 'EMP-[A-Z]{2}-\d{6}'}`}, answer)
	without, _ := echoing(t, nil, answer)
	const call = `return await callMCPTool('up__read', {})`
	if got, want := with.returned("ann", "s", call), `"[EMPLOYEE_BADGE_NO_1], [EMPLOYEE_BADGE_NO_2] and [EMPLOYEE_BADGE_NO_1]"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := without.returned("ann", "s", call), `"`+answer+`"`; got != want {
		t.Errorf("a harness without the type: %s", got)
	}
	stats, err := with.Privacy().Stats(t.Context(), "ann", "s")
	if err != nil || stats["EMPLOYEE_BADGE_NO"] != 2 || len(stats) != 1 {
		t.Errorf("the counts are %v, %v", stats, err)
	}
}

// Only what is valid is a value.
func TestValuesAreChecked(t *testing.T) {
	t.Parallel()
	f, _ := echoing(t, nil, "999.999.999.999 4111 1111 1111 1112; 203.0.113.9 4111 1111 1111 1111")
	if got, want := f.returned("ann", "s", `return await callMCPTool('up__read', {})`), `"999.999.999.999 4111 1111 1111 1112; [IP_ADDRESS_1] [CREDIT_CARD_1]"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A value that has quotes, backslashes or a token in it is restored as it was, once, and the arguments stay JSON.
func TestValuesAreRestoredOnce(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, "up")
	const secret = `a"b\c [PII_EMAIL_1] [NAME_2]`
	up.on = func(_ context.Context, tool, _ string, args json.RawMessage) (string, error) {
		if tool != "read" {
			return "sent", nil
		}
		text, err := json.Marshal(map[string]any{"name": secret, "other": "Grace Hopper", "text": "[PII_EMAIL_1] and grace@example.com"})
		return string(text), err
	}
	f := setup(t, map[string]string{"pii.fields": `{up__read: {$.name: NAME, $.other: NAME}}`}, up.entry)
	f.returned("ann", "s", `const got = await callMCPTool('up__read', {})
await callMCPTool('up__send', {to: {[got.name]: ['for ' + got.name, JSON.stringify({n: got.other}), got.text]}})`)
	var sent struct{ To map[string][]string }
	if err := json.Unmarshal([]byte(strings.TrimPrefix(up.sent()[0], "send ")), &sent); err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{secret: {"for " + secret, `{"n":"Grace Hopper"}`, "[PII_EMAIL_1] and grace@example.com"}}
	if fmt.Sprint(sent.To) != fmt.Sprint(want) {
		t.Errorf("the server got %q, want %q", sent.To, want)
	}
}

// Users and sessions are names, not paths.
func TestNamesAreNoPaths(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inner := filepath.Join(dir, "inner")
	if err := os.Mkdir(inner, 0o700); err != nil {
		t.Fatal(err)
	}
	f := openIn(t, inner, nil, wiring.Outside{})
	for _, name := range []string{"..", "../../x", "/tmp/x", `..\x`, "a/../../../b", "%2e%2e/x"} {
		for _, r := range []runs.Request{{User: name, Session: "s"}, {User: "ann", Session: name}} {
			r.Code = `await fs.writeFile('/workspace/f.txt', 'a@example.com'); return await fs.readFile('/workspace/f.txt')`
			out, err := f.Runs().Execute(t.Context(), r)
			if err == nil && (out.Error != nil || string(out.Output) != `"[EMAIL_1]"`) {
				t.Errorf("%+v ended as %+v", r, out)
			}
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("beside the directory there are %v, %v", entries, err)
	}
}
