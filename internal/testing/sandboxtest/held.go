package sandboxtest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// holdings counts what this process holds, by name; a count is missing if the system does not tell it.
type holdings map[string]int

// holds counts what the harness and its runners hold now.
func (w *world) holds(t testing.TB) holdings {
	t.Helper()
	h := holdings{"processes": len(descendants(os.Getpid()))}
	open, _ := filepath.Glob("/proc/self/fd/*")
	for _, path := range open {
		file, err := os.Readlink(path)
		switch {
		case err != nil: // This is the directory that Glob has read.
		case strings.HasPrefix(file, "socket:"): // connections to the server come and go
			h["sockets"]++
		case strings.HasPrefix(filepath.Base(file), storeFile): // so do connections to the store
			h["store"]++
		default:
			h["descriptors"]++
		}
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	h["mounts"] = strings.Count(string(mounts), filepath.Dir(w.dir)) // counts only mounts of this test, because other tests on this machine mount too
	h["files"] = len(entries(t, w.dir))
	if w.of.Runners != nil {
		h["runners"] = w.of.Runners(t)
	}
	return h
}

// plus returns h with n times the counts of more added.
func (h holdings) plus(more holdings, n int) holdings {
	all := maps.Clone(h)
	for name, count := range more {
		all[name] += n * count
	}
	return all
}

// storeConnections is more than the number of descriptors of all readers that a store may open.
const storeConnections = 20

// more lists the counts that exceed those in before. It allows more sockets, because a client keeps the connections of simultaneous calls for a
// while, and both ends are in this process.
func (h holdings) more(before holdings) (more []string) {
	for name, n := range h {
		most := before[name]
		switch name {
		case "sockets":
			most += 3 * limits.MaxInFlight
		case "store":
			most += storeConnections
		}
		if n > most {
			more = append(more, fmt.Sprintf("%s: %d, and not %d", name, n, most))
		}
	}
	return more
}

// idle waits until no runner of the pool is busy, and returns how many there are.
func (w *world) idle(t testing.TB) (runners int) {
	t.Helper()
	eventually(t, func() (bool, string) {
		started, idle := w.pools.Load().Stats()
		runners = started
		return started == idle && idle >= warm, fmt.Sprintf("the pool has %d runners, of which %d are idle", started, idle)
	})
	return runners
}

// measure determines what this process holds without runners, and what each runner adds. It opens a new pool.
func (w *world) measure(t testing.TB) {
	t.Helper()
	w.idle(t)
	w.closePool()
	eventually(t, func() (bool, string) { // containers are removed in the background
		w.empty = w.holds(t)
		return w.empty["runners"] == 0, fmt.Sprintf("%d runners are left without a pool", w.empty["runners"])
	})
	w.openPool()
	n := w.idle(t)
	w.each = holdings{}
	for name, count := range w.holds(t) {
		w.each[name] = (count - w.empty[name]) / n
	}
}

// settle waits until no runner of the pool is busy and this process holds no more than is normal with as many runners: no attack left anything.
func (w *world) settle(t testing.TB) {
	t.Helper()
	eventually(t, func() (bool, string) {
		n := w.idle(t)
		more := w.holds(t).more(w.empty.plus(w.each, n))
		return len(more) == 0, fmt.Sprintf("with %d runners: %s", n, strings.Join(more, "; "))
	})
}

// descendants returns the children of a process, their children and so on, zombies included.
func descendants(of int) (all []int) {
	parents := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the process has ended
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

// eventually polls until a condition holds that no signal announces, such as the end of another process.
func eventually(t testing.TB, cond func() (ok bool, why string)) {
	t.Helper()
	for deadline := time.Now().Add(patience / 2); ; time.Sleep(2 * time.Millisecond) {
		ok, why := cond()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("not within %s: %s", patience/2, why)
			return
		}
	}
}
