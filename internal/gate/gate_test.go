package gate_test

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/gate"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/process"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/testing/misbehave"
	"mcp-code-exec-harness/internal/testing/piitest"
)

// wantError checks an error's class and kind, and words of its message.
func wantError(t *testing.T, err *frame.Error, name, kind string, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want %s (%s)", name, kind)
		return
	}
	if err.Name != name || err.Kind != kind {
		t.Errorf("got %s of kind %s (%s), want %s of kind %s", err.Name, err.Kind, err.Message, name, kind)
	}
	for _, word := range words {
		if !strings.Contains(err.Message, word) {
			t.Errorf("message %q does not have %q", err.Message, word)
		}
	}
}

func TestCallLimit(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.scope.MaxCalls = 2
	f.Run = f.gate.Open(f.scope)
	f.tool("crm__search", `{"q":"a"}`)
	_, err := f.do(frame.Tool, "crm__nothing", `{}`) // A call that fails counts too.
	wantError(t, err, "ToolError", frame.KindTool)
	_, err = f.do(frame.Tool, "crm__search", `{"input":{"q":"a"}}`)
	wantError(t, err, "LimitError", frame.KindCallLimit, "more than 2 tool calls", "sandbox.maxCalls")
	if _, err := f.do(frame.Catalog, "list", `{}`); err != nil {
		t.Errorf("other calls are limited too: %v", err)
	}
	if len(f.servers.called) != 1 {
		t.Errorf("the server was called %v", f.servers.called)
	}
	// A resumed run may make the calls that the dead process did not make.
	f.scope.Recorded = []journal.Record{
		{Start: &journal.Start{}},
		{Call: &journal.Call{N: 1, Kind: "tool"}},
		{Answer: &journal.Answer{N: 1}},
		{Call: &journal.Call{N: 2, Kind: "fs"}},
		{Answer: &journal.Answer{N: 2}},
		{Call: &journal.Call{N: 3, Kind: "tool"}},
	}
	f.Run = f.gate.Open(f.scope)
	f.tool("crm__search", `{"q":"open call 3"}`)
	_, err = f.do(frame.Tool, "crm__search", `{"input":{"q":"a"}}`)
	wantError(t, err, "LimitError", frame.KindCallLimit)
}

func TestResolve(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for _, name := range []string{"crm__search", "CRM__Search", "crm__create-note", "crm__createNote"} {
		f.tool(name, `{"q":"a"}`)
	}
	if _, err := f.do(frame.Tool, "setStage", `{"input":{},"server":"Crm"}`); err != nil {
		t.Errorf("by server and function: %v", err)
	}
	if f.servers.ensured != 0 {
		t.Error("servers were started to find a tool that is known")
	}
	_, err := f.do(frame.Tool, "crm__serch", `{"input":{}}`)
	wantError(t, err, "ToolError", frame.KindTool, "Tool not found: crm__serch", "list_mcp_tools()", "crm__search")
	if _, list, _ := strings.Cut(err.Message, "Closest: "); len(strings.Split(list, ", ")) != 3 {
		t.Errorf("not the three closest names: %q", list)
	}
	if f.servers.ensured != 1 {
		t.Errorf("servers were asked for their tools %d times", f.servers.ensured)
	}
	// The error names a server whose tools are unknown, and the command that shows the reason.
	f.servers.missing = []string{"My-Docs"}
	for _, args := range []string{`{"input":{}}`, `{"input":{},"server":"myDocs"}`} {
		name := "my_docs__read"
		if strings.Contains(args, "server") {
			name = "read"
		}
		_, err := f.do(frame.Tool, name, args)
		wantError(t, err, "ToolError", frame.KindTool, "My-Docs", "harness servers test My-Docs")
	}
	_, err = f.do(frame.Tool, "my_docs_too__read", `{"input":{}}`)
	wantError(t, err, "ToolError", frame.KindTool, "Tool not found")
	// A tool is found if its server lists it only when the servers are asked.
	f.servers.onEnsure = func() {
		f.catalog.SetServer(catalog.Server{Name: "late", Tools: []catalog.Tool{{Server: "late", Name: "hello"}}})
	}
	if got := f.tool("late__hello", `{}`); got != `"hello"` {
		t.Errorf("got %s", got)
	}
}

func TestArgumentsAndValidation(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for args, want := range map[string]string{
		`{"input":{"q":"a","limit":5}}`:        `crm/search {"q":"a","limit":5}`,
		`{"positional":["a"]}`:                 `crm/search {"q":"a"}`,
		`{"positional":["a",12345678901e0]}`:   "",
		`{"positional":["a",7]}`:               `crm/search {"q":"a","limit":7}`,
		`{"input":{"q":"a","limit":1.0}}`:      `crm/search {"q":"a","limit":1.0}`,
		`{"positional":["a",7,8]}`:             "",
		`{"input":{"limit":5}}`:                "",
		`{"input":{"q":5}}`:                    "",
		`{"input":{"q":"a","limit":51}}`:       "",
		`{"input":{"q":"a","unknown":"x"}}`:    "",
		`{"input":{"q":"a","limit":"secret"}}`: "",
	} {
		f.servers.called = nil
		_, err := f.do(frame.Tool, "crm__search", args)
		switch {
		case want == "":
			wantError(t, err, "ToolError", frame.KindTool, "crm__search")
			if len(f.servers.called) != 0 {
				t.Errorf("%s: an invalid call reached the server", args)
			}
			if err != nil && strings.Contains(err.Message, "secret") {
				t.Errorf("%s: the message shows a value: %s", args, err.Message)
			}
		case err != nil:
			t.Errorf("%s: %v", args, err)
		case f.servers.called[0] != want:
			t.Errorf("%s: the server was given %s", args, f.servers.called[0])
		}
	}
	_, err := f.do(frame.Tool, "crm__search", `{"input":{"q":"a","limit":51}}`)
	wantError(t, err, "ToolError", frame.KindTool, "limit", "50")
	_, err = f.do(frame.Tool, "crm__search", `{"input":`)
	wantError(t, err, "TypeError", frame.KindRuntime)
}

func TestUnwrap(t *testing.T) {
	t.Parallel()
	f := setup(t)
	png := base64.StdEncoding.EncodeToString([]byte("\x89PNG"))
	file := func(n int, name, kind string, bytes int) string {
		return fmt.Sprintf(`{"file":"/workspace/results/run_x/%d/%s","mimeType":%q,"bytes":%d}`, n, name, kind, bytes)
	}
	for i, c := range []struct{ tool, answer, want string }{
		{"crm__search", `{"content":[{"type":"text","text":"x"}],"structuredContent":{"b":1,"a":12345678901234567890}}`, `{"b":1,"a":12345678901234567890}`},
		{"crm__list_stages", `{"content":[],"structuredContent":{"result":[1,2]}}`, `[1,2]`},
		{"crm__search", `{"content":[],"structuredContent":{"result":[1,2]}}`, `{"result":[1,2]}`},
		{"crm__search", `{"content":[{"type":"text","text":" {\"a\":1} "}]}`, `{"a":1}`},
		{"crm__search", `{"content":[{"type":"text","text":"7"}]}`, `"7"`},
		{"crm__search", `{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, `["a","b"]`},
		{"crm__search", `{"content":[]}`, `null`},
		{"crm__search", `{"content":[{"type":"image","mimeType":"image/png","data":"` + png + `"}]}`, file(8, "1-image-1.png", "image/png", 4)},
		{
			"crm__search", `{"content":[{"type":"text","text":"see"},{"type":"resource","resource":{"uri":"file:///a/report.csv","mimeType":"text/csv","text":"a,b"}}]}`,
			`["see",` + file(9, "1-report.csv", "text/csv", 3) + `]`,
		},
		{"crm__search", `{"content":[{"type":"resource","resource":{"uri":"file:///..%2f..%2fetc","text":"x"}}]}`, ``},
	} {
		f.servers.answer = func(context.Context, string, string, json.RawMessage) (*mcpclient.Result, error) {
			return result(c.answer), nil
		}
		got := f.tool(c.tool, `{"q":"a"}`)
		if c.want != "" && got != c.want {
			t.Errorf("%d: %s gives %s, want %s", i+1, c.answer, got, c.want)
		}
		var saved struct{ File string }
		if json.Unmarshal([]byte(got), &saved) == nil && saved.File != "" {
			if !strings.HasPrefix(saved.File, "/workspace/results/run_x/") || strings.Contains(saved.File, "..") {
				t.Errorf("a file was saved as %s", saved.File)
			}
			if _, err := f.do(frame.FS, "readFile", `{"path":"`+saved.File+`","encoding":"base64"}`); err != nil {
				t.Errorf("the file %s cannot be read: %v", saved.File, err)
			}
			f.calls--
		}
	}
	raw, err := f.do(frame.Tool, "crm__search", `{"input":{"q":"a"},"raw":true}`)
	if want := `{"content":[{"type":"resource","resource":{"uri":"file:///..%2f..%2fetc","text":"x"}}]}`; raw != want || err != nil {
		t.Errorf("raw is %s, %v", raw, err)
	}
	f.servers.answer = func(context.Context, string, string, json.RawMessage) (*mcpclient.Result, error) {
		return result(`{"content":[{"type":"text","text":"no such customer: 42"}],"isError":true}`), nil
	}
	_, err = f.do(frame.Tool, "crm__search", `{"input":{"q":"a"}}`)
	wantError(t, err, "ToolError", frame.KindTool)
	if err.Message != "no such customer: 42" || err.Tool != "crm__search" {
		t.Errorf("not the server's own words: %+v", err)
	}
	if raw, err := f.do(frame.Tool, "crm__search", `{"input":{"q":"a"},"raw":true}`); err != nil || !strings.Contains(raw, `"isError":true`) {
		t.Errorf("raw is %s, %v", raw, err)
	}
}

// A content block that is not a text becomes a file with a plain name, or an object in the value.
func TestUnwrapFiles(t *testing.T) {
	t.Parallel()
	resource := func(fields string) string { return `{"content":[{"type":"resource","resource":{` + fields + `}}]}` }
	for name, c := range map[string]struct{ answer, file, content, value string }{
		"structured array":        {answer: `{"structuredContent":[1]}`, value: `[1]`},
		"wrapped null":            {answer: `{"structuredContent":{"result":null}}`, value: `null`},
		"not what schema says":    {answer: `{"structuredContent":{"result":1,"x":2}}`, value: `{"result":1,"x":2}`},
		"text":                    {answer: `{"content":[{"type":"text","text":"a \"b\" <c>"}]}`, value: `"a \"b\" <c>"`},
		"text that is an object":  {answer: `{"content":[{"type":"text","text":" {\"z\":1,\"a\":2}\n"}]}`, value: `{"z":1,"a":2}`},
		"text that is an array":   {answer: `{"content":[{"type":"text","text":"[1]"}]}`, value: `[1]`},
		"text that is nearly one": {answer: `{"content":[{"type":"text","text":"[1] and more"}]}`, value: `"[1] and more"`},
		"several texts":           {answer: `{"content":[{"type":"text","text":"{}"},{"type":"text","text":"b"}]}`, value: `["{}","b"]`},
		"image":                   {answer: `{"content":[{"type":"image","data":"aGk=","mimeType":"image/png"}]}`, file: "1-image-1.png", content: "hi"},
		"image without padding":   {answer: `{"content":[{"type":"image","data":"aGk","mimeType":"image/jpeg"}]}`, file: "1-image-1.jpg", content: "hi"},
		"vector image":            {answer: `{"content":[{"type":"image","data":"aGk","mimeType":"image/svg+xml"}]}`, file: "1-image-1.svg", content: "hi"},
		"audio":                   {answer: `{"content":[{"type":"audio","data":"aGk=","mimeType":"audio/mpeg"}]}`, file: "1-audio-1.mp3", content: "hi"},
		"resource with text":      {answer: resource(`"uri":"file:///docs/read%20me.md","mimeType":"text/plain","text":"t"`), file: "1-resource-1.txt", content: "t"},
		"resource with a blob":    {answer: resource(`"uri":"x://y/a.gz","blob":"-_8="`), file: "1-a.gz", content: "\xfb\xff"},
		"blob that is none":       {answer: resource(`"uri":"x://y/a.gz","blob":"!"`), file: "1-a.gz", content: "!"},
		"name that climbs":        {answer: resource(`"uri":"file:///a/..%2f..%2fetc","blob":"aGk="`), file: "1-etc", content: "hi"},
		"name of a device":        {answer: resource(`"uri":"file:///a/Nul.txt","blob":"aGk="`), file: "1-resource-1", content: "hi"},
		"name of a port":          {answer: resource(`"uri":"file:///a/com1","blob":"aGk="`), file: "1-resource-1", content: "hi"},
		"no name at all":          {answer: resource(`"uri":"file:///a/..","blob":"aGk="`), file: "1-resource-1", content: "hi"},
		"long name":               {answer: resource(`"uri":"file:///` + strings.Repeat("a", 101) + `","blob":"aGk="`), file: "1-resource-1", content: "hi"},
		"link":                    {answer: `{"content":[{"type":"resource_link","uri":"x://y","name":"n"}]}`, value: `{"type":"resource_link","uri":"x://y","name":"n"}`},
		"unknown block":           {answer: `{"content":[{"type":"video","x":1}]}`, value: `{"type":"video","x":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			f.servers.answer = func(context.Context, string, string, json.RawMessage) (*mcpclient.Result, error) {
				return result(c.answer), nil
			}
			got := f.tool("crm__list_stages", `{}`)
			if c.file == "" {
				if got != c.value {
					t.Errorf("got %s, want %s", got, c.value)
				}
				return
			}
			path := "/workspace/results/run_x/1/" + c.file
			if !strings.Contains(got, `"file":"`+path+`"`) {
				t.Errorf("got %s, want a file %s", got, path)
			}
			content, err := f.do(frame.FS, "readFile", `{"path":"`+path+`","encoding":"base64"}`)
			if want := base64.StdEncoding.EncodeToString([]byte(c.content)); err != nil || !strings.Contains(content, want) {
				t.Errorf("it holds %s, %v, want %s", content, err, want)
			}
		})
	}
	for answer, want := range map[string]string{
		`{"isError":true,"content":[{"type":"text","text":"no"},{"type":"text","text":"really"}]}`: "no\nreally",
		`{"isError":true,"content":[]}`:                                "the tool failed without saying why",
		`{"isError":true,"content":[],"structuredContent":{"code":7}}`: `{"code":7}`,
	} {
		f := setup(t)
		f.servers.answer = func(context.Context, string, string, json.RawMessage) (*mcpclient.Result, error) {
			return result(answer), nil
		}
		if _, err := f.do(frame.Tool, "crm__search", `{"input":{"q":"a"}}`); err == nil || err.Message != want {
			t.Errorf("%s gives %v, want %q", answer, err, want)
		}
	}
}

// A value over the limit becomes a file, which can be read in parts.
func TestLargeValues(t *testing.T) {
	t.Parallel()
	f := setup(t)
	text := strings.Repeat("0123456789", 500)
	for name, answer := range map[string]string{
		"result.txt":  `{"content":[{"type":"text","text":"` + text + `"}]}`,
		"result.json": `{"content":[],"structuredContent":{"text":"` + text + `"}}`,
	} {
		f.servers.answer = func(context.Context, string, string, json.RawMessage) (*mcpclient.Result, error) {
			return result(answer), nil
		}
		var handle struct {
			File, MIMEType, Note string
			Bytes                int
		}
		if err := json.Unmarshal([]byte(f.tool("crm__search", `{"q":"a"}`)), &handle); err != nil {
			t.Fatal(err)
		}
		if filepath.Base(handle.File) != name || handle.Bytes < len(text) || !strings.Contains(handle.Note, "offset") {
			t.Errorf("got %+v", handle)
		}
		whole := ""
		for offset := 0; offset < handle.Bytes; offset += 700 {
			part, err := f.do(frame.FS, "readFile", fmt.Sprintf(`{"path":%q,"encoding":"utf8","offset":%d,"length":700}`, handle.File, offset))
			if err != nil {
				t.Fatal(err)
			}
			var got struct{ Text string }
			if err := json.Unmarshal([]byte(part), &got); err != nil {
				t.Fatal(err)
			}
			whole += got.Text
		}
		if len(whole) != handle.Bytes || !strings.Contains(whole, text) {
			t.Errorf("%s: %d bytes were read in parts, the value has %d", name, len(whole), handle.Bytes)
		}
	}
	// A value of exactly the maximum size does not become a file. Raw results and resources have the same limit.
	f.servers.answer = func(context.Context, string, string, json.RawMessage) (*mcpclient.Result, error) {
		return result(`{"content":[{"type":"text","text":"` + strings.Repeat("x", 998) + `"}]}`), nil
	}
	if got := f.tool("crm__search", `{"q":"a"}`); len(got) != 1000 {
		t.Errorf("got %d bytes: %.80s", len(got), got)
	}
	if raw, err := f.do(frame.Tool, "crm__search", `{"input":{"q":"a"},"raw":true}`); err != nil || !strings.Contains(raw, "/workspace/results") {
		t.Errorf("raw is %.80s, %v", raw, err)
	}
	f.servers.contents = []mcpclient.ResourceContents{{URI: "a", Text: text}}
	if value, err := f.do(frame.Resource, "read", `{"server":"crm","uri":"a"}`); err != nil || !strings.Contains(value, "/workspace/results") {
		t.Errorf("resource is %.80s, %v", value, err)
	}
}

func TestResources(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.catalog.SetServer(catalog.Server{Name: "docs"})
	f.catalog.SetServer(catalog.Server{Name: "down"})
	f.servers.resources = map[string][]mcpclient.Resource{
		"crm": {{Server: "crm", URI: "crm://a"}}, "docs": {{Server: "docs", URI: "docs://b"}, {Server: "docs", URI: "docs://c"}},
	}
	f.servers.contents = []mcpclient.ResourceContents{{URI: "docs://b", MIMEType: "text/plain", Text: "hello"}}
	one, err := f.do(frame.Resource, "list", `{"server":"DOCS"}`)
	if want := `[{"server":"docs","uri":"docs://b"},{"server":"docs","uri":"docs://c"}]`; one != want || err != nil {
		t.Errorf("of one server: %s, %v", one, err)
	}
	all, err := f.do(frame.Resource, "list", `{}`)
	if err != nil || strings.Count(all, `"uri"`) != 3 {
		t.Errorf("of all servers: %s, %v", all, err)
	}
	got, err := f.do(frame.Resource, "read", `{"server":"docs","uri":"docs://b"}`)
	if want := `{"contents":[{"uri":"docs://b","mimeType":"text/plain","text":"hello"}]}`; got != want || err != nil {
		t.Errorf("read: %s, %v", got, err)
	}
	prompts, err := f.do(frame.Resource, "prompts", `{}`)
	if want := `[{"server":"crm","name":"greet"},{"server":"docs","name":"greet"},{"server":"down","name":"greet"}]`; prompts != want || err != nil {
		t.Errorf("prompts: %s, %v", prompts, err)
	}
	filled, err := f.do(frame.Resource, "prompt", `{"server":"DOCS","name":"greet","args":{"who":"Ann"}}`)
	if want := `{"description":"greet","messages":{"who":"Ann"}}`; filled != want || err != nil {
		t.Errorf("a prompt: %s, %v", filled, err)
	}
	_, err = f.do(frame.Resource, "prompt", `{"server":"nobody","name":"x"}`)
	wantError(t, err, "ToolError", frame.KindTool, "nobody")
	_, err = f.do(frame.Resource, "prompt", `{"server":"docs","name":"x","args":{"n":1}}`)
	wantError(t, err, "TypeError", frame.KindRuntime, "args")
	_, err = f.do(frame.Resource, "list", `{"server":"down"}`)
	wantError(t, err, "ToolError", frame.KindTool, "\"down\" is not available")
	_, err = f.do(frame.Resource, "read", `{"server":"nobody","uri":"x"}`)
	wantError(t, err, "ToolError", frame.KindTool, "nobody")
	f.servers.resources = nil
	_, err = f.do(frame.Resource, "list", `{}`)
	wantError(t, err, "ToolError", frame.KindTool, "crm", "docs")
}

// Every call of a tool that is not read-only is a write. Its intent is journaled before the call, and contains what a resumed run needs after a
// crash.
func TestIntents(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.servers.conn = map[string]int64{"crm": 77}
	f.tool("crm__search", `{"q":"a"}`)
	if len(f.intents) != 0 {
		t.Errorf("a read has an intent: %+v", f.intents)
	}
	f.servers.answer = func(context.Context, string, string, json.RawMessage) (*mcpclient.Result, error) {
		if len(f.intents) != len(f.servers.called)-1 {
			t.Errorf("%d intents before call %d", len(f.intents), len(f.servers.called))
		}
		return result(`{"content":[]}`), nil
	}
	f.tool("crm__create_note", `{}`)
	f.tool("crm__set_stage", `{}`)
	for i, retry := range []bool{false, true} {
		got := f.intents[i]
		want := journal.Intent{N: i + 2, Key: fmt.Sprintf("run_x-%d", i+2), Retry: retry, Conn: 77, Time: f.now.UnixMicro()}
		if got.N != want.N || got.Key != want.Key || got.Retry != want.Retry || got.Conn != want.Conn || got.Time != want.Time {
			t.Errorf("intent %d is %+v, want %+v", i, got, want)
		}
	}
	if want := []string{"run_x-1", "run_x-2", "run_x-3"}; !slices.Equal(f.servers.keys, want) {
		t.Errorf("idempotency keys %v, want %v", f.servers.keys, want)
	}
	f.refuse, f.servers.called = errors.New("disk full"), nil
	_, err := f.do(frame.Tool, "crm__create_note", `{"input":{}}`)
	wantError(t, err, "ToolError", frame.KindTool, "was not called", "disk full")
	_, err = f.do(frame.FS, "writeFile", `{"path":"/workspace/a","text":"x"}`)
	wantError(t, err, "Error", frame.KindRuntime, "was not done", "disk full")
	if len(f.servers.called) != 0 {
		t.Error("the server was called without a stored intent")
	}
	if got, _ := f.do(frame.FS, "exists", `{"path":"/workspace/a"}`); got != "false" {
		t.Error("the file was written without a stored intent")
	}
}

// A failed write that may have reached the server is in doubt. Every other failed call becomes a plain error.
func TestInDoubt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tool string
		err  mcpclient.CallError
		name string
	}{
		{"crm__create_note", mcpclient.CallError{Kind: mcpclient.KindConnectionLost, Sent: true}, "InDoubtError"},
		{"crm__create_note", mcpclient.CallError{Kind: mcpclient.KindTimeout, Sent: true}, "InDoubtError"},
		{"crm__create_note", mcpclient.CallError{Kind: mcpclient.KindProtocol, Sent: true}, "InDoubtError"},
		{"crm__create_note", mcpclient.CallError{Kind: mcpclient.KindCancelled, Sent: true}, "InDoubtError"},
		{"crm__set_stage", mcpclient.CallError{Kind: mcpclient.KindTimeout, Sent: true}, "InDoubtError"},
		{"crm__create_note", mcpclient.CallError{Kind: mcpclient.KindConnectionLost}, "ToolError"},
		{"crm__create_note", mcpclient.CallError{Kind: mcpclient.KindUnavailable}, "ToolError"},
		{"crm__create_note", mcpclient.CallError{Kind: mcpclient.KindRPC, Code: -32602, Sent: true}, "ToolError"},
		{"crm__create_note", mcpclient.CallError{Kind: mcpclient.KindRPC, Code: -32603, Sent: true}, "InDoubtError"},
		{"crm__create_note", mcpclient.CallError{Kind: mcpclient.KindRPC, Code: -32001, Sent: true}, "InDoubtError"},
		{"crm__search", mcpclient.CallError{Kind: mcpclient.KindRPC, Code: -32001, Sent: true}, "ToolError"},
		{"crm__search", mcpclient.CallError{Kind: mcpclient.KindConnectionLost, Sent: true}, "ToolError"},
		{"crm__search", mcpclient.CallError{Kind: mcpclient.KindTimeout, Sent: true}, "ToolError"},
	} {
		f := setup(t)
		c.err.Message, c.err.Server = "because", "crm"
		words := map[mcpclient.Kind]string{
			mcpclient.KindConnectionLost: "the connection was lost", mcpclient.KindUnavailable: "is not available",
		}
		f.servers.answer = func(context.Context, string, string, json.RawMessage) (*mcpclient.Result, error) { return nil, &c.err }
		_, err := f.do(frame.Tool, c.tool, `{"input":{"q":"a"}}`)
		kind := frame.KindTool
		if c.name == "InDoubtError" {
			kind = frame.KindInDoubt
		}
		wantError(t, err, c.name, kind, cmp.Or(words[c.err.Kind], "because"))
		if err != nil && err.Tool != c.tool {
			t.Errorf("the error is of %q", err.Tool)
		}
	}
}

// The answers to writes for which a dead process has journaled an intent, but no answer.
func TestResumedWrites(t *testing.T) {
	t.Parallel()
	broken := errors.New("")
	for _, c := range []struct {
		name, tool string
		retry      bool
		age        time.Duration
		change     func(f *fixture)
		want       string // class of the error; empty if the write is repeated
	}{
		{"a write", "crm__create_note", false, time.Second, nil, "InDoubtError"},
		{"an idempotent write", "crm__set_stage", true, 4 * time.Minute, nil, ""},
		{"an old idempotent write", "crm__set_stage", true, 6 * time.Minute, nil, "InDoubtError"},
		{"one that is called read-only now", "crm__search", false, time.Second, nil, "InDoubtError"},
		{"one whose tool is gone", "crm__gone", true, time.Second, nil, "InDoubtError"},
		{"a write whose tool is gone", "crm__gone", false, time.Second, nil, "InDoubtError"},
		{"one whose server is down", "crm__set_stage", true, time.Second, func(f *fixture) {
			f.servers.conn = map[string]int64{"crm": -1}
		}, "InDoubtError"},
		{"a write whose server is down", "crm__create_note", false, time.Second, func(f *fixture) {
			f.servers.conn = map[string]int64{"crm": -1}
		}, "InDoubtError"},
		{"one that is not sent", "crm__set_stage", true, time.Second, func(f *fixture) {
			f.servers.answer = func(context.Context, string, string, json.RawMessage) (*mcpclient.Result, error) {
				return nil, &mcpclient.CallError{Kind: mcpclient.KindUnavailable, Err: broken}
			}
		}, "InDoubtError"},
		{"one that is refused", "crm__set_stage", true, time.Second, func(f *fixture) {
			f.servers.answer = func(context.Context, string, string, json.RawMessage) (*mcpclient.Result, error) {
				return nil, &mcpclient.CallError{Kind: mcpclient.KindRPC, Code: -32602, Sent: true}
			}
		}, "ToolError"},
		{"one whose server forgot", "crm__set_stage", true, time.Second, func(f *fixture) {
			f.servers.stateful, f.servers.conn = map[string]bool{"crm": true}, map[string]int64{"crm": 78}
		}, "InDoubtError"},
	} {
		f := setup(t)
		if c.change != nil {
			c.change(f)
		}
		intent := &journal.Intent{N: 1, Key: "run_x-1", Retry: c.retry, Conn: 77, Time: f.now.Add(-c.age).UnixMicro()}
		value, err := f.again(t.Context(), frame.Tool, c.tool, `{"input":{"q":"a"}}`, intent)
		switch {
		case c.want == "" && (err != nil || value != `"hello"` || len(f.servers.called) != 1 || len(f.intents) != 0 || f.servers.keys[0] != "run_x-1"):
			t.Errorf("%s: got %s, %v; calls %v with keys %v, intents %v", c.name, value, err, f.servers.called, f.servers.keys, f.intents)
		case c.want == "InDoubtError":
			wantError(t, err, c.want, frame.KindInDoubt)
		case c.want != "":
			wantError(t, err, c.want, frame.KindTool)
		}
		if !c.retry && len(f.servers.called) != 0 {
			t.Errorf("%s: the server was called again", c.name)
		}
	}
}

func TestStatefulServers(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.servers.conn = map[string]int64{"crm": 5}
	f.servers.stateful = map[string]bool{"crm": true}
	f.tool("crm__search", `{"q":"a"}`)
	f.servers.conn["crm"] = 6
	_, err := f.do(frame.Tool, "crm__search", `{"input":{"q":"a"}}`)
	wantError(t, err, "SessionLostError", frame.KindTool, "crm", "lost")
	f.tool("crm__search", `{"q":"a"}`) // The loss is reported only once.
	// Every call that was made before the loss was reported fails, and none goes to the new connection.
	f.servers.conn["crm"] = 7
	var made []run.Pending
	for n := range 3 {
		made = append(made, f.Prepare(&journal.Call{N: 100 + n, Kind: "tool", Name: "crm__search", Args: json.RawMessage(`{"input":{"q":"a"}}`)}, nil))
	}
	for _, call := range made {
		_, err := call(t.Context(), nil)
		wantError(t, err, "SessionLostError", frame.KindTool, "crm", "lost")
	}
	f.tool("crm__search", `{"q":"a"}`)
	if want := []int64{5, 6, 7}; !slices.Equal(f.servers.conns, want) {
		t.Errorf("calls were bound to connections %v, want %v", f.servers.conns, want)
	}
	// A resumed run learns from its journaled intents which connection the dead process used.
	f.scope.Recorded = []journal.Record{
		{Call: &journal.Call{N: 1, Kind: "tool", Name: "createNote", Args: json.RawMessage(`{"input":{},"server":"crm"}`)}},
		{Intent: &journal.Intent{N: 1, Conn: 7}},
		{Answer: &journal.Answer{N: 1}},
	}
	f.Run = f.gate.Open(f.scope)
	f.tool("crm__search", `{"q":"the same connection"}`)
	f.Run = f.gate.Open(f.scope)
	f.servers.conn["crm"] = 8
	_, err = f.do(frame.Tool, "crm__search", `{"input":{"q":"a"}}`)
	wantError(t, err, "SessionLostError", frame.KindTool, "crm")
	f.tool("crm__search", `{"q":"a"}`)
	// A new connection of a server without state is not reported.
	f.servers.stateful = nil
	f.servers.conn["crm"] = 8
	f.tool("crm__search", `{"q":"a"}`)
}

// A resumed run does not repeat an append or a rename that the dead process has done.
func TestResumedFileCalls(t *testing.T) {
	t.Parallel()
	f := setup(t)
	do := func(name, args string, intent *journal.Intent) {
		t.Helper()
		if value, err := f.again(t.Context(), frame.FS, name, args, intent); value != "true" || err != nil {
			t.Errorf("%s %s: %s, %v", name, args, value, err)
		}
	}
	last := func() *journal.Intent { i := f.intents[len(f.intents)-1]; return &i }
	do("writeFile", `{"path":"/workspace/a","text":"one,"}`, nil)
	do("appendFile", `{"path":"/workspace/a","text":"two,"}`, nil)
	do("appendFile", `{"path":"/workspace/a","text":"two,"}`, last())
	if got, _ := f.do(frame.FS, "readFile", `{"path":"/workspace/a"}`); got != `{"text":"one,two,"}` {
		t.Errorf("after an append that was repeated: %s", got)
	}
	do("rename", `{"from":"/workspace/a","to":"/workspace/b"}`, nil)
	do("rename", `{"from":"/workspace/a","to":"/workspace/b"}`, last())
	// A rename that the dead process intended, but did not do, is done now.
	before, err := f.scope.Files.Precondition("rename", json.RawMessage(`{"from":"/workspace/b","to":"/workspace/c"}`))
	if err != nil {
		t.Fatal(err)
	}
	do("rename", `{"from":"/workspace/b","to":"/workspace/c"}`, &journal.Intent{N: 9, Before: before})
	if got, _ := f.do(frame.FS, "readFile", `{"path":"/workspace/c"}`); got != `{"text":"one,two,"}` {
		t.Errorf("after the renames: %s", got)
	}
	for name, serial := range map[string]bool{"writeFile": true, "appendFile": true, "rename": true, "rm": true, "readFile": false, "stat": false} {
		if got := f.Serial(&journal.Call{Kind: "fs", Name: name}); got != serial {
			t.Errorf("%s is serial: %t", name, got)
		}
	}
	if !f.Serial(&journal.Call{Kind: "fs", Name: "readFile", Sync: true}) {
		t.Error("a synchronous read does not wait for the changes before it")
	}
	if f.Serial(&journal.Call{Kind: "tool", Name: "writeFile"}) {
		t.Error("a tool is serial")
	}
}

func TestOtherCalls(t *testing.T) {
	t.Parallel()
	f := setup(t)
	if got, err := f.do(frame.Catalog, "servers", `{}`); got != `["crm"]` || err != nil {
		t.Errorf("servers: %s, %v", got, err)
	}
	if got, err := f.do(frame.Load, "require", `{"specifier":"/skills/m","from":"program.js"}`); !strings.Contains(got, `"id":"m"`) || err != nil {
		t.Errorf("module: %s, %v", got, err)
	}
	if got, err := f.do(frame.Intl, "zone", `{"zone":"UTC"}`); got != `"UTC"` || err != nil {
		t.Errorf("zone: %s, %v", got, err)
	}
	_, err := f.do("secrets", "read", `{}`)
	wantError(t, err, "TypeError", frame.KindRuntime, "no host call")
	_, err = f.do(frame.Resource, "write", `{}`)
	wantError(t, err, "TypeError", frame.KindRuntime, "no host call")
}

// real returns a fixture whose server is a real child process.
func real(t *testing.T) *fixture {
	t.Helper()
	f := setup(t)
	self := executable(t)
	m := mcpclient.NewManager(mcpclient.Options{Supervisor: process.SelfAt(self), OnChange: func(s mcpclient.Server) {
		out := catalog.Server{Name: s.Name}
		for _, tool := range s.Tools {
			out.Tools = append(out.Tools, catalog.Tool{Server: s.Name, Name: tool.Name, InputSchema: tool.InputSchema, OutputSchema: tool.OutputSchema})
		}
		f.catalog.SetServer(out)
	}})
	t.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	err := m.Add(mcpclient.Config{
		Name: "bad", Command: self, Env: misbehave.Env(misbehave.Normal, filepath.Join(t.TempDir(), "pids")), Timeout: 30 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	f.gate = gate.New(gate.Options{Catalog: f.catalog, Servers: realServers{m}, Now: time.Now})
	f.scope.MaxCalls, f.scope.MaxValue = 1_000_000, 1<<20
	f.Run = f.gate.Open(f.scope)
	return f
}

type realServers struct{ *mcpclient.Manager }

func (s realServers) EnsureTools(ctx context.Context, user string) { s.Manager.EnsureTools(ctx, user) }

func (realServers) Request(ctx context.Context, _, _ string, _ int, send func(context.Context) error) error {
	return send(ctx)
}

func (realServers) Stateful(string) bool                      { return false }
func (realServers) Unavailable(string) []*mcpclient.CallError { return nil }

// If a run ends, its pending call is cancelled at the server. The call is in doubt, because it was sent.
func TestCancelledUpstream(t *testing.T) {
	t.Parallel()
	f := real(t)
	f.tool("bad__echo", `{}`)
	ctx, cancel := context.WithCancel(t.Context())
	c := &journal.Call{N: 100, Kind: "tool", Name: "bad__hang", Args: json.RawMessage(`{"input":{}}`)}
	answer := make(chan *frame.Error)
	pending := f.Prepare(c, nil)
	go func() {
		_, err := pending(ctx, flight{new(fixture)})
		answer <- err
	}()
	// The call is cancelled only after the server has received it.
	for !strings.Contains(f.tool("bad__received", `{}`), `"hang `) {
	}
	cancel()
	wantError(t, <-answer, "InDoubtError", frame.KindInDoubt, "cancelled")
	for !strings.Contains(f.tool("bad__received", `{}`), "notifications/cancelled") {
	}
}

// The server receives an idempotency key that names the run and the call. A call with progress notifications completes.
func TestKeyAndProgressUpstream(t *testing.T) {
	t.Parallel()
	f := real(t)
	done := make(chan string)
	c := &journal.Call{N: 500, Kind: "tool", Name: "bad__progress", Args: json.RawMessage(`{"input":{"steps":2}}`)}
	pending := f.Prepare(c, nil)
	go func() {
		value, err := pending(t.Context(), flight{new(fixture)})
		if err != nil {
			t.Errorf("progress: %v", err)
		}
		done <- string(value)
	}()
	for range 2 {
		f.tool("bad__step", `{}`)
	}
	if got := <-done; got != `"done"` {
		t.Errorf("got %s", got)
	}
	if got := f.tool("bad__received", `{}`); !strings.Contains(got, `"key run_x-500"`) {
		t.Errorf("the server received %s", got)
	}
}

// Errors for the guest do not contain a server's command, address or stderr.
func TestFailuresKeepTheHostPrivate(t *testing.T) {
	t.Parallel()
	const secret = "/home/operator/bin/crm --key s3cret"
	for _, kind := range []mcpclient.Kind{
		mcpclient.KindUnavailable, mcpclient.KindConnectionLost, mcpclient.KindTimeout, mcpclient.KindProtocol,
	} {
		for _, name := range []string{"crm__search", "crm__create_note"} {
			f := setup(t)
			f.servers.answer = func(context.Context, string, string, json.RawMessage) (*mcpclient.Result, error) {
				failed := &mcpclient.CallError{Server: "crm", Kind: kind, Sent: kind != mcpclient.KindUnavailable, Stderr: secret}
				if kind == mcpclient.KindUnavailable || kind == mcpclient.KindConnectionLost {
					failed.Message = secret
				}
				return nil, failed
			}
			_, err := f.do(frame.Tool, name, `{"input":{"q":"a","text":"b"}}`)
			if err == nil || strings.Contains(err.Message, secret) || !strings.Contains(err.Message, "crm") {
				t.Errorf("%s of %s: %v", kind, name, err)
			}
		}
	}
}

// TestExactArguments checks that a key that differs from the name of an argument only in case is ignored, so it cannot replace a checked argument.
func TestExactArguments(t *testing.T) {
	t.Parallel()
	f := setup(t)
	if _, err := f.do(frame.Tool, "search", `{"input":{"q":"a"},"server":"crm","SERVER":"nothing","Input":{"q":7},"RAW":true}`); err != nil {
		t.Errorf("the other keys are taken: %v", err)
	}
	_, err := f.do(frame.Tool, "search", `{"input":{"q":"a"},"Server":"crm"}`)
	wantError(t, err, "ToolError", frame.KindTool, "Tool not found")
	_, err = f.do(frame.Catalog, "details", `{"NAME":"crm__search"}`)
	wantError(t, err, "ToolError", frame.KindTool, "Tool not found")
}

// TestSkillsAreReadForTheirNames checks that a call reads the user's promoted skills only if its name can be that of one.
func TestSkillsAreReadForTheirNames(t *testing.T) {
	t.Parallel()
	f := setup(t)
	read := 0
	f.catalog.Own(func(context.Context, string) (catalog.Server, bool) {
		read++
		return catalog.Server{}, false
	})
	f.scope.User = "ann"
	f.Run = f.gate.Open(f.scope)
	for _, c := range []struct {
		name string
		want int
	}{{"crm__search", 0}, {"crm__none", 0}, {"other__skills", 0}, {"skills__double", 1}, {"Skills__double", 1}} {
		read = 0
		if _, err := f.do(frame.Tool, c.name, `{"input":{"q":"x"}}`); (err == nil) != (c.name == "crm__search") || read != c.want {
			t.Errorf("%s: the skills were read %d times, %v", c.name, read, err)
		}
	}
}

// TestLongToolName checks that calls of tools and questions to the catalog refuse a name that is too long for a tool.
func TestLongToolName(t *testing.T) {
	t.Parallel()
	f := setup(t)
	long := "crm" + strings.Repeat("_", 400_000) + "search"
	name, _ := json.Marshal(map[string]string{"name": long})
	for kind, args := range map[frame.Kind]string{frame.Tool: `{"input":{}}`, frame.Catalog: string(name)} {
		called := long
		if kind == frame.Catalog {
			called = "details"
		}
		_, err := f.do(kind, called, args)
		wantError(t, err, "ToolError", frame.KindTool, "at most 1024 bytes")
		if err != nil && len(err.Message) > 400 {
			t.Errorf("a message of %d bytes", len(err.Message))
		}
	}
}

// TestRefusals checks that the program gets the status, headers and body that a server sent over HTTP instead of an answer, without personal data.
func TestRefusals(t *testing.T) {
	t.Parallel()
	said := func(status int) *mcpclient.Refusal {
		return &mcpclient.Refusal{
			Status: status, Header: map[string]string{"retry-after": "120"}, Said: "the quota of ada@example.org is used up",
			Body: json.RawMessage(`{"b":"the quota of ada@example.org is used up","a":12345678901234567890}`),
		}
	}
	for _, c := range []struct {
		tool string
		err  mcpclient.CallError
		name string
		want string
	}{
		{"crm__create_note", mcpclient.CallError{Kind: mcpclient.KindHTTP, Refusal: said(429), Message: said(429).Error()}, "ToolError", "HTTP 429"},
		{"crm__create_note", mcpclient.CallError{Kind: mcpclient.KindHTTP, Sent: true, Refusal: said(502), Message: said(502).Error()}, "InDoubtError", "HTTP 502"},
		{"crm__search", mcpclient.CallError{Kind: mcpclient.KindHTTP, Sent: true, Refusal: said(502), Message: said(502).Error()}, "ToolError", "HTTP 502"},
		{"crm__create_note", mcpclient.CallError{Kind: mcpclient.KindUnavailable, Refusal: said(503), Message: "it did not start: /home/ann/secret"}, "ToolError", "HTTP 503"},
		{"crm__create_note", mcpclient.CallError{Kind: mcpclient.KindNeedsLogin, Refusal: said(401), Message: "log in"}, "NeedsLoginError", "log in"},
	} {
		f := setup(t)
		f.scope.Privacy = piitest.New(t).In("u", "s")
		f.Run = f.gate.Open(f.scope)
		c.err.Server = "crm"
		f.servers.answer = func(context.Context, string, string, json.RawMessage) (*mcpclient.Result, error) { return nil, &c.err }
		_, err := f.do(frame.Tool, c.tool, `{"input":{"q":"a"}}`)
		if err == nil || err.Name != c.name || !strings.Contains(err.Message, c.want) || strings.Contains(err.Message, "/home/ann") {
			t.Errorf("%s: %+v", c.want, err)
			continue
		}
		if text := err.Message + string(err.Data); strings.Contains(text, "ada@example.org") {
			t.Errorf("personal data: %s", text)
		}
		want := fmt.Sprintf(`{"body":{"b":"the quota of [EMAIL_1] is used up","a":12345678901234567890},"headers":{"retry-after":"120"},"status":%d}`, c.err.Refusal.Status)
		if string(err.Data) != want {
			t.Errorf("data %s, want %s", err.Data, want)
		}
	}
}
