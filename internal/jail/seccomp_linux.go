package jail

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"mcp-code-exec-harness/internal/walls"
)

// filterRules says how the filter treats the system calls of a process: which are allowed, and which kill the process. assemble adds the rules that all
// processes share. A call that no rule covers fails with EPERM.
type filterRules struct {
	allowed []uint32    // calls allowed with any arguments
	fatal   []uint32    // calls for which the process is killed
	values  []valueRule // calls allowed only with certain arguments
	code    bool        // whether the process may create machine code
	program uintptr     // address of the only path that may be executed; 0 if there is none
}

// valueRule allows a system call if an argument has one of the values. It compares only the lower half of the argument, because the kernel ignores
// the upper half of most arguments. If whole is set, the upper half must be 0.
type valueRule struct {
	call   uint32
	arg    uint32
	values []uint32
	whole  bool
}

// fileRule allows the commands of fcntl that only change a descriptor. Other commands could send signals, or use up pipe memory that the user's other
// processes need (F_SETPIPE_SZ).
var fileRule = valueRule{call: unix.SYS_FCNTL, arg: 1, values: []uint32{
	unix.F_DUPFD, unix.F_DUPFD_CLOEXEC, unix.F_GETFD, unix.F_SETFD, unix.F_GETFL, unix.F_SETFL, unix.F_GETPIPE_SZ,
}}

// goRules are the rules for a running Go program.
var goRules = filterRules{
	allowed: append(goCalls, nativeCalls...),
	fatal: append(neverCalls, unix.SYS_EXECVE, unix.SYS_EXECVEAT, unix.SYS_IO_URING_SETUP, unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_MEMFD_CREATE,
		unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_GETFD),
	values: []valueRule{fileRule},
}

var goCalls = []uint32{
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_PREAD64, unix.SYS_CLOSE, unix.SYS_LSEEK, unix.SYS_FSTAT, unix.SYS_PPOLL,
	unix.SYS_MUNMAP, unix.SYS_MADVISE, unix.SYS_MINCORE,
	unix.SYS_FUTEX, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_GETTIMEOFDAY, unix.SYS_GETRUSAGE,
	unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_GETPID, unix.SYS_GETTID, unix.SYS_GETRANDOM,
	unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2,
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK, unix.SYS_RESTART_SYSCALL,
	unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
}

// neverCalls are system calls that neither Go nor Node.js makes.
var neverCalls = []uint32{
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_MOUNT, unix.SYS_UMOUNT2,
	unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_BPF, unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_USERFAULTFD, unix.SYS_PERF_EVENT_OPEN, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_OPEN_BY_HANDLE_AT,
}

// Requests of ioctl that package unix does not name.
const (
	fioNonBlocking = 0x5421
	fioCloseOnExec = 0x5451
)

// nodeRules are the rules for Node.js from its start on. Node.js compiles machine code, loads its libraries, and starts threads.
var nodeRules = filterRules{
	code: true,
	allowed: append(append(slices.Clone(goCalls), nativeCalls...), append(nativeNodeCalls,
		unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_OPENAT, unix.SYS_STATX, unix.SYS_FACCESSAT, unix.SYS_FACCESSAT2, unix.SYS_READLINKAT,
		unix.SYS_GETCWD, unix.SYS_GETDENTS64, unix.SYS_DUP, unix.SYS_DUP3, unix.SYS_PIPE2, unix.SYS_STATFS, unix.SYS_FSTATFS,
		unix.SYS_BRK, unix.SYS_MREMAP, unix.SYS_MEMBARRIER, unix.SYS_MBIND, unix.SYS_PKEY_ALLOC, unix.SYS_PKEY_FREE,
		unix.SYS_SET_TID_ADDRESS, unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ, unix.SYS_EPOLL_PWAIT2, unix.SYS_CLOCK_GETRES,
		unix.SYS_RT_SIGTIMEDWAIT, unix.SYS_RT_SIGPENDING, unix.SYS_GETPRIORITY, unix.SYS_SCHED_GETPARAM, unix.SYS_SCHED_GETSCHEDULER,
		unix.SYS_SCHED_GET_PRIORITY_MAX, unix.SYS_SCHED_GET_PRIORITY_MIN,
		unix.SYS_GETUID, unix.SYS_GETEUID, unix.SYS_GETGID, unix.SYS_GETEGID, unix.SYS_GETPPID, unix.SYS_GETPGID, unix.SYS_GETRESUID, unix.SYS_GETRESGID,
		unix.SYS_UNAME, unix.SYS_SYSINFO, unix.SYS_TIMES, unix.SYS_CAPGET, unix.SYS_GETRLIMIT)...),
	fatal: neverCalls,
	values: []valueRule{
		fileRule,
		{call: unix.SYS_PRCTL, arg: 0, values: []uint32{unix.PR_SET_NAME, unix.PR_GET_NAME, unix.PR_SET_VMA, unix.PR_GET_DUMPABLE}},
		{call: unix.SYS_IOCTL, arg: 1, values: []uint32{unix.TCGETS, unix.TIOCINQ, fioNonBlocking, fioCloseOnExec}},
		{call: unix.SYS_PRLIMIT64, arg: 2, values: []uint32{0}, whole: true}, // the pointer to new limits must be nil: limits can only be read
	},
}

// mapType masks the flags of mmap that make a mapping private or shared (MAP_TYPE).
const mapType = 0x0f

// assemble returns the filter as a BPF program.
func (r filterRules) assemble() walls.Program {
	refuse := walls.Fail(unix.EPERM)
	var values, execute, code walls.Program
	for _, rule := range r.values {
		judge := walls.Arg(rule.arg)
		for _, value := range rule.values {
			judge = append(judge, walls.If(unix.BPF_JEQ, value, walls.Allow)...)
		}
		if rule.whole {
			judge = append(walls.Upper(rule.arg), walls.If(unix.BPF_JEQ, 0, judge)...)
		}
		values = append(values, walls.Call(rule.call, judge, refuse)...)
	}
	if r.program != 0 {
		execute = walls.Call(unix.SYS_EXECVE,
			walls.Arg(0), walls.If(unix.BPF_JEQ, uint32(r.program),
				walls.Upper(0), walls.If(unix.BPF_JEQ, uint32(r.program>>32), walls.Allow)), walls.Kill)
	}
	for _, number := range []uint32{unix.SYS_MMAP, unix.SYS_MPROTECT, unix.SYS_PKEY_MPROTECT} {
		judge := walls.Allow
		if !r.code {
			judge = slices.Concat(walls.Arg(2), walls.If(unix.BPF_JSET, unix.PROT_EXEC, refuse), walls.Allow)
		}
		code = append(code, walls.Call(number, judge)...)
	}
	const thread = unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SIGHAND
	const other = unix.CLONE_NEWNS | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS |
		unix.CLONE_NEWCGROUP | unix.CLONE_VFORK
	return walls.Filter(
		walls.Calls(r.allowed, walls.Allow), walls.Calls(r.fatal, walls.Kill), values, execute,
		walls.Call(unix.SYS_TGKILL, walls.Arg(0), walls.If(unix.BPF_JEQ, uint32(os.Getpid()), walls.Allow), refuse), // signals to this process
		// The limits on data count neither shared memory nor mappings that grow downwards.
		walls.Call(unix.SYS_MMAP, walls.Arg(3), walls.If(unix.BPF_JSET, unix.MAP_GROWSDOWN, refuse),
			walls.Mask(mapType), walls.If(unix.BPF_JEQ, unix.MAP_PRIVATE, walls.Skip(1)), refuse, walls.Number()),
		code,
		walls.Call(unix.SYS_CLONE, walls.Arg(0), walls.If(unix.BPF_JSET, other, walls.Kill),
			walls.Mask(thread), walls.If(unix.BPF_JEQ, thread, walls.Allow), refuse),
		walls.Call(unix.SYS_CLONE3, walls.Fail(unix.ENOSYS)),
		refuse,
	)
}
