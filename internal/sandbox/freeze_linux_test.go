package sandbox_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// A frozen runner does nothing until it is continued, and can be killed.
func TestFreeze(t *testing.T) {
	t.Parallel()
	runner := startRole(t, deafRole)
	<-runner.Frames()
	stopped := func(want bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", runner.Pid()))
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), "T (stopped)") == want {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("want stopped %t:\n%s", want, text)
			}
		}
	}
	freezer := runner.(interface{ Freeze(stop bool) bool })
	for _, stop := range []bool{true, false, true} {
		if !freezer.Freeze(stop) {
			t.Fatal("it cannot be frozen")
		}
		stopped(stop)
	}
	runner.Kill()
	for range runner.Frames() {
	}
	if freezer.Freeze(false) {
		t.Error("a process that has ended goes on")
	}
}
