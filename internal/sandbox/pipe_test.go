package sandbox_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/process"
	"mcp-code-exec-harness/internal/sandbox"
)

// deafRole makes the test binary a runner that never reads its input.
const deafRole = "__deaf"

// brokenRole makes the test binary a runner that sends invalid UTF-8 and dies because it runs out of memory.
const brokenRole = "__broken"

// echoRole makes the test binary a runner that sends back each frame that it receives.
const echoRole = "__echo"

// startRole starts this test program as a runner.
func startRole(t *testing.T, role string) sandbox.Runner {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	runner, err := sandbox.StartProcess(exec.Command(exe, role), process.Start)
	if err != nil {
		t.Fatal(err)
	}
	return runner
}

// Sending to a runner that does not read never blocks, and neither does ending the runner.
func TestDeafRunner(t *testing.T) {
	t.Parallel()
	runner := startRole(t, deafRole)
	if f := <-runner.Frames(); f == nil || f.T != frame.Ready {
		t.Fatalf("got %+v, want ready", f)
	}
	sent := make(chan error, 1)
	go func() {
		value, _ := json.Marshal(strings.Repeat("x", 1<<20))
		for range 20 {
			if err := runner.Send(&frame.Frame{T: frame.Answer, Value: value}); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	select {
	case err := <-sent:
		if err != nil {
			t.Errorf("send: %v", err)
		}
	case <-time.After(2 * time.Minute):
		t.Error("sending waits for the runner")
	}
	runner.Kill()
	for range runner.Frames() {
	}
	if runner.Err() == nil || runner.Send(&frame.Frame{T: frame.Cancel}) == nil {
		t.Error("a killed runner takes frames")
	}
}

// Frames arrive complete and in order, whether or not the pipe has room for them.
func TestFramesInOrder(t *testing.T) {
	t.Parallel()
	runner := startRole(t, echoRole)
	defer runner.Kill()
	const count = 2000
	size := func(i int) int { return []int{1, 100, 3000, 70_000, 1, 10_000}[i%6] }
	sent := make(chan error, 1)
	go func() {
		for i := range count {
			value, _ := json.Marshal(strings.Repeat("x", size(i)))
			if err := runner.Send(&frame.Frame{T: frame.Answer, ID: i, Value: value}); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	for i := range count {
		if f := <-runner.Frames(); f == nil || f.ID != i || len(f.Value) != size(i)+2 {
			t.Fatalf("frame %d is %.100v", i, f)
		}
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

// Bytes of a guest that are not UTF-8 are replaced. A runner that was refused memory is recognized by the end of its standard error.
func TestPipeReadsBrokenRunners(t *testing.T) {
	t.Parallel()
	runner := startRole(t, brokenRole)
	if f := <-runner.Frames(); f == nil || string(f.Value) != "\"\uFFFD\"" {
		t.Errorf("got %+v", f)
	}
	if f, open := <-runner.Frames(); open || !errors.Is(runner.Err(), sandbox.ErrMemory) {
		t.Errorf("got %+v, %v", f, runner.Err())
	}
}
