package wiring_test

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/frame"
)

// Rule 2, clock: the clock stands at the time of the last answer, and advances by a microsecond at each reading.
func TestRuleClock(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	out := f.exec(code(`
const read = () => Math.round((performance.timeOrigin + performance.now()) * 1000)
const before = [read(), read(), read()]
await utils.sleep(20)
return { before, after: [read(), Date.now() * 1000, new Date().getTime() * 1000, read()] }`))
	got := decoded[struct{ Before, After []float64 }](t, out)
	var start, answer int64
	for _, r := range f.journalOf(out.RunID) {
		switch {
		case r.Start != nil:
			start = r.Start.Time
		case r.Answer != nil:
			answer = r.Answer.Now
		}
	}
	if answer-start < 20_000 {
		t.Errorf("the answer of a sleep of 20 ms came %d us after the start", answer-start)
	}
	for i, micros := range got.Before {
		if want := float64(start + int64(i) + 1); math.Abs(micros-want) > 1 { // A double represents the microseconds exactly, but not the milliseconds with a fraction.
			t.Errorf("read %d before the answer is %f, want %f", i, micros, want)
		}
	}
	for i, micros := range got.After {
		want := float64(answer + int64(i) + 1)
		if i == 1 || i == 2 { // whole milliseconds
			want = math.Floor(want/1000) * 1000
		}
		if math.Abs(micros-want) > 1 {
			t.Errorf("read %d after the answer is %f, want %f", i, micros, want)
		}
	}
}

// A program that waits by reading the clock ends, and its error says how to wait.
func TestRuleClockBusyWait(t *testing.T) {
	t.Parallel()
	f := setup(t, map[string]string{"sandbox.timeout": "300ms"})
	for _, loop := range []string{
		`const end = Date.now() + 5e9; while (Date.now() < end) {}`,
		`while (performance.now() < 5e9) {}`,
		`const t = new Date(); while (new Date() - t < 5e9) {}`,
	} {
		out := f.exec(code(loop))
		if kind(out) != frame.KindTimeout || !strings.Contains(out.Error.Hint, "utils.sleep") {
			t.Errorf("%s: ended as %+v", loop, out.Error)
		}
	}
}

// Rule 2, randomness: every run has its own random numbers, and a replay has those of its run, even in the same process.
func TestRuleRandomness(t *testing.T) {
	t.Parallel()
	f := setup(t, map[string]string{"sandbox.pool": "1"})
	pool, err := f.Tiers().Pool("")
	if err != nil {
		t.Fatal(err)
	}
	const program = `return [Math.random(), crypto.randomUUID(), [...crypto.getRandomValues(new Uint8Array(16))].join(), Math.random()].map(String)`
	seen := map[string]int{}
	v4 := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	pids := map[int]bool{}
	pool.KeepWarm(1)
	for i := range 4 {
		out := f.exec(code(program)) // exec also replays the run.
		for j, text := range decoded[[]string](t, out) {
			seen[fmt.Sprint(j%3, text)] = i
			if j == 1 && !v4.MatchString(text) {
				t.Errorf("%s is no random UUID", text)
			}
		}
		eventually(t, "the runner is idle", func() bool { return len(pool.Pids()) == 1 })
		pids[pool.Pids()[0]] = true
	}
	if len(seen) != 16 {
		t.Errorf("four runs drew %d different values, want 16: %v", len(seen), seen)
	}
	if len(pids) == 4 && pool.Info().Tier == "wasm" { // A worker that is reset too slowly is replaced.
		t.Error("each run had a process of its own, the test is about one")
	}
}
