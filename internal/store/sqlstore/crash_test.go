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

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/testing/child"
	"mcp-code-exec-harness/internal/testing/journaltest"
)

// childVariable makes the test binary a child that another test kills; its value is the store's path.
const childVariable = "HARNESS_STORE_TEST_CHILD"

const crashRecords = 24

// crashRecord returns record k (from 1) of the child's run. Some records contain large values.
func crashRecord(k int) journal.Record {
	switch {
	case k == 1:
		return bigStart("run_a", "program")
	case k%3 == 2:
		return journaltest.Call(k)
	case k%3 == 0:
		return bigAnswer(k-1, fmt.Sprint("answer", k%4))
	default:
		return journaltest.Log(fmt.Sprint(k))
	}
}

// runChild appends and commits records one after another. After each append and each commit, it prints the step to stdout and
// waits for a line on stdin, so that the parent can kill it at this step.
func runChild(path string) int {
	s, err := Open(context.Background(), path, Options{})
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	w, err := s.Create(context.Background(), "run_a")
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	in := bufio.NewReader(os.Stdin)
	step := func(what string, k int) bool {
		fmt.Println(what, k)
		_, err := in.ReadString('\n')
		return err == nil
	}
	for k := 1; k <= crashRecords; k++ {
		w.Append(crashRecord(k))
		if !step("appended", k) {
			return 1
		}
		if err := w.Commit(context.Background()); err != nil {
			fmt.Println("error", err)
			return 1
		}
		if !step("committed", k) {
			return 1
		}
	}
	return 0
}

// If a process is killed at any step, the store contains the committed records of its journal. A record whose commit was
// interrupted is stored as a whole or not at all. Another process finds the run and continues it.
func TestKilledAnywhere(t *testing.T) {
	t.Parallel()
	for k := 1; k <= crashRecords; k++ {
		for _, at := range []string{"appended", "committed", "committing"} {
			if at == "committing" && k%4 != 0 {
				continue // the kill races with the commit, so some cases are enough
			}
			t.Run(fmt.Sprintf("%s %d", at, k), func(t *testing.T) {
				t.Parallel()
				path := filepath.Join(t.TempDir(), "harness.db")
				committed := killAt(t, path, at, k)
				checkCrashed(t, path, committed, at == "committing")
			})
		}
	}
}

// killAt executes a child up to a step and kills it. It returns the number of records that the child has reported as committed.
func killAt(t *testing.T, path, at string, k int) (committed int) {
	t.Helper()
	exe := child.Executable(t)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childVariable+"="+path)
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
	for lines.Scan() {
		what, n := "", 0
		if _, err := fmt.Sscan(lines.Text(), &what, &n); err != nil {
			t.Errorf("child: %s", lines.Text())
			break
		}
		if what == "committed" {
			committed = n
		}
		if what == at && n == k {
			break
		}
		if _, err := io.WriteString(in, "\n"); err != nil {
			t.Error(err)
			break
		}
		if at == "committing" && what == "appended" && n == k {
			break
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) { // a child that was not killed exits with 0
		t.Errorf("the child ended with %v before it was killed", err)
	}
	return committed
}

func checkCrashed(t *testing.T, path string, committed int, orMore bool) {
	t.Helper()
	s := reopenAt(t, path, Options{})
	checkIntegrity(t, s)
	records, err := s.Read(t.Context(), "run_a")
	if committed == 0 && !orMore {
		wantIs(t, "read of a run that was never committed", err, journal.ErrNotFound)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if n := len(records); n != committed && !(orMore && n == committed+1) {
		t.Errorf("%d records are stored, %d were committed", n, committed)
	}
	for i, r := range records {
		want := crashRecord(i + 1)
		want.Seq = int64(i + 1)
		if d := cmp.Diff(want, r, cmp.Transformer("text", asText)); d != "" {
			t.Errorf("record %d (-want +got):\n%s", i+1, d)
		}
	}
	orphans, err := s.Strays(t.Context())
	if err != nil || len(orphans) != 1 || orphans[0].ID != "run_a" {
		t.Fatalf("orphans: %v, %v, want run_a", orphans, err)
	}
	w, _, err := s.Resume(t.Context(), "run_a")
	if err != nil {
		t.Fatal(err)
	}
	w.Append(journaltest.End())
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Read(t.Context(), "run_a"); err != nil || len(got) != len(records)+1 {
		t.Errorf("after the resumed run's end: %d records, %v, want %d", len(got), err, len(records)+1)
	}
	if orphans, err := s.Strays(t.Context()); err != nil || len(orphans) != 0 {
		t.Errorf("orphans after the end: %v, %v", orphans, err)
	}
	names, err := filepath.Glob(path + ".owner-*")
	if err != nil || len(names) != 1 || !strings.HasSuffix(names[0], s.lease.ID()) {
		t.Errorf("owner files: %v, %v, want our own alone", names, err)
	}
}
