package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// attacks are requests by which one user harms the others. They are sent in turn, repeatedly.
var attacks = []struct {
	path string
	body func(n int) map[string]any
}{
	{"/v1/runs", code("for (;;) {}")},
	{"/v1/runs", code("const a = []; for (let i = 0; i < 80; i++) a.push(new Uint8Array(1 << 20).fill(1)); await utils.sleep(20000); return a.length")},
	{"/v1/runs", code("const a = []; for (;;) a.push(new Uint8Array(1 << 20))")},
	{"/v1/runs", code("for (;;) console.log('x'.repeat(50000))")},
	{"/v1/runs", code("await Promise.all(Array.from({length: 900}, (_, i) => callMCPTool('load__echo', {alpha: i, text: 'x'.repeat(100000)})))")},
	{"/v1/runs", code("for (let i = 0; ; i++) await fs.writeFile('/workspace/f' + i, 'x'.repeat(8000000))")},
	{"/v1/runs", code("for (let i = 0; i < 19000; i++) setTimeout(() => {}, 20000); await utils.sleep(20000)")},
	{"/v1/runs", func(n int) map[string]any {
		return map[string]any{"code": fmt.Sprintf("return %d%s", n, strings.Repeat("+(1", 50_000)+strings.Repeat(")", 50_000))}
	}},
	{"/v1/runs", func(n int) map[string]any {
		return map[string]any{"code": fmt.Sprintf("const n%d = %q\nreturn n%[1]d.length", n, strings.Repeat("x", 7<<20))}
	}},
	{"/task", func(n int) map[string]any {
		return map[string]any{"task": fmt.Sprintf("Do task %d: 9 runs, 90 calls, 10 ms.", 2_000_000+n)}
	}},
	{"/v1/tasks", func(n int) map[string]any {
		return map[string]any{"task": "Wait.", "context": strings.Repeat("x", 1<<20-2), "runAt": time.Now().Add(time.Hour)}
	}},
	{"/v1/schedules", func(n int) map[string]any { return map[string]any{"task": "Again.", "cron": "* * * * *"} }},
	{"/v1/tickets", func(int) map[string]any { return map[string]any{} }},
}

func code(text string) func(int) map[string]any {
	return func(n int) map[string]any {
		return map[string]any{"code": fmt.Sprintf("const n = %d\n", n) + text, "sessionId": fmt.Sprint("s", n%100)}
	}
}

// attack makes attacks until ctx ends, but no more than most: the first half at once, the other half evenly spread over length. It returns the
// number of answered requests, and how many of them were answered with an error.
func (s *server) attack(ctx context.Context, most int, length time.Duration) (answered, refused int64) {
	var all, bad atomic.Int64
	var wg sync.WaitGroup
	later := time.NewTicker(2 * length / time.Duration(most))
	defer later.Stop()
	for n := 0; n < most && ctx.Err() == nil; n++ {
		if n >= most/2 {
			select {
			case <-later.C:
			case <-ctx.Done():
			}
		}
		wg.Go(func() {
			a := attacks[n%len(attacks)]
			body := a.body(n)
			body["userId"] = "mallory"
			err := s.call(ctx, a.path, body, nil)
			if ctx.Err() != nil {
				return
			}
			if all.Add(1); err != nil {
				bad.Add(1)
			}
		})
	}
	wg.Wait()
	return all.Load(), bad.Load()
}

// besideAHostileUser compares the latency of four users' runs alone with their latency beside a fifth user, who makes no more attacks than most,
// in rounds of the given length. The result is the ratio of the 99th percentiles. By default, a user may make 100 requests in 15 minutes.
func besideAHostileUser(rounds int, most int, length time.Duration) func(context.Context, *server) (figures, error) {
	return func(ctx context.Context, s *server) (figures, error) {
		var took [2][]time.Duration
		var answered, refused int64
		for round := range 2 * rounds {
			attacked := round % 2
			length := length
			attacking, end := context.WithCancel(ctx)
			var wg sync.WaitGroup
			if attacked == 1 {
				wg.Go(func() {
					a, r := s.attack(attacking, most, length)
					answered, refused = answered+a, refused+r
				})
			} else {
				length = min(length, time.Minute)
			}
			times, err := s.ordinary(ctx, length)
			end()
			wg.Wait()
			if err != nil {
				return figures{}, err
			}
			took[attacked] = append(took[attacked], times...)
		}
		for i := range took {
			slices.Sort(took[i])
		}
		alone, beside := at(took[0], 0.99), at(took[1], 0.99)
		f := figures{value: float64(beside) / float64(alone)}
		f.note = fmt.Sprintf("alone p50 %s, p99 %s of %d; beside p50 %s, p99 %s of %d; %d attacks answered, %d refused; server at most %d MiB, its files %d MiB",
			at(took[0], 0.5), alone, len(took[0]), at(took[1], 0.5), beside, len(took[1]), answered, refused,
			peak(s.cmd.Process.Pid)>>20, size(s.dir)>>20)
		return f, nil
	}
}

// ordinary lets four users make short runs with tool calls for the given time, and returns the durations of the runs.
func (s *server) ordinary(ctx context.Context, length time.Duration) (all []time.Duration, err error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	began := time.Now()
	for user := range 4 {
		wg.Go(func() {
			for i := 0; time.Since(began) < length; i++ {
				asked := time.Now()
				var out struct{ Output json.RawMessage }
				e := s.call(ctx, "/v1/runs", map[string]any{
					"userId": fmt.Sprint("ordinary", user), "code": fmt.Sprintf("return (await callMCPTool('load__echo', {alpha: %d})).alpha", i%10),
				}, &out)
				if e == nil && string(out.Output) != fmt.Sprint(i%10) {
					e = fmt.Errorf("a run returned %s", out.Output)
				}
				mu.Lock()
				all, err = append(all, time.Since(asked)), errors.Join(err, e)
				mu.Unlock()
				if e != nil {
					return
				}
				time.Sleep(20 * time.Millisecond) // between two runs of a user
			}
		})
	}
	wg.Wait()
	return all, err
}

func size(dir string) (bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err == nil {
			if info, err := d.Info(); err == nil {
				bytes += info.Size()
			}
		}
		return nil // files may disappear meanwhile
	})
	return bytes
}
