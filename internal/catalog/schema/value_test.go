package schema

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func parsed(t *testing.T, text string) *Value {
	t.Helper()
	v, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestParseKeepsOrder(t *testing.T) {
	t.Parallel()
	const text = `{"z":1,"a":[true,null,"x<&>\u2028"],"m":{"b":1.50,"a":-0},"":{}}`
	if got := parsed(t, text).JSON(); got != text {
		t.Errorf("got %s", got)
	}
	if got := parsed(t, `{"a":1,"b":2,"a":3}`).JSON(); got != `{"a":3,"b":2}` {
		t.Errorf("duplicates: %s", got)
	}
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	for _, text := range []string{``, `{`, `{"a":}`, `[1,]`, `{} {}`, `{}]`, `nul`, strings.Repeat("[", 300) + strings.Repeat("]", 300)} {
		if v, err := Parse([]byte(text)); err == nil {
			t.Errorf("%.20q gives %s", text, v.JSON())
		}
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	root := parsed(t, `{"$defs":{"A":{"x":1},"a/b~c d":{"x":2},"N":{"$anchor":"node","x":3},"O":{"$id":"#old","x":4},"":{"x":6}},
		"items":[{"x":5}],"loop":{"$ref":"#/loop"},"chain":{"$ref":"#/chain2"},"chain2":{"$ref":"#/$defs/A"}}`)
	for ref, want := range map[string]string{
		"#/$defs/A": `{"x":1}`, "#/$defs/a~1b~0c%20d": `{"x":2}`, "#node": `{"$anchor":"node","x":3}`, "#old": `{"$id":"#old","x":4}`,
		"#/items/0": `{"x":5}`, "#/$defs/": `{"x":6}`, "#": root.JSON(),
		"#/items/1": "null", "#/items/x": "null", "#/nothing": "null", "#none": "null", "other.json": "null", "#/%zz": "null",
	} {
		if got := root.Resolve(ref).JSON(); got != want {
			t.Errorf("%s: got %s, want %s", ref, got, want)
		}
	}
	if got := Follow(root, root.Get("chain")).JSON(); got != `{"x":1}` {
		t.Errorf("chain: %s", got)
	}
	if got := Follow(root, root.Get("loop")); got != nil {
		t.Errorf("loop: %s", got.JSON())
	}
}

func TestAccessorsOfNil(t *testing.T) {
	t.Parallel()
	var v *Value
	if v.Get("a").Get("b") != nil || v.String() != "" || v.Strings() != nil || v.Is(Null) || v.IsTrue() || v.IsFalse() {
		t.Error("an absent value is not empty")
	}
	if _, ok := v.Int(); ok || v.Pointer("/a") != nil || v.Resolve("#a") != nil {
		t.Error("an absent value has parts")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"a":[1,{"b":"\ud800"}],"a":null}`)
	f.Add(`1e999`)
	f.Fuzz(func(t *testing.T, text string) {
		v, err := Parse([]byte(text))
		if err != nil {
			return
		}
		var want, got any
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			return // the document has a number that float64 cannot represent
		}
		if err := json.Unmarshal([]byte(v.JSON()), &got); err != nil {
			t.Fatalf("%q becomes %q: %v", text, v.JSON(), err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		v.Resolve(text)
		Follow(v, v)
	})
}
