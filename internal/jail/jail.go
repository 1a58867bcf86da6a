// Package jail puts a process that runs hostile code behind the walls of the operating system. On Linux these are
//
//   - own namespaces: users, processes, network, mounts, System V IPC, host name (Launcher)
//   - an empty, read-only root directory
//   - an unprivileged user without capabilities, who cannot gain any
//   - Landlock: no files, no TCP, no signals to other processes
//   - seccomp: only the system calls that a running Go program needs, without sockets, new processes, programs or machine code
//   - limits on open files and written files
//
// Launcher starts a process in namespaces. The process calls Enter once it has opened what it needs, or becomes another program by ExecMain.
// All of this works without root. Walls that the machine does not offer are missing, and reported as such: the caller decides whether the
// others suffice.
//
// Other systems have no walls: processes can only be killed, and they end when this process ends.
package jail

import "errors"

// LauncherCommand is the first argument that makes a binary run LauncherMain.
const LauncherCommand = "__launcher"

// ExecCommand is the first argument that makes a binary run ExecMain.
const ExecCommand = "__behind"

// MissingVariable is the environment variable that tells a Program which walls are missing, as JSON of Missing.
const MissingVariable = "MISSING_WALLS"

// Program is a program that runs behind walls from its first instruction on. A process that calls Enter, in contrast, first runs without
// walls.
type Program struct {
	Path string   // path of the executable in the program's root
	Args []string // arguments, the program's name first
	Env  []string
	// Files are the read-only files in the program's root. Keys are paths in the root, values are paths on this machine, all absolute.
	Files map[string]string
	// Memory is the limit of the program's data in bytes, including its stacks.
	Memory uint64
	// Without lists the walls that may be missing.
	Without []string
}

// ErrWalls means that a program was not started because walls are missing.
var ErrWalls = errors.New("walls are missing")

// Names of the walls.
const (
	Namespaces = "namespaces"
	Root       = "empty root"
	User       = "no privileges"
	Landlock   = "landlock"
	Seccomp    = "seccomp"
	Limits     = "limits"
)

// Walls lists all walls.
var Walls = []string{Namespaces, Root, User, Landlock, Seccomp, Limits}

// Missing maps missing walls to the reasons. It is empty if all walls are in place.
type Missing = map[string]string

// None returns the report of a process that has entered no jail: all walls are missing.
func None() Missing {
	missing := Missing{}
	for _, wall := range Walls {
		missing[wall] = "it was not asked for"
	}
	return missing
}
