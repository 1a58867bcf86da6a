package sqlstore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/testing/child"
	"mcp-code-exec-harness/internal/testing/journaltest"
	"mcp-code-exec-harness/internal/testing/storetest"
)

// taskChildVariable makes the test binary a child that works a task until another test kills it; its value is the store's
// path.
const taskChildVariable = "HARNESS_STORE_TEST_TASK_CHILD"

// runTaskChild locks the queue, claims the task, and commits step after step, each with an event and a record of a run. It
// prints the number of committed steps to stdout, and waits for a line on stdin before each commit.
func runTaskChild(path string) int {
	err := func() error {
		ctx := context.Background()
		s, err := Open(ctx, path, Options{})
		if err != nil {
			return err
		}
		if _, err := s.LockQueue(ctx); err != nil {
			return err
		}
		claimed, err := s.Claim(ctx, "task_a", time.Now())
		if err != nil {
			return err
		}
		w, err := s.Create(ctx, "run_a")
		if err != nil {
			return err
		}
		w.Append(startOf("run_a", "ann", "s"))
		in := bufio.NewReader(os.Stdin)
		for k := 1; ; k++ {
			fmt.Println("committed", k-1)
			if _, err := in.ReadString('\n'); err != nil {
				return err
			}
			w.Append(journaltest.Log(fmt.Sprint(k)))
			if err := w.Commit(ctx); err != nil {
				return err
			}
			if _, err := s.Commit(ctx, "task_a", claimed.Fence, taskStep(k)); err != nil {
				return err
			}
		}
	}()
	fmt.Println("error", err)
	return 1
}

func taskStep(k int) task.Change {
	return task.Change{
		Steps:  []task.Step{{Time: time.Unix(int64(k), 0), Note: &task.Note{Text: strings.Repeat(fmt.Sprint(k), 5000)}}},
		Events: []task.Event{{Type: task.EventNote, Time: time.Unix(int64(k), 0), Key: fmt.Sprint(k), Data: []byte(`{}`)}},
	}
}

// If a process is killed between two commits or during a commit, another process takes over its queue and its task, with all
// that was committed.
func TestKilledTask(t *testing.T) {
	t.Parallel()
	for k := range 5 {
		for _, busy := range []bool{false, true} {
			t.Run(fmt.Sprintf("after %d, in a commit %v", k, busy), func(t *testing.T) {
				t.Parallel()
				testKilledTask(t, k, busy)
			})
		}
	}
}

func testKilledTask(t *testing.T, k int, busy bool) {
	s := reopenAt(t, filepath.Join(t.TempDir(), "harness.db"), Options{})
	for _, id := range []string{"task_a", "task_b"} {
		if _, _, err := s.CreateTask(t.Context(), storetest.New(id, "ann", "s")); err != nil {
			t.Fatal(err)
		}
	}
	exe := child.Executable(t)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), taskChildVariable+"="+s.path)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for i := 0; lines.Scan() && lines.Text() == fmt.Sprint("committed ", i); i++ {
		if i == k && !busy {
			break
		}
		if _, err := io.WriteString(in, "\n"); err != nil {
			t.Error(err)
		}
		if i == k {
			break
		}
	}
	if want := fmt.Sprint("committed ", k); lines.Text() != want {
		t.Errorf("the child says %q, want %q", lines.Text(), want)
	}
	pid := fmt.Sprint(cmd.Process.Pid)
	_, err = s.Claim(t.Context(), "task_a", time.Now())
	wantIs(t, "claim while the owner lives", err, task.ErrNotOwner)
	wantText(t, "claim while the owner lives", err, "task_a", "process "+pid)
	_, err = s.Claim(t.Context(), "task_b", time.Now())
	wantIs(t, "claim of the session's next", err, task.ErrBusy)
	_, err = s.LockQueue(t.Context())
	wantIs(t, "lock while the holder lives", err, task.ErrQueueLocked)
	wantText(t, "lock while the holder lives", err, "process "+pid, "end it", "store.url")

	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) {
		t.Errorf("the child ended with %v before it was killed", err)
	}
	release, err := s.LockQueue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if err := s.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	claimed, _, err := s.ClaimNext(t.Context(), "", nil, time.Now().Add(100*365*24*time.Hour))
	if err != nil || claimed.ID != "task_a" {
		t.Fatalf("the next is %q, %v, want task_a", claimed.ID, err)
	}
	steps, err := s.Steps(t.Context(), "task_a")
	if err != nil || len(steps) != k && !(busy && len(steps) == k+1) {
		t.Fatalf("%d steps, %v, want %d", len(steps), err, k)
	}
	events, err := s.Events(t.Context(), "task_a", 0, 0)
	if err != nil || len(events) != len(steps)+1 {
		t.Errorf("%d events, %v, want one for each of %d steps and the first", len(events), err, len(steps))
	}
	for i, step := range steps {
		if step.Note == nil || step.Note.Text != taskStep(i + 1).Steps[0].Note.Text {
			t.Errorf("step %d is damaged", i+1)
		}
	}
	// The worker commits the same step again, as if it did not know that the step is stored. The step's event is stored once.
	want := max(len(steps), 1) + 2
	if _, err := s.Commit(t.Context(), "task_a", claimed.Fence, taskStep(max(len(steps), 1))); err != nil {
		t.Fatal(err)
	}
	claimed.Status = task.Succeeded
	added, err := s.Commit(t.Context(), "task_a", claimed.Fence, task.Change{
		Task: &claimed, Events: []task.Event{{Type: task.EventEnded, Time: time.Unix(9, 0), Data: []byte(`{}`)}},
	})
	if err != nil || len(added) != 1 || added[0].ID != int64(want) {
		t.Errorf("the end: %v, %v, want the id %d", added, err, want)
	}
	if _, err := s.Claim(t.Context(), "task_b", time.Now()); err != nil {
		t.Errorf("claim of the session's next: %v", err)
	}
	checkTasks(t, s)
}
