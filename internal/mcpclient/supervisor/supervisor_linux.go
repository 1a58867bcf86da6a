package supervisor

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// becomeSupervisor makes orphaned descendants children of this process, and renames the process. By default the process has the name of
// the binary, and a command that kills all processes named harness must not kill the supervisor.
func becomeSupervisor() {
	// A very old kernel may lack both features. The errors are ignored, because the supervisor can end the process group without these features.
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	_ = os.WriteFile("/proc/self/comm", []byte(Name), 0o600)
}

func serverAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// children returns the direct children of this process.
func children() []int {
	var pids []int
	self := []byte(strconv.Itoa(os.Getpid()))
	// /proc/self/task/*/children depends on a kernel option; the stat files always exist.
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // the process has ended
		}
		// pid (comm) state ppid ...; comm may contain anything, also parentheses.
		_, rest, ok := bytes.Cut(data[bytes.LastIndexByte(data, ')')+1:], []byte(" "))
		fields := bytes.Fields(rest)
		if !ok || len(fields) < 2 || !bytes.Equal(fields[1], self) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
