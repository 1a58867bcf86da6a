// Command load measures a served harness from outside: users in turn, tasks at once, and users beside hostile users and users who read much. It
// starts each given binary as "harness serve" with default settings, except the rate limit, and sends it HTTP requests. The model is a fake on
// loopback that answers in Anthropic's wire format after a fixed time. The tools are those of a real MCP server over stdio.
//
//	go run ./internal/testing/load bin/harness            # make load
//	go run ./internal/testing/load -n 5 old/harness bin/harness
//	go run ./internal/testing/load -replicas 3 bin/harness # three processes on a PostgreSQL server that it starts
//
// With several binaries it measures them alternately, and prints the medians and their ratio to the first binary's.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mcp-code-exec-harness/internal/testing/fake"
	"mcp-code-exec-harness/internal/testing/misbehave"
	"mcp-code-exec-harness/internal/testing/postgrestest"
)

// scenario is one measurement of a served harness.
type scenario struct {
	name   string
	unit   string
	budget float64 // lower bound; the upper bound if atMost is set
	atMost bool
	run    func(context.Context, *server) (figures, error)
}

// figures are the result of a scenario and a note about further measurements.
type figures struct {
	value float64
	note  string
}

var scenarios = []scenario{
	{"1 user in turn", "runs/s", 0, false, inTurn(1, 1000)},
	{"100 users in turn", "runs/s", 250, false, inTurn(100, 1000)},
	{"1,000 users in turn", "runs/s", 80, false, inTurn(1000, 2000)},
	{"200 tasks at once, 3 runs, 10 calls, model 50 ms", "tasks/s", 60, false, tasksAtOnce(200, 3, 10, 50*time.Millisecond, true)},
	{"1,000 tasks at once, 2 runs, model 2 s", "s", 15, true, tasksAtOnce(1000, 2, 0, 2*time.Second, false)},
	{"p99 of users beside a hostile one, 200 attacks in 10 s", "times", 0, true, besideAHostileUser(3, 200, 10*time.Second)},
	{"p99 of a user beside 4,096 connections without credentials", "times", 2, true, besideOpenConnections(3, 4096, 10*time.Second)},
	{"p99 of 100 MCP clients beside a hostile one", "times", 2, true, mcpBesideAHostileClient(3, 10*time.Second)},
	{"p50 of a user beside lists of another's 1,000 approvals", "times", 2, true, besideReads("/v1/approvals?status=waiting&limit=1000", 1000, 4, 5*time.Second, waitingApprovals)},
	{"p50 of a user beside lists of another's 9,000 files", "times", 2, true, besideReads("/v1/sessions/many/files", 9000, 4, 5*time.Second, manyFiles)},
	{"p99 of users beside a hostile one, a window of the rate limit", "times", 2, true, besideAHostileUser(1, 100, 15*time.Minute)},
}

func main() {
	misbehave.Main() // this process may be the MCP server of a harness
	times := flag.Int("n", 1, "how often each binary is measured")
	replicas := flag.Int("replicas", 0, "processes on a PostgreSQL server, which get requests in turn; 0: one process on a file")
	only := flag.String("only", "", "only scenarios whose name contains this; without it, the one that takes a quarter of an hour is left out")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: load [-n TIMES] [-only TEXT] [-replicas N] HARNESS...")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	failed := false
	for _, s := range scenarios {
		if strings.Contains(s.name, *only) && (*only != "" || !strings.Contains(s.name, "window")) {
			failed = compare(ctx, s, flag.Args(), *times, *replicas) || failed
		}
	}
	if failed {
		os.Exit(1)
	}
}

// compare measures binaries alternately and prints what it found. It reports whether a measurement failed.
func compare(ctx context.Context, s scenario, binaries []string, times, replicas int) (failed bool) {
	values := make(map[string][]float64)
	for range times {
		for _, binary := range binaries {
			got, err := measure(ctx, s, binary, replicas)
			if err != nil {
				fmt.Printf("%-50s %s: %v\n", s.name, binary, err)
				failed = true
				continue
			}
			values[binary] = append(values[binary], got.value)
			fmt.Printf("%-50s %s: %.4g %s  %s\n", s.name, binary, got.value, s.unit, got.note)
		}
	}
	for _, binary := range binaries {
		all, first := values[binary], values[binaries[0]]
		if len(all) == 0 || len(first) == 0 {
			continue
		}
		line := fmt.Sprintf("%-50s %s: median %.4g %s", s.name, binary, median(all), s.unit)
		if binary != binaries[0] {
			line += fmt.Sprintf(", %.2f times", median(all)/median(first))
		}
		if s.budget > 0 {
			verdict := "within"
			if s.atMost == (median(all) > s.budget) {
				verdict = "OVER"
			}
			line += fmt.Sprintf(", budget %g: %s", s.budget, verdict)
		}
		fmt.Println(line)
	}
	return failed
}

func median(all []float64) float64 {
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}

func measure(ctx context.Context, s scenario, binary string, replicas int) (figures, error) {
	srv, err := start(ctx, binary, replicas)
	if err != nil {
		return figures{}, err
	}
	got, err := s.run(ctx, srv)
	return got, errors.Join(err, srv.stop())
}

// server is a served harness: one process, or several replicas on one store.
type server struct {
	url   string // address of the first replica
	key   string
	dir   string
	cmd   *exec.Cmd // first replica
	more  []replica // all replicas except the first
	next  atomic.Int64
	store *postgrestest.Server // store of the replicas; nil if the store is a file
	model *fake.Server
	http  *http.Client

	mu    sync.Mutex
	turns map[string][]turn // turns of the model, by task
}

// turn has the times at which the model was asked and answered.
type turn struct{ asked, answered time.Time }

// plan matches the instruction for the fake model in the text of every task.
var plan = regexp.MustCompile(`task (\d+): (\d+) runs, (\d+) calls, (\d+) ms`)

// answer returns the model's reply: one of the planned programs, then the final answer.
func (s *server) answer(r fake.Request) fake.Reply {
	asked := time.Now()
	var numbers []int
	done := 0
	for _, m := range r.Messages {
		if m.Role == "user" && numbers == nil {
			for _, text := range plan.FindStringSubmatch(m.Text) {
				n, _ := strconv.Atoi(text)
				numbers = append(numbers, n)
			}
		}
		if m.Role == "assistant" {
			done++
		}
	}
	if len(numbers) != 5 {
		return fake.Reply{Text: "There is no plan in this task."}
	}
	task, runs, calls, latency := numbers[1], numbers[2], numbers[3], time.Duration(numbers[4])*time.Millisecond
	s.mu.Lock()
	key := fmt.Sprint("task ", task)
	s.turns[key] = append(s.turns[key], turn{asked, asked.Add(latency)})
	s.mu.Unlock()
	reply := fake.Reply{Text: fmt.Sprint("It is ", task, "."), Usage: fake.Usage{Input: 1000, Output: 20}, Latency: latency}
	if done < runs {
		n := calls/runs + (calls%runs+runs-1-done)/runs
		code := fmt.Sprintf("let sum = 0\nfor (let i = 0; i < %d; i++) sum += (await callMCPTool('load__echo', {alpha: %d})).alpha\nreturn {sum}", n, task)
		input, err := json.Marshal(map[string]string{"code": code})
		if err != nil {
			return fake.Reply{Text: err.Error()}
		}
		reply.Text, reply.Calls = "", []fake.Call{{Name: "execute_code", Input: string(input)}}
	}
	return reply
}

// start starts a served harness in a directory of its own, and waits until it answers.
func start(ctx context.Context, binary string, replicas int) (_ *server, err error) {
	binary, err = filepath.Abs(binary)
	if err != nil {
		return nil, err
	}
	s := &server{turns: make(map[string][]turn)}
	s.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2000}}
	if s.dir, err = os.MkdirTemp("", "harness-load-"); err != nil {
		return nil, err
	}
	s.model = fake.Serve(s.answer)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	if replicas > 0 {
		if s.store, err = postgrestest.Run("-c", "synchronous_commit=off"); err != nil {
			return nil, err
		}
	}
	for n := range max(replicas, 1) {
		r, err := s.replica(ctx, binary, n)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			s.more = append(s.more, r)
		} else {
			s.cmd, s.url = r.cmd, r.url
		}
	}
	return s, nil
}

// file returns the path of the first replica's configuration.
func (s *server) file() string { return filepath.Join(s.dir, "0", "harness.yaml") }

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func (s *server) stop() (err error) {
	for _, r := range s.replicas() {
		err = errors.Join(err, r.cmd.Process.Signal(os.Interrupt))
		_, failed := r.cmd.Process.Wait()
		err = errors.Join(err, failed)
	}
	if s.store != nil {
		s.store.Close()
	}
	s.model.Close()
	s.http.CloseIdleConnections()
	return errors.Join(err, os.RemoveAll(s.dir))
}

// call posts a body, or gets a resource if body is nil. Any answer without a success status is an error.
func (s *server) call(ctx context.Context, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	method := http.MethodPost
	if body == nil {
		method, text = http.MethodGet, nil
	}
	req, err := http.NewRequestWithContext(ctx, method, s.address()+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+s.key)
	req.Header.Set("Content-Type", "application/json")
	res, err := s.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode >= 300 {
		return fmt.Errorf("%s: %s: %.300s", path, res.Status, answer)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer, into)
}

// together calls f for 0 to n-1, atOnce calls at a time, and returns the errors.
func together(n, atOnce int, f func(int) error) error {
	errs := make([]error, atOnce)
	var next atomic.Int64
	var wg sync.WaitGroup
	for g := range atOnce {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && errs[g] == nil; i = int(next.Add(1)) - 1 {
				errs[g] = f(i)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// inTurn measures the rate of short runs, 20 at a time, that the users make in turn.
func inTurn(users, runs int) func(context.Context, *server) (figures, error) {
	return func(ctx context.Context, s *server) (figures, error) {
		var took []time.Duration
		var mu sync.Mutex
		cost := s.cost()
		began := time.Now()
		err := together(runs, 20, func(i int) error {
			asked := time.Now()
			var out struct {
				Status string
				Output json.RawMessage
			}
			err := s.call(ctx, "/v1/runs", map[string]any{"userId": fmt.Sprint("user", i%users), "code": "return 1"}, &out)
			if err == nil && string(out.Output) != "1" {
				err = fmt.Errorf("a run is %s and returned %s", out.Status, out.Output)
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Since(asked))
			return err
		})
		rate := float64(runs) / time.Since(began).Seconds()
		slices.Sort(took)
		return figures{rate, fmt.Sprintf("a run p50 %s, p99 %s; %s", at(took, 0.5), at(took, 0.99), cost(runs))}, err
	}
}

func at(all []time.Duration, share float64) time.Duration {
	return all[int(share*float64(len(all)-1))].Round(100 * time.Microsecond)
}

// tasksAtOnce submits tasks of 20 users at the same time. The result is their rate or, without rate, the seconds until all have succeeded.
func tasksAtOnce(tasks, runs, calls int, latency time.Duration, rate bool) func(context.Context, *server) (figures, error) {
	return func(ctx context.Context, s *server) (figures, error) {
		work := func(i, user int) error {
			text := fmt.Sprintf("Do task %d: %d runs, %d calls, %d ms.", i, runs, calls, latency.Milliseconds())
			var out struct {
				Status string
				Text   string
			}
			err := s.call(ctx, "/task", map[string]any{"userId": fmt.Sprint("user", user), "task": text}, &out)
			if want := fmt.Sprint("It is ", i, "."); err == nil && out.Text != want {
				err = fmt.Errorf("task %d is %s and answered %q", i, out.Status, out.Text)
			}
			return err
		}
		if err := work(1_000_000, 0); err != nil { // the first task starts what is started only once
			return figures{}, err
		}
		cost := s.cost()
		began := time.Now()
		err := together(tasks, tasks, func(i int) error { return work(i, i%20) })
		all, costs := time.Since(began).Seconds(), cost(tasks)
		f := figures{value: all}
		if rate {
			f.value = float64(tasks) / all
		}
		var between []time.Duration // times from the model's answer to the next request, including tools
		for _, turns := range s.turns {
			for i := 1; i < len(turns); i++ {
				between = append(between, turns[i].asked.Sub(turns[i-1].answered))
			}
		}
		slices.Sort(between)
		took, listed := s.runs(ctx, tasks*runs)
		f.note = fmt.Sprintf("tools included, a run p50 %s, p99 %s, between turns p50 %s, p99 %s; memory of the server without its children at most %d MiB; %s",
			at(took, 0.5), at(took, 0.99), at(between, 0.5), at(between, 0.99), peak(s.cmd.Process.Pid)>>20, costs)
		return f, errors.Join(err, listed)
	}
}

// runs returns the durations of the last n runs, sorted.
func (s *server) runs(ctx context.Context, n int) (took []time.Duration, err error) {
	var page struct {
		Runs []struct{ DurationMs float64 }
		Next string
	}
	for cursor := ""; len(took) < n && (cursor != "" || took == nil) && err == nil; cursor = page.Next {
		page.Next = ""
		err = s.call(ctx, "/v1/runs?limit=100&cursor="+url.QueryEscape(cursor), nil, &page)
		for _, r := range page.Runs {
			took = append(took, time.Duration(r.DurationMs*float64(time.Millisecond)))
		}
	}
	slices.Sort(took)
	return took, err
}

// peak returns the maximum memory of a process so far, in bytes, or 0 if the system does not tell.
func peak(pid int) (bytes int64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // exists on Linux only
	_, rest, _ := strings.Cut(string(text), "\nVmHWM:")
	_, _ = fmt.Sscan(rest, &bytes)
	return bytes << 10
}
