package confine

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// denied are system calls that no server needs. They fail with EPERM.
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

// absent are system calls that programs do without where a kernel lacks them. clone3 and openat2 are two because a filter cannot see their
// flags and modes.
var absent = []uint32{unix.SYS_CLONE3, unix.SYS_OPENAT2, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER}

// lastCall is the newest system call that this filter was written for. Newer ones are absent.
const lastCall = unix.SYS_FILE_SETATTR

// Offsets into struct seccomp_data, of the lower half of an argument.
const (
	atNumber = 0
	atArch   = 4
	atArgs   = 16
)

// modeCall is a system call that gives a file its mode.
type modeCall struct {
	number uint32
	mode   uint32 // index of the argument that is the mode
	flags  uint32 // index of the argument that says whether a file is created; 0: the mode always counts
}

// modeCalls may not make a file that another user's rights are gained with: the file would be there outside of the sandbox as well.
// mkdir and the like ignore these bits.
var modeCalls = append([]modeCall{
	{number: unix.SYS_FCHMOD, mode: 1},
	{number: unix.SYS_FCHMODAT, mode: 2},
	{number: unix.SYS_FCHMODAT2, mode: 2},
	{number: unix.SYS_MKNODAT, mode: 2},
	{number: unix.SYS_OPENAT, mode: 3, flags: 2},
}, nativeModeCalls...)

// createsFile are the flags of open with which its mode counts.
const createsFile = unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY

// filter binds this thread.
func (p *Plan) filter() error {
	program := assemble(p.Network)
	list := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&list)))
	runtime.KeepAlive(program)
	if errno != 0 {
		return fmt.Errorf("%w: filter system calls: %w", ErrMissing, errno)
	}
	return nil
}

// assemble writes the filter in the language of the kernel.
func assemble(network bool) []unix.SockFilter {
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	end := func(action uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
	}
	// unless skips the next n instructions but for a value that passes the test.
	unless := func(test uint16, value uint32, n uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, Jf: n, K: value}
	}
	const (
		pass   = unix.SECCOMP_RET_ALLOW
		kill   = unix.SECCOMP_RET_KILL_PROCESS
		refuse = unix.SECCOMP_RET_ERRNO
		deny   = refuse | uint32(unix.EPERM)
		lack   = refuse | uint32(unix.ENOSYS)
	)
	prog := []unix.SockFilter{
		load(atArch), unless(unix.BPF_JEQ, architecture, 1),
		{Code: unix.BPF_JMP | unix.BPF_JA, K: 1},
		end(kill),
		load(atNumber),
		unless(unix.BPF_JGE, 1<<30, 1), end(kill), // the calls of x32
		unless(unix.BPF_JGT, lastCall, 1), end(lack),
	}
	for _, number := range denied {
		prog = append(prog, unless(unix.BPF_JEQ, number, 1), end(deny))
	}
	for _, number := range absent {
		prog = append(prog, unless(unix.BPF_JEQ, number, 1), end(lack))
	}
	const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS |
		unix.CLONE_NEWCGROUP
	prog = append(prog, unless(unix.BPF_JEQ, unix.SYS_CLONE, 4), load(atArgs), unless(unix.BPF_JSET, namespaces, 1), end(deny), end(pass))
	prog = append(prog, unless(unix.BPF_JEQ, unix.SYS_IOCTL, 6), load(atArgs+8), // input of a terminal
		unless(unix.BPF_JEQ, unix.TIOCSTI, 1), end(deny), unless(unix.BPF_JEQ, unix.TIOCLINUX, 1), end(deny), end(pass))
	prog = append(prog, unless(unix.BPF_JEQ, unix.SYS_PERSONALITY, 6), load(atArgs),
		unless(unix.BPF_JEQ, 0, 1), end(pass), unless(unix.BPF_JEQ, 0xffffffff, 1), end(pass), end(deny))
	for _, c := range modeCalls {
		judge := []unix.SockFilter{load(atArgs + 8*c.mode), unless(unix.BPF_JSET, unix.S_ISUID|unix.S_ISGID, 1), end(deny), end(pass)}
		if c.flags != 0 { // a register that is no mode may hold anything
			judge = append([]unix.SockFilter{load(atArgs + 8*c.flags), unless(unix.BPF_JSET, createsFile, uint8(len(judge)-1))}, judge...)
		}
		prog = append(append(prog, unless(unix.BPF_JEQ, c.number, uint8(len(judge)))), judge...)
	}
	families := []uint32{unix.AF_UNIX}
	if network {
		families = append(families, unix.AF_INET, unix.AF_INET6)
	}
	for _, number := range []uint32{unix.SYS_SOCKET, unix.SYS_SOCKETPAIR} {
		of := []unix.SockFilter{load(atArgs)}
		for _, family := range families {
			of = append(of, unless(unix.BPF_JEQ, family, 1), end(pass))
		}
		if network { // addresses and routes
			of = append(of, unless(unix.BPF_JEQ, unix.AF_NETLINK, 3), load(atArgs+16), unless(unix.BPF_JEQ, unix.NETLINK_ROUTE, 1), end(pass))
		}
		of = append(of, end(refuse|uint32(unix.EAFNOSUPPORT)))
		prog = append(append(prog, unless(unix.BPF_JEQ, number, uint8(len(of)))), of...)
	}
	return append(prog, end(pass))
}
