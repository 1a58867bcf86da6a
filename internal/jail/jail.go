// Package jail puts a process that runs hostile code behind the walls of the operating system. On Linux these are
//
//   - namespaces of its own: users, processes, network, mounts, System V IPC, host name (Launcher)
//   - an empty, read-only root directory
//   - an unprivileged user without capabilities, who cannot gain any
//   - Landlock: no files, no TCP, no signals to others
//   - seccomp: the system calls of a Go program at work, without sockets, new processes, programs or machine code
//   - limits on open files and written files
//
// Launcher starts a process in namespaces; the process calls Enter once it has opened what it needs. Both work without root.
// What the machine does not offer is missing, and named: a caller decides whether that is enough.
//
// Elsewhere there are no walls: processes can be killed, and do not outlive this one.
package jail

// LauncherCommand is the first argument that makes a binary a launcher, which LauncherMain carries out.
const LauncherCommand = "__launcher"

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
