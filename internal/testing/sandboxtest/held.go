package sandboxtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// holdings are what this process holds, by name; nothing where the system does not say.
type holdings map[string]int

// holds counts.
func (w *world) holds(t testing.TB) holdings {
	t.Helper()
	h := holdings{"processes": len(descendants(os.Getpid()))}
	open, _ := filepath.Glob("/proc/self/fd/*")
	for _, path := range open {
		file, err := os.Readlink(path)
		switch {
		case err != nil: // the directory that Glob reads
		case strings.HasPrefix(file, "socket:"): // connections to the server come and go
			h["sockets"]++
		default:
			h["descriptors"]++
		}
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	h["mounts"] = strings.Count(string(mounts), "\n")
	h["files"] = len(entries(t, w.dir))
	if w.of.Runners != nil {
		h["runners"] = w.of.Runners(t)
	}
	return h
}

// more lists what is above before. A client keeps some idle connections.
func (h holdings) more(before holdings) (more []string) {
	for name, n := range h {
		most := before[name]
		if name == "sockets" {
			most += 10
		}
		if n > most {
			more = append(more, fmt.Sprintf("%s: %d, and before %d", name, n, before[name]))
		}
	}
	return more
}

// descendants are the children of a process, their children and so on, dead ones that nobody has waited for among them.
func descendants(of int) (all []int) {
	parents := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		var pid, parent int
		var state string
		begin, rest, _ := strings.Cut(string(text), " (")
		fmt.Sscan(begin, &pid)
		fmt.Sscan(rest[strings.LastIndex(rest, ")")+1:], &state, &parent)
		parents[parent] = append(parents[parent], pid)
	}
	for next := parents[of]; len(next) > 0; {
		all = append(all, next...)
		var below []int
		for _, pid := range next {
			below = append(below, parents[pid]...)
		}
		next = below
	}
	return all
}

func entries(t testing.TB, dir string) []os.DirEntry {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// eventually polls for what no signal announces: the end of another process.
func eventually(t testing.TB, cond func() (ok bool, why string)) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		ok, why := cond()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("not within %s: %s", patience, why)
			return
		}
	}
}
