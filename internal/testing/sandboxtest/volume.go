package sandboxtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/testing/generated"
)

// quick are attacks that take little time.
var quick = []string{
	"escape_constructor", "escape_import", "pollute_prototypes", "pollute_globals", "pollute_error", "persist_globals", "persist_hooks", "forge_log",
	"forge_kind", "forge_thenable", "exit_throw", "exit_rejection", "exit_process", "time_never", "exhaust_heap", "exhaust_cpu", "exhaust_stack", "flood_line", "flood_result_fit",
}

// volume executes many programs of several users at the same time, good and hostile ones: each ends as it does alone, the server gets every call
// once, and afterwards the process holds no more than before.
func (w *world) volume(t *testing.T) {
	others := func(a *attack) bool { return !slices.Contains(quick, a.name) }
	if known := slices.DeleteFunc(readAttacks(t, "attacks"), others); len(known) != len(quick) {
		t.Fatalf("there are %d of %d attacks", len(known), len(quick))
	}
	hostile := slices.DeleteFunc(w.guestAttacks(t), others)
	w.openPool()
	defer w.closePool()
	first, short := 60, 300
	if w.tier != "wasm" { // each run starts a runner
		first, short = 6, 3*len(hostile)
	}
	w.mixed(t, hostile, 0, first) // files that this opens may stay open
	w.measure(t)
	goroutines, heap := live()
	w.mixed(t, hostile, first, generated.Count(short, 10_000))
	w.settle(t)
	eventually(t, func() (bool, string) {
		now, size := live()
		return now <= goroutines+20 && size <= heap+32<<20, fmt.Sprintf("%d goroutines, %d before; %d bytes live, %d before", now, goroutines, size, heap)
	})
}

// live counts the goroutines and the bytes that are in use. The counts vary a little, because connections come and go.
func live() (goroutines int, heap uint64) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return runtime.NumGoroutine(), m.HeapAlloc
}

// mixed executes count programs, good and hostile ones; good programs are numbered from first on.
func (w *world) mixed(t *testing.T, hostile []*attack, first, count int) {
	t.Helper()
	var wg sync.WaitGroup
	var next atomic.Int64
	want := map[string]int{}
	var mu sync.Mutex
	sent := func(calls []string) {
		mu.Lock()
		defer mu.Unlock()
		for _, call := range calls {
			want[call]++
		}
	}
	for range 6 {
		wg.Go(func() {
			for {
				n := int(next.Add(1)) - 1
				if n >= count || t.Failed() {
					return
				}
				user := fmt.Sprint("user-", n%4)
				if n%3 == 0 {
					a := hostile[n/3%len(hostile)]
					w.attack(t, a, user, fmt.Sprint("s", n), "run_none")
					sent(a.calls)
					continue
				}
				out, calls := w.good(t, user, first+n)
				sent(calls)
				if t.Failed() {
					t.Logf("run %d: %+v, %+v", first+n, out, out.Error)
				}
			}
		})
	}
	wg.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !maps.Equal(w.got, want) && !t.Failed() {
		t.Errorf("the server got %v, want %v", w.got, want)
	}
	clear(w.got)
}

// good executes a harmless program that differs for each user and n, and checks the whole outcome.
func (w *world) good(t testing.TB, user string, n int) (out *run.Outcome, calls []string) {
	t.Helper()
	code := strings.NewReplacer("$N", fmt.Sprint(n), "$USER", user).Replace(`
const file = '/workspace/n.txt'
const before = await fs.exists(file)
await fs.writeFile(file, '$N $USER')
console.log('run', $N)
const { n } = await tools.up.read({ n: $N })
const [a, b] = await Promise.all([tools.up.send({ of: $N }), fs.readFile(file, 'utf8')])
return [n, a.of, b, before, typeof leak]`)
	out, calls = w.execute(t, w.runs, runs.Request{User: user, Session: fmt.Sprint("s", n), Code: code})
	want, err := json.Marshal([]any{n, n, fmt.Sprint(n, " ", user), false, "undefined"})
	if err != nil {
		t.Error(err)
	}
	if string(out.Output) != string(want) || out.Calls != 2 || !slices.Equal(texts(out.Logs), []string{fmt.Sprint("run ", n)}) {
		t.Errorf("run %d ended with %s and %v, %+v, want %s", n, out.Output, out.Logs, out.Error, want)
	}
	if mine := []string{fmt.Sprintf(`read {"n":%d}`, n), fmt.Sprintf(`send {"of":%d}`, n)}; !slices.Equal(calls, mine) {
		t.Errorf("run %d sent %q, want %q", n, calls, mine)
	}
	w.recorded(t, w.runs, out)
	return out, calls
}
