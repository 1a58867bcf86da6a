package wiring_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
)

// A run that belongs to no task and whose process was killed ends as cancelled once EndOrphans is called. Calling it again changes nothing.
func TestEndOrphans(t *testing.T) {
	t.Parallel()
	dir, output, err := crash(t, 15, "")
	if err == nil {
		t.Fatalf("it was not killed: %s", output)
	}
	f := open(t, dir, nil)
	keep, err := f.Store()
	if err != nil {
		t.Fatal(err)
	}
	listed := func() journal.RunInfo {
		t.Helper()
		list, _, err := keep.Runs(t.Context(), journal.Filter{})
		if err != nil || len(list) != 1 {
			t.Fatalf("the runs are %+v, %v", list, err)
		}
		return list[0]
	}
	left := listed()
	if left.Status != "running" {
		t.Fatalf("the killed process left %+v", left)
	}
	space := filepath.Join(dir, "workspace", runs.DefaultUser, left.ID)
	if _, err := os.Stat(space); err != nil {
		t.Errorf("the killed process left no workspace: %v", err)
	}
	f.Runs().EndOrphans(t.Context(), left.Started.Add(-time.Microsecond))
	f.Runs().SweepWorkspaces(t.Context(), time.Now().Add(time.Hour))
	if _, err := os.Stat(space); err != nil {
		t.Errorf("the workspace of a run that can be resumed: %v", err)
	}
	if left := listed(); left.Status != "running" {
		t.Errorf("it could be resumed, and is %s", left.Status)
	}
	f.Runs().EndOrphans(t.Context(), left.Started)
	ended := listed()
	if _, err := os.Stat(space); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the workspace of the ended run is left: %v", err)
	}
	if err := os.MkdirAll(space, 0o700); err != nil { // like the workspace of a process that was killed before it removed the workspace
		t.Fatal(err)
	}
	f.Runs().SweepWorkspaces(t.Context(), time.Now().Add(time.Hour))
	if _, err := os.Stat(space); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the sweep left it: %v", err)
	}
	if ended.Status != run.Cancelled || ended.Ended.IsZero() {
		t.Errorf("it is listed as %+v", ended)
	}
	out, err := run.Recorded(f.journalOf(ended.ID))
	if err != nil || out == nil || kind(out) != frame.KindCancelled || out.Calls == 0 {
		t.Errorf("its outcome is %+v, %v", out, err)
	}
	f.Runs().EndOrphans(t.Context(), left.Started)
	if again := listed(); again != ended {
		t.Errorf("the second time it is %+v, was %+v", again, ended)
	}
}
