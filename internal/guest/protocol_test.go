package guest_test

import (
	"encoding/json"
	"testing"

	"mcp-code-exec-harness/internal/frame"
)

// TestStrayAnswers sends answers to no call. The guest counts them, so that host and guest agree on the number of answers that were taken. They change
// nothing else, not even the clock.
func TestStrayAnswers(t *testing.T) {
	engines(t, func(t *testing.T, open func(*testing.T) runner) {
		r := open(t)
		send := func(f *frame.Frame) {
			t.Helper()
			if err := r.send(f); err != nil {
				t.Fatal(err)
			}
		}
		expect := func(want frame.Type) *frame.Frame {
			t.Helper()
			f, err := r.receive()
			if err != nil {
				t.Fatal(err)
			}
			if f.T != want {
				t.Fatalf("got a %s frame, want %s", f.T, want)
			}
			return f
		}
		answer := func(id int, value string, now int64) {
			t.Helper()
			send(&frame.Frame{T: frame.Answer, Run: "run_1", ID: id, Now: now, Value: json.RawMessage(value)})
		}
		send(start(wrap(`const a = await callMCPTool('a'); const at = performance.now(); const b = await callMCPTool('b'); return [a, at, b]`)))
		expect(frame.Call)
		expect(frame.Idle)
		answer(7, `"stray"`, startTime+1e9)
		if f := expect(frame.Idle); f.Taken != 1 {
			t.Errorf("taken is %d, want 1", f.Taken)
		}
		answer(1, `"first"`, startTime+5000)
		expect(frame.Call)
		expect(frame.Idle)
		answer(1, `"again"`, startTime+6000)
		if f := expect(frame.Idle); f.Taken != 3 {
			t.Errorf("taken is %d, want 3", f.Taken)
		}
		answer(2, `"second"`, startTime+7000)
		if got, want := string(expect(frame.Done).Value), `["first",5.001,"second"]`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// TestSyntaxError compiles text that is not JavaScript. The message is that of the engine.
func TestSyntaxError(t *testing.T) {
	engines(t, func(t *testing.T, open func(*testing.T) runner) {
		_, done := run(t, open(t), start("(async () => { let a = ; })"))
		if done.Error == nil || done.Error.Kind != "syntax" || done.Error.Name != "SyntaxError" || done.Error.Message == "" {
			t.Errorf("got %+v", done.Error)
		}
	})
}

// TestProgramsShareNothing runs two programs in one runner. The second program sees no changes of the first.
func TestProgramsShareNothing(t *testing.T) {
	engines(t, func(t *testing.T, open func(*testing.T) runner) {
		r := open(t)
		var first, second []any
		program := wrap(`const seen = [typeof globalThis.left, ({}).left, typeof Array.prototype.push, Math.random(), Date.now()];
			globalThis.left = 1; Object.prototype.left = 1; delete Array.prototype.push; console.count(); return seen`)
		value(t, r, program, &first)
		value(t, r, program, &second)
		a, b := mustJSON(t, first), mustJSON(t, second)
		if a != b {
			t.Errorf("the second program saw %s, the first %s", b, a)
		}
	})
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
