// Package jail puts a process that runs hostile code behind the walls of the operating system. On Linux these are
//
//   - namespaces of its own: users, processes, network, mounts, System V IPC, host name (Launcher)
//   - an empty, read-only root directory
//   - an unprivileged user without capabilities, who cannot gain any
//   - Landlock: no files, no TCP, no signals to others
//   - seccomp: the system calls of a Go program at work, without sockets, new processes, programs or machine code
//   - limits on open files and written files
//
// Launcher starts a process in namespaces; the process calls Enter once it has opened what it needs, or becomes another program by ExecMain.
// All work without root.
// What the machine does not offer is missing, and named: a caller decides whether that is enough.
//
// Elsewhere there are no walls: processes can be killed, and do not outlive this one.
package jail

import "errors"

// LauncherCommand is the first argument that makes a binary a launcher, which LauncherMain carries out.
const LauncherCommand = "__launcher"

// ExecCommand is the first argument that makes a binary a program behind walls, see ExecMain.
const ExecCommand = "__behind"

// MissingVariable is the environment variable in which a Program finds the walls that it goes without, as JSON of Missing.
const MissingVariable = "MISSING_WALLS"

// Program is a program that is behind walls from its first instruction on, unlike one that calls Enter.
type Program struct {
	Path string   // path in its root
	Args []string // arguments, the program's name first
	Env  []string
	// Files are what its root has, read-only: paths in the root, and those of the files on this machine. Absolute.
	Files map[string]string
	// Memory is how many bytes of data the program may have, its stacks included.
	Memory uint64
	// Without are walls that it goes without where they are missing.
	Without []string
}

// ErrWalls says that a program was not started, because walls are missing.
var ErrWalls = errors.New("walls are missing")

// The walls.
const (
	Namespaces = "namespaces"
	Root       = "empty root"
	User       = "no privileges"
	Landlock   = "landlock"
	Seccomp    = "seccomp"
	Limits     = "limits"
)

// Walls are all walls.
var Walls = []string{Namespaces, Root, User, Landlock, Seccomp, Limits}

// Missing says why walls are not there. It is empty where all are.
type Missing = map[string]string

// None is what a process says that has entered no jail.
func None() Missing {
	missing := Missing{}
	for _, wall := range Walls {
		missing[wall] = "it was not asked for"
	}
	return missing
}
