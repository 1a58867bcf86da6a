package model_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/testing/fake"
)

// script is a task with a turn of one call, a turn of two calls, and an answer, followed by a second task.
var script = []fake.Reply{
	{Thinking: "I need to look. <&>", Text: "Let me look.", Calls: []fake.Call{{Name: "search_tools", Input: `{"query":"mail & <more>"}`}}},
	{Thinking: "Both at once.", Calls: []fake.Call{
		{Name: "execute_code", Input: `{"code":"return 1\n// \"quoted\" é ✓"}`},
		{Name: "execute_code", Input: `{"code":"return 2"}`},
	}},
	{Thinking: "Done.", Text: "It is 3."},
	{Text: "You are welcome."},
}

// play follows the script and returns the conversation.
func play(t *testing.T, m model.Model) []model.Message {
	t.Helper()
	talk := []model.Message{user("How much?")}
	for _, results := range [][]string{{"mail__send"}, {"1", "error: two"}} {
		turn := generate(t, m, ask(talk...))
		if turn.Stop != model.StopTools || len(turn.Calls) != len(results) {
			t.Fatalf("turn stopped with %s and %d calls, want tools and %d", turn.Stop, len(turn.Calls), len(results))
		}
		talk = append(talk, answered(t, turn, results...)...)
	}
	turn := generate(t, m, ask(talk...))
	if turn.Stop != model.StopEnd || turn.Text != "It is 3." {
		t.Fatalf("turn is %q, %s", turn.Text, turn.Stop)
	}
	talk = append(append(talk, answered(t, turn)...), user("Thanks."))
	turn = generate(t, m, ask(talk...))
	return append(talk, answered(t, turn)...)
}

// TestDialogue: in each request, the server checks all fields that it has sent before.
func TestDialogue(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p provider) {
		srv := serve(t, fake.Replies(script...))
		play(t, open(t, srv, p.cfg))
		inOrder(t, srv)
		want := []fake.Message{
			{Role: "user", Text: "How much?"},
			{Role: "assistant", Text: "Let me look.", Calls: []fake.Call{{Name: "search_tools", Input: `{"query":"mail & <more>"}`}}},
			{Role: "tool", Results: []fake.Result{{Text: "mail__send"}}},
			{Role: "assistant", Calls: []fake.Call{
				{Name: "execute_code", Input: `{"code":"return 1\n// \"quoted\" é ✓"}`},
				{Name: "execute_code", Input: `{"code":"return 2"}`},
			}},
			{Role: "tool", Results: []fake.Result{{Text: "1"}, {Text: "error: two", IsError: p.name == "anthropic"}}},
			{Role: "assistant", Text: "It is 3."},
			{Role: "user", Text: "Thanks."},
		}
		requests := srv.Requests()
		if len(requests) != 4 {
			t.Fatalf("%d requests, want 4", len(requests))
		}
		last := requests[3]
		ids := cmp.Options{cmpopts.IgnoreFields(fake.Call{}, "ID"), cmpopts.IgnoreFields(fake.Result{}, "CallID"), sameJSON}
		if diff := cmp.Diff(want, last.Messages, ids); diff != "" {
			t.Errorf("the conversation arrived changed (-want +got):\n%s", diff)
		}
		for i, call := range last.Messages[3].Calls {
			if got := last.Messages[4].Results[i].CallID; got != call.ID {
				t.Errorf("result %d is for call %s, want %s", i, got, call.ID)
			}
		}
		if last.System != "You are a test." || !cmp.Equal(last.Tools, []string{"execute_code", "search_tools"}) {
			t.Errorf("system prompt %q, tools %v", last.System, last.Tools)
		}
	})
}

// sameJSON compares the texts of arguments as JSON.
var sameJSON = cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Input" }, cmp.Comparer(func(a, b string) bool {
	var x, y any
	return a == b || json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && cmp.Equal(x, y)
}))

// TestOpaqueFieldsAreNeeded: the servers of TestDialogue refuse a conversation whose opaque fields are changed or missing.
func TestOpaqueFieldsAreNeeded(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p provider) {
		if !p.opaque {
			t.Skip("gives out none")
		}
		for name, spoil := range map[string]func(string) string{
			"changed": func(raw string) string { return strings.ReplaceAll(raw, "sig+", "sig-") },
			"missing": func(raw string) string { return strings.ReplaceAll(raw, `"sig+`, `"","was":"`) },
		} {
			srv := serve(t, fake.Replies(script...))
			m := open(t, srv, p.cfg)
			turn := generate(t, m, ask(user("How much?")))
			turn.Raw = json.RawMessage(spoil(string(turn.Raw)))
			m.Generate(t.Context(), ask(append([]model.Message{user("How much?")}, answered(t, turn, "x")...)...))
			if len(srv.Refused()) == 0 {
				t.Errorf("%s: the server took it", name)
			}
		}
	})
}

// TestChangedModel continues a session with the model of another provider, for each pair of providers.
func TestChangedModel(t *testing.T) {
	t.Parallel()
	for _, first := range providers {
		for _, second := range providers {
			if first.name == second.name {
				continue
			}
			t.Run(first.name+" to "+second.name, func(t *testing.T) {
				t.Parallel()
				a, b := serve(t, fake.Replies(script...)), serve(t, fake.Replies(script...))
				talk := play(t, open(t, a, first.cfg))
				talk = append(talk, user("Again."))
				m := open(t, b, second.cfg)
				turn := generate(t, m, ask(talk...))
				generate(t, m, ask(append(talk, answered(t, turn, "r")...)...))
				inOrder(t, a)
				inOrder(t, b)
				got := b.Requests()[0].Messages
				var texts []string
				for _, message := range got {
					if message.Text != "" {
						texts = append(texts, message.Text)
					}
				}
				want := []string{"How much?", "Let me look.", "It is 3.", "Thanks.", "You are welcome.", "Again."}
				if diff := cmp.Diff(want, texts); diff != "" {
					t.Errorf("texts (-want +got):\n%s", diff)
				}
				if raw := string(b.Requests()[0].Raw); strings.Contains(raw, "sig+") || strings.Contains(raw, "I need to look") {
					t.Error("what only the first provider can read went to the second")
				}
			})
		}
	}
}

// TestForeignIDs has calls with ids that other providers do not accept.
func TestForeignIDs(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p provider) {
		srv := serve(t, fake.Replies(fake.Reply{Text: "ok"}))
		id := "functions.execute_code:0/" + strings.Repeat("x", 80)
		turn := &model.Turn{Provider: "other", Model: "m", Format: "other", Calls: []model.ToolCall{{ID: id, Name: "execute_code", Input: json.RawMessage(`{"code":"1"}`)}}}
		generate(t, open(t, srv, p.cfg), ask(append([]model.Message{user("Go.")}, answered(t, turn, "1")...)...))
		inOrder(t, srv)
	})
}

// TestBoundReasoning changes a message before a turn. Newer models then refuse their own signatures, and all later requests must be sent without the
// signatures, because each refused request costs time.
func TestBoundReasoning(t *testing.T) {
	t.Parallel()
	srv := serve(t, fake.Replies(script...))
	m := open(t, srv, providers[0].cfg)
	turn := generate(t, m, ask(user("How much?")))
	talk := append([]model.Message{user("How much was it?")}, answered(t, turn, "mail__send")...)
	turn = generate(t, m, ask(talk...))
	talk = append(talk, answered(t, turn, "1", "2")...)
	if turn = generate(t, m, ask(talk...)); turn.Text != "It is 3." {
		t.Errorf("answer %q", turn.Text)
	}
	if refused := srv.Refused(); len(refused) != 1 || !strings.Contains(refused[0], "bound to a different conversation") {
		t.Errorf("refused: %v", refused)
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p provider) {
		srv := serve(t, fake.Replies(fake.Reply{Text: "ok", Usage: fake.Usage{Input: 1000, CachedInput: 600, CacheWrite: 300, Output: 50, Reasoning: 20}}))
		want := model.Usage{Input: 1000, CachedInput: 600, CacheWrite: 300, Output: 50, Reasoning: 20}
		if strings.HasSuffix(p.path, "/chat/completions") {
			want.CacheWrite = 0 // chat completions do not report it
		}
		if diff := cmp.Diff(want, generate(t, open(t, srv, p.cfg), ask(user("Hi."))).Usage); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestDeltas(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p provider) {
		reply := fake.Reply{Text: "First I look, then I run.", Calls: []fake.Call{
			{Name: "search_tools", Input: `{"query":"send an email"}`}, {Name: "execute_code", Input: `{"code":"return 'é✓'"}`},
		}}
		srv := serve(t, fake.Replies(reply))
		text, pieces := "", 0
		inputs, order := map[string]string{}, []string(nil)
		req := ask(user("Go."))
		req.OnDelta = func(d model.Delta) {
			text += d.Text
			if d.Text != "" {
				pieces++
				if len(order) > 0 {
					t.Error("text after a call")
				}
			}
			if d.Call != "" {
				if _, ok := inputs[d.CallID]; !ok {
					order = append(order, d.Call)
				}
				inputs[d.CallID] += d.Input
			}
		}
		turn := generate(t, open(t, srv, p.cfg), req)
		if text != reply.Text || turn.Text != reply.Text || pieces < 2 {
			t.Errorf("text %q in %d pieces, turn %q", text, pieces, turn.Text)
		}
		if diff := cmp.Diff([]string{"search_tools", "execute_code"}, order); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		for i, c := range turn.Calls {
			if inputs[c.ID] != reply.Calls[i].Input || string(c.Input) != reply.Calls[i].Input {
				t.Errorf("call %d: deltas %q, call %q, want %q", i, inputs[c.ID], c.Input, reply.Calls[i].Input)
			}
		}
	})
}

// TestOddArguments has texts that models write in place of a JSON object.
func TestOddArguments(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p provider) {
		for written, malformed := range map[string]string{
			"": "", "{}": "", " {\"code\": 1} ": "",
			`{"code": "ret`: `{"code": "ret`, `["x"]`: `["x"]`, "null": "null", "print(1)": "print(1)",
		} {
			srv := serve(t, fake.Replies(fake.Reply{Calls: []fake.Call{{Name: "execute_code", Input: written}}}, fake.Reply{Text: "Sorry."}))
			m := open(t, srv, p.cfg)
			turn := generate(t, m, ask(user("Go.")))
			if len(turn.Calls) != 1 || turn.Calls[0].Malformed != malformed || turn.Stop != model.StopTools {
				t.Fatalf("%q: calls %+v, stop %s", written, turn.Calls, turn.Stop)
			}
			var input map[string]any
			if err := json.Unmarshal(turn.Calls[0].Input, &input); err != nil || input == nil {
				t.Errorf("%q: input %s is no object", written, turn.Calls[0].Input)
			}
			generate(t, m, ask(append([]model.Message{user("Go.")}, answered(t, turn, "error: not JSON")...)...))
			inOrder(t, srv)
		}
	})
}

func TestStops(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p provider) {
		for _, c := range []struct {
			reply fake.Reply
			want  model.Stop
		}{
			{fake.Reply{Text: "All said."}, model.StopEnd},
			{fake.Reply{}, model.StopEnd},
			{fake.Reply{Text: "Too lo", Stop: "length"}, model.StopLength},
			{fake.Reply{Calls: []fake.Call{{Name: "execute_code", Input: `{"code":"ret`}}, Stop: "length"}, model.StopLength},
			{fake.Reply{Text: "I will not.", Stop: "refusal"}, model.StopRefusal},
		} {
			srv := serve(t, fake.Replies(c.reply, fake.Reply{Text: "on"}))
			m := open(t, srv, p.cfg)
			turn := generate(t, m, ask(user("Go.")))
			if turn.Stop != c.want || turn.Text != c.reply.Text {
				t.Errorf("%+v: stop %s, text %q", c.reply, turn.Stop, turn.Text)
			}
			talk := append([]model.Message{user("Go.")}, answered(t, turn, "error: cut")...)
			generate(t, m, ask(append(talk, user("And?"))...))
			inOrder(t, srv)
		}
	})
}
