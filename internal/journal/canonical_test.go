package journal

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestCanonical(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, in, want string }{
		{"keys sorted", `{"b":1,"a":{"d":2,"c":3}}`, `{"a":{"c":3,"d":2},"b":1}`},
		{"prefix first", `{"a b":1,"a":2,"":0}`, `{"":0,"a":2,"a b":1}`},
		{"whitespace", " [ 1 ,\n\t{ \"a\" : null } ] ", `[1,{"a":null}]`},
		{"last of equal keys", `{"a":1,"\u0061":2,"b":3,"a":4}`, `{"a":4,"b":3}`},
		{"numbers keep their text", `[1.0,1,1e2,1E+2,-0,12345678901234567890]`, `[1.0,1,1e2,1E+2,-0,12345678901234567890]`},
		{"nothing escaped for HTML", `"\u003cb\u003e\u0026"`, `"<b>&"`},
		{"one spelling of a string", `"\/\u0041\u00e9\ud83d\ude00\u000a\u0022\u005c\u0001"`, `"/Aé😀\n\"\\\u0001"`},
		{"empty", `{"a":{},"b":[]}`, `{"a":{},"b":[]}`},
		{"no JSON", `{"a":1,}`, `{"a":1,}`},
		{"no value", ``, ``},
		{"two values", `{} {}`, `{} {}`},
	} {
		if got := Canonical(json.RawMessage(c.in)); string(got) != c.want {
			t.Errorf("%s: Canonical(%s) = %s, want %s", c.name, c.in, got, c.want)
		}
	}
}

// Canonicalizing a large value in deep nesting must not copy the value at every level.
func TestCanonicalIsLinear(t *testing.T) {
	t.Parallel()
	depth := 9_999 // maximum depth that encoding/json decodes
	raw := strings.Repeat(`{ "a":`, depth) + `"` + strings.Repeat("x", 4<<20) + `"` + strings.Repeat("}", depth)
	begin := time.Now()
	got := Canonical(json.RawMessage(raw))
	if len(got) != len(raw)-depth {
		t.Errorf("got %d bytes, want %d", len(got), len(raw)-depth)
	}
	if d := time.Since(begin); d > time.Minute { // a quadratic algorithm takes many minutes
		t.Errorf("took %v", d)
	}
	deep := json.RawMessage(strings.Repeat("[", 8<<20))
	if got := Canonical(deep); !bytes.Equal(got, deep) {
		t.Error("an endless nesting was changed")
	}
}

func FuzzCanonical(f *testing.F) {
	for _, s := range []string{
		`{"b":1,"a":[true,false,null,-1.5e-3]}`, ` "\u0041\/\ud83d\ude00" `, `{"a":1,"a":2}`, "\"\xff\"", `[01]`, `{"a"}`,
		`"\u00"`, `[1,]`, `tru`, `{"x":{"y":[{}]}}`, `"` + "\x01" + `"`, `-`, `1.`, `1e`, `"\ud800\u0041"`, `"\ud800\ud800\udc00"`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got := Canonical(raw)
		if again := Canonical(got); !bytes.Equal(again, got) {
			t.Fatalf("not idempotent: %q, then %q", got, again)
		}
		if len(raw) > 0 && !json.Valid(raw) {
			if !bytes.Equal(got, raw) {
				t.Fatalf("invalid JSON was changed to %q", got)
			}
			return
		}
		value := decode(t, raw)
		if !reflect.DeepEqual(value, decode(t, got)) {
			t.Fatalf("value changed: %s", got)
		}
		other, err := json.MarshalIndent(value, " ", "\t") // the same value with other white space and HTML escapes
		if err != nil {
			t.Fatal(err)
		}
		if again := Canonical(other); !bytes.Equal(again, got) {
			t.Fatalf("equal values, different bytes: %s and %s", got, again)
		}
		if d := Diff(raw, other); d != "" {
			t.Fatalf("equal values differ: %s", d)
		}
	})
}

func decode(t *testing.T, raw []byte) any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("decode %q: %v", raw, err)
	}
	return v
}

func BenchmarkCanonical(b *testing.B) {
	for name, raw := range map[string]string{
		"already": `{"input":{"limit":10,"query":"acme <corp>","sort":"name"}}`,
		"sorting": `{"input":{"sort":"name","query":"acme <corp>","limit":10}}`,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Canonical(json.RawMessage(raw))
			}
		})
	}
}
