package wiring_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
)

// Rule 1, order: the upstream server answers in an arbitrary order. The program sees that order, and so does a replay.
func TestRuleOrder(t *testing.T) {
	t.Parallel()
	const n = 8
	for range 5 {
		order := rand.Perm(n)
		turn := make([]chan struct{}, n)
		for i := range turn {
			turn[i] = make(chan struct{})
		}
		u := newUpstream(t, "up")
		u.on = func(ctx context.Context, _, _ string, args json.RawMessage) (string, error) {
			var in struct{ I int }
			if err := json.Unmarshal(args, &in); err != nil {
				return "", err
			}
			select {
			case <-turn[in.I]:
				return fmt.Sprint(in.I), nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}
		f := setup(t, nil, u.entry)
		made, answered := 0, 0
		out := f.exec(runs.Request{
			Code: fmt.Sprintf(`
const order = []
await Promise.all(Array.from({ length: %d }, async (_, i) => { order.push(await tools.up.read({ i })) }))
return order.map(Number)`, n),
			Observe: func(e run.Event) {
				switch {
				case e.Call != nil:
					if made++; made == n {
						close(turn[order[0]]) // All calls wait by then.
					}
				case e.Answer != nil:
					if answered++; answered < n {
						close(turn[order[answered]])
					}
				}
			},
		})
		if got := decoded[[]int](t, out); !slices.Equal(got, order) {
			t.Errorf("the program saw %v, the upstream answered %v", got, order)
		}
	}
}

// The error of a replay that diverges names the call.
func TestRuleOrderDiverged(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, newUpstream(t, "up").entry)
	const program = `
const seen = []
seen.push(await tools.up.read({ first: Math.random() }))
console.log('one')
seen.push(await tools.up.read({ after: seen[0].first, at: Date.now() }))
await fs.writeFile('/workspace/a', 'x')
return seen.length`
	out := f.exec(code(program))
	if kind(out) != "" {
		t.Fatalf("%+v", out.Error)
	}
	records := f.journalOf(out.RunID)
	replace := func(old, with string) string {
		t.Helper()
		if !strings.Contains(program, old) {
			t.Fatalf("the program has no %q", old)
		}
		return strings.Replace(program, old, with, 1)
	}
	for name, c := range map[string]struct{ code, want string }{
		"same":              {program, ""},
		"another layout":    {replace("const seen", "\n\n  const   seen"), ""},
		"another tool":      {replace("up.read({ after", "up.send({ after"), "call 2"},
		"changed arguments": {replace("{ after:", "{ behind:"), "call 2"},
		"dropped call":      {replace("await fs.writeFile('/workspace/a', 'x')", ""), "call 3"},
		"dropped first":     {replace("seen.push(await tools.up.read({ first: Math.random() }))", "seen.push({})"), "call 1"},
		"extra call":        {replace("return", "await utils.sleep(1); return"), "call 4"},
		"extra before":      {replace("const seen", "await list_mcp_tools(); const seen"), "call 1"},
		"changed output":    {replace("seen.length", "seen.length + 1"), "output"},
		"changed logs":      {replace("'one'", "'two'"), "console"},
		"now fails":         {replace("return", "throw new Error('x'); return"), "failed"},
		"waits for ever":    {replace("return", "await new Promise(() => {}); return"), "failed"},
	} {
		again := f.replayed(records, c.code)
		switch {
		case c.want == "" && again.Error != nil:
			t.Errorf("%s: %+v", name, again.Error)
		case c.want != "" && (kind(again) != frame.KindDiverged || !strings.Contains(again.Error.Message, c.want)):
			t.Errorf("%s: ended as %+v, want %q", name, again.Error, c.want)
		}
	}
	for name, c := range map[string]struct {
		edit func(*journal.Record)
		want string
	}{
		"changed seed": {func(r *journal.Record) {
			if r.Start != nil {
				r.Start.Seed = strings.Repeat("77", 32)
			}
		}, "call 1"},
		"changed answer": {func(r *journal.Record) {
			if r.Answer != nil && r.Answer.N == 1 {
				r.Answer.Value = json.RawMessage(`{"first":0.25}`)
			}
		}, "call 2"},
		"an answer that is an error": {func(r *journal.Record) {
			if r.Answer != nil && r.Answer.N == 1 {
				r.Answer.Value, r.Answer.Error = nil, json.RawMessage(`{"name":"ToolError","message":"x"}`)
			}
		}, "call 2"},
		"changed clock": {func(r *journal.Record) {
			if r.Answer != nil && r.Answer.N == 1 {
				r.Answer.Now += 10_000_000
			}
		}, "call 2"},
	} {
		again := f.replayed(edited(t, records, c.edit), "")
		if kind(again) != frame.KindDiverged || !strings.Contains(again.Error.Message, c.want) {
			t.Errorf("%s: ended as %+v, want %q", name, again.Error, c.want)
		}
	}
}
