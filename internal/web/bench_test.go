package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/store/sqlstore"
)

// runsVar names a variable with the number of runs in the store of BenchmarkPages; by default 20,000.
const runsVar = "HARNESS_BENCH_RUNS"

// BenchmarkPages measures pages of a store with many runs, including a run with 5,000 calls and a run with an answer of 8 MiB.
func BenchmarkPages(b *testing.B) {
	count, err := strconv.Atoi(os.Getenv(runsVar))
	if err != nil {
		count = 20_000
	}
	w := setup(b, false, "sandbox: {maxCalls: 6000, maxHostCalls: 20000}", "server: {rateLimit: {enabled: false}}", "quotas: {journal: 0}")
	w.fill(b, count)
	calls, status := w.run(w.token, "for (let i = 0; i < 100; i++) await Promise.all(Array.from({length: 50}, () => tools.notes.list({})));\nreturn 1")
	if status != "succeeded" {
		b.Fatalf("5,000 calls: %s", status)
	}
	large, status := w.run(w.token, "return (await tools.notes.large({})).length")
	if status != "succeeded" {
		b.Fatalf("a large answer: %s", status)
	}
	many, status := w.run(w.token, "return (await tools.notes.large({count: 40_000})).items.length")
	if status != "succeeded" {
		b.Fatalf("a large answer of many parts: %s", status)
	}
	r := w.login(w.token)
	for _, path := range []string{"/", "/runs", "/runs?status=failed", "/runs?userId=user-7", "/tasks", "/tasks?q=total+sales", "/approvals", "/tools", "/sessions", "/usage", "/usage?by=user&window=day", "/usage?by=user&window=month", "/runs/" + calls, "/runs/" + calls + "/calls/4000", "/runs/" + calls + "/compare?with=" + calls, "/runs/" + large, "/runs/" + large + "/calls/1", "/runs/" + many + "/calls/1", "/runs/" + many + "/calls/1/value?of=result&path=/items&from=39000"} {
		name := path
		if len(name) > 24 {
			name = strings.NewReplacer(calls, "CALLS", large, "LARGE", many, "MANY").Replace(path)
		}
		b.Run(name, func(b *testing.B) {
			var size int
			for b.Loop() {
				got := r.get(path)
				if got.status != http.StatusOK {
					b.Fatal(got.status)
				}
				size = len(got.text)
			}
			b.ReportMetric(float64(size)/1024, "KiB")
		})
	}
}

// fill stores runs of many users.
func (w *world) fill(b *testing.B, count int) {
	b.Helper()
	store, err := sqlstore.Open(context.Background(), "sqlite:"+filepath.ToSlash(filepath.Join(w.dir, "harness.db")), sqlstore.Options{Sync: "normal", Now: time.Now})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	var all sync.WaitGroup
	const writers = 64
	for part := range writers {
		all.Go(func() {
			for i := part; i < count; i += writers {
				status := "succeeded"
				if i%10 == 0 {
					status = "failed"
				}
				id := fmt.Sprintf("run_%020x", i)
				j, err := store.Create(context.Background(), id)
				if err != nil {
					b.Error(err)
					return
				}
				j.Append(journal.Record{Start: &journal.Start{Run: id, User: fmt.Sprintf("user-%d", i%100), Source: "return 1", Seed: "00", Tier: "wasm", Time: time.Now().UnixMicro()}})
				j.Append(journal.Record{End: &journal.End{Status: status, Output: json.RawMessage("1"), Time: time.Now().UnixMicro(), DurationUS: 1000}})
				if err := j.Close(context.Background()); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}
