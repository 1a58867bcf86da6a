package guest_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mcp-code-exec-harness/internal/frame"
)

// TestJSONRoundTrip passes generated JSON through a program: the program sends and returns exactly the values that it gets as answers.
func TestJSONRoundTrip(t *testing.T) {
	var values []any
	rapid.Check(t, func(t *rapid.T) { values = append(values, jsonValue(4).Draw(t, "value")) })
	answer := mustJSON(t, values)
	engines(t, func(t *testing.T, open func(*testing.T) runner) {
		r := open(t)
		f := start(wrap(`const values = await callMCPTool('give'); await callMCPTool('take', { values }); return values`))
		f.Limits.MaxValue = 64 << 20
		if err := r.send(f); err != nil {
			t.Fatal(err)
		}
		for {
			got, err := r.receive()
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case got.T == frame.Call && got.Name == "take":
				var sent struct{ Input struct{ Values []any } }
				if err := json.Unmarshal(got.Args, &sent); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(values, sent.Input.Values); diff != "" {
					t.Fatalf("arguments (-want +got):\n%s", diff)
				}
				fallthrough
			case got.T == frame.Call:
				if err := r.send(&frame.Frame{T: frame.Answer, Run: got.Run, ID: got.ID, Value: json.RawMessage(answer)}); err != nil {
					t.Fatal(err)
				}
			case got.T == frame.Done:
				if got.Error != nil {
					t.Fatal(got.Error)
				}
				var returned []any
				if err := json.Unmarshal(got.Value, &returned); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(values, returned); diff != "" {
					t.Fatalf("output (-want +got):\n%s", diff)
				}
				return
			}
		}
	})
}

func jsonValue(depth int) *rapid.Generator[any] {
	leaves := []*rapid.Generator[any]{
		rapid.Just[any](nil),
		rapid.Bool().AsAny(),
		rapid.Custom(func(t *rapid.T) float64 {
			n := rapid.Float64Range(-1e18, 1e18).Draw(t, "number")
			return n + 0 // JavaScript writes -0 as 0
		}).AsAny(),
		rapid.Custom(func(t *rapid.T) string { return strings.ToValidUTF8(rapid.String().Draw(t, "text"), "?") }).AsAny(),
		rapid.SampledFrom([]any{"", "__proto__", "toJSON", "then", "\u2028\x00\"\\", "😀"}),
	}
	if depth == 0 {
		return rapid.OneOf(leaves...)
	}
	key := rapid.OneOf(rapid.SampledFrom([]string{"__proto__", "toJSON", "then", "constructor", "0", "a b", ""}), rapid.StringN(0, 8, -1))
	return rapid.OneOf(append(leaves,
		rapid.SliceOfN(rapid.Deferred(func() *rapid.Generator[any] { return jsonValue(depth - 1) }), 0, 5).AsAny(),
		rapid.MapOfN(key, rapid.Deferred(func() *rapid.Generator[any] { return jsonValue(depth - 1) }), 0, 5).AsAny(),
	)...)
}
