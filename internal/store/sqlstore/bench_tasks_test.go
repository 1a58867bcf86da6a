package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/testing/postgrestest"
	"mcp-code-exec-harness/internal/testing/storetest"
)

// callEvents returns the events that a host call of a run adds to its task.
func callEvents(n int) []task.Event {
	key := "run_0123456789abcdef0123/" + strconv.Itoa(n)
	return []task.Event{
		{Type: task.EventCall, Time: time.Now(), Key: key, Data: json.RawMessage(`{"runId":"run_0123456789abcdef0123","n":1,"kind":"tool","name":"crm__search","args":{"q":"acme","limit":10}}`)},
		{Type: task.EventAnswer, Time: time.Now(), Key: key + "/a", Data: json.RawMessage(`{"runId":"run_0123456789abcdef0123","n":1,"ok":true}`)},
	}
}

// countSent counts the round trips and statements of a store's writer from now on. report divides the counts by b.N.
func countSent(b *testing.B, s *Store) (report func(each string)) {
	b.Helper()
	var trips, statements, before int64
	if err := s.write(context.Background(), 0, func(c *conn) {
		send := c.dialect.send
		if send == nil {
			return
		}
		counting := *c.dialect
		counting.send = func(c *conn, all []statement) error {
			trips++
			statements += int64(len(all))
			return send(c, all)
		}
		c.dialect = &counting
	}); err != nil {
		b.Fatal(err)
	}
	before = s.Stats().Transactions
	return func(each string) {
		if err := s.write(context.Background(), 0, func(*conn) {}); err != nil { // this write waits for the earlier transactions
			b.Fatal(err)
		}
		if commits := s.Stats().Transactions - before; trips > 0 { // counting.send does not count COMMIT
			b.ReportMetric(float64(trips+commits)/float64(b.N), "trips/"+each)
			b.ReportMetric(float64(statements+commits)/float64(b.N), "statements/"+each)
		}
	}
}

func claimNew(b *testing.B, s *Store, id string) task.Task {
	b.Helper()
	if _, _, err := s.CreateTask(context.Background(), storetest.New(id, "ann", "sess_"+id)); err != nil {
		b.Fatal(err)
	}
	t, err := s.Claim(context.Background(), id, time.Now())
	if err != nil {
		b.Fatal(err)
	}
	return t
}

// BenchmarkTaskCommit measures commits to 1 or 16 tasks at the same time. Each commit stores the two events of a host call.
func BenchmarkTaskCommit(b *testing.B) {
	for _, tasks := range []int{1, 16} {
		b.Run(fmt.Sprint(tasks, " tasks"), func(b *testing.B) {
			benchStores(b, func(b *testing.B, s *Store) {
				for i := range tasks {
					claimNew(b, s, fmt.Sprint("task_", i))
				}
				count := countSent(b, s)
				before := s.Stats()
				var next atomic.Int64
				took := make([][]time.Duration, tasks)
				var all sync.WaitGroup
				b.ResetTimer()
				for i := range tasks {
					all.Go(func() {
						id := fmt.Sprint("task_", i)
						for n := 1; next.Add(1) <= int64(b.N); n++ {
							begin := time.Now()
							if _, err := s.Commit(context.Background(), id, 1, task.Change{Events: callEvents(n)}); err != nil {
								b.Error(err)
								return
							}
							took[i] = append(took[i], time.Since(begin))
						}
					})
				}
				all.Wait()
				b.StopTimer()
				after := s.Stats()
				quantiles(b, slices.Concat(took...))
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
				b.ReportMetric(float64(after.Changes-before.Changes)/float64(after.Transactions-before.Transactions), "commits/tx")
				count("commit")
			})
		})
	}
}

// BenchmarkTask measures whole tasks, 16 at the same time. A task has two turns and ten calls: 17 commits, and reads of the task.
func BenchmarkTask(b *testing.B) {
	benchStores(b, func(b *testing.B, s *Store) {
		count := countSent(b, s)
		benchTasks(b, s)
		count("task")
	})
}

// BenchmarkTaskReplicas is BenchmarkTask with 1, 2 and 4 stores on one server.
func BenchmarkTaskReplicas(b *testing.B) {
	for _, replicas := range []int{1, 2, 4} {
		b.Run(fmt.Sprint(replicas), func(b *testing.B) {
			url := postgrestest.Start(b, "-c", "synchronous_commit=off").Schema(b)
			var stores []*Store
			for range replicas {
				stores = append(stores, openServer(b, url, Options{}))
			}
			benchTasks(b, stores...)
		})
	}
}

// benchTasks has 16 workers execute tasks, each in one of the stores.
func benchTasks(b *testing.B, stores ...*Store) {
	b.Helper()
	ctx := context.Background()
	var next atomic.Int64
	var all sync.WaitGroup
	note := []task.Step{{Time: time.Now(), Note: &task.Note{Text: string(make([]byte, 2000))}}}
	b.ResetTimer()
	for i := range 16 {
		all.Go(func() {
			for s := stores[i%len(stores)]; ; {
				n := next.Add(1)
				if n > int64(b.N) {
					return
				}
				t := claimNew(b, s, fmt.Sprint("task_", n))
				_, err := s.Steps(ctx, t.ID)
				for i := 0; err == nil && i < 10; i++ {
					_, err = s.Commit(ctx, t.ID, t.Fence, task.Change{Events: callEvents(i)})
				}
				for i := 0; err == nil && i < 4; i++ {
					_, err = s.Commit(ctx, t.ID, t.Fence, task.Change{Steps: note, Events: someEvents(1)})
				}
				t.Status = task.Succeeded
				if err == nil {
					_, err = s.Commit(ctx, t.ID, t.Fence, task.Change{Task: &t, Events: someEvents(1)})
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}

// BenchmarkTaskRead measures the reads of a watcher.
func BenchmarkTaskRead(b *testing.B) {
	s := setup(b, Options{})
	claimNew(b, s, "task_a")
	if _, err := s.Commit(context.Background(), "task_a", 1, task.Change{Events: someEvents(100)}); err != nil {
		b.Fatal(err)
	}
	for what, read := range map[string]func() error{
		"task":      func() error { _, err := s.Task(context.Background(), "task_a"); return err },
		"events":    func() error { _, err := s.Events(context.Background(), "task_a", 1, 500); return err },
		"no events": func() error { _, err := s.Events(context.Background(), "task_a", 101, 500); return err },
		"key":       func() error { _, _, err := s.KeyByHash(context.Background(), []byte("x")); return err },
	} {
		b.Run(what, func(b *testing.B) {
			for b.Loop() {
				if err := read(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
