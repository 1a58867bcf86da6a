// Package modeltest is the suite that every model.Model must pass.
package modeltest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/testing/fake"
)

// Open returns a model that answers with the replies in order. No reply has more than one call.
type Open func(t *testing.T, replies []fake.Reply) model.Model

var tools = []model.Tool{{
	Name: "execute_code", Description: "Run a program.",
	InputSchema: json.RawMessage(`{"type":"object","properties":{"code":{"type":"string"}},"required":["code"]}`),
}}

var dialogue = []fake.Reply{
	{Thinking: "Compute.", Text: "I compute.", Calls: []fake.Call{{Name: "execute_code", Input: `{"code":"return 6 * 7 // \"é\""}`}}},
	{Thinking: "Again.", Calls: []fake.Call{{Name: "execute_code", Input: `{"code":"const a = 6\nreturn a * 7"}`}}},
	{Text: "It is 42."},
}

// Exercise runs the suite.
func Exercise(t *testing.T, open Open) {
	t.Run("dialogue", func(t *testing.T) { exerciseDialogue(t, open) })
	t.Run("ended context", func(t *testing.T) { exerciseContext(t, open) })
	t.Run("several goroutines", func(t *testing.T) { exerciseInfo(t, open) })
}

// exerciseDialogue checks deltas, calls and stops. It stores each turn as JSON before sending it back.
func exerciseDialogue(t *testing.T, open Open) {
	m := open(t, dialogue)
	talk := []model.Message{{Role: model.RoleUser, Text: "6 times 7?"}}
	for i, reply := range dialogue {
		text, input := "", ""
		req := &model.Request{System: "Be a test.", Tools: tools, Messages: talk, OnDelta: func(d model.Delta) {
			text += d.Text
			input += d.Input
		}}
		before := encode(t, req.Messages)
		turn, err := m.Generate(t.Context(), req)
		if err != nil {
			t.Fatalf("turn %d: %v", i, err)
		}
		if after := encode(t, req.Messages); after != before {
			t.Errorf("turn %d: the request was changed: %s", i, cmp.Diff(before, after))
		}
		if turn.Text != reply.Text || strings.TrimSpace(text) != reply.Text {
			t.Errorf("turn %d: text %q, deltas %q, want %q", i, turn.Text, text, reply.Text)
		}
		stop := model.StopEnd
		if len(reply.Calls) > 0 {
			stop = model.StopTools
		}
		if turn.Stop != stop || len(turn.Calls) != len(reply.Calls) || turn.Model == "" || turn.Provider == "" {
			t.Fatalf("turn %d: %+v", i, turn)
		}
		talk = append(talk, model.Message{Role: model.RoleAssistant, Turn: turn})
		for j, c := range turn.Calls {
			if c.ID == "" || c.Name != reply.Calls[j].Name || code(t, string(c.Input)) != code(t, reply.Calls[j].Input) {
				t.Errorf("turn %d: call %+v, want %+v", i, c, reply.Calls[j])
			}
			if strings.TrimSuffix(code(t, input), "\n") != code(t, reply.Calls[j].Input) {
				t.Errorf("turn %d: deltas of the call %s", i, input)
			}
			talk = append(talk, model.Message{Role: model.RoleTool, Results: []model.ToolResult{{CallID: c.ID, Name: c.Name, Text: "42", IsError: i == 1}}})
		}
		stored := encode(t, talk)
		talk = nil
		if err := json.Unmarshal([]byte(stored), &talk); err != nil {
			t.Fatal(err)
		}
	}
}

func exerciseContext(t *testing.T, open Open) {
	why := errors.New("because")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	m := open(t, dialogue)
	turn, err := m.Generate(ctx, &model.Request{Messages: []model.Message{{Role: model.RoleUser, Text: "Hi."}}})
	var failed *model.Error
	if turn != nil || !errors.Is(err, why) || errors.As(err, &failed) {
		t.Errorf("turn %v, error %v, want the context's", turn, err)
	}
}

// exerciseInfo also serves the race detector.
func exerciseInfo(t *testing.T, open Open) {
	m := open(t, dialogue)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if info := m.Info(); info.Name == "" || info.Provider == "" {
				t.Errorf("info %+v", info)
			}
		})
	}
	if _, err := m.Generate(t.Context(), &model.Request{Tools: tools, Messages: []model.Message{{Role: model.RoleUser, Text: "Hi."}}}); err != nil {
		t.Error(err)
	}
	wg.Wait()
}

func encode(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func code(t *testing.T, input string) string {
	t.Helper()
	var o struct {
		Code string `json:"code"`
	}
	if err := json.Unmarshal([]byte(input), &o); err != nil {
		t.Fatalf("%q: %v", input, err)
	}
	return o.Code
}
