package shape

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func learn(t testing.TB, words Words, answers ...string) (*Shape, Differences) {
	t.Helper()
	var s *Shape
	var what Differences
	for _, a := range answers {
		next, err := Of(json.RawMessage(a), words)
		if err != nil {
			t.Fatal(err)
		}
		what = nil
		s = Merge(s, next, &what)
	}
	return s, what
}

func TestSchema(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		answers []string
		want    string
	}{
		{[]string{`"x"`}, `{"type":"string"}`},
		{[]string{`[]`}, `{"items":{},"type":"array"}`},
		{[]string{`[1]`, `[null]`}, `{"items":{"type":["null","number"]},"type":"array"}`},
		{
			[]string{`{"id":"a","createdAt":"x","tags":["a"]}`, `{"id":1,"tags":[]}`},
			`{"additionalProperties":true,"properties":{"createdAt":{"type":"string"},"id":{"type":["number","string"]},` +
				`"tags":{"items":{"type":"string"},"type":"array"}},"required":["id","tags"],"type":"object"}`,
		},
		{
			[]string{`{"kim@example.com":{"id":1},"lee@example.com":{"id":2}}`},
			`{"additionalProperties":{"additionalProperties":true,"properties":{"id":{"type":"number"}},"required":["id"],"type":"object"},"type":"object"}`,
		},
		{
			[]string{`{"sales":{"id":1},"support":{"id":2},"marketing":{"id":3}}`},
			`{"additionalProperties":{"additionalProperties":true,"properties":{"id":{"type":"number"}},"required":["id"],"type":"object"},"type":"object"}`,
		},
		{
			[]string{`{"id":1,"name":"x","status":"y","zorblax":true}`},
			`{"additionalProperties":true,"properties":{"id":{"type":"number"},"name":{"type":"string"},"status":{"type":"string"}},` +
				`"required":["id","name","status"],"type":"object"}`,
		},
		{[]string{`{"id":1}`, `{"8f14e45f":1}`}, `{"additionalProperties":{"type":"number"},"type":"object"}`},
		{[]string{`{}`}, `{"additionalProperties":true,"properties":{},"type":"object"}`},
	} {
		s, _ := learn(t, nil, c.answers...)
		if diff := cmp.Diff(c.want, string(s.Schema())); diff != "" {
			t.Errorf("%v: %s", c.answers, diff)
		}
		if !s.Valid() {
			t.Errorf("%v: not valid", c.answers)
		}
	}
	words := Words{}
	words.Add("zorblax_count")
	s, _ := learn(t, words, `{"zorblax":1,"zorblaxId":2}`)
	if len(s.Fields) != 2 {
		t.Errorf("a server's own words are no names: %s", s.Schema())
	}
}

// TestLeak: no data of an answer is kept, neither values nor keys that are data.
func TestLeak(t *testing.T) {
	t.Parallel()
	data := []string{
		"kim.lee@example.com", "Kim", "kim", "Alice", "Zürich", "Kim Lee", "O'Brien", "4111111111111111", "+41 79 123 45 67", "8f14e45fceea",
		"550e8400-e29b-41d4-a716-446655440000", "cus_NffrFeUfNV2Hib", "U024BE7LH", "2026-01-31", "10.0.0.1", "https://example.com/kim", "CH",
		"IT", "AAPL", "user_kim", "kimId", "accountKim", "id_8842", "<EMAIL_1>", "[PERSON_2]", "a/b", "projectApollo", "sk-live-abc", "日本", "user42x7",
		strings.Repeat("name", 11), "address_bern", "x12", "42",
	}
	frames := []string{
		`{%q:1}`, `{%q:{"id":1}}`, `{"id":1,%q:2}`, `{"id":1,"name":"x","status":true,%q:2}`, `[{"id":1,"name":"x","state":1,%q:[1]}]`,
		`{"users":{%q:{"id":"x","name":"y"}}}`, `{"id":%[1]q,"name":%[1]q,"tags":[%[1]q],"state":{%[1]q:%[1]q}}`, `%q`,
	}
	check := func(s *Shape, what Differences) {
		t.Helper()
		kept, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		all := string(kept) + string(s.Schema()) + strings.Join(what, " ")
		for _, secret := range data {
			// Short texts may be parts of longer words. As a key or a value, they would be in quotes.
			if strings.Contains(all, fmt.Sprintf("%q", secret)) || len(secret) > 6 && strings.Contains(all, secret) ||
				strings.Contains(strings.Join(what, " "), "."+secret+" ") {
				t.Errorf("%q is kept: %s", secret, all)
			}
		}
	}
	for _, frame := range frames {
		var s *Shape
		for _, secret := range data {
			next, err := Of(json.RawMessage(fmt.Sprintf(frame, secret)), nil)
			if err != nil {
				t.Fatal(err)
			}
			check(next, nil)
			var what Differences
			s = Merge(s, next, &what)
			check(s, what)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 { // puts a few of the texts into one object
		object := map[string]any{"id": 1, "name": "x", "status": "y"}
		for range 1 + rng.IntN(4) {
			object[data[rng.IntN(len(data))]] = data[rng.IntN(len(data))]
		}
		raw, err := json.Marshal([]any{object, map[string]any{"items": object}})
		if err != nil {
			t.Fatal(err)
		}
		s, what := learn(t, nil, `[{"id":2}]`, string(raw))
		check(s, what)
	}
}

func TestDifferences(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		before, after string
		want          Differences
	}{
		{`{"id":1}`, `{"id":2}`, nil},
		{`{"id":1}`, `{"id":"x"}`, Differences{".id can be string"}},
		{`{"id":1}`, `{}`, Differences{".id can be missing"}},
		{`{"items":[{"id":1}]}`, `{"items":[{"id":1,"name":"x"}]}`, Differences{".items[].name is new"}},
		{`{"items":[]}`, `{"items":[{"id":1}]}`, nil},
		{`{"id":1}`, `[1]`, Differences{"the answer can be array"}},
		{`{"id":1}`, `{"x@y.z":1}`, Differences{"the answer has keys that are data"}},
	} {
		if _, what := learn(t, nil, c.before, c.after); cmp.Diff(c.want, what) != "" {
			t.Errorf("%s, then %s: %v, want %v", c.before, c.after, what, c.want)
		}
	}
}

// TestBounds: a shape stays within its limits, whatever the examples are.
func TestBounds(t *testing.T) {
	t.Parallel()
	field := func(i int) string { return string(rune('a'+i%26)) + "_id" }
	names := strings.Fields(strings.ReplaceAll(names, "//", ""))
	var s *Shape
	for i := range 200 {
		object := map[string]any{}
		for j := range 30 {
			object[names[(i*31+j*7)%len(names)]] = []any{map[string]any{names[(i+j)%len(names)]: i, field(j): map[string]any{"id": nil}}}
		}
		raw, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		next, err := Of(raw, nil)
		if err != nil {
			t.Fatal(err)
		}
		s = Merge(s, next, nil)
		if !s.Valid() {
			t.Fatalf("after %d answers it has %d places", i+1, s.Size())
		}
	}
	deep, err := Of(json.RawMessage(strings.Repeat(`{"item":[`, 2000)+strings.Repeat("]}", 2000)), nil)
	if err != nil || !deep.Valid() {
		t.Errorf("%v, %d places", err, deep.Size())
	}
	if _, err := Of(json.RawMessage(`{"id":`), nil); err == nil {
		t.Error("what is no JSON has a shape")
	}
}
