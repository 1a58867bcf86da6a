package guest_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/jsontext"
)

// number draws a JSON number with any number of digits.
var number = rapid.OneOf(
	rapid.StringMatching(`-?(0|[1-9][0-9]{0,40})`),
	rapid.StringMatching(`-?(0|[1-9][0-9]{0,9})\.[0-9]{1,25}`),
	rapid.StringMatching(`-?[1-9](\.[0-9]{1,20})?[eE][+-]?[0-9]{1,3}`),
	rapid.SampledFrom([]string{"9007199254740991", "9007199254740992", "-9007199254740991", "-9007199254740993", "1e400", "-1E+999", "1e-400", "0e999", "5e-324", "1.7976931348623157e308", "100000000000000000000"}),
)

// TestNumbersKeepTheirDigits parses and writes generated numbers in programs: with JSON's functions, as an answer, as an argument and as a return value. A
// number changes only if the expected kind says so: it is rounded, or becomes a string with all of its digits.
func TestNumbersKeepTheirDigits(t *testing.T) {
	var numbers []string
	rapid.Check(t, func(t *rapid.T) { numbers = append(numbers, rapid.SliceOfN(number, 5, 5).Draw(t, "numbers")...) })
	var answer []string
	for i, n := range numbers {
		answer = append(answer, fmt.Sprintf(`{"#1":%s,"k}e[y":[%s,"#%s","\\","\"12345678901234567890"]}`, n, n, numbers[(i+1)%len(numbers)]))
	}
	answer = append(answer, `{"#1":0,"k}e[y":[9007199254740993,"\ue000","\uE001 "],"#1":`+numbers[0]+`,"k}e[y":[`+numbers[0]+`,"#`+numbers[1]+`"]}`)
	numbers = append(numbers, numbers[0])
	text := "[" + strings.Join(answer, ",") + "]"
	quoted, _ := json.Marshal(text)
	kept, rounded := jsontext.Numbers([]byte(text))
	check := func(t *testing.T, what string, got json.RawMessage) {
		t.Helper()
		var all []struct {
			N json.RawMessage   `json:"#1"`
			K []json.RawMessage `json:"k}e[y"`
		}
		if err := json.Unmarshal(got, &all); err != nil || len(all) != len(numbers) {
			t.Fatalf("%s: %d of %d, %v", what, len(all), len(numbers), err)
		}
		for i, n := range numbers {
			want := n
			switch of := jsontext.Look([]byte(n)); {
			case of.Huge != "":
				want = `"` + n + `"`
			case of.Rounded != "":
				var double float64
				_ = json.Unmarshal([]byte(n), &double) // cannot fail, because n is a number
				raw, _ := json.Marshal(double)
				want = string(raw)
			}
			for _, got := range []json.RawMessage{all[i].N, all[i].K[0]} {
				if string(got) != want && (want[0] == '"' || !jsontext.SameNumber(string(got), want)) {
					t.Errorf("%s: %s became %s", what, n, got)
				}
			}
			if other := `"#` + numbers[(i+1)%(len(numbers)-1)] + `"`; i < len(numbers)-1 && string(all[i].K[1]) != other {
				t.Errorf("%s: the string %s became %s", what, other, all[i].K[1])
			}
		}
	}
	engines(t, func(t *testing.T, open func(*testing.T) runner) {
		r := open(t)
		f := start(wrap(`const text = ` + string(quoted) + `;
			const values = await callMCPTool('give');
			const parsed = JSON.parse(text);
			await callMCPTool('take', [values]);
			return [values, parsed, JSON.parse(JSON.stringify(parsed)), JSON.parse(JSON.stringify(values, null, 1), (key, value) => value)]`))
		f.Limits.MaxValue = 64 << 20
		if err := r.send(f); err != nil {
			t.Fatal(err)
		}
		noted := 0
		for {
			got, err := r.receive()
			if err != nil {
				t.Fatal(err)
			}
			switch got.T {
			case frame.Log:
				noted++
			case frame.Call:
				if got.Name == "take" {
					var sent struct{ Input [1]json.RawMessage }
					if err := json.Unmarshal(got.Args, &sent); err != nil {
						t.Fatal(err)
					}
					check(t, "arguments", sent.Input[0])
				}
				if err := r.send(&frame.Frame{T: frame.Answer, Run: got.Run, ID: got.ID, Value: json.RawMessage(text), Exact: !kept}); err != nil {
					t.Fatal(err)
				}
			case frame.Done:
				if got.Error != nil {
					t.Fatal(got.Error)
				}
				var returned [4]json.RawMessage
				if err := json.Unmarshal(got.Value, &returned); err != nil {
					t.Fatal(err)
				}
				for i, what := range []string{"an answer", "JSON.parse", "JSON.stringify", "a reviver"} {
					check(t, what, returned[i])
				}
				if rounded != (noted == 1) {
					t.Errorf("rounded: %t, and %d notes", rounded, noted)
				}
				return
			}
		}
	})
}
