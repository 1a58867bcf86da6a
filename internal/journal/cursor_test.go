package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func tool(n int, name, args string) *Call {
	c := &Call{N: n, Kind: "tool", Name: name}
	if args != "" {
		c.Args = json.RawMessage(args)
	}
	return c
}

func records(rs ...Record) []Record {
	out := append([]Record{{Start: &Start{Run: "run_a", Program: json.RawMessage(`{}`)}}}, rs...)
	for i := range out {
		out[i].Seq = int64(i + 1)
	}
	return out
}

func call(c *Call) Record { return Record{Call: c} }

func answer(n, delivery int) Record {
	return Record{Answer: &Answer{N: n, Delivery: delivery, Value: json.RawMessage(fmt.Sprint(n))}}
}

func intent(n int, time int64) Record { return Record{Intent: &Intent{N: n, Time: time}} }

func require3() *Call {
	return &Call{N: 3, Kind: "module", Name: "require", Args: json.RawMessage(`{"specifier":"x"}`), Sync: true}
}

// journalOfFive returns a journal with two parallel calls that are answered in reverse order, a synchronous call between them, a write that was never
// answered, and a call that was answered too late.
func journalOfFive() []Record {
	return records(
		call(tool(1, "crm__a", `{"input":{"b":1,"a":2}}`)), call(tool(2, "crm__b", `{}`)), answer(2, 1),
		call(require3()), answer(3, 0), Record{Log: &Log{Level: "log", Text: "hello"}}, answer(1, 2),
		call(tool(4, "mailer__send", `{"input":{}}`)), intent(4, 10), intent(4, 20),
		call(tool(5, "crm__c", ``)), answer(5, Undelivered),
	)
}

func TestCursorReplays(t *testing.T) {
	t.Parallel()
	rs := journalOfFive()
	if err := Check(rs); err != nil {
		t.Fatal(err)
	}
	c := NewCursor(rs)
	match := func(call *Call) {
		t.Helper()
		if err := c.Match(call); err != nil {
			t.Fatalf("Match(%d) = %v", call.N, err)
		}
	}
	next := func(n int) {
		t.Helper()
		if a := c.Next(); a == nil || a.N != n || a != c.Answer(n) {
			t.Fatalf("Next() = %+v, want the answer of call %d", a, n)
		}
		c.Advance()
	}
	match(tool(1, "crm__a", `{"input": {"a":2, "b":1}}`)) // the same arguments in another form
	match(tool(2, "crm__b", `{}`))
	next(2)
	match(require3())
	if a := c.Answer(3); a == nil || a.Delivery != 0 || a.Undelivered() {
		t.Errorf("answer of the synchronous call: %+v", a)
	}
	next(1)
	match(tool(4, "mailer__send", `{"input":{}}`))
	match(tool(5, "crm__c", `null`))
	if a := c.Next(); a != nil {
		t.Errorf("Next() at the end = %+v", a)
	}
	c.Advance() // has no effect
	if err := c.Finish(); err != nil {
		t.Errorf("Finish() = %v", err)
	}
	if c.Answer(4) != nil || !c.Answer(5).Undelivered() {
		t.Errorf("answers: call 4 %+v, call 5 %+v", c.Answer(4), c.Answer(5))
	}
	if i := c.Intent(4); i == nil || i.Time != 10 || c.Intent(1) != nil {
		t.Errorf("intents: call 4 %+v, call 1 %+v, want the first attempt's and none", i, c.Intent(1))
	}
	if c.Call(6) != nil || c.Answer(6) != nil || c.Intent(6) != nil {
		t.Error("something is recorded of a call that was not made")
	}
	if d := cmp.Diff([]Log{{Level: "log", Text: "hello"}}, c.Logs()); d != "" {
		t.Errorf("logs (-want +got):\n%s", d)
	}
	if c.End() != nil {
		t.Errorf("End() = %v", c.End())
	}
}

func TestCursorOfNothing(t *testing.T) {
	t.Parallel()
	c := NewCursor(nil)
	if c.End() != nil || c.Next() != nil || c.Call(1) != nil || c.Finish() != nil {
		t.Error("a cursor of no records has recorded something")
	}
}

func TestCursorDiverges(t *testing.T) {
	t.Parallel()
	const secret = "s3cret"
	for _, c := range []struct {
		name string
		act  func(*Cursor) error
		n    int
		want string
	}{
		{
			"name", func(c *Cursor) error { return c.Match(tool(1, "crm__z", `{}`)) }, 1,
			`diverged at call 1: the program called tool "crm__z", the recording has tool "crm__a"`,
		},
		{
			"kind", func(c *Cursor) error { return c.Match(&Call{N: 1, Kind: "fs", Name: "crm__a"}) }, 1,
			`diverged at call 1: the program called fs "crm__a", the recording has tool "crm__a"`,
		},
		{
			"arguments", func(c *Cursor) error { return c.Match(tool(1, "crm__a", `{"input":{"a":"`+secret+`","b":1}}`)) }, 1,
			`diverged at call 1 (tool "crm__a"): the arguments differ from the recorded ones: $.input.a is a string, was a number`,
		},
		{"call left out", func(c *Cursor) error {
			if err := c.Match(tool(1, "crm__a", `{"input":{"b":1,"a":2}}`)); err != nil {
				return err
			}
			return c.Finish()
		}, 2, `diverged at call 2: the program did not make the recorded call of tool "crm__b"`},
		{
			"not recorded", func(c *Cursor) error { return c.Match(tool(9, strings.Repeat("x", 500), `{}`)) }, 9,
			`diverged at call 9: the program called tool "` + strings.Repeat("x", 54) + "..." + strings.Repeat("x", 59) +
				`", the recording has no such call`,
		},
		{"answer not awaited", func(*Cursor) error {
			c := NewCursor(records(call(tool(1, "a", `{}`)), answer(1, 1)))
			if err := c.Match(tool(1, "a", `{}`)); err != nil {
				return err
			}
			return c.Finish()
		}, 1, `diverged at call 1: the program did not make the recorded call of tool "a"`},
	} {
		err := c.act(NewCursor(journalOfFive()))
		var diverged *DivergedError
		if !errors.As(err, &diverged) || diverged.N != c.n || err.Error() != c.want {
			t.Errorf("%s: got %v\nwant %s", c.name, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the message quotes a value: %v", c.name, err)
		}
	}
}

func TestCheckRefusesBrokenJournals(t *testing.T) {
	t.Parallel()
	gap := records(Record{Log: &Log{}}, Record{Log: &Log{}})
	gap[2].Seq = 4
	sync := tool(1, "a", `{}`)
	sync.Sync = true
	for _, c := range []struct {
		name string
		in   []Record
		want string
	}{
		{"empty", nil, "the journal is empty"},
		{"no start", []Record{{Seq: 1, Log: &Log{}}}, "the first record is not the start"},
		{"gap", gap, "record 3 is numbered 4"},
		{"call twice", records(call(tool(1, "a", ``)), call(tool(1, "a", ``))), "record 3: call 1 is recorded twice"},
		{"call 0", records(call(tool(0, "a", ``))), "record 2: call 0"},
		{"intent of nothing", records(intent(1, 1)), "record 2: intent of call 1, which is not recorded"},
		{"answer to nothing", records(answer(1, 1)), "record 2: answer to call 1, which is not recorded"},
		{"two answers", records(call(tool(1, "a", ``)), answer(1, 1), answer(1, 2)), "record 4: second answer to call 1"},
		{"delivery gap", records(call(tool(1, "a", ``)), answer(1, 2)), "the answer of call 1 has delivery 2, want 1"},
		{"sync delivered", records(call(sync), answer(1, 1)), "answer to call 1 has delivery 1, its sync is true"},
		{
			"async not delivered", records(call(tool(1, "a", ``)), answer(1, 0)),
			"answer to call 1 has delivery 0, its sync is false",
		},
		{"after end", records(Record{End: &End{}}, Record{Log: &Log{}}), "record 3 follows the end"},
	} {
		if err := Check(c.in); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
		NewCursor(c.in) // must not panic
	}
}

// For every journal that a run can write, a program that makes the same calls is replayed to the last record.
func TestCursorReplaysAnyJournal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var rs []Record
		var open []int
		calls, deliveries := 0, 0
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			if len(open) == 0 || rapid.Bool().Draw(t, "call") {
				calls++
				c := tool(calls, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name"), fmt.Sprintf(`{"n":%d}`, calls))
				c.Sync = rapid.Bool().Draw(t, "sync")
				rs = append(rs, call(c))
				if c.Sync {
					rs = append(rs, answer(calls, 0))
				} else {
					open = append(open, calls)
				}
				continue
			}
			i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
			deliveries++
			rs = append(rs, answer(open[i], deliveries))
			open = append(open[:i], open[i+1:]...)
		}
		rs = records(rs...)
		if err := Check(rs); err != nil {
			t.Fatal(err)
		}
		c := NewCursor(rs)
		for _, r := range rs {
			switch {
			case r.Call != nil:
				if err := c.Match(r.Call); err != nil {
					t.Fatal(err)
				}
			case r.Answer != nil && r.Answer.Delivery > 0:
				if a := c.Next(); a != r.Answer {
					t.Fatalf("Next() = %v, want %v", a, r.Answer)
				}
				c.Advance()
			}
		}
		if err := c.Finish(); err != nil {
			t.Fatal(err)
		}
	})
}
