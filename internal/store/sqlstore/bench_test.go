package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/testing/journaltest"
	"mcp-code-exec-harness/internal/testing/postgrestest"
)

// quantiles reports the median and the 99th percentile: a mean would hide the few commits that wait for a checkpoint.
func quantiles(b *testing.B, took []time.Duration) {
	b.ReportMetric(float64(quantile(took, 50).Nanoseconds())/1000, "p50-us")
	b.ReportMetric(float64(quantile(took, 99).Nanoseconds())/1000, "p99-us")
}

// quantile returns the time that percent of the times do not exceed.
func quantile(took []time.Duration, percent int) time.Duration {
	slices.Sort(took)
	return took[len(took)*percent/100]
}

// benchStores benchmarks SQLite and, if it is installed, Postgres. The two stores named normal lose the last commits in a power failure, the two named
// full do not.
func benchStores(b *testing.B, f func(b *testing.B, s *Store)) { benchStoresAt(b, nil, f) }

// benchStoresAt is benchStores with a clock, which may be nil.
func benchStoresAt(b *testing.B, now func() time.Time, f func(b *testing.B, s *Store)) {
	for _, sync := range []Sync{SyncNormal, SyncFull} {
		b.Run(string(sync), func(b *testing.B) { f(b, setup(b, Options{Sync: sync, Now: now})) })
		b.Run("postgres "+string(sync), func(b *testing.B) {
			var settings []string
			if sync == SyncNormal {
				settings = []string{"-c", "synchronous_commit=off"}
			}
			server := postgrestest.Start(b, settings...)
			s := openServer(b, server.Schema(b), Options{Now: now})
			before, err := server.Written()
			if err != nil {
				b.Fatal(err)
			}
			f(b, s)
			after, err := server.Written()
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(after.Log-before.Log)/float64(b.N), "WAL-B/op")
			b.ReportMetric(float64(after.Tables-before.Tables)/float64(b.N), "tables-B/op")
		})
	}
}

func mustCreate(b *testing.B, s *Store, run string) journal.Writer {
	b.Helper()
	w, err := s.Create(context.Background(), run)
	if err != nil {
		b.Fatal(err)
	}
	return w
}

// BenchmarkPurge measures the deletion of runs with ten calls each.
func BenchmarkPurge(b *testing.B) {
	c := clockAt(noon)
	benchStoresAt(b, c.now, func(b *testing.B, s *Store) {
		c.set(noon)
		for i := range b.N {
			w := mustCreate(b, s, fmt.Sprint("run_", i))
			w.Append(startAt(fmt.Sprint("run_", i), noon.UnixMicro()))
			for n := 1; n <= 20; n += 2 {
				w.Append(journaltest.Call(n))
				w.Append(journaltest.Answer(n))
			}
			w.Append(endAt(noon.UnixMicro()))
			if err := w.Commit(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
		c.set(noon.Add(2 * oneDay)) // the day of the runs is over
		b.ResetTimer()
		if n, err := s.Purge(context.Background(), noon.Add(oneDay)); err != nil || n != b.N {
			b.Fatal(n, err)
		}
	})
}

// BenchmarkCommit measures the commits of one run. Each commit stores one answer.
func BenchmarkCommit(b *testing.B) {
	benchStores(b, func(b *testing.B, s *Store) {
		w := mustCreate(b, s, "run_a")
		w.Append(journaltest.Start("run_a"))
		took := make([]time.Duration, 0, 1<<20)
		n := 0
		for b.Loop() {
			n++
			begin := time.Now()
			w.Append(journaltest.Answer(n))
			if err := w.Commit(context.Background()); err != nil {
				b.Fatal(err)
			}
			took = append(took, time.Since(begin))
		}
		quantiles(b, took)
	})
}

// BenchmarkGroupCommit measures the commits of 100 runs at the same time. Each commit stores one answer.
func BenchmarkGroupCommit(b *testing.B) {
	benchStores(b, func(b *testing.B, s *Store) {
		var runs atomic.Int64
		before := s.Stats()
		b.SetParallelism(50) // multiplied by GOMAXPROCS, which is 2 on the machine on which the budgets are measured
		b.RunParallel(func(pb *testing.PB) {
			run := "run_" + strconv.FormatInt(runs.Add(1), 10)
			w, err := s.Create(context.Background(), run)
			if err != nil {
				b.Error(err)
				return
			}
			w.Append(journaltest.Start(run))
			for n := 1; pb.Next(); n++ {
				w.Append(journaltest.Answer(n))
				if err := w.Commit(context.Background()); err != nil {
					b.Error(err)
					return
				}
			}
		})
		after := s.Stats()
		b.ReportMetric(float64(after.Changes-before.Changes)/float64(after.Transactions-before.Transactions), "commits/tx")
	})
}

// BenchmarkRunReturn1 measures runs without calls. Each run is stored in one commit.
func BenchmarkRunReturn1(b *testing.B) {
	benchStores(b, func(b *testing.B, s *Store) {
		took := make([]time.Duration, 0, 1<<20)
		n := 0
		for b.Loop() {
			n++
			begin := time.Now()
			run := fmt.Sprint("run_", n)
			w := mustCreate(b, s, run)
			w.Append(startAt(run, int64(n)))
			w.Append(journaltest.End())
			if err := w.Close(context.Background()); err != nil {
				b.Fatal(err)
			}
			took = append(took, time.Since(begin))
		}
		quantiles(b, took)
	})
}

// BenchmarkOpen measures the opening of an existing store, which each process does at its start.
func BenchmarkOpen(b *testing.B) {
	s := setup(b, Options{})
	put(b, s, "run_a", journaltest.Start("run_a"))
	for b.Loop() {
		again, err := Open(context.Background(), s.path, Options{})
		if err != nil {
			b.Fatal(err)
		}
		if err := again.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
