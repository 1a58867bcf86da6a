package mcpserver

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestLift: the long strings in the arguments of calls are taken out, and the same bytes are put back.
func TestLift(t *testing.T) {
	t.Parallel()
	x := strings.Repeat("x", longString)
	for _, test := range []struct {
		name, body string
		want       int
	}{
		{"code", `{"method":"tools/call","params":{"arguments":{"code":"` + x + `","timeout":1}}}`, 1},
		{"escapes", `{"method":"tools/call","params":{"arguments":{"a":"\"\\` + x + `\\\"","b":["\\",{"c":"` + x + `\\"}]}}}`, 2},
		{"backslashes", `{"method":"tools/call","params":{"arguments":{"a":"` + strings.Repeat(`\\`, longString) + `"}}}`, 1},
		{"short", `{"method":"tools/call","params":{"arguments":{"code":"return 1"}}}`, 0},
		{"key", `{"method":"tools/call","params":{"arguments":{"` + x + `" : 1}}}`, 0},
		{"outside", `{"method":"tools/call","params":{"arguments":{},"_meta":{"a":"` + x + `"}}}`, 0},
		{"inside and outside", `{"method":"tools/call","params":{"arguments":{"a":"` + x + `"},"_meta":{"a":"` + x + `"}}}`, 0},
		{"another method", `{"method":"prompts/get","params":{"arguments":{"a":"` + x + `"}}}`, 0},
		{"response", `{"id":1,"result":{"a":"` + x + `"}}`, 0},
		{"batch", `[{"method":"tools/call","params":{"arguments":{"a":"` + x + `"}}}]`, 0},
		{"wrong escape", `{"method":"tools/call","params":{"arguments":{"a":"\y` + x + `"}}}`, 0},
		{"line break", `{"method":"tools/call","params":{"arguments":{"a":"` + x + "\n" + `"}}}`, 0},
		{"no end", `{"method":"tools/call","params":{"arguments":{"a":"` + x, 0},
		{"twice", `{"method":"tools/call","params":{"arguments":{"a":"` + x + `"},"arguments":{"a":1}}}`, 0},
	} {
		short, long := shorten([]byte(test.body))
		switch {
		case len(long) != test.want:
			t.Errorf("%s: %d strings are lifted, want %d", test.name, len(long), test.want)
		case test.want == 0 && string(short) != test.body:
			t.Errorf("%s: the body is changed", test.name)
		case test.want > 0 && len(short) > len(test.body)-test.want*longString+200:
			t.Errorf("%s: %d bytes are left", test.name, len(short))
		case test.want > 0 && string(long.restore(argumentsOf(t, short))) != string(argumentsOf(t, []byte(test.body))):
			t.Errorf("%s: other arguments are restored", test.name)
		}
	}
}

func argumentsOf(t *testing.T, body []byte) json.RawMessage {
	t.Helper()
	var m struct {
		Params struct{ Arguments json.RawMessage }
	}
	if err := json.Unmarshal(body, &m); err != nil {
		t.Fatal(err)
	}
	return m.Params.Arguments
}

// TestLiftAnything: random arguments are restored unchanged.
func TestLiftAnything(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	pieces := []string{`\`, `"`, "x", "é", "\n", ":", " ", "\u2028", strings.Repeat("long", longString/8)}
	text := func() string {
		var b strings.Builder
		for range random.IntN(12) {
			b.WriteString(pieces[random.IntN(len(pieces))])
		}
		return b.String()
	}
	lifts := 0
	for range 300 {
		arguments := map[string]any{}
		for range random.IntN(4) {
			arguments[text()] = []any{text(), 1, map[string]any{"a": text()}}
		}
		body, err := json.Marshal(map[string]any{"method": "tools/call", "params": map[string]any{"arguments": arguments, "name": "t"}})
		if err != nil {
			t.Fatal(err)
		}
		short, long := shorten(body)
		lifts += len(long)
		if got := argumentsOf(t, short); string(long.restore(got)) != string(argumentsOf(t, body)) {
			t.Fatalf("%.300q is restored as %.300q", body, long.restore(got))
		}
	}
	if lifts == 0 {
		t.Error("no string was long")
	}
}
