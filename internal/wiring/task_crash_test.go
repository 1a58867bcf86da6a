package wiring_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/testing/generated"
)

// check compares what has happened with what happens in a harness that is not killed.
func (w *world) check(got task.Task, events []task.Event, calm *calm) {
	w.t.Helper()
	if got.Status != task.Succeeded || got.Text != "The log is abc." || string(got.Output) != `{"n":2,"log":"abc"}` || len(got.Runs) != 2 {
		w.t.Errorf("the task is %s: text %q, output %s, runs %q, %s", got.Status, got.Text, got.Output, got.Runs, got.Message)
	}
	if refused := w.model.Refused(); len(refused) > 0 {
		w.t.Errorf("the model's server refused %q", refused)
	}
	turns, died := w.asked(), w.lives-1
	if len(turns) > turnsOfCrash+died || !slices.IsSorted(turns) || !slices.Equal(slices.Compact(turns), []int{1, 2, 3, 4}) {
		w.t.Errorf("the model was asked for the turns %v", w.asked())
	}
	if n := got.Usage.Turns - len(w.asked()); n < 0 || n > died { // A request may have been recorded and not sent at each crash.
		w.t.Errorf("%d turns are told of, %d were asked for", got.Usage.Turns, len(w.asked()))
	}
	w.mu.Lock()
	posts, hooks := slices.Clone(w.posts), slices.Clone(w.hooks)
	w.mu.Unlock()
	slices.Sort(posts)
	if !slices.Equal(posts, []string{"one", "three", "two"}) {
		w.t.Errorf("posted: %q", posts)
	}
	if mails := mails(w.t, w.dir); len(mails) != 1 || mails["mail"] != 1 {
		w.t.Errorf("mails: %v", mails)
	}
	if hooks = slices.Compact(hooks); w.callback != "" && len(hooks) != 1 {
		w.t.Errorf("the events of webhooks: %q", hooks)
	}
	reads, looked := 0, false
	for _, c := range w.up.called() {
		switch {
		case c == `read {"sent":true}`:
			looked = true
		case strings.HasPrefix(c, "read"):
			reads++
		}
	}
	if reads < 3 || reads > 3+died { // A call that was in flight may be repeated.
		w.t.Errorf("called: %q", w.up.called())
	}
	for i, e := range events {
		if e.ID != int64(i+1) {
			w.t.Errorf("event %d has the id %d", i+1, e.ID)
		}
	}
	if calm == nil || looked || calledOutbox(events) {
		return // The program had more to do, so its events differ.
	}
	if diff := cmp.Diff(calm.events, told(events)); diff != "" {
		w.t.Errorf("events differ (- calm, + killed):\n%s", diff)
	}
	// Ids in answers are random, so their numbers of tokens differ.
	if want, have := calm.task.Usage, got.Usage; want.Calls != have.Calls || abs(want.Direct.Intermediate-have.Direct.Intermediate) > 20 {
		w.t.Errorf("%d calls and an estimate of %+v, want %d and %+v", have.Calls, have.Direct, want.Calls, want.Direct)
	}
	if diff := cmp.Diff(calm.task.Logs, got.Logs); diff != "" {
		w.t.Errorf("logs differ (- calm, + killed):\n%s", diff)
	}
}

// calm is the result of a task in a harness that is not killed.
type calm struct {
	task   task.Task
	events []string
}

// told returns the contents of events, without ids and times, and sorted, because the order of concurrent events varies.
func told(events []task.Event) []string {
	var all []string
	for _, e := range events {
		var d struct {
			N          int
			Kind, Name string
			Turn       int
			Text       string
			OK         *bool
			Status     string
			Output     json.RawMessage
		}
		json.Unmarshal(e.Data, &d)
		line := fmt.Sprintf("%s %d %s %s %s %s", e.Type, d.N, d.Kind, d.Name, d.Text, d.Status)
		if e.Type != task.EventEnded && e.Type != task.EventTurn {
			line += " " + string(d.Output)
		}
		all = append(all, line)
	}
	slices.Sort(all)
	return all
}

func abs(n int) int { return max(n, -n) }

func calledOutbox(events []task.Event) bool {
	return slices.ContainsFunc(events, func(e task.Event) bool {
		return e.Type == task.EventCall && strings.Contains(string(e.Data), "mailer__list_outbox")
	})
}

// TestTaskCrash kills the real server at points of every kind: before and after commits of its store, in calls of the model, in calls of a tool, and while a
// callback is delivered. After the restart the task ends as if nothing had happened: no answered turn is requested again, no answered call is made again, and
// nothing is written twice.
func TestTaskCrash(t *testing.T) {
	w := newWorld(t)
	got, events := w.ask()
	undisturbed := &calm{got, told(events)}
	w.check(got, events, nil)
	var before, after int
	_, counts, _ := strings.Cut(w.victim.stderr.String(), "commits: ")
	if n, err := fmt.Sscan(counts, &before, &after); n != 2 || err != nil {
		t.Fatalf("the commits are not counted: %s", &w.victim.stderr)
	}
	points := crashPoints(w.passed, before, after)
	var died atomic.Int32
	t.Run("at", func(t *testing.T) {
		for _, point := range points {
			t.Run(point, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.kill = point
				got, events := w.ask()
				w.check(got, events, undisturbed)
				died.Add(int32(w.lives - 1))
			})
		}
	})
	// The number of commits in one transaction varies, so a later run may have fewer points.
	if n := int(died.Load()); n < len(points)*2/3 || n < generated.Count(15, 60) && postgres == nil { // With PostgreSQL, commits are not points.
		t.Errorf("it died at %d of %d points", died.Load(), len(points))
	}
}

// pointDetail matches the part that differs between points of one kind: the turn of the model, or the arguments of a tool.
var pointDetail = regexp.MustCompile(`^model \d+|\{.*\}`)

// crashPoints returns the points at which TestTaskCrash kills the server. In the long tests these are all points. Otherwise they are one point of each kind
// outside of the server, and every fourth commit, alternately before and after it. Different kinds take their points from different turns.
func crashPoints(outside []string, before, after int) (points []string) {
	if generated.Long() {
		points = slices.Clone(outside)
		for i := range before {
			points = append(points, fmt.Sprint("before ", i+1))
		}
		for i := range after {
			points = append(points, fmt.Sprint("after ", i+1))
		}
		return points
	}
	var kinds []string
	byKind := map[string][]string{}
	for _, point := range outside {
		kind := pointDetail.ReplaceAllString(point, "")
		if byKind[kind] == nil {
			kinds = append(kinds, kind)
		}
		byKind[kind] = append(byKind[kind], point)
	}
	for i, kind := range kinds {
		points = append(points, byKind[kind][i%len(byKind[kind])])
	}
	for i := 1; i <= before; i += 8 {
		points = append(points, fmt.Sprint("before ", i))
	}
	for i := 5; i <= after; i += 8 {
		points = append(points, fmt.Sprint("after ", i))
	}
	return points
}

// TestTaskCrashAgain kills the server repeatedly. Each time, the task gets a little further.
func TestTaskCrashAgain(t *testing.T) {
	t.Parallel()
	for _, every := range []int{5, 7, 11} {
		t.Run(fmt.Sprint("every ", every), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.every = every
			got, events := w.ask()
			w.check(got, events, nil)
			if w.lives < 3 {
				t.Errorf("it has lived only %d times", w.lives)
			}
		})
	}
}

// TestTaskTakenOver kills one of two servers that work the same queue while its task writes. The other server continues the task.
func TestTaskTakenOver(t *testing.T) {
	if postgres == nil {
		t.Skip("one server works the queue of a file: make test-postgres has several")
	}
	t.Parallel()
	w := newWorld(t)
	w.hold = `send {"what":"one"} comes`
	w.live(w.serve)
	first := w.victim
	var of task.Task
	if err := first.do(http.MethodPost, "/v1/tasks", "once", map[string]any{"userId": "ann", "task": "Do it.", "sessionId": "s", "callbackUrl": w.callback}, &of); err != nil {
		t.Fatal(err)
	}
	<-w.holding
	second := serve(t, w.dir, "")
	first.kill()
	w.mu.Lock()
	w.victim, w.lives = second, 2
	w.mu.Unlock()
	w.holding <- struct{}{}
	got, err := second.end(of.ID)
	if err != nil {
		t.Fatalf("%v\n%s", err, &second.stderr)
	}
	eventually(t, "the callback is told", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.hooks) > 0
	})
	events, err := second.events(of.ID)
	if err != nil {
		t.Fatal(err)
	}
	w.check(got, events, nil)
	if code := second.stop(); code != 0 {
		t.Errorf("the second server exits with %d: %s", code, &second.stderr)
	}
}

// TestTaskOtherProcesses starts a second server and other commands while a task is in a call of the model or of a tool. They do not affect the task.
func TestTaskOtherProcesses(t *testing.T) {
	if postgres != nil {
		t.Skip("of a store in PostgreSQL each server works the queue")
	}
	t.Parallel()
	for _, point := range []string{"model 2 asked", `send {"what":"one"} comes`} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.hold = point
			w.live(w.serve)
			done := make(chan func(), 1)
			go func() {
				got, events, err := w.work()
				if err != nil {
					t.Error(err)
				}
				done <- func() { w.check(got, events, nil) }
			}()
			<-w.holding
			second := command(t, w.dir, "", "serve", "--listen", "127.0.0.1:0")
			if code, want := second.wait(), fmt.Sprintf("process %d", w.victim.cmd.Process.Pid); code != 3 || !strings.Contains(second.stderr.String(), want) {
				t.Errorf("a second server exits with %d, and does not name %s: %s", code, want, &second.stderr)
			}
			var page struct{ Tasks []task.Task }
			list := command(t, w.dir, "", "tasks", "list", "--json")
			if code := list.wait(); code != 0 || json.Unmarshal(list.stdout.Bytes(), &page) != nil || len(page.Tasks) != 1 {
				t.Fatalf("the list exits with %d: %s", code, &list.stdout)
			}
			resume := command(t, w.dir, "", "tasks", "resume", page.Tasks[0].ID)
			if code := resume.wait(); code != 1 || !strings.Contains(resume.stderr.String(), "another process works on it") {
				t.Errorf("to resume it exits with %d: %s", code, &resume.stderr)
			}
			other := command(t, w.dir, "", "run", "--user", "ann", "Say hello.")
			if code := other.wait(); code != 0 || !strings.Contains(other.stdout.String(), "Hello.") {
				t.Errorf("another task exits with %d: %s", code, &other.stderr)
			}
			behind := command(t, w.dir, "", "run", "--user", "ann", "--session", "s", "Say hello.")
			eventually(t, "it waits for the session", func() bool {
				var page struct{ Tasks []task.Task }
				if err := w.victim.do(http.MethodGet, "/v1/tasks?sessionId=s&status=queued", "", nil, &page); err != nil {
					t.Fatal(err)
				}
				return len(page.Tasks) == 1
			})
			w.holding <- struct{}{}
			check := <-done
			if code := behind.wait(); code != 0 || !strings.Contains(behind.stdout.String(), "Hello.") {
				t.Errorf("the session's next task exits with %d: %s", code, &behind.stderr)
			}
			check()
			w.victim.stop()
		})
	}
}

// TestTaskRunKilled kills harness run in the middle of its task, and harness tasks resume continues the task.
func TestTaskRunKilled(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"model 1 asked", `send {"what":"one"} comes`, `send {"what":"one"} done`, "model 3 answered 1/2"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.kill = point
			w.live(func(kill string) *served { return command(t, w.dir, kill, "run", "--user", "ann", "Do it.") })
			if code := w.victim.wait(); code != -1 {
				t.Fatalf("it exits with %d: %s", code, &w.victim.stderr)
			}
			var page struct{ Tasks []task.Task }
			list := command(t, w.dir, "", "tasks", "list", "--json")
			if code := list.wait(); code != 0 || json.Unmarshal(list.stdout.Bytes(), &page) != nil || len(page.Tasks) != 1 {
				t.Fatalf("the list exits with %d: %s", code, &list.stdout)
			}
			w.live(func(kill string) *served {
				return command(t, w.dir, kill, "tasks", "resume", "--json", page.Tasks[0].ID)
			})
			var got task.Task
			if code := w.victim.wait(); code != 0 || json.Unmarshal(w.victim.stdout.Bytes(), &got) != nil {
				t.Errorf("it exits with %d: %s\n%s", code, &w.victim.stdout, &w.victim.stderr)
			}
			server := serve(t, w.dir, "")
			events, err := server.events(got.ID)
			if err != nil {
				t.Fatal(err)
			}
			w.callback = "" // harness run has no callbacks.
			w.check(got, events, nil)
			server.stop()
		})
	}
}

// TestTaskAbandoned: a task whose process was killed in a call of a tool is cancelled, or its time is used up. Its run then ends too, and lists the writes
// that may have happened. A replay reports the same.
func TestTaskAbandoned(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  []string // command that ends the task
		code int
		kind string // kind of the task's error
		said string // part of the task's message
	}{
		"cancelled":    {[]string{"tasks", "cancel"}, 0, task.KindCancelled, "harness runs show"},
		"no time left": {[]string{"tasks", "resume"}, 1, task.KindBudget, "Writes in doubt, which may have happened: up__send"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.kill = `send {"what":"one"} comes`
			w.live(func(kill string) *served { return command(t, w.dir, kill, "run", "--user", "ann", "Do it.") })
			if code := w.victim.wait(); code != -1 {
				t.Fatalf("it exits with %d: %s", code, &w.victim.stderr)
			}
			do := func(want int, into any, args ...string) {
				t.Helper()
				s := command(t, w.dir, "", append(args, "--json")...)
				if code := s.wait(); code != want || json.Unmarshal(s.stdout.Bytes(), into) != nil {
					t.Fatalf("%v exits with %d: %s%s", args, code, &s.stdout, &s.stderr)
				}
			}
			var tasks struct{ Tasks []task.Task }
			do(0, &tasks, "tasks", "list")
			var runs struct{ Runs []struct{ ID, Status string } }
			do(0, &runs, "runs", "list")
			if len(tasks.Tasks) != 1 || len(runs.Runs) != 1 || runs.Runs[0].Status != "running" {
				t.Fatalf("after the kill there are %+v and %+v", tasks, runs)
			}
			config, err := os.ReadFile(filepath.Join(w.dir, "harness.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			write(t, w.dir, "harness.yaml", strings.Replace(string(config), "model: {", "model: {maxTaskTime: 1ms, ", 1))
			var ended task.Task
			do(c.code, &ended, append(c.end, tasks.Tasks[0].ID)...)
			if ended.Error == nil || ended.Error.Kind != c.kind || !strings.Contains(ended.Message, c.said) {
				t.Errorf("the task ended as %+v", ended)
			}
			var shown struct{ Outcome run.Outcome }
			do(0, &shown, "runs", "show", runs.Runs[0].ID)
			out := shown.Outcome
			if out.Status != run.Cancelled || len(out.Effects) != 2 || out.Effects[1].State != "in_doubt" {
				t.Errorf("the run ended as %+v", out)
			}
			var again run.Outcome
			do(0, &again, "runs", "replay", runs.Runs[0].ID)
			if again.Status != run.Cancelled || !reflect.DeepEqual(again.Effects, out.Effects) {
				t.Errorf("its replay ends as %+v, %+v", again, again.Error)
			}
		})
	}
}
