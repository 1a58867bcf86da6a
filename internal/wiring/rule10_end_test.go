package wiring_test

import (
	"encoding/json"
	"slices"
	"testing"

	"mcp-code-exec-harness/internal/run"
)

// Rule 10: a program ends when its value has settled and no call and no one-shot timer is pending. Intervals delay only the end of a program without a value.
// The returned value is not affected by them.
func TestRuleEnd(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	for _, c := range []struct {
		name, code, output string
		lines              []string
	}{
		{"a function that is not awaited", `
async function main() {
  for (const name of ['a', 'b', 'c']) {
    await fs.writeFile('/workspace/' + name, name)
    await utils.sleep(5)
  }
  console.log((await fs.listFiles('/workspace')).length)
}
main()
return 'value'`, `"value"`, []string{"1 call was still in flight when the program ended; await it", "3"}},
		{"a timer at the end", `setTimeout(() => console.log('x'), 5); return 1`, `1`, []string{"x"}},
		{"intervals", `setInterval(() => console.log('never'), 60000); setTimeout(() => console.log('never'), 60000).unref(); return 1`, `1`, []string{
			"1 interval was still running when the program ended, and went off no more; await a promise that the last one resolves, or clear what is not needed with clearInterval",
		}},
		{"intervals of a program without a value", `
let n = 0
const ticks = setInterval(() => { console.log(++n); if (n === 3) clearInterval(ticks) }, 2)
setInterval(() => console.log('never'), 60000).unref()`, `null`, []string{"1", "2", "3"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			req := code(c.code)
			req.Session = ""
			out := f.exec(req)
			var lines []string
			for _, line := range out.Logs {
				lines = append(lines, line.Text)
			}
			if out.Status != run.Succeeded || string(out.Output) != c.output || !slices.Equal(lines, c.lines) {
				t.Errorf("%s with %s, printed %q, %+v", out.Status, out.Output, lines, out.Error)
			}
			f.replay(out)
		})
	}
}

// Rule 2: timers fire in the order of their due time, then of their creation.
func TestRuleTimers(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	out := f.exec(code(`
const seen = []
for (let i = 0; i < 20; i++) setTimeout(() => seen.push(i), i % 2 ? 40 : 5)
for (let i = 20; i < 25; i++) setTimeout(() => seen.push(i), 0)
await utils.sleep(60)
const wins = []
for (let i = 0; i < 20; i++) {
  wins.push(await Promise.race([utils.sleep(2).then(() => 'first'), utils.sleep(2).then(() => 'second')]))
}
return { seen, wins: [...new Set(wins)] }`))
	var want []int
	for _, of := range [][]int{{20, 25, 1}, {0, 20, 2}, {1, 20, 2}} {
		for i := of[0]; i < of[1]; i += of[2] {
			want = append(want, i)
		}
	}
	got := decoded[struct {
		Seen []int
		Wins []string
	}](t, out)
	if !slices.Equal(got.Seen, want) || !slices.Equal(got.Wins, []string{"first"}) {
		text, _ := json.Marshal(got)
		t.Errorf("got %s", text)
	}
	f.replay(out)
}
