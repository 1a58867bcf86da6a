package worker

import (
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// greedyRole makes the test binary limit its own memory and then use more.
const greedyRole = "__greedy"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == greedyRole {
		debug.SetGCPercent(-1) // same as in a worker
		limitMemory(128 << 20)
		memory := make([]byte, 512<<20)
		for i := range memory {
			memory[i] = 1
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A process that uses more memory than its limit ends, with a message that package sandbox recognizes.
func TestLimitMemory(t *testing.T) {
	cmd := exec.Command(os.Args[0], greedyRole)
	cmd.Env = []string{"GOTRACEBACK=none"}
	text, err := cmd.CombinedOutput()
	// The runtime of the race detector, which workers do not have, writes a different message.
	words := []string{"out of memory", "cannot allocate memory", "too many address space collisions for -race mode"}
	if err == nil || !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(string(text), w) }) {
		t.Errorf("got %v, %s", err, text)
	}
}
