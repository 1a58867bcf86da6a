package journal

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func sample() *Recording {
	big := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{1, 2, 255}, 100_000))
	return NewRecording(
		journalOfFive(),
		records(call(tool(1, "fs", `{"text":"<&>\u2028"}`)), Record{Answer: &Answer{
			N: 1, Delivery: 1, Now: 5, Value: json.RawMessage(`{"z":"` + big + `","a":1.0}`),
		}}, Record{End: &End{Status: "succeeded", Output: json.RawMessage(`{"b":[1,2],"a":{}}`)}}),
	)
}

func encoded(t *testing.T, r *Recording) string {
	t.Helper()
	text, err := EncodeLines(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestRecordingRoundTrip(t *testing.T) {
	t.Parallel()
	want := sample()
	text := encoded(t, want)
	got, err := DecodeRecording(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got, cmp.Transformer("text", func(r json.RawMessage) string { return string(r) })); d != "" {
		t.Errorf("decoded (-want +got):\n%s", d)
	}
	if again := encoded(t, got); again != text {
		t.Error("a recording that was read and written again differs")
	}
}

// A recording can be read and compared by people: one key on each line, no HTML escapes, and the keys of answers in their order.
func TestRecordingForm(t *testing.T) {
	t.Parallel()
	text := encoded(t, NewRecording(records(call(tool(1, "a", `{"x":["<"]}`)),
		Record{Answer: &Answer{N: 1, Delivery: 1, Now: 7, Value: json.RawMessage(`{"z":1,"a":2}`)}})))
	want := `{
  "version": 1,
  "runs": [
    {
      "records": [
        {
          "seq": 1,
          "start": {
            "run": "run_a",
            "source": "",
            "program": {},
            "seed": "",
            "time": 0,
            "tier": "",
            "engine": "",
            "prelude": ""
          }
        },
        {
          "seq": 2,
          "call": {
            "n": 1,
            "kind": "tool",
            "name": "a",
            "args": {
              "x": [
                "<"
              ]
            }
          }
        },
        {
          "seq": 3,
          "answer": {
            "n": 1,
            "delivery": 1,
            "now": 7,
            "value": {
              "z": 1,
              "a": 2
            }
          }
        }
      ]
    }
  ]
}
`
	if d := cmp.Diff(want, text); d != "" {
		t.Errorf("document (-want +got):\n%s", d)
	}
}

func TestRecordingErrors(t *testing.T) {
	t.Parallel()
	text := encoded(t, sample())
	for _, c := range []struct{ name, in, want string }{
		{"empty", " \n", "it is empty"},
		{"truncated", text[:len(text)/2], "it is truncated after"},
		{"no JSON", "{\n  \"version\": oops}", "line 2, column 14: invalid character 'o'"},
		{"two documents", text + text, "after top-level value"},
		{"no recording", `{"a":1}`, `it has no "version"`},
		{"an array", `[]`, `it has no "version"`},
		{"later version", `{"version":2,"new":1}`, "it has version 2, this program reads version 1"},
		{"unknown key", `{"version":1,"runs":[],"new":1}`, `unknown field "new"`},
		{"wrong type", `{"version":1,"runs":[{"records":[{"seq":"1"}]}]}`, "runs.records.seq"},
		{"no runs", `{"version":1,"runs":[]}`, "it holds no run"},
		{"no records", `{"version":1,"runs":[{"records":[]}]}`, "run 1: the journal is empty"},
		{
			"broken journal", `{"version":1,"runs":[{"records":[{"seq":1,"log":{}}]}]}`,
			"run 1: journal: the first record is not the start",
		},
	} {
		_, err := DecodeRecording(strings.NewReader(c.in))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "read recording: ") {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

func FuzzDecodeRecording(f *testing.F) {
	text, err := EncodeLines(NewRecording(journalOfFive()))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"version":1,"runs":[{"records":[{"seq":1,"start":{"run":"a"}}]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		rec, err := DecodeRecording(bytes.NewReader(text))
		if err != nil {
			return
		}
		first := encoded(t, rec)
		again, err := DecodeRecording(strings.NewReader(first))
		if err != nil {
			t.Fatalf("cannot read what was written: %v", err)
		}
		if encoded(t, again) != first {
			t.Fatal("writing is not stable")
		}
	})
}
