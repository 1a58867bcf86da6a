package sqlstore

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// thisPlace names the scope in which process ids are unique: one boot of a kernel, and a PID namespace. It returns "" if the scope is not known.
func thisPlace() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	namespace, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(boot)) + " " + namespace
}

// thisProcess names this process within thisPlace. The name consists of the process id and the start time, which differs for a later process with the
// same id.
func thisProcess() string {
	name, _ := incarnation(os.Getpid())
	return name
}

// incarnation returns the name of the process with the given id, in the form of thisProcess. If the process has ended, the name is "". If /proc does
// not show the process, seen is false.
func incarnation(pid int) (name string, seen bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", false
	}
	// The name of the program, in parentheses, may contain anything.
	rest := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	const state, started = 0, 19
	if len(rest) <= started {
		return "", false
	}
	if rest[state] == "Z" || rest[state] == "X" {
		return "", true
	}
	return fmt.Sprintf("%d %s", pid, rest[started]), true
}

// isGone reports whether a process in the scope of thisPlace has ended. A process that cannot be seen (hidepid) counts as alive.
func isGone(process string) bool {
	id, _, _ := strings.Cut(process, " ")
	pid, err := strconv.Atoi(id)
	switch {
	case err != nil:
		return false
	case errors.Is(syscall.Kill(pid, 0), syscall.ESRCH):
		return true
	}
	now, seen := incarnation(pid)
	return seen && now != process
}
