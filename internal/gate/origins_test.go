package gate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/policy"
	"mcp-code-exec-harness/internal/testing/piitest"
)

// strict gives a fixture a filter of personal data, and a policy of the given rules followed by rules like those of the preset strict.
func (f *fixture) strict(rules ...policy.Rule) *decisions {
	f.t.Helper()
	preset := []policy.Rule{
		{Tools: []string{"pii__*"}, Action: policy.Allow},
		{Tools: []string{"*"}, Tokens: &policy.Tokens{}, Action: policy.Deny},
	}
	p, err := policy.New(rules, "strict", preset, policy.Servers{})
	if err != nil {
		f.t.Fatal(err)
	}
	f.scope.Privacy = piitest.New(f.t).In("ann", "s")
	return f.under(p.Decide)
}

// says makes the servers answer every call with a text.
func (f *fixture) says(text string) {
	f.servers.answer = func(context.Context, string, string, json.RawMessage) (*mcpclient.Result, error) {
		return result(`{"content":[{"type":"text","text":` + string(mustEncode(text)) + `}]}`), nil
	}
}

func mustEncode(v any) json.RawMessage {
	raw, err := journal.Encode(v)
	if err != nil {
		panic(err) // a mistake in the test
	}
	return raw
}

// requests are the requests to servers that are not calls of tools, by full name.
var requests = map[string]struct {
	kind       frame.Kind
	name, args string
}{
	"crm__resources/read":      {frame.Resource, "read", `{"server":"CRM","uri":"crm://%s"}`},
	"crm__prompts/get":         {frame.Resource, "prompt", `{"server":"crm","name":"greet","args":{"who":"%s"}}`},
	"crm__completion/complete": {frame.Tool, "crm__completion/complete", `{"input":{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":"%s"}}}`},
	"crm__resources/subscribe": {frame.Tool, "crm__resources/subscribe", `{"input":{"uri":"crm://%s"}}`},
}

// Reading a resource, filling in a prompt, a completion and a subscription take the steps of a tool call.
func TestRequestsAreCalls(t *testing.T) {
	t.Parallel()
	for full, r := range requests {
		f := setup(t)
		f.catalog.SetServer(crm)
		do := func(about string) *frame.Error {
			_, err := f.do(r.kind, r.name, fmt.Sprintf(r.args, about))
			return err
		}
		// Policy gets the full name and the annotations of the request.
		d := f.under(func(c policy.Call) policy.Verdict {
			if c.Tool != full || c.Server != "crm" || !c.ReadOnly || c.User != "ann" || !strings.Contains(string(c.Args), "ann") {
				t.Errorf("%s: policy is asked about %+v, %s", full, c, c.Args)
			}
			return policy.Verdict{Action: policy.Deny, Reason: "no"}
		})
		wantError(t, do("ann"), "DeniedError", frame.KindDenied, full+" was not called: no")
		if len(f.servers.called) != 0 || len(d.hooked) != 1 {
			t.Errorf("%s: the server got %v, the audit log %v", full, f.servers.called, d.hooked)
		}
		// The request counts for the limit of tool calls.
		f = setup(t)
		f.scope.MaxCalls = 1
		f.Run = f.gate.Open(f.scope)
		if err := do("x"); err != nil {
			t.Errorf("%s: %v", full, err)
		}
		wantError(t, do("x"), "LimitError", frame.KindCallLimit, "maxCalls")
		f.scope.Recorded = []journal.Record{
			{Call: &journal.Call{N: 1, Kind: string(r.kind), Name: r.name, Args: json.RawMessage(`{}`)}}, {Answer: &journal.Answer{N: 1}},
		}
		f.Run = f.gate.Open(f.scope)
		wantError(t, do("x"), "LimitError", frame.KindCallLimit, "maxCalls")
		// The request fails if the only tool of the server is held, or if the definition of the server itself is held.
		for _, held := range []catalog.Server{{Name: "crm", Held: []string{"send"}}, {Name: "crm", Held: []string{""}, Tools: crm.Tools}} {
			f = setup(t)
			f.catalog.SetServer(held)
			wantError(t, do("x"), "DeniedError", frame.KindDenied, "held for review")
			if len(f.servers.called) != 0 {
				t.Errorf("%s: a server that is held got %v", full, f.servers.called)
			}
		}
	}
}

// If a rule allows it, the request for a resource contains the value of a token. The answer contains tokens.
func TestRequestsWithTokens(t *testing.T) {
	t.Parallel()
	f := setup(t)
	allow := policy.Rule{Tools: []string{"crm__resources/*"}, Tokens: &policy.Tokens{Type: []string{"email"}, From: []string{"crm__*"}}, Action: policy.Allow}
	f.strict(allow)
	f.says("grace@example.com 219-09-9999")
	f.tool("crm__search", `{"q":"a"}`)
	f.servers.called = nil
	f.servers.contents = []mcpclient.ResourceContents{{URI: "crm://grace@example.com", Text: "of grace@example.com and ada@example.com"}}
	got, err := f.do(frame.Resource, "read", `{"server":"crm","uri":"crm://[EMAIL_1]"}`)
	if want := `{"contents":[{"uri":"crm://[EMAIL_1]","text":"of [EMAIL_1] and [EMAIL_2]"}]}`; got != want || err != nil {
		t.Errorf("got %s, %v", got, err)
	}
	if got := fmt.Sprint(f.servers.called); got != "[crm/resources/read crm://grace@example.com]" {
		t.Errorf("the server got %s", got)
	}
	for full, r := range requests {
		_, err := f.do(r.kind, r.name, fmt.Sprintf(r.args, "[US_SSN_1]"))
		wantError(t, err, "DeniedError", frame.KindDenied, full, "[US_SSN_1]", "strict")
	}
	if len(f.servers.called) != 1 {
		t.Errorf("the server got %v", f.servers.called)
	}
	// The origin of a value in a resource is the request: rules with crm__* or resource match, and a rule with the name of a tool does not.
	for from, want := range map[string]bool{"crm__*": true, "resource": true, "crm__search": false} {
		f.strict(policy.Rule{Tools: []string{"crm__create_note"}, Tokens: &policy.Tokens{From: []string{from}}, Action: policy.Allow})
		if _, err := f.do(frame.Resource, "read", `{"server":"crm","uri":"x"}`); err != nil {
			t.Fatal(err)
		}
		if _, err := f.do(frame.Tool, "crm__create_note", `{"input":{"to":"[EMAIL_2]"}}`); (err == nil) != want {
			t.Errorf("from %s: %v", from, err)
		}
	}
}

// A list for all servers leaves out servers that policy denies to the caller and servers in quarantine.
func TestListsOfServers(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.catalog.SetServer(catalog.Server{Name: "docs"})
	f.catalog.SetServer(catalog.Server{Name: "new", Held: []string{""}})
	f.under(func(c policy.Call) policy.Verdict {
		if c.Server == "crm" {
			return policy.Verdict{Action: policy.Deny, Reason: "no"}
		}
		return policy.Verdict{Action: policy.Allow}
	})
	if got, err := f.do(frame.Resource, "prompts", `{}`); got != `[{"server":"docs","name":"greet"}]` || err != nil {
		t.Errorf("got %s, %v", got, err)
	}
	for server, why := range map[string]string{"crm": "crm__prompts/list was not called: no", "new": "held for review"} {
		_, err := f.do(frame.Resource, "prompts", `{"server":"`+server+`"}`)
		wantError(t, err, "DeniedError", frame.KindDenied, why)
	}
}

// A client's request to read a file of a session takes the steps of a call, but it never waits for an approval.
func TestSessionFilesAreCalls(t *testing.T) {
	t.Parallel()
	const full, args = "session__resources/read", `{"input":{"uri":"workspace://s/a.txt"}}`
	for action, message := range map[policy.Action]string{policy.Allow: "", policy.Deny: full + " was not called: no", policy.Ask: full + " was not called: no"} {
		f := setup(t)
		f.scope.MaxCalls = 1
		f.under(func(c policy.Call) policy.Verdict {
			if c.Tool != full || c.Server != "session" || !c.ReadOnly || c.OpenWorld || string(c.Args) != `{"uri":"workspace://s/a.txt"}` {
				t.Errorf("policy is asked about %+v, %s", c, c.Args)
			}
			return policy.Verdict{Action: action, Reason: "no"}
		})
		_, failed := f.do(frame.Tool, full, args)
		if message != "" {
			wantError(t, failed, "DeniedError", frame.KindDenied, message)
		} else if failed != nil || len(f.servers.recorded) != 1 || f.servers.recorded[0] != full {
			t.Errorf("%v; recorded are %v", failed, f.servers.recorded)
		}
		_, failed = f.do(frame.Tool, full, args)
		wantError(t, failed, "LimitError", frame.KindCallLimit, "maxCalls")
	}
}

// The error of a call that does not reach its server contains only what the program wrote. The origin of values in it is the program.
func TestOriginOfErrors(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.strict(policy.Rule{Tools: []string{"crm__create_note"}, Tokens: &policy.Tokens{From: []string{"crm__*", "file", "catalog", "resource"}}, Action: policy.Allow})
	f.says("grace@example.com")
	f.tool("crm__search", `{"q":"a"}`)
	const made = "mallory@example.com"
	for name, call := range map[string]func() *frame.Error{
		"an unknown tool":   func() *frame.Error { _, err := f.do(frame.Tool, "crm__x "+made, `{}`); return err },
		"an unknown server": func() *frame.Error { _, err := f.do(frame.Tool, "x", `{"server":"`+made+`"}`); return err },
		"a property": func() *frame.Error {
			_, err := f.do(frame.Tool, "crm__search", `{"input":{"q":"","`+made+`":1}}`)
			return err
		},
		"a file": func() *frame.Error {
			_, err := f.do(frame.FS, "readFile", `{"path":"/workspace/`+made+`"}`)
			return err
		},
		"a file to change": func() *frame.Error { _, err := f.do(frame.FS, "rm", `{"path":"/workspace/`+made+`"}`); return err },
		"the server of a prompt": func() *frame.Error {
			_, err := f.do(frame.Resource, "prompt", `{"server":"`+made+`","name":"x"}`)
			return err
		},
		"details of a tool": func() *frame.Error { _, err := f.do(frame.Catalog, "details", `{"name":"`+made+`"}`); return err },
		"a host call":       func() *frame.Error { _, err := f.do("none "+made, "x", `{}`); return err },
	} {
		err := call()
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		if strings.Contains(err.Message, made) {
			t.Errorf("%s: %s", name, err.Message)
		}
	}
	_, origins, failed := f.scope.Privacy.RestoreJSON(t.Context(), json.RawMessage(`["[EMAIL_1]","[EMAIL_2]","[EMAIL_3]"]`))
	if failed != nil || len(origins) != 2 || fmt.Sprint(origins[0].Origins, origins[1].Origins) != "[crm__search] [program]" {
		t.Fatalf("the tokens are %+v, %v", origins, failed)
	}
	_, err := f.do(frame.Tool, "crm__create_note", `{"input":{"to":"[EMAIL_2]"}}`)
	wantError(t, err, "DeniedError", frame.KindDenied, "[EMAIL_2] from program")
	if _, err := f.do(frame.Tool, "crm__create_note", `{"input":{"to":"[EMAIL_1]"}}`); err != nil {
		t.Error(err)
	}
	// The origin of values in an error of the server is the called tool.
	f.servers.answer = func(context.Context, string, string, json.RawMessage) (*mcpclient.Result, error) {
		return result(`{"isError":true,"content":[{"type":"text","text":"ask ada@example.com"}]}`), nil
	}
	_, err = f.do(frame.Tool, "crm__search", `{"input":{"q":"a"}}`)
	wantError(t, err, "ToolError", frame.KindTool, "ask [EMAIL_3]")
	if _, err := f.do(frame.Tool, "crm__create_note", `{"input":{"to":"[EMAIL_3]"}}`); err == nil || !strings.Contains(err.Message, "ask") {
		t.Errorf("a value of an error of the server: %v", err)
	}
}

// The origin of a value in a file is the writer of that part of the file, the program or the owner. A value that a program guesses and writes does
// not get the token of the same value from outside, however the program reads the file. A text of the owner that looks like a token does not become a
// token.
func TestOriginOfFiles(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.strict()
	f.says("grace@example.com")
	f.tool("crm__search", `{"q":"a"}`)
	write := func(name, text string) {
		t.Helper()
		if _, err := f.do(frame.FS, name, `{"path":"/workspace/f","text":`+string(mustEncode(text))+`}`); err != nil {
			t.Fatal(err)
		}
	}
	give := func(text string) {
		t.Helper()
		if _, _, err := f.work.WriteFrom(t.Context(), "f", strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	read := func() (all string) {
		t.Helper()
		for _, how := range []string{`"encoding":"utf8"`, `"encoding":"base64"`, `"encoding":"utf8","offset":0,"length":9999`, `"encoding":"base64","offset":0,"length":9999`} {
			value, err := f.do(frame.FS, "readFile", `{"path":"/workspace/f",`+how+`}`)
			if err != nil {
				t.Fatal(err)
			}
			var out struct {
				Text   string
				Base64 []byte
			}
			if err := json.Unmarshal([]byte(value), &out); err != nil {
				t.Fatal(err)
			}
			got := out.Text + string(out.Base64)
			if all == "" {
				all = got
			}
			if got != all {
				t.Errorf("read with %s: %s, else %s", how, got, all)
			}
		}
		return all
	}
	// The package run redacts what a program writes, but not a value that the program writes in two parts.
	write("writeFile", "grace@exam")
	write("appendFile", "ple.com and [EMAIL_1]")
	if got := read(); got != "[EMAIL_2] and [EMAIL_1]" {
		t.Errorf("of a program: %s", got)
	}
	give("grace@example.com and [EMAIL_1]; ")
	if got := read(); got != "[EMAIL_1] and [LITERAL_1]; " {
		t.Errorf("of the owner: %s", got)
	}
	write("appendFile", "grace@example.com, [EMAIL_1]")
	if got := read(); got != "[EMAIL_1] and [LITERAL_1]; [EMAIL_2], [EMAIL_1]" {
		t.Errorf("of both: %s", got)
	}
	if _, err := f.do(frame.FS, "copyFile", `{"from":"/workspace/f","to":"/skills/f"}`); err != nil {
		t.Fatal(err)
	}
	if got, err := f.do(frame.FS, "readFile", `{"path":"/skills/f"}`); got != `{"text":"[EMAIL_1] and [LITERAL_1]; [EMAIL_2], [LITERAL_2]"}` || err != nil {
		t.Errorf("in a skill: %s, %v", got, err)
	}
	// The same holds for the names of files.
	if _, _, err := f.work.WriteFrom(t.Context(), "d/for [EMAIL_1]", strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.do(frame.FS, "writeFile", `{"path":"/workspace/d/of [EMAIL_1]","text":"x"}`); err != nil {
		t.Fatal(err)
	}
	got, err := f.do(frame.FS, "readdir", `{"path":"/workspace/d"}`)
	if err != nil || !strings.Contains(got, `"for [LITERAL_1]"`) || !strings.Contains(got, `"of [EMAIL_1]"`) {
		t.Errorf("a list has %s, %v", got, err)
	}
}
