package worker

import (
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// greedyRole makes the test binary limit its own memory and then want more.
const greedyRole = "__greedy"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == greedyRole {
		debug.SetGCPercent(-1) // as in a worker
		limitMemory(128 << 20)
		memory := make([]byte, 512<<20)
		for i := range memory {
			memory[i] = 1
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A process that wants more than its limit ends, and says why in words that package sandbox recognises.
func TestLimitMemory(t *testing.T) {
	cmd := exec.Command(os.Args[0], greedyRole)
	cmd.Env = []string{"GOTRACEBACK=none"}
	text, err := cmd.CombinedOutput()
	// The race detector's runtime, which no worker has, has words of its own.
	words := []string{"out of memory", "cannot allocate memory", "too many address space collisions for -race mode"}
	if err == nil || !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(string(text), w) }) {
		t.Errorf("got %v, %s", err, text)
	}
}
