package model_test

import (
	"encoding/json"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/testing/fake"
)

// stars is a Hider that hides secretText.
type stars struct{}

const secretText = "ann@example.com"

func (stars) Answer(pieces []string) ([]string, error) {
	hidden := make([]string, len(pieces))
	for i, piece := range pieces {
		hidden[i] = strings.ReplaceAll(piece, secretText, "***")
	}
	return hidden, nil
}

func (stars) Text(text string) (string, error) {
	return strings.ReplaceAll(text, secretText, "***"), nil
}

func (stars) Input(c model.ToolCall) (json.RawMessage, error) {
	return json.RawMessage(strings.ReplaceAll(string(c.Input), secretText, "***")), nil
}

// TestHide: no text of a turn contains the hidden value, in any wire format, and the provider accepts the changed turn.
func TestHide(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p provider) {
		replies := []fake.Reply{
			{Thinking: "Of " + secretText, Text: "I ask " + secretText, Calls: []fake.Call{
				{Name: "execute_code", Input: `{"code":"return '` + secretText + `'"}`}, {Name: "search_tools", Input: `{"query":"<` + secretText + `>"}`},
			}},
			{Thinking: "Nothing.", Calls: []fake.Call{{Name: "execute_code", Input: `{"code":"return 1.50"}`}}},
			{Text: "Done."},
		}
		srv := serve(t, fake.Replies(replies...))
		m := open(t, srv, p.cfg)
		talk := []model.Message{user("Go.")}
		for n := range 2 {
			turn := generate(t, m, ask(talk...))
			was, err := json.Marshal(turn)
			if err != nil {
				t.Fatal(err)
			}
			if err := turn.Hide(stars{}); err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(turn)
			switch {
			case err != nil:
				t.Fatal(err)
			case n == 1 && string(got) != string(was):
				t.Errorf("a turn without values was\n%s\nand is\n%s", was, got)
			case n == 0 && (!strings.Contains(string(was), secretText) || strings.Contains(string(got), secretText) || !strings.Contains(string(got), "***")):
				t.Errorf("the turn was\n%s\nand is\n%s", was, got)
			}
			talk = append(talk, answered(t, turn, []string{"1", "2"}[:len(turn.Calls)]...)...)
		}
		if turn := generate(t, m, ask(talk...)); turn.Text != "Done." {
			t.Errorf("the last turn is %q", turn.Text)
		}
		for _, r := range srv.Requests() {
			if strings.Contains(string(r.Raw), secretText) {
				t.Errorf("the provider gets %s", r.Raw)
			}
		}
		inOrder(t, srv)
	})
}
