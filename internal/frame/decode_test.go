package frame

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecodeArgs(t *testing.T) {
	t.Parallel()
	type args struct {
		Name  string          `json:"name"`
		Count *int            `json:"count"`
		Value json.RawMessage `json:"value"`
	}
	two := 2
	for text, want := range map[string]args{
		`null`:                              {},
		`{"name":"a","count":2}`:            {Name: "a", Count: &two},
		`{"name":"a","NAME":"b"}`:           {Name: "a"},
		`{"NAME":"b","name":"a"}`:           {Name: "a"},
		`{"Name":"b","COUNT":2,"Value":1}`:  {},
		`{"name":null,"value":{"VALUE":1}}`: {Value: json.RawMessage(`{"VALUE":1}`)},
		`{"name":"a","name":"b","other":1}`: {Name: "b"},
	} {
		var got args
		if err := DecodeArgs(json.RawMessage(text), &got); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
	for _, text := range []string{``, `[]`, `{"name":1}`, `{`, `"x"`} {
		if err := DecodeArgs(json.RawMessage(text), new(args)); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
	err := DecodeArgs(json.RawMessage(`{"count":"x"}`), new(args))
	if wrong := (*json.UnmarshalTypeError)(nil); !errors.As(err, &wrong) || wrong.Field != "count" {
		t.Errorf("got %v, which does not name the field", err)
	}
}
