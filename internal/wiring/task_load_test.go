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

// loadVar is how many tasks TestTaskLoad works at the same time; 20 are enough to see that nothing is mixed up or left.
const loadVar = "HARNESS_TEST_LOAD"

const (
	loadRuns    = 3 // of each task
	loadCalls   = 10
	loadLatency = 50 * time.Millisecond // of the model
)

var taskName = regexp.MustCompile(`task-\d+`)

// timedModel notes when a task waits for the model.
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
	turns map[string][]span // by task, when it waited for the model
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
			calls := loadCalls/loadRuns + (loadCalls%loadRuns+loadRuns-1-answered)/loadRuns // 10 are 4, 3, 3
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

// measured is what tasks took.
type measured struct {
	all      []time.Duration // of each task
	overhead []time.Duration // of each run: from the model's answer to the next question, without the time of tools
	rest     []time.Duration // of each task: before its first question and after its last answer
	took     time.Duration
	memory   int64 // bytes at their most, children included
}

// work works n tasks of some users at the same time.
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
		tick := time.NewTicker(2 * time.Second) // looking takes time from what it looks at
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
	for i, t := range tasks { // now that looking takes no time from them
		turns := l.turns[fmt.Sprint("task-", i)]
		if t.EndedAt == nil || len(turns) != loadRuns+1 {
			continue // it has failed
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

// inTools is how long the calls of tools took of each run of a task, from when the program made them to when they were
// answered.
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

// memoryBelow is the memory of a process and its descendants, shared pages counted in part; 0 where the system does not say.
func memoryBelow(root int) (sum int64) {
	files, _ := filepath.Glob("/proc/[0-9]*")
	for _, file := range files {
		pid, _ := strconv.Atoi(filepath.Base(file))
		if pid != root && !isBelow(pid, root) {
			continue
		}
		text, _ := os.ReadFile(file + "/smaps_rollup") // it may have ended
		_, rest, _ := strings.Cut(string(text), "\nPss:")
		var kib int64
		fmt.Sscan(rest, &kib)
		sum += kib << 10
	}
	return sum
}

// TestTaskLoad works many tasks of some users at the same time. All succeed, nobody gets another's answer, and no goroutine
// and no process is left. It runs alone, so that it can tell what is left, and what it measured is of it.
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
		l.work(1, 1) // servers and runners have started
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
		return runtime.NumGoroutine() <= goroutines+5 // connections of HTTP, which end when they have been idle
	})
}

// children are the processes that one has started.
func children(of int) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*")
	for _, file := range files {
		if pid, _ := strconv.Atoi(filepath.Base(file)); isBelow(pid, of) {
			pids = append(pids, pid)
		}
	}
	return pids
}
