package jsontext

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"
)

func TestLook(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		want Traits
	}{
		{`{"a":[1,2.5,-0,1e2,"9007199254740993",true,null],"b":{}}`, Traits{}},
		{`9007199254740991`, Traits{}},
		{`-9007199254740992`, Traits{Big: "$"}},
		{`{"rows":[{"id":1},{"id":18446744073709551615}]}`, Traits{Big: "$.rows[1].id"}},
		{`[0,[1,{"odd key":10000000000000000}]]`, Traits{Big: `$[1][1]["odd key"]`}},
		{`[1e400]`, Traits{Huge: "$[0]"}},
		{`[-1E+309]`, Traits{Huge: "$[0]"}},
		{`[1e-400]`, Traits{Rounded: "$[0]"}},
		{`[0e-400,0.0000000000000000000,100000000000000000000e0]`, Traits{}},
		{`[0.30000000000000004]`, Traits{}},
		{`{"a":0.300000000000000041}`, Traits{Rounded: "$.a"}},
		{`[0.1000000000000000000]`, Traits{}},
		{`{"b":1,"2":1}`, Traits{Reordered: "$"}},
		{`{"x":{"2":1,"1":1}}`, Traits{Reordered: "$.x"}},
		{`{"1":1,"2":1,"b":1,"01":1,"4294967295":1,"-1":1}`, Traits{}},
		{`[{"a":1,"b":2,"\u0061":3}]`, Traits{Equal: "$[0].a"}},
		{`[{"a":{"a":1}},{"a":1}]`, Traits{}},
		{`{"\"":1,"\\":2,"\\\"":"}","c":[{"d":"]"},12345678901234567890]}`, Traits{Big: "$.c[1]"}},
	} {
		if !json.Valid([]byte(c.text)) {
			t.Fatalf("%s is no JSON", c.text)
		}
		if got := Look([]byte(c.text)); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.text, got, c.want)
		}
	}
	var many strings.Builder
	for i := range 40 {
		many.WriteString(`"k` + strings.Repeat("x", i) + `":1,`)
	}
	if got := Look([]byte("{" + many.String() + `"z":1}`)); got != (Traits{}) {
		t.Errorf("an object of many keys: %+v", got)
	}
	if got := Look([]byte("{" + many.String() + `"kxx":1}`)); got.Equal != "$.kxx" {
		t.Errorf("an object of many keys, one twice: %+v", got)
	}
}

func TestCompact(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		` { "b" : 1.0 , "a" : [ 1E2 , "\u00e9 <x>" ] } `:           `{"b":1.0,"a":[1E2,"\u00e9 <x>"]}`,
		`{"a":1,"b":2,"a":{"c":1,"c":[3]}}`:                        `{"a":{"c":[3]},"b":2}`,
		`[{"a":"}","\u0061":"{\"a\":1}"},{"k":"\ud800"},{"x":-0}]`: `[{"a":"{\"a\":1}"},{"k":"\ud800"},{"x":-0}]`,
		`[[],{},"",[{}]]`: `[[],{},"",[{}]]`,
		`{`:               `{`,
		``:                ``,
	} {
		if got := Compact(json.RawMessage(text)); string(got) != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestHasHalf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`"\ud83d\ude00"`: false, `"\uD83D\uDE00é\\ud800"`: false, `["\u00d8","x"]`: false, `"\ud83d"`: true, `{"\uDE00":1}`: true, `"\ud83dx\ude00"`: true,
		`"\ud83d\ud83d\ude00"`: true, `"\\\ud800"`: true, `"\ud83d\u0061"`: true,
	} {
		if got := HasHalf([]byte(text)); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}

func TestHolds(t *testing.T) {
	t.Parallel()
	const value = `{"content":"line\nline","rows":[{"id":1.0,"n":null},"x"],"ok":true}`
	for _, text := range []string{
		"", " \n", "line\nline\n", `{"ok":true,"rows":[{"n":null,"id":1},"x"],"content":"line\nline"}`, `{"id":1,"n":null}`, "x", "true", "1",
		`[ {"id":1e0,"n":null}, "x" ]`,
	} {
		if !Holds(json.RawMessage(value), text) {
			t.Errorf("%q is in %s", text, value)
		}
	}
	for _, text := range []string{"line", "2 rows", `{"id":2,"n":null}`, "false", "[]", `{"rows":[]}`} {
		if Holds(json.RawMessage(value), text) {
			t.Errorf("%q is not in %s", text, value)
		}
	}
}

// FuzzLook compares the traits of a number with exact arithmetic, and checks that a compact text has the value of the original.
func FuzzLook(f *testing.F) {
	for _, text := range []string{
		"1", "-0.0", "9007199254740993", "1e400", "0.1", "123456789.123456789", "1e-7", `{"a":1,"a":[2]}`, `{"b":[{"":0,"\u0000":1}]}`, "5e-324", "2.5e-324",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !json.Valid([]byte(text)) || len(text) > 1<<10 {
			return
		}
		got := Look([]byte(text))
		compact := Compact(json.RawMessage(text))
		a, err := decode([]byte(text))
		b, failed := decode(compact)
		if err != nil || failed != nil || !same(a, b) {
			t.Fatalf("%q became %q", text, compact)
		}
		if again := Compact(compact); string(again) != string(compact) {
			t.Fatalf("%q became %q, and then %q", text, compact, again)
		}
		number, is := a.(json.Number)
		if _, exponent, _ := strings.Cut(strings.ToLower(string(number)), "e"); !is || len(exponent) > 4 {
			return
		}
		want, _ := new(big.Rat).SetString(string(number))
		double, err := number.Float64()
		switch {
		case want.IsInt() && !strings.ContainsAny(string(number), ".eE") && want.Num().CmpAbs(big.NewInt(1<<53-1)) > 0:
			if got.Big == "" {
				t.Errorf("%s: %+v", number, got)
			}
		case err != nil:
			if got.Huge == "" {
				t.Errorf("%s: %+v", number, got)
			}
		default:
			encoded, _ := json.Marshal(double)
			back, _ := new(big.Rat).SetString(string(encoded))
			if (back.Cmp(want) != 0) != (got.Rounded != "") {
				t.Errorf("%s is the double %s: %+v", number, encoded, got)
			}
		}
	})
}

func TestPath(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"rows":[{"a":1},{"card":"x"}]}`:      "$.rows[*].card",
		`{"rows":{"a b":["y","a x b"]}}`:       `$.rows["a b"][*]`,
		`"x"`:                                  "$",
		`{"by":{"x":1}}`:                       "$.by",
		`{"by":{"a":1,"the x":1}}`:             "$.by",
		`{"a":":","b":{"c":"\"\\","d":["x"]}}`: "$.b.d[*]",
	} {
		if got := Path([]byte(text), strings.Index(text, "x")); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
