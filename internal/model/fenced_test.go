package model_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/testing/fake"
)

// local is a model on a local server.
var local = model.Config{Provider: model.Compatible, Name: "small", BaseURL: "http://localhost:11434/v1"}

// withoutTools returns a server that answers a request with tools with an error: its model does not support tools.
func withoutTools(status int, message string, replies ...fake.Reply) fake.Script {
	n := 0
	return func(r fake.Request) fake.Reply {
		if len(r.Tools) > 0 {
			return fake.Reply{Status: status, Message: message}
		}
		n++
		return replies[n-1]
	}
}

func TestFencedWhereToolsAreNotSupported(t *testing.T) {
	t.Parallel()
	for status, message := range map[int]string{
		400: "registry.ollama.ai/library/gemma:2b does not support tools",
		404: "No endpoints found that support tool use.",
		422: `"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set`,
		500: "tools param requires --jinja flag",
	} {
		srv := serve(t, withoutTools(status, message,
			fake.Reply{Text: "I compute.\n\n```js\nconst a = `x`\nreturn 6 * 7\n```\n"}, fake.Reply{Text: "It is 42."}))
		m := open(t, srv, local)
		if !m.Info().NativeTools {
			t.Error("no native tools before the server said so")
		}
		talk := []model.Message{user("6 times 7?")}
		turn := generate(t, m, ask(talk...))
		if m.Info().NativeTools {
			t.Error("native tools after the server said no")
		}
		if len(turn.Calls) != 1 || turn.Stop != model.StopTools || turn.Text != "I compute." ||
			turn.Calls[0].Name != "execute_code" || string(turn.Calls[0].Input) != `{"code":"const a = `+"`x`"+`\nreturn 6 * 7"}` {
			t.Fatalf("turn %+v", turn)
		}
		turn = generate(t, m, ask(append(talk, answered(t, turn, "42")...)...))
		if turn.Text != "It is 42." || turn.Stop != model.StopEnd || len(turn.Calls) != 0 {
			t.Errorf("turn %+v", turn)
		}
		inOrder(t, srv)
		requests := srv.Requests()
		if len(requests) != 3 {
			t.Fatalf("HTTP %d: %d requests, want 3: the model has to remember", status, len(requests))
		}
		last := requests[2]
		want := []fake.Message{
			{Role: "user", Text: "6 times 7?"},
			{Role: "assistant", Text: "I compute.\n\n```js\nconst a = `x`\nreturn 6 * 7\n```\n"},
			{Role: "user", Text: "Result of execute_code:\n42"},
		}
		if diff := cmp.Diff(want, last.Messages); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		for _, part := range []string{"You are a test.", "## execute_code", "Run a program.", "## search_tools", `"query"`, "```js"} {
			if !strings.Contains(last.System, part) {
				t.Errorf("the system prompt does not say %q", part)
			}
		}
	}
}

func TestNativeMeansNative(t *testing.T) {
	t.Parallel()
	cfg := local
	cfg.Tools = model.ToolsNative
	m := open(t, serve(t, withoutTools(400, "gemma does not support tools")), cfg)
	_, err := m.Generate(t.Context(), ask(user("Hi.")))
	if kindOf(err) != model.KindInvalidRequest || !strings.Contains(err.Error(), "set model.tools to auto or fenced") {
		t.Errorf("error %v", err)
	}
}

func TestFencedBlocks(t *testing.T) {
	t.Parallel()
	call := func(name, input string) []model.ToolCall {
		return []model.ToolCall{{ID: "fence_1", Name: name, Input: []byte(input)}}
	}
	for _, c := range []struct {
		name, written, stop string
		text                string
		calls               []model.ToolCall
	}{
		{"typescript", "```TypeScript\nreturn 1 as number\n```", "", "", call("execute_code", `{"code":"return 1 as number"}`)},
		{"text after the call is made up", "```js\nreturn 1\n```\nThe result is 99.\n```js\nreturn 2\n```", "", "", call("execute_code", `{"code":"return 1"}`)},
		{"never closed", "Now:\n```ts\nreturn 1", "", "Now:", call("execute_code", `{"code":"return 1"}`)},
		{"cut", "Now:\n```ts\nreturn 1", "length", "Now:\n```ts\nreturn 1", nil},
		{"code to look at", "See:\n```text\n```js\nx\n```\nfine", "", "See:\n```text\n```js\nx\n```\nfine", nil},
		{"another language", "```python\nprint(1)\n```", "", "```python\nprint(1)\n```", nil},
		{"longer fence", "````js\nconst s = '```'\n```\nreturn s\n````", "", "", call("execute_code", "{\"code\":\"const s = '```'\\n```\\nreturn s\"}")},
		{"thoughts", "<think>\n```js\nreturn 0\n```\n</think>\nI run it.\n```js\nreturn 1\n```", "", "I run it.", call("execute_code", `{"code":"return 1"}`)},
		{"another tool", "```tool\n{\"name\": \"search_tools\", \"input\": {\"query\": \"x\"}}\n```", "", "", call("search_tools", `{"query": "x"}`)},
		{"another tool without input", "```tool\n{\"name\": \"search_tools\"}\n```", "", "", call("search_tools", `{}`)},
		{"no JSON", "```tool\nsearch_tools(x)\n```", "", "", []model.ToolCall{{ID: "fence_1", Name: "tool", Input: []byte(`{}`), Malformed: "search_tools(x)"}}},
		{"tildes", "~~~js\nconst s = `\n```\n`\nreturn s\n~~~", "", "", call("execute_code", `{"code":"const s = `+"`\\n```\\n`"+`\nreturn s"}`)},
		{"no language", "I look.\n```\nconst r = await crm.search({q: 'x'})\nreturn r\n```", "", "I look.", call("execute_code", `{"code":"const r = await crm.search({q: 'x'})\nreturn r"}`)},
		{"no language, a table", "It is:\n```\nnorth  12\nsouth   7\n```\nDone.", "", "It is:\n```\nnorth  12\nsouth   7\n```\nDone.", nil},
		{"no language, cut", "It is:\n```\nconst r = 1", "length", "It is:\n```\nconst r = 1", nil},
		{"json", "```json\n{\"name\": \"execute_code\", \"arguments\": {\"code\": \"return 1\"}}\n```", "", "", call("execute_code", `{"code": "return 1"}`)},
		{"json, no call", "```json\n{\"name\": \"Ann\", \"input\": {}}\n```", "", "```json\n{\"name\": \"Ann\", \"input\": {}}\n```", nil},
		{"no language, a call", "```\n{\"name\": \"search_tools\", \"input\": {\"query\": \"x\"}}\n```", "", "", call("search_tools", `{"query": "x"}`)},
		{"tool_call", "Now.\n<tool_call>\n{\"name\": \"search_tools\", \"arguments\": {\"query\": \"x\"}}\n</tool_call>\nmade up", "", "Now.", call("search_tools", `{"query": "x"}`)},
		{"tool_call on a line", "<tool_call>{\"name\": \"search_tools\", \"arguments\": {\"query\": \"x\"}}</tool_call>", "", "", call("search_tools", `{"query": "x"}`)},
		{"tool_call never closed", "<tool_call>\n{\"name\": \"search_tools\", \"arguments\": {}}", "", "", call("search_tools", `{}`)},
		{"inline", "Use ```js x``` so.", "", "Use ```js x``` so.", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg := local
			cfg.Tools = model.ToolsFenced
			srv := serve(t, fake.Replies(fake.Reply{Text: c.written, Stop: c.stop}, fake.Reply{Text: "ok"}))
			m := open(t, srv, cfg)
			var text, input string
			req := ask(user("Go."))
			req.OnDelta = func(d model.Delta) { text += d.Text; input += d.Input }
			turn := generate(t, m, req)
			if turn.Text != c.text {
				t.Errorf("text %q, want %q", turn.Text, c.text)
			}
			if diff := cmp.Diff(c.calls, turn.Calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if c.name != "thoughts" && c.stop == "" {
				if strings.TrimSpace(text) != c.text {
					t.Errorf("deltas say %q", text)
				}
				if len(c.calls) > 0 && turn.Calls[0].Name == "execute_code" && c.name != "json" {
					var code struct{ Code string }
					decode(t, input, &code)
					if want := strings.TrimSuffix(code.Code, "\n"); !strings.Contains(string(turn.Calls[0].Input), quote(t, want)) {
						t.Errorf("deltas call %q", input)
					}
				}
			}
			generate(t, m, ask(append(append([]model.Message{user("Go.")}, answered(t, turn, "done")...), user("On."))...))
			inOrder(t, srv)
			if raw := string(srv.Requests()[1].Raw); strings.Contains(raw, "99") {
				t.Error("the model is told what it made up")
			}
		})
	}
}

// TestFencedAndNative continues a session after model.tools was changed.
func TestFencedAndNative(t *testing.T) {
	t.Parallel()
	native, asText := local, local
	asText.Tools = model.ToolsFenced
	fencedReply := fake.Reply{Text: "Text.\n```js\nreturn 1\n```"}
	nativeReply := fake.Reply{Text: "Native.", Calls: []fake.Call{{Name: "execute_code", Input: `{"code":"return 2"}`}, {Name: "search_tools", Input: `{"query":"q"}`}}}
	srv := serve(t, fake.Replies(fencedReply, nativeReply, fencedReply))
	talk := []model.Message{user("Go.")}
	turn := generate(t, open(t, srv, asText), ask(talk...))
	talk = append(talk, answered(t, turn, "1")...)
	turn = generate(t, open(t, srv, native), ask(talk...))
	talk = append(talk, answered(t, turn, "2", "error: none")...)
	generate(t, open(t, srv, asText), ask(talk...))
	inOrder(t, srv)
	requests := srv.Requests()
	if calls := requests[1].Messages[1].Calls; len(calls) != 1 || calls[0].Input != `{"code":"return 1"}` {
		t.Errorf("the native model was told the calls %+v", calls)
	}
	last := requests[2].Messages
	if last[3].Text != "Native.\n\n```js\nreturn 2\n```\n\n```tool\n{\"name\": \"search_tools\", \"input\": {\"query\":\"q\"}}\n```" ||
		last[4].Text != "Result of execute_code:\n2\n\nError of search_tools:\nerror: none" {
		t.Errorf("the other model was told %+v", last[3:])
	}
}
