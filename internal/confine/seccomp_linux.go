package confine

import (
	"fmt"

	"golang.org/x/sys/unix"

	"mcp-code-exec-harness/internal/walls"
)

// denied lists system calls that no server needs. They fail with EPERM.
var denied = append([]uint32{
	// other processes
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE, unix.SYS_KCMP, unix.SYS_PIDFD_GETFD,
	unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_MOVE_PAGES, unix.SYS_MIGRATE_PAGES,
	// roots, mounts, namespaces, and files without a path
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE,
	unix.SYS_OPEN_TREE_ATTR, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_OPEN_BY_HANDLE_AT,
	unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_FANOTIFY_INIT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_SWAPON, unix.SYS_SWAPOFF,
	// the kernel, its keys and its clock
	unix.SYS_BPF, unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_REBOOT, unix.SYS_SYSLOG, unix.SYS_ACCT, unix.SYS_VHANGUP, unix.SYS_LOOKUP_DCOOKIE,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
	unix.SYS_LSM_SET_SELF_ATTR,
}, nativeDenied...)

// absent lists system calls that fail with ENOSYS. Programs can do without them, because some kernels lack them. The filter cannot inspect
// the flags and modes of clone3 and openat2.
var absent = []uint32{unix.SYS_CLONE3, unix.SYS_OPENAT2, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER}

// lastCall is the newest system call known to this filter. Newer ones fail with ENOSYS.
const lastCall = unix.SYS_FILE_SETATTR

// modeCall is a system call that sets the mode of a file.
type modeCall struct {
	number uint32
	mode   uint32 // index of the mode argument
	flags  uint32 // index of the flags argument, which tells whether a file is created; 0 means that the mode always applies
}

// modeCalls lists the system calls that must not set the set-user-ID or set-group-ID bit of a file, because the file also exists outside
// of the sandbox. mkdir and similar calls are not listed: they ignore these bits.
var modeCalls = append([]modeCall{
	{number: unix.SYS_FCHMOD, mode: 1},
	{number: unix.SYS_FCHMODAT, mode: 2},
	{number: unix.SYS_FCHMODAT2, mode: 2},
	{number: unix.SYS_MKNODAT, mode: 2},
	{number: unix.SYS_OPENAT, mode: 3, flags: 2},
}, nativeModeCalls...)

// createsFile holds the flags of open that create a file. The mode argument applies only with one of them.
const createsFile = unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY

// filter installs the seccomp filter.
func (p *Plan) filter() error {
	if err := assemble(p.Network).Install(); err != nil {
		return fmt.Errorf("%w: %w", ErrMissing, err)
	}
	return nil
}

// assemble returns the filter as a BPF program.
func assemble(network bool) walls.Program {
	deny, lack := walls.Fail(unix.EPERM), walls.Fail(unix.ENOSYS)
	const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS |
		unix.CLONE_NEWCGROUP
	var modes, sockets walls.Program
	for _, c := range modeCalls {
		judge := append(walls.Arg(c.mode), walls.If(unix.BPF_JSET, unix.S_ISUID|unix.S_ISGID, deny)...)
		if c.flags != 0 { // if no file is created, the mode argument may hold anything
			judge = append(walls.Arg(c.flags), walls.If(unix.BPF_JSET, createsFile, judge)...)
		}
		modes = append(modes, walls.Call(c.number, judge, walls.Allow)...)
	}
	families := []uint32{unix.AF_UNIX}
	if network {
		families = append(families, unix.AF_INET, unix.AF_INET6)
	}
	judge := append(walls.Arg(0), walls.Calls(families, walls.Allow)...)
	if network { // programs read addresses and routes through netlink
		judge = append(judge, walls.If(unix.BPF_JEQ, unix.AF_NETLINK, walls.Arg(2), walls.If(unix.BPF_JEQ, unix.NETLINK_ROUTE, walls.Allow))...)
	}
	for _, number := range []uint32{unix.SYS_SOCKET, unix.SYS_SOCKETPAIR} {
		sockets = append(sockets, walls.Call(number, judge, walls.Fail(unix.EAFNOSUPPORT))...)
	}
	return walls.Filter(
		walls.If(unix.BPF_JGT, lastCall, lack), walls.Calls(denied, deny), walls.Calls(absent, lack),
		walls.Call(unix.SYS_CLONE, walls.Arg(0), walls.If(unix.BPF_JSET, namespaces, deny), walls.Allow),
		walls.Call(unix.SYS_IOCTL, walls.Arg(1), // requests that simulate input to a terminal
			walls.If(unix.BPF_JEQ, unix.TIOCSTI, deny), walls.If(unix.BPF_JEQ, unix.TIOCLINUX, deny), walls.Allow),
		walls.Call(unix.SYS_PERSONALITY, walls.Arg(0), walls.Calls([]uint32{0, 0xffffffff}, walls.Allow), deny),
		modes, sockets, walls.Allow,
	)
}
