package model

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestChatChunks reads streams of servers that differ from OpenAI's.
func TestChatChunks(t *testing.T) {
	t.Parallel()
	call := func(id, name, input string) ToolCall {
		return ToolCall{ID: id, Name: name, Input: json.RawMessage(input)}
	}
	for _, c := range []struct {
		name   string
		chunks []string // chunks of choices[0]
		text   string
		calls  []ToolCall
		stop   Stop
		raw    string
	}{
		{
			name: "calls that are whole and all have index 0",
			chunks: []string{
				`{"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}]}}`,
				`{"delta":{"tool_calls":[{"index":0,"id":"b","type":"function","function":{"name":"f","arguments":"{\"x\":2}"}}]},"finish_reason":"stop"}`,
			},
			calls: []ToolCall{call("a", "f", `{"x":1}`), call("b", "f", `{"x":2}`)}, stop: StopTools,
		},
		{
			name: "calls in one chunk, interleaved pieces, the id repeated",
			chunks: []string{
				`{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":""}},{"index":1,"id":"b","function":{"name":"g","arguments":"{"}}]}}`,
				`{"delta":{"tool_calls":[{"index":1,"id":"b","function":{"arguments":"}"}},{"index":0,"id":"a","function":{"arguments":"{}"}}]}}`,
				`{"delta":{},"finish_reason":"tool_calls"}`,
			},
			calls: []ToolCall{call("a", "f", `{}`), call("b", "g", `{}`)}, stop: StopTools,
		},
		{
			name: "fields unknown to us, numbers too long for a float, nulls",
			chunks: []string{
				`{"delta":{"role":"assistant","content":null,"reasoning_content":"Hm","x":{"n":12345678901234567890,"a":null}}}`,
				`{"delta":{"reasoning_content":"m.","content":"Yes","x":{"m":[1]},"details":[{"t":1}]}}`,
				`{"delta":{"content":".","details":[{"t":2}]},"finish_reason":"stop"}`,
			},
			text: "Yes.", stop: StopEnd,
			raw: `{"content":"Yes.","details":[{"t":1},{"t":2}],"reasoning_content":"Hmm.","role":"assistant","x":{"m":[1],"n":12345678901234567890}}`,
		},
		{
			name:   "thoughts aloud",
			chunks: []string{`{"delta":{"content":"<think>hm"}}`, `{"delta":{"content":"m</think>Yes"},"finish_reason":"stop"}`},
			text:   "Yes", stop: StopEnd, raw: `{"content":"<think>hmm</think>Yes","role":"assistant"}`,
		},
		{name: "nothing", chunks: []string{`{"delta":{},"finish_reason":"stop"}`}, stop: StopEnd, raw: `{"content":"","role":"assistant"}`},
		{name: "an unknown reason", chunks: []string{`{"delta":{"content":"x"},"finish_reason":"eos_token"}`}, text: "x", stop: StopEnd},
		{name: "a filter", chunks: []string{`{"delta":{"content":"x"},"finish_reason":"content_filter"}`}, text: "x", stop: StopRefusal},
	} {
		var chunks []string
		for _, choice := range c.chunks {
			chunks = append(chunks, `{"choices":[`+choice+`]}`)
		}
		turn := chatTurn(t, chunks...)
		if turn.Text != c.text || turn.Stop != c.stop {
			t.Errorf("%s: text %q, stop %s", c.name, turn.Text, turn.Stop)
		}
		if diff := cmp.Diff(c.calls, turn.Calls); diff != "" {
			t.Errorf("%s: calls (-want +got):\n%s", c.name, diff)
		}
		if c.raw != "" && string(turn.Raw) != c.raw {
			t.Errorf("%s: raw %s, want %s", c.name, turn.Raw, c.raw)
		}
	}
}

// TestChatCallsWithoutIDs: a call without an id gets a unique id, in the turn and in Raw.
func TestChatCallsWithoutIDs(t *testing.T) {
	t.Parallel()
	var chunks []string
	for _, x := range []string{"1", "2"} {
		chunks = append(chunks, `{"choices":[{"delta":{"tool_calls":[{"function":{"name":"f","arguments":"{\"x\":`+x+`}"}}]},"finish_reason":"stop"}]}`)
	}
	turn := chatTurn(t, chunks...)
	var raw struct {
		Calls []struct {
			ID string `json:"id"`
		} `json:"tool_calls"`
	}
	if err := json.Unmarshal(turn.Raw, &raw); err != nil {
		t.Fatal(err)
	}
	if len(turn.Calls) != 2 || len(raw.Calls) != 2 || turn.Calls[0].ID == turn.Calls[1].ID || turn.Calls[0].ID == "" {
		t.Fatalf("calls %+v, raw %s", turn.Calls, turn.Raw)
	}
	for i := range raw.Calls {
		if raw.Calls[i].ID != turn.Calls[i].ID {
			t.Errorf("call %d is %s to us and %s to the server", i, turn.Calls[i].ID, raw.Calls[i].ID)
		}
	}
}

// chatTurn returns the turn that is assembled from chunks.
func chatTurn(t *testing.T, chunks ...string) *Turn {
	t.Helper()
	a := (&chat{}).answer(&output{})
	for _, data := range chunks {
		var chunk object
		if err := decode([]byte(data), &chunk); err != nil {
			t.Fatal(err)
		}
		if _, err := a.take(chunk, nil); err != nil {
			t.Fatal(err)
		}
	}
	turn, err := a.turn()
	if err != nil || turn == nil {
		t.Fatalf("turn %v, error %v", turn, err)
	}
	turn.stopForCalls()
	return turn
}
