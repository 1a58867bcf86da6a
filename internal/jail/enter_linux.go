package jail

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"mcp-code-exec-harness/internal/walls"
)

const (
	// maxDescriptors is the maximum number of open files of a process behind walls.
	maxDescriptors = 64
	// maxThreads is the maximum number of threads of a process behind walls. Node.js and workers have about ten.
	maxThreads = 64
	// maxStack is the size in bytes of the stack of the first thread of a process behind walls. It is the usual size.
	maxStack = 8 << 20
	// maxSignals is the maximum number of signals queued for a process behind walls. The kernel counts them per user, and the user has other
	// processes.
	maxSignals = 64
)

// Enter puts this process behind walls for good, and returns the walls that are missing. The process must have opened everything that it needs,
// because it cannot open files afterwards. The process calls Enter once. A program built with cgo gets no walls.
//
// User and Seccomp apply to threads, not processes: Enter applies them to all existing threads, and new threads inherit them.
func Enter() Missing {
	forgetPath()
	return raise([]wall{
		{Namespaces, namespaces},
		{Root, func() error { return newRoot(nil) }},
		{Limits, func() error { return limits(nil) }},
		{User, unprivileged},
		{Landlock, func() error { return landlock(nil) }},
		{Seccomp, func() error { return goRules.assemble().Install() }},
	})
}

// forgetPath overwrites the path of this program, which the kernel has put into the process's memory.
func forgetPath() {
	const execName, word = 31, unsafe.Sizeof(uintptr(0)) // AT_EXECFN
	vector, err := os.ReadFile("/proc/self/auxv")
	if err != nil {
		return
	}
	for ; len(vector) >= int(2*word); vector = vector[2*word:] {
		entry := *(*[2]uintptr)(unsafe.Pointer(&vector[0]))
		if entry[0] != execName {
			continue
		}
		for at := (*byte)(unsafe.Add(nil, entry[1])); *at != 0; at = (*byte)(unsafe.Add(unsafe.Pointer(at), 1)) {
			*at = 0
		}
	}
}

// wall is one of Walls, with the function that raises it.
type wall struct {
	name  string
	raise func() error
}

// raise raises walls in order, and returns those that it could not raise.
func raise(all []wall) Missing {
	missing := Missing{}
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_GETPID, 0, 0, 0)
	for _, w := range all {
		if errno != 0 {
			missing[w.name] = "this program was built with cgo"
		} else if err := w.raise(); err != nil {
			missing[w.name] = err.Error()
		}
	}
	return missing
}

// errOutside means that a process does not run in namespaces of its own.
var errOutside = errors.New("this machine gives no user namespaces to processes")

func namespaces() error {
	if os.Getpid() != 1 { // 1 is the id of the first process in a namespace
		return errOutside
	}
	return unix.Sethostname([]byte("sandbox")) // replaces the machine's name
}

// newRoot makes a new directory the root of this process. The directory is read-only. It contains only the given files: the keys are
// paths in it, the values are paths on the machine.
func newRoot(files map[string]string) error {
	if os.Getpid() != 1 {
		return errOutside
	}
	const somewhere = "/proc" // exists on every machine
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("separate the mounts: %w", err)
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV
	if err := unix.Mount("tmpfs", somewhere, "tmpfs", flags, fmt.Sprintf("size=64k,nr_inodes=%d,mode=755", 1+maxDepth*len(files))); err != nil {
		return fmt.Errorf("mount an empty directory: %w", err)
	}
	for path, file := range files {
		if err := bind(file, filepath.Join(somewhere, path)); err != nil {
			return fmt.Errorf("mount %s: %w", file, err)
		}
	}
	return walls.Root(somewhere, flags)
}

// maxDepth is the maximum number of directories above a file in a new root.
const maxDepth = 16

// bind mounts a file at a path, read-only.
func bind(file, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, nil, 0o444); err != nil {
		return err
	}
	var source unix.Statfs_t
	if err := unix.Statfs(file, &source); err != nil {
		return err
	}
	if err := unix.Mount(file, path, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	// The restrictions of the machine's mount stay: a new namespace may not lift them.
	kept := uintptr(source.Flags) & (unix.MS_NOEXEC | unix.MS_NOATIME | unix.MS_NODIRATIME | unix.MS_RELATIME)
	return unix.Mount("", path, "", kept|unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, "")
}

// limits sets the limits of every jail, and those in more.
func limits(more map[int]uint64) error {
	all := map[int]uint64{
		unix.RLIMIT_CORE: 0, unix.RLIMIT_FSIZE: 0, unix.RLIMIT_NOFILE: maxDescriptors, unix.RLIMIT_MSGQUEUE: 0,
		unix.RLIMIT_STACK: maxStack, unix.RLIMIT_SIGPENDING: maxSignals,
	}
	if os.Getpid() == 1 && countsThreads() {
		all[unix.RLIMIT_NPROC] = maxThreads
	}
	maps.Copy(all, more)
	for resource, most := range all {
		var had unix.Rlimit
		if err := unix.Getrlimit(resource, &had); err != nil {
			return err
		}
		most = min(most, had.Max) // a lower limit stays
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return err
		}
	}
	return nil
}

// countsThreads reports whether the kernel counts a user's threads separately in each user namespace. Kernels before 5.14 count the threads
// of all namespaces together, so that the limit of one process would apply to all.
func countsThreads() bool {
	var name unix.Utsname
	var major, minor int
	if unix.Uname(&name) != nil {
		return false
	}
	if _, err := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor); err != nil {
		return false
	}
	return major > 5 || major == 5 && minor >= 14
}

// unprivileged gives up the user's privileges for good. A process of root gets the user id of nobody.
func unprivileged() error {
	if os.Geteuid() == 0 {
		err := errors.Join(syscall.Setgroups([]int{}), syscall.Setresgid(nobody, nobody, nobody), syscall.Setresuid(nobody, nobody, nobody))
		if err != nil && os.Getpid() == 1 { // outside of a namespace, root may lack the right to change its user
			return fmt.Errorf("become another user: %w", err)
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	for _, call := range [][4]uintptr{
		{unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none[0]))},
		{unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1},
		{unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL)}, // after the user id, because a change of the user id clears this setting
	} {
		if _, _, errno := syscall.AllThreadsSyscall(call[0], call[1], call[2], call[3]); errno != 0 {
			return fmt.Errorf("give up privileges: %w", errno)
		}
	}
	runtime.KeepAlive(&header)
	runtime.KeepAlive(&none)
	return nil
}

// landlock forbids files, TCP and signals to other processes, as far as the kernel supports it. The process may read and execute the files in readable.
func landlock(readable []string) error {
	var grants []walls.Grant
	for _, path := range readable {
		grants = append(grants, walls.Grant{Path: path, Rights: walls.Read | walls.Execute})
	}
	rules, err := walls.Rules(false, grants)
	if err != nil {
		return err
	}
	defer unix.Close(int(rules))
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, rules, 0, 0); errno != 0 {
		return fmt.Errorf("restrict the process by Landlock: %w", errno)
	}
	return nil
}
