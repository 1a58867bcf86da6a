package wiring_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/testing/generated"
)

// hostileQuotas are so small that 100 requests reach the quotas of tasks, sessions and schedules.
const hostileQuotas = "quotas: {journal: 512MiB, tasks: 4, sessions: 22, schedules: 4, workspace: 12MiB}"

// runBody returns a function that returns the body of a request for a run in one of many sessions. n makes each program different, so that no cache contains
// it.
func runBody(code string) func(int) map[string]any {
	return func(n int) map[string]any {
		return map[string]any{"code": fmt.Sprintf("const n = %d\n", n) + code, "sessionId": fmt.Sprint("s", n%20), "timeout": "200ms"}
	}
}

// hostileRequests are the requests of the hostile user. Its programs compute for a fifth of a second; the default timeout would allow 30 s.
var hostileRequests = []struct {
	method, path string
	body         func(n int) map[string]any
}{
	{http.MethodPost, "/v1/runs", runBody("for (;;) {}")},
	{http.MethodPost, "/v1/runs", runBody("const a = []; for (;;) a.push(new Uint8Array(1 << 20).fill(1))")},
	{http.MethodPost, "/v1/runs", runBody("const a = []; for (let i = 0; i < 20; i++) a.push(new Uint8Array(1 << 20).fill(1)); await utils.sleep(2000)")},
	{http.MethodPost, "/v1/runs", runBody("for (;;) console.log('x'.repeat(50000))")},
	{http.MethodPost, "/v1/runs", runBody("await Promise.all(Array.from({length: 900}, () => callMCPTool('up__read', {text: 'x'.repeat(50000)})))")},
	{http.MethodPost, "/v1/runs", runBody("await Promise.allSettled(Array.from({length: 20}, () => callMCPTool('bad__hang', {})))")},
	{http.MethodPost, "/v1/runs", runBody("for (let i = 0; i < 4; i++) await fs.writeFile('/workspace/' + i, 'x'.repeat(1000000))")},
	{http.MethodPost, "/v1/runs", runBody("for (let i = 0; i < 19000; i++) setTimeout(() => {}, 2000); await utils.sleep(1000)")},
	{http.MethodPost, "/v1/runs", func(n int) map[string]any {
		return map[string]any{"code": fmt.Sprintf("return %d%s", n, strings.Repeat("+(1", 20_000)+strings.Repeat(")", 20_000))}
	}},
	{http.MethodPost, "/v1/runs", func(n int) map[string]any {
		return map[string]any{"code": fmt.Sprintf("const n%d = %q", n, strings.Repeat("x", 1<<20))}
	}},
	{http.MethodPost, "/v1/tasks", func(n int) map[string]any {
		return map[string]any{
			"task": "Later.", "context": map[string]string{"x": strings.Repeat(fmt.Sprint(n), 100_000)},
			"runAt": time.Now().Add(100 * 24 * time.Hour),
		}
	}},
	{http.MethodPost, "/v1/tasks", func(n int) map[string]any {
		return map[string]any{"task": fmt.Sprintf("RUN40<<return %d>>", n), "callbackUrl": "http://127.0.0.1:9/nothing"}
	}},
	{http.MethodPost, "/v1/schedules", func(int) map[string]any { return map[string]any{"task": "SAY<<Again.>>", "cron": "* * * * *"} }},
	{http.MethodPost, "/v1/tickets", func(int) map[string]any { return map[string]any{} }},
}

// attack sends requests of a hostile user, many at the same time. Every response must be a success or a refusal, and never an internal error of the server.
func (s *soaked) attack(ctx context.Context, count int) (endings map[string]int) {
	var next atomic.Int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	endings = map[string]int{}
	for range 30 {
		wg.Go(func() {
			for ctx.Err() == nil {
				n := int(next.Add(1)) - 1
				if n >= count {
					return
				}
				of := hostileRequests[n%len(hostileRequests)]
				r, err := s.ask(ctx, "mallory", of.method, of.path, of.body(n))
				if err != nil || r.status >= 500 && r.status != http.StatusServiceUnavailable {
					s.t.Errorf("%s %d: %d %.300s %v", of.path, n%len(hostileRequests), r.status, r.body, err)
				}
				what, _, _ := strings.Cut(field[string](r, "detail"), ` "`)
				what, _, _ = strings.Cut(what, ":")
				if failed := field[*run.Error](r, "error"); r.status < 300 && failed != nil {
					what = failed.Kind
				}
				mu.Lock()
				endings[fmt.Sprint(r.status, " ", what)]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return endings
}

// TestHostileUser: a user with one ordinary key sends requests that harm others, as often as the default rate limit allows in a quarter of an hour, or in a
// day in the long tests. Meanwhile all requests of another user are answered correctly, the server's memory stays small, and what the hostile user stores
// stays within the quotas.
//
// The test is shorter than reality in two ways: the requests come as fast as they are answered, and programs compute for a fifth of a second instead of 30
// seconds. "make load" measures how much slower the requests of the other user become.
func TestHostileUser(t *testing.T) {
	t.Parallel()
	limit := 100 * generated.Count(1, 4*24) // 100 requests in each window of 15 minutes
	s := soak(t, fmt.Sprintf("{max: %d}", limit), hostileQuotas, "mallory", "ann")
	ctx, cancel := context.WithCancel(t.Context())
	attacked := make(chan struct{})
	var endings map[string]int
	go func() {
		defer close(attacked)
		endings = s.attack(ctx, limit+100)
	}()
	ordinary := aRun("", "", "return await callMCPTool('up__read', {n})")
	runs := 0
	for under := true; under && runs < limit; runs++ {
		if err := ordinary(s, ctx, "ann", runs); err != nil {
			t.Errorf("run %d of another user: %v", runs, err)
			break
		}
		select {
		case <-attacked:
			under = false
		default:
		}
	}
	<-attacked
	cancel()
	for _, refused := range []string{"too many requests", "create task", "create schedule"} {
		if endings["429 "+refused] == 0 {
			t.Errorf("no request was refused with %q: %v", refused, endings)
		}
	}
	h := holdings{}
	h.process(s)
	h.disk(s)
	if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid)); err == nil {
		_, peak, _ := strings.Cut(string(text), "\nVmHWM:")
		kib, _ := strconv.ParseInt(strings.Fields(peak)[0], 10, 64)
		h["peak of the memory"] = kib << 10
	}
	const some = 2 << 20 // size of one file, or of the answers between two counts of a quota
	for name, most := range map[string]int64{
		"peak of the memory": 1 << 30, "memory": 256 << 20, "bytes in workspace": 12<<20 + some, "database": 512<<20 + some, "rows of sessions": 22 + 2,
		"rows of schedules": 4, "unfinished tasks": 4 + 2, "goroutines": 1000, "processes": 30,
	} {
		if h[name] > most {
			t.Errorf("%s: %d, at most %d are allowed", name, h[name], most)
		}
	}
	t.Logf("the requests ended as %v, beside %d runs of another user; %v", endings, runs, h)
	if code := s.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
