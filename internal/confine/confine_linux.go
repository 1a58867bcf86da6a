package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"mcp-code-exec-harness/internal/walls"
)

// Isolate configures a process to start as the first one in new namespaces. That process calls Start.
func (p *Plan) Isolate(attr *syscall.SysProcAttr) error {
	if _, err := walls.Landlock(); err != nil {
		return fmt.Errorf("%w: %w", ErrMissing, err)
	}
	attr.Cloneflags |= unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	if !p.Network {
		attr.Cloneflags |= unix.CLONE_NEWNET
	}
	uid, gid := os.Geteuid(), os.Getegid()
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
	attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP} // needed to mount, until the program is executed
	return nil
}

// Explain adds the likely cause to an error from starting a process that Isolate has configured.
func Explain(err error) error {
	for _, e := range []error{unix.EPERM, unix.EINVAL, unix.ENOSPC, unix.EUSERS, unix.ENOSYS, unix.EACCES} {
		if errors.Is(err, e) {
			return fmt.Errorf("%w: it gives no user namespaces (%w); %s", ErrMissing, err, namespacesFix)
		}
	}
	return err
}

const namespacesFix = "allow them (sysctl user.max_user_namespaces; kernel.apparmor_restrict_unprivileged_userns=0 on Ubuntu), " +
	"or give the container a seccomp profile that allows them"

// statusFD is the file descriptor to which Main writes why it failed.
const statusFD = 3

// Start executes a program in the sandbox that Plan.For has described, and returns its process ID once it runs. This process must have
// been started as Isolate configures it. The program inherits the standard files. The caller must have locked its thread.
func Start(plan string, argv []string, attr *syscall.SysProcAttr) (pid int, err error) {
	// Keep the program from inspecting this process.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return 0, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer r.Close()
	pid, err = syscall.ForkExec("/proc/self/exe", append([]string{"confine", Command, plan}, argv...),
		&syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2, w.Fd()}, Sys: attr})
	w.Close()
	if err != nil {
		return 0, err
	}
	failure, err := io.ReadAll(io.LimitReader(r, 16<<10)) // the pipe is closed when the program is executed
	if err == nil && len(failure) == 0 {
		return pid, nil
	}
	syscall.Kill(pid, syscall.SIGKILL)
	for {
		if _, waitErr := syscall.Wait4(pid, nil, 0, nil); waitErr != syscall.EINTR {
			break
		}
	}
	return 0, errors.Join(err, errors.New(string(failure)))
}

// Main sets up the walls and executes a program. Its arguments are the result of Plan.For, and the path and arguments of the program. It
// returns the exit code for a failure.
func Main(args []string) int {
	status := os.NewFile(statusFD, "status")
	var p Plan
	if len(args) < 2 || json.Unmarshal([]byte(args[0]), &p) != nil || !isolated() {
		fmt.Fprintln(os.Stderr, "harness: "+Command+" is started by the harness itself and is of no use otherwise")
		return 2
	}
	fmt.Fprint(status, p.exec(args[1:]))
	return 1
}

// isolated reports whether Start has started this process, in a user namespace other than the machine's.
func isolated() bool {
	var status unix.Stat_t
	if unix.Fstat(statusFD, &status) != nil || status.Mode&unix.S_IFMT != unix.S_IFIFO || os.Getppid() != 1 {
		return false
	}
	users, err := os.ReadFile("/proc/self/uid_map")
	own := fmt.Sprintf("%d %[1]d 1", os.Geteuid())
	return err == nil && strings.Join(strings.Fields(string(users)), " ") == own
}

// exec returns only if it fails. The walls restrict this thread, which becomes the program; the other threads end.
func (p *Plan) exec(argv []string) error {
	runtime.LockOSThread()
	if err := unix.CloseRange(statusFD, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close files: %w", err)
	}
	for _, raise := range []func() error{p.root, unprivileged, p.landlock, p.filter} {
		if err := raise(); err != nil {
			return err
		}
	}
	err := unix.Exec(argv[0], argv, os.Environ())
	switch {
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("%s may not be executed (%w): what sandbox.write names is not; name it in sandbox.read as well", argv[0], err)
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("%s cannot be executed: its interpreter is not in the sandbox (%w); name its directory in sandbox.read", argv[0], err)
	}
	return fmt.Errorf("%s cannot be executed: %w", argv[0], err)
}

const (
	// assembly is the directory where the root is built. Every machine has it.
	assembly = "/proc"

	// Limits on /tmp, which tmpfs keeps in memory.
	maxTmpBytes = 64 << 20
	maxTmpFiles = 10_000
)

// devices lists the device files in /dev.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

// links are the symbolic links in /dev.
var links = map[string]string{
	"/dev/fd": "/proc/self/fd", "/dev/stdin": "/proc/self/fd/0", "/dev/stdout": "/proc/self/fd/1", "/dev/stderr": "/proc/self/fd/2", "/dev/shm": "/tmp",
}

// root builds a directory that contains only the mounts of the plan, and makes it the root of all processes in the namespace.
func (p *Plan) root() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("%w: separate the mounts: %w; %s", ErrMissing, err, namespacesFix)
	}
	type tree struct {
		path string
		fd   int
	}
	var trees []tree
	add := func(path string, attributes uint64) error {
		fd, err := detach(path, attributes)
		trees = append(trees, tree{path, fd})
		return err
	}
	for _, m := range p.Mounts {
		if p.writes(filepath.Dir(m.Path)) {
			continue // a writable mount already contains this mount
		}
		attributes := uint64(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV)
		if !m.Write {
			attributes |= unix.MOUNT_ATTR_RDONLY
		}
		if err := add(m.Path, attributes); err != nil {
			return err
		}
	}
	for _, path := range devices {
		if err := add(path, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC); err != nil {
			return err
		}
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("tmpfs", assembly, "tmpfs", flags, "size=1m,nr_inodes=10000,mode=755"); err != nil {
		return fmt.Errorf("%w: mount a directory: %w", ErrMissing, err)
	}
	tmp, proc := filepath.Join(assembly, "tmp"), filepath.Join(assembly, "proc")
	if err := errors.Join(os.Mkdir(tmp, 0o755), os.Mkdir(proc, 0o755)); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", tmp, "tmpfs", flags, fmt.Sprintf("size=%d,nr_inodes=%d,mode=1777", maxTmpBytes, maxTmpFiles)); err != nil {
		return fmt.Errorf("%w: mount /tmp: %w", ErrMissing, err)
	}
	// A container that hides parts of /proc does not allow mounting it again. The program then has no /proc.
	_ = unix.Mount("proc", proc, "proc", flags|unix.MS_RDONLY, "")
	for _, t := range trees {
		if err := attach(t.fd, filepath.Join(assembly, t.path)); err != nil {
			return fmt.Errorf("mount %s: %w", t.path, err)
		}
	}
	if !p.has(p.Dir) {
		if err := os.MkdirAll(filepath.Join(assembly, p.Dir), 0o755); err != nil {
			return err
		}
	}
	for from, to := range p.Links {
		links[from] = to
	}
	for from, to := range links {
		if p.has(from) {
			continue
		}
		from = filepath.Join(assembly, from)
		if err := errors.Join(os.MkdirAll(filepath.Dir(from), 0o755), os.Symlink(to, from)); err != nil {
			return err
		}
	}
	if err := walls.Root(assembly, flags); err != nil {
		return err
	}
	if err := unix.Chdir(p.Dir); err != nil {
		return fmt.Errorf("enter its working directory %s: %w", p.Dir, err)
	}
	return nil
}

// detach copies the mounts at a path and below it. The path must not contain links.
func detach(path string, attributes uint64) (fd int, err error) {
	file, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	switch {
	case errors.Is(err, unix.ELOOP):
		return 0, fmt.Errorf("%s leads elsewhere than when the harness began; correct the path, and begin again", path)
	case err != nil:
		return 0, missing(path, err)
	}
	defer unix.Close(file)
	if fd, err = unix.OpenTree(file, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC); err == nil {
		err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attributes})
	}
	if err != nil {
		return 0, fmt.Errorf("%w: mount %s: %w; %s", ErrMissing, path, err, namespacesFix)
	}
	return fd, nil
}

// attach mounts the copy that detach made.
func attach(fd int, path string) error {
	defer unix.Close(fd)
	var info unix.Stat_t
	if err := unix.Fstat(fd, &info); err != nil {
		return err
	}
	if _, err := os.Lstat(path); err != nil {
		if info.Mode&unix.S_IFMT == unix.S_IFDIR {
			err = os.MkdirAll(path, 0o755)
		} else if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			err = os.WriteFile(path, nil, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return unix.MoveMount(fd, "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// unprivileged permanently drops the capabilities that the process has in its namespaces.
func unprivileged() error {
	for capability := 0; ; capability++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(capability), 0, 0, 0); err != nil {
			if errors.Is(err, unix.EINVAL) && capability > unix.CAP_SYS_ADMIN { // the kernel has no more capabilities
				break
			}
			return fmt.Errorf("%w: give up capabilities: %w", ErrMissing, err)
		}
	}
	var none [2]unix.CapUserData
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]); err != nil {
		return fmt.Errorf("give up capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
}

// landlock restricts the process to the paths that its root contains. As far as the kernel supports it, landlock also forbids abstract
// sockets, signals to other processes and, unless the program has the machine's network, TCP.
func (p *Plan) landlock() error {
	grants := []walls.Grant{{Path: "/tmp", Rights: walls.Read | walls.Write}, {Path: "/proc", Rights: walls.Read}}
	for _, m := range p.Mounts {
		rights := uint64(walls.Read)
		if m.Write {
			rights |= walls.Write
		}
		if m.Execute {
			rights |= walls.Execute
		}
		grants = append(grants, walls.Grant{Path: m.Path, Rights: rights})
	}
	for _, path := range devices {
		grants = append(grants, walls.Grant{Path: path, Rights: walls.Read | walls.Write})
	}
	rules, err := walls.Rules(p.Network, grants)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMissing, err)
	}
	defer unix.Close(int(rules))
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, rules, 0, 0); errno != 0 {
		return fmt.Errorf("%w: restrict the process by Landlock: %w", ErrMissing, errno)
	}
	return nil
}
