package demo

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/model"
)

// TestCounter checks texts whose counts the authors of the encoding publish, and some that are short enough to be counted by hand.
func TestCounter(t *testing.T) {
	t.Parallel()
	count := model.Vocabulary().Count
	for text, want := range map[string]int{
		"":                             0,
		"hello world":                  2,
		"antidisestablishmentarianism": 6,
		"2 + 2 = 4":                    7,
		"お誕生日おめでとう":                    8,
		"1234567":                      3, // up to three digits make a token
		"<|endoftext|>":                7, // plain text and not a control token
	} {
		got, err := count(text)
		if err != nil || got != want {
			t.Errorf("%q has %d tokens (%v), want %d", text, got, err, want)
		}
	}
}

// TestCompare uses a counter of bytes, so that every number can be checked by hand.
func TestCompare(t *testing.T) {
	t.Parallel()
	bytes := func(text string) (int, error) { return len(text), nil }
	const (
		callFrame = len(`{"name":"a","arguments":{}}`)                         // 27
		codeFrame = len(`{"name":"execute_code","arguments":{"code":"PPPP"}}`) // 50
	)
	turns := []Turn{
		{Program: "PPPP", Read: `10`},
		{Program: "PPPP", Read: "[1,2]\nlog\nx", Calls: []Call{
			{Tool: "a", Args: json.RawMessage(`{}`), Result: json.RawMessage(strings.Repeat("r", 100))},
			{Tool: "a", Args: json.RawMessage(`{}`), Result: json.RawMessage(strings.Repeat("r", 11))},
		}},
		{Program: "PPPP", Read: `3`, Calls: []Call{
			{Tool: "a", Args: json.RawMessage(`{}`), Result: json.RawMessage(`7777`)},
		}},
	}
	got, err := Compare(bytes, []json.RawMessage{
		json.RawMessage(`{"name":"a","title":"A","description":"<d>","inputSchema":{"type": "object"},"outputSchema":{}}`),
		json.RawMessage(`{"inputSchema":{}, "name":"b", "annotations":{"readOnlyHint":true}}`),
	}, []json.RawMessage{json.RawMessage(`{"run": 1}`)}, turns)
	if err != nil {
		t.Fatal(err)
	}
	const (
		direct = len(`{"name":"a","description":"<d>","inputSchema":{"type":"object"}}`) +
			len(`{"name":"b","description":"","inputSchema":{}}`)
		first  = 2*callFrame + 111
		second = callFrame + 4
		code   = 9
	)
	want := Comparison{
		Direct: Usage{
			Definitions: direct, Written: 3 * callFrame, Read: 115, Turns: 3,
			Input: direct + (direct + first) + (direct + first + second),
		},
		Code: Usage{
			Definitions: code, Written: 3 * codeFrame, Read: 2 + 11 + 1, Turns: 4,
			Input: code + (code + codeFrame + 2) + (code + 2*codeFrame + 2 + 11) + (code + 3*codeFrame + 14),
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("comparison (-want +got):\n%s", diff)
	}
	if got.Direct.Largest() != 64+46+81+115 {
		t.Errorf("largest context %d", got.Direct.Largest())
	}
}

func TestCompareFormula(t *testing.T) {
	t.Parallel()
	for n := range 5 {
		u := Usage{Definitions: 100}
		for range n {
			u.add(&tally{count: func(string) (int, error) { return 5, nil }}, Call{})
		}
		u.finish()
		if want := (n+1)*100 + n*(n+1)/2*10; u.Input != want || u.Turns != n+1 {
			t.Errorf("%d turns: input %d in %d turns, want %d", n, u.Input, u.Turns, want)
		}
	}
}

func TestCompareFails(t *testing.T) {
	t.Parallel()
	bad := errors.New("no vocabulary")
	broken := func(string) (int, error) { return 0, bad }
	if _, err := Compare(broken, nil, nil, []Turn{{Program: "x"}}); !errors.Is(err, bad) {
		t.Errorf("error %v does not wrap the counter's", err)
	}
	if _, err := Compare(broken, []json.RawMessage{json.RawMessage(`{}`)}, nil, nil); !errors.Is(err, bad) {
		t.Errorf("error %v does not wrap the counter's", err)
	}
	fine := func(string) (int, error) { return 1, nil }
	if _, err := Compare(fine, []json.RawMessage{json.RawMessage(`{`)}, nil, nil); err == nil {
		t.Error("a definition that is not JSON was counted")
	}
}

// TestCodeToolsBudget checks that the definitions of code mode stay within the number of tokens that the architecture promises.
func TestCodeToolsBudget(t *testing.T) {
	t.Parallel()
	tools := CodeTools()
	c, err := Compare(model.Vocabulary().Count, nil, tools, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := c.Code.Definitions; len(tools) != 3 || n < 100 || n > 1500 {
		t.Errorf("%d definitions with %d tokens, want 3 with at most 1,500", len(tools), n)
	}
}
