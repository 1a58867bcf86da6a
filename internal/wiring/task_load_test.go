package wiring_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/testing/fake"
	"mcp-code-exec-harness/internal/testing/misbehave"
	"mcp-code-exec-harness/internal/wiring"
)

// loadVar is the number of tasks that TestTaskLoad works at the same time. 20 are enough to see that nothing is mixed up or left.
const loadVar = "HARNESS_TEST_LOAD"

const (
	loadRuns    = 3 // runs of each task
	loadCalls   = 10
	loadLatency = 50 * time.Millisecond // latency of the model
)

var taskName = regexp.MustCompile(`task-\d+`)

// timedModel records the times in which tasks wait for the model.
type timedModel struct {
	model.Model
	took func(task string, turn span)
}

type span struct{ from, to time.Time }

func (m timedModel) Generate(ctx context.Context, r *model.Request) (*model.Turn, error) {
	began := time.Now()
	turn, err := m.Model.Generate(ctx, r)
	m.took(taskName.FindString(r.Messages[0].Text), span{began, time.Now()})
	return turn, err
}

// load is a harness under load.
type load struct {
	*fixture
	tasks *task.Service

	mu    sync.Mutex
	turns map[string][]span // times of requests to the model, by task
}

func newLoad(t *testing.T, workers int) *load {
	t.Helper()
	server := fake.Serve(func(r fake.Request) fake.Reply {
		var n, answered int
		for _, m := range r.Messages {
			if m.Role == "user" && n == 0 {
				n, _ = strconv.Atoi(strings.TrimPrefix(taskName.FindString(m.Text), "task-"))
			}
			if m.Role == "assistant" {
				answered++
			}
		}
		reply := fake.Reply{Text: fmt.Sprint("It is ", n, "."), Usage: fake.Usage{Input: 1000, Output: 20}}
		if answered < loadRuns {
			calls := loadCalls/loadRuns + (loadCalls%loadRuns+loadRuns-1-answered)/loadRuns // distributes 10 calls as 4, 3 and 3
			reply = program(fmt.Sprintf(`
let sum = 0
for (let i = 0; i < %d; i++) sum += (await callMCPTool('bad__echo', {alpha: %d})).alpha
return {sum}`, calls, n))
		}
		reply.Latency = loadLatency
		return reply
	})
	t.Cleanup(server.Close)
	f := setup(t, map[string]string{"server.workers": fmt.Sprint(workers)}, badServer(t, "bad", misbehave.Normal))
	f.cfg.Model.Provider, f.cfg.Model.Name, f.cfg.Model.APIKey, f.cfg.Model.BaseURL = "anthropic", "claude-test", "k", server.URL
	l := &load{fixture: f, turns: map[string][]span{}}
	models := f.Models()
	var err error
	l.tasks, err = f.Tasks(wiring.TaskOptions{
		Models: func(name string) (model.Model, error) {
			m, err := models(name)
			return timedModel{m, func(task string, turn span) {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.turns[task] = append(l.turns[task], turn)
			}}, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// measured holds the durations of tasks and of their parts.
type measured struct {
	all      []time.Duration // duration of each task
	overhead []time.Duration // time of each run from the model's answer to the next request, without the time of tools
	rest     []time.Duration // time of each task before its first request and after its last answer
	took     time.Duration
	memory   int64 // maximum memory in bytes, children included
}

// work works n tasks of several users at the same time.
func (l *load) work(n, users int) measured {
	l.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.tasks.Work(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			l.t.Error(err)
		}
	}()
	var m measured
	var mu sync.Mutex
	var wg sync.WaitGroup
	peak, stop := make(chan int64), make(chan struct{})
	go func() {
		var most int64
		tick := time.NewTicker(2 * time.Second) // Measuring takes processor time from the tasks.
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				most = max(most, memoryBelow(os.Getpid()))
			case <-stop:
				peak <- max(most, memoryBelow(os.Getpid()))
				return
			}
		}
	}()
	tasks := make([]task.Task, n)
	began := time.Now()
	for i := range n {
		wg.Go(func() {
			asked := time.Now()
			in, _, err := l.tasks.Submit(l.t.Context(), task.Request{UserID: fmt.Sprint("user-", i%users), Task: fmt.Sprintf("Do task-%d.", i)})
			if err != nil {
				l.t.Error(err)
				return
			}
			got, err := l.tasks.Wait(l.t.Context(), in.ID)
			took := time.Since(asked)
			if err != nil || got.Status != task.Succeeded || got.Text != fmt.Sprint("It is ", i, ".") || len(got.Runs) != loadRuns ||
				got.Usage.Calls != loadCalls || string(got.Output) != fmt.Sprintf(`{"sum":%d}`, 3*i) {
				l.t.Errorf("task %d ended as %s: %q, %s, %d runs, %d calls, %v", i, got.Status, got.Text, got.Output, len(got.Runs), got.Usage.Calls, err)
			}
			mu.Lock()
			defer mu.Unlock()
			m.all = append(m.all, took)
			tasks[i] = got
		})
	}
	wg.Wait()
	m.took = time.Since(began)
	close(stop)
	m.memory = <-peak
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, t := range tasks { // The tasks have ended, so this takes no time from them.
		turns := l.turns[fmt.Sprint("task-", i)]
		if t.EndedAt == nil || len(turns) != loadRuns+1 {
			continue // The task has failed.
		}
		tools := l.inTools(t.ID)
		for run, id := range t.Runs {
			m.overhead = append(m.overhead, turns[run+1].from.Sub(turns[run].to)-tools[id])
		}
		m.rest = append(m.rest, turns[0].from.Sub(*t.StartedAt)+t.EndedAt.Sub(turns[loadRuns].to))
	}
	slices.Sort(m.rest)
	slices.Sort(m.all)
	slices.Sort(m.overhead)
	return m
}

// inTools returns, for each run of a task, the total time of its tool calls, from the call of the program to the answer.
func (l *load) inTools(id string) map[string]time.Duration {
	sum := map[string]time.Duration{}
	events, err := l.tasks.Past(context.Background(), id, 0)
	if err != nil {
		l.t.Error(err)
	}
	made := map[string]time.Time{}
	for _, e := range events {
		var d struct {
			RunID string
			N     int
			Kind  string
		}
		if json.Unmarshal(e.Data, &d) != nil {
			continue
		}
		call := fmt.Sprint(d.RunID, "/", d.N)
		switch {
		case e.Type == task.EventCall && d.Kind == "tool":
			made[call] = e.Time
		case e.Type == task.EventAnswer && !made[call].IsZero():
			sum[d.RunID] += e.Time.Sub(made[call])
		}
	}
	return sum
}

func (m measured) String() string {
	at := func(all []time.Duration, share float64) time.Duration {
		return all[int(share*float64(len(all)-1))].Round(100 * time.Microsecond)
	}
	return fmt.Sprintf("%d tasks in %s: %.1f tasks/s, %.1f runs/s; a task p50 %s, p99 %s; overhead of a run p50 %s, p99 %s, "+
		"of a task besides p50 %s; memory %d MiB",
		len(m.all), m.took.Round(time.Millisecond), float64(len(m.all))/m.took.Seconds(), float64(loadRuns*len(m.all))/m.took.Seconds(),
		at(m.all, 0.5), at(m.all, 0.99), at(m.overhead, 0.5), at(m.overhead, 0.99), at(m.rest, 0.5), m.memory>>20)
}

// memoryBelow returns the memory of a process and its descendants. Shared pages count in part. It returns 0 if the system does not report the memory.
func memoryBelow(root int) (sum int64) {
	files, _ := filepath.Glob("/proc/[0-9]*")
	for _, file := range files {
		pid, _ := strconv.Atoi(filepath.Base(file))
		if pid != root && !isBelow(pid, root) {
			continue
		}
		text, _ := os.ReadFile(file + "/smaps_rollup") // The process may have ended.
		_, rest, _ := strings.Cut(string(text), "\nPss:")
		var kib int64
		fmt.Sscan(rest, &kib)
		sum += kib << 10
	}
	return sum
}

// TestTaskLoad works many tasks of several users at the same time. All succeed, none gets the answer of another, and no goroutine and no process is left. The
// test runs alone, so that leftovers and measurements are its own.
func TestTaskLoad(t *testing.T) {
	if postgres != nil {
		t.Skip("the server of the stores is a process that is left")
	}
	n := 20
	if text := os.Getenv(loadVar); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	goroutines := runtime.NumGoroutine()
	t.Run("alone", func(t *testing.T) {
		l := newLoad(t, 1)
		l.work(1, 1) // starts servers and runners
		l.turns = map[string][]span{}
		t.Log("one at a time: ", l.work(10, 1))
	})
	t.Run("together", func(t *testing.T) {
		l := newLoad(t, 64)
		l.work(1, 1)
		l.turns = map[string][]span{}
		t.Log("all at once: ", l.work(n, 20))
	})
	eventually(t, "every goroutine and process has ended", func() bool {
		for _, pid := range children(os.Getpid()) {
			if alive(pid) {
				return false
			}
		}
		return runtime.NumGoroutine() <= goroutines+5 // allows for idle HTTP connections, which end later
	})
}

// children returns the processes that a process has started.
func children(of int) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*")
	for _, file := range files {
		if pid, _ := strconv.Atoi(filepath.Base(file)); isBelow(pid, of) {
			pids = append(pids, pid)
		}
	}
	return pids
}
