package jail

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// filterRules say which system calls a process may make. Others fail with EPERM.
type filterRules struct {
	allowed []uint32    // whatever their arguments
	fatal   []uint32    // the process is killed
	values  []valueRule // allowed with some arguments
	code    bool        // machine code may be made
	program uintptr     // address of the one path that may be executed; 0: none
}

// valueRule allows a system call where an argument has one of the values. The kernel reads only the lower half of most arguments, and so does
// the rule, unless whole is set.
type valueRule struct {
	call   uint32
	arg    uint32
	values []uint32
	whole  bool
}

// fileRule allows the commands of fcntl that change no more than a descriptor. Others would take memory from the user's other processes
// (F_SETPIPE_SZ), or send signals.
var fileRule = valueRule{call: unix.SYS_FCNTL, arg: 1, values: []uint32{
	unix.F_DUPFD, unix.F_DUPFD_CLOEXEC, unix.F_GETFD, unix.F_SETFD, unix.F_GETFL, unix.F_SETFL, unix.F_GETPIPE_SZ,
}}

// goRules are for a Go program at work.
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

// neverCalls are system calls that neither Go nor Node.js ever makes.
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

// nodeRules are for Node.js at work, from its start on. It compiles machine code, loads its libraries, and starts threads.
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
		{call: unix.SYS_PRLIMIT64, arg: 2, values: []uint32{0}, whole: true}, // a pointer: limits are read only
	},
}

// Offsets into struct seccomp_data, of the lower half of an argument, and from there to its upper half.
const (
	atNumber = 0
	atArch   = 4
	atArgs   = 16
	toUpper  = 4
)

// mapType are the flags of mmap that say whether a mapping is private or shared (MAP_TYPE).
const mapType = 0x0f

// filter forbids other system calls to all threads.
func filter(rules filterRules) error {
	program := rules.assemble()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	list := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	stuck, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&list)))
	runtime.KeepAlive(program)
	switch {
	case errno != 0:
		return fmt.Errorf("filter system calls: %w", errno)
	case stuck != 0:
		return fmt.Errorf("filter system calls: thread %d has a filter of its own", stuck)
	}
	return nil
}

// assemble writes the filter in the language of the kernel.
func (r filterRules) assemble() []unix.SockFilter {
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
		allow  = unix.SECCOMP_RET_ALLOW
		kill   = unix.SECCOMP_RET_KILL_PROCESS
		refuse = unix.SECCOMP_RET_ERRNO
	)
	p := []unix.SockFilter{
		load(atArch),
		unless(unix.BPF_JEQ, architecture, 1),
		{Code: unix.BPF_JMP | unix.BPF_JA, K: 1},
		end(kill),
		load(atNumber),
		unless(unix.BPF_JGE, 1<<30, 1), end(kill), // the calls of x32
	}
	for _, number := range r.allowed {
		p = append(p, unless(unix.BPF_JEQ, number, 1), end(allow))
	}
	for _, number := range r.fatal {
		p = append(p, unless(unix.BPF_JEQ, number, 1), end(kill))
	}
	for _, rule := range r.values {
		var check []unix.SockFilter
		if rule.whole {
			check = []unix.SockFilter{load(atArgs + 8*rule.arg + toUpper), unless(unix.BPF_JEQ, 0, uint8(2*len(rule.values)+1))}
		}
		check = append(check, load(atArgs+8*rule.arg))
		for _, value := range rule.values {
			check = append(check, unless(unix.BPF_JEQ, value, 1), end(allow))
		}
		check = append(check, end(refuse|uint32(unix.EPERM)))
		p = append(append(p, unless(unix.BPF_JEQ, rule.call, uint8(len(check)))), check...)
	}
	if r.program != 0 {
		p = append(p, unless(unix.BPF_JEQ, unix.SYS_EXECVE, 6),
			load(atArgs), unless(unix.BPF_JEQ, uint32(r.program), 3),
			load(atArgs+toUpper), unless(unix.BPF_JEQ, uint32(r.program>>32), 1), end(allow), end(kill))
	}
	p = append(p, unless(unix.BPF_JEQ, unix.SYS_TGKILL, 4), // signals to itself
		load(atArgs), unless(unix.BPF_JEQ, uint32(os.Getpid()), 1), end(allow), end(refuse|uint32(unix.EPERM)))
	// The limits on data count neither shared memory nor what grows downwards.
	private := []unix.SockFilter{
		load(atArgs + 3*8), unless(unix.BPF_JSET, unix.MAP_GROWSDOWN, 1), end(refuse | uint32(unix.EPERM)),
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: mapType},
		unless(unix.BPF_JEQ, unix.MAP_PRIVATE, 1),
		{Code: unix.BPF_JMP | unix.BPF_JA, K: 1},
		end(refuse | uint32(unix.EPERM)),
		load(atNumber),
	}
	p = append(append(p, unless(unix.BPF_JEQ, unix.SYS_MMAP, uint8(len(private)))), private...)
	for _, number := range []uint32{unix.SYS_MMAP, unix.SYS_MPROTECT, unix.SYS_PKEY_MPROTECT} {
		if r.code {
			p = append(p, unless(unix.BPF_JEQ, number, 1), end(allow))
			continue
		}
		p = append(p, unless(unix.BPF_JEQ, number, 4),
			load(atArgs+2*8), unless(unix.BPF_JSET, unix.PROT_EXEC, 1), end(refuse|uint32(unix.EPERM)), end(allow))
	}
	const thread = unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SIGHAND
	const other = unix.CLONE_NEWNS | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS |
		unix.CLONE_NEWCGROUP | unix.CLONE_VFORK
	p = append(p,
		unless(unix.BPF_JEQ, unix.SYS_CLONE, 6),
		load(atArgs), unless(unix.BPF_JSET, other, 1), end(kill),
		unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: thread}, unless(unix.BPF_JEQ, thread, 1), end(allow),
		load(atNumber),
		unless(unix.BPF_JEQ, unix.SYS_CLONE3, 1), end(refuse|uint32(unix.ENOSYS)),
		end(refuse|uint32(unix.EPERM)),
	)
	return p
}
