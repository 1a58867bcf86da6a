package wiring_test

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/jsontext"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/testing/generated"
)

// oddJSON are texts that a parser and a writer might change.
var oddJSON = []string{
	`{}`, ` { "b" : 1 , "a" : [ ] } `, `{"a":1,"a":2}`, `{"2":1,"1":2,"x":3}`, `{"01":1,"-1":2,"1.5":3}`, `{"__proto__":{"a":1}}`, `{"toJSON":1}`,
	`{"constructor":{"prototype":1}}`, `{"":{"":[]}}`, `{"n":[1.0,1e2,1E+2,-0,0.1e-6,1e-7,1e21,123456789012345680000,12345678901234567890,5e-324]}`,
	`{"n":1e400}`, `{"n":-1e400}`, `{"s":"\u003cb\u003e\u0026\u2028\u2029\u007f\/\u0000\u001f\b\f\n\r\t\"\\"}`, `{"s":"\ud83d\ude00"}`,
	`{"s":"\ud83d"}`, `{"s":"\\ud83d"}`, `{"s":"😀é"}`, `{"\u0061":1}`, `{"é":null,"t":true,"f":false}`,
	`{"d":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`, `{"d":` + strings.Repeat(`{"a":`, 600) + "1" + strings.Repeat("}", 600) + `}`,
	`{"long":"` + strings.Repeat("é", 100_000) + `"}`,
}

// generatedJSON returns an object of any shape.
func generatedJSON(r *rand.Rand) string {
	key := func() string {
		return []string{`"a"`, `"b"`, `"\u0062"`, `"7"`, `"k` + strconv.Itoa(r.IntN(50)) + `"`}[r.IntN(5)]
	}
	var value func(depth int) string
	value = func(depth int) string {
		switch n := r.IntN(9); {
		case n < 2 && depth < 5:
			var parts []string
			for range r.IntN(5) {
				parts = append(parts, value(depth+1))
			}
			return "[" + strings.Join(parts, " , ") + "]"
		case n < 4 && depth < 5:
			var parts []string
			for range r.IntN(4) {
				parts = append(parts, key()+": "+value(depth+1))
			}
			return "{" + strings.Join(parts, ",") + "}"
		case n < 6:
			return strconv.FormatFloat((r.Float64()-0.5)*[]float64{1, 1e-9, 1e25, 1e6}[r.IntN(4)], "eEfg"[r.IntN(4)], -1, 64)
		case n == 6:
			return strconv.Itoa(r.IntN(1000))
		case n == 7:
			return []string{"null", "true", "false"}[r.IntN(3)]
		}
		text := make([]rune, r.IntN(6))
		for i := range text {
			text[i] = []rune("a\"\\/<&\n\u2028\u0001é😀[1]")[r.IntN(13)]
		}
		quoted, _ := json.Marshal(string(text))
		return string(quoted)
	}
	return `{"v": ` + value(0) + `}`
}

// sameEnd reports whether two runs ended with the same error, or with outputs that JavaScript does not distinguish.
func sameEnd(a, b []journal.Record) bool {
	x, y := a[len(a)-1].End, b[len(b)-1].End
	return x.Status == y.Status && string(x.Error) == string(y.Error) && journal.CoversJSON(x.Output, y.Output)
}

// calls returns a summary of the calls and answers of a run.
func calls(records []journal.Record) string {
	return summary(slices.DeleteFunc(slices.Clone(records), func(r journal.Record) bool { return r.Log != nil || r.End != nil }))
}

// TestOnly: the run of a single call has the same journal as if a guest had made the call, and can be replayed in a guest.
func TestOnly(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, "up")
	answer := ""
	up.on = func(_ context.Context, _, _ string, args json.RawMessage) (string, error) {
		if answer == "" {
			return string(args), nil
		}
		return answer, nil
	}
	guest := setup(t, map[string]string{"sandbox.parkAfter": "0s", "pii.enabled": "false"}, up.entry)
	host := setup(t, map[string]string{"sandbox.parkAfter": "30s", "pii.enabled": "false"}, up.entry)
	claims := func() uint64 {
		pool, err := host.Tiers().Pool("")
		if err != nil {
			t.Fatal(err)
		}
		return pool.Counts().Claims
	}
	seed := generated.Seed(t)
	r := rand.New(rand.NewPCG(seed, 0))
	texts := slices.Clone(oddJSON)
	for range 100 {
		texts = append(texts, generatedJSON(r))
	}
	execute := func(f *fixture, function, tool, args string) ([]journal.Record, *run.Outcome) {
		t.Helper()
		out, err := f.Runs().Execute(t.Context(), runs.CallOf(function, tool, json.RawMessage(args)))
		if err != nil {
			t.Fatal(err)
		}
		return f.journalOf(out.RunID), out
	}
	without := 0
	same := func(function, tool, args string) {
		t.Helper()
		before := claims()
		got, out := execute(host, function, tool, args)
		if claims() == before {
			without++
			if len(texts) == 0 {
				t.Errorf("%s of %.100s with %.100s, answered with %.100s, had no runner", function, tool, args, answer)
			}
		}
		want, wanted := execute(guest, function, tool, args)
		if a, b := calls(got), calls(want); a != b || !sameEnd(got, want) {
			a, b = summary(got), summary(want)
			t.Errorf("%s of %s with %.200s, answered with %.200s: the journals differ:\n%.2000s\n%.2000s", function, tool, args, answer, a, b)
		}
		if !journal.CoversJSON(out.Output, wanted.Output) || out.Calls != wanted.Calls || out.Status != wanted.Status {
			t.Errorf("%.200s: the outcome is %s %s, and of a guest %s %s", args, out.Status, out.Output, wanted.Status, wanted.Output)
		}
		if again := host.replayed(got, ""); again.Status != out.Status || string(again.Output) != string(out.Output) {
			t.Errorf("%.200s: replayed as %s %s %+v, want %s %s", args, again.Status, again.Output, again.Error, out.Status, out.Output)
		}
	}
	for _, text := range texts {
		if jsontext.Look([]byte(text)).Equal != "" {
			_, err := host.Runs().Execute(t.Context(), runs.CallOf("callMCPTool", "up__send", json.RawMessage(text)))
			if wrong := runs.InvalidError(""); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "twice") {
				t.Errorf("%s: %v", text, err)
			}
		} else {
			same("callMCPTool.raw", "up__read", text)
			same("callMCPTool", "up__send", text)
		}
		answer = text
		same("callMCPTool", "up__read", "{}")
		answer = ""
	}
	if least := len(texts) * 3 / 2; without < least {
		t.Errorf("%d of %d calls had no runner, want %d at least", without, 3*len(texts), least)
	}
	texts = nil // From here on, each run needs a runner.
	for _, args := range []string{`{}, "server": "other"`, `{`, `7`, `"x"`, `[1]`, `{"a":"` + strings.Repeat("x", 80_000) + `"}`} {
		same("callMCPTool", "up__read", args)
	}
	for _, tool := range []string{"", "nothing", "up__reed", strings.Repeat("x", 2000)} {
		same("callMCPTool", tool, "{}")
	}
	answer = `"` + strings.Repeat("x", 5<<20) + `"` // A guest may have too little memory for this answer.
	same("callMCPTool", "up__read", "{}")
}

// TestOnlyAsks: a single call that needs an approval waits without ever having had a runner, and is made once after the approval.
func TestOnlyAsks(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, "up")
	f := askingIn(t, t.TempDir(), map[string]string{"sandbox.parkAfter": "30s"}, up)
	out, err := f.Runs().Execute(t.Context(), runs.CallOf("callMCPTool", "up__send", json.RawMessage(`{"to":"x"}`)))
	if err != nil {
		t.Fatal(err)
	}
	f.wantWaiting(out)
	out = f.decide(out, approve)
	if got := decoded[struct{ To string }](t, out); got.To != "x" {
		t.Errorf("the output is %s", out.Output)
	}
	if calls := up.called(); len(calls) != 1 {
		t.Errorf("called %q, want one call", calls)
	}
	f.replay(out)
}

// TestOnlyStops: a single call that is cancelled, or whose process stops, ends like a call of a guest.
func TestOnlyStops(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, "up")
	f := setup(t, map[string]string{"sandbox.parkAfter": "30s"}, up.entry)
	calls := newAnswers(up)
	for _, c := range []struct {
		name  string
		cause error
	}{{"cancelled", nil}, {"stopped", run.ErrHandedOver}} {
		ctx, stop := context.WithCancelCause(t.Context())
		req := runs.CallOf("callMCPTool", "up__read", json.RawMessage(`{"slow":"`+c.name+`"}`))
		req.ID = "run_" + c.name
		done := make(chan *run.Outcome, 1)
		go func() {
			out, _ := f.Runs().Execute(ctx, req)
			done <- out
		}()
		calls.came(t, c.name)
		stop(c.cause)
		calls.answer(c.name)
		if out := <-done; c.cause == nil && (out == nil || out.Status != run.Cancelled) {
			t.Errorf("%s: %+v", c.name, out)
		} else if c.cause != nil && out != nil {
			t.Errorf("%s: %+v", c.name, out)
		}
	}
}
