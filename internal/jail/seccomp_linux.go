package jail

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// allowed are the system calls that a Go program makes at work, whatever their arguments. Those of one architecture are in
// nativeCalls.
var allowed = []uint32{
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_PREAD64, unix.SYS_CLOSE, unix.SYS_LSEEK, unix.SYS_FSTAT, unix.SYS_FCNTL, unix.SYS_PPOLL,
	unix.SYS_MUNMAP, unix.SYS_MADVISE, unix.SYS_MINCORE,
	unix.SYS_FUTEX, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_GETTIMEOFDAY, unix.SYS_GETRUSAGE,
	unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_GETPID, unix.SYS_GETTID, unix.SYS_GETRANDOM,
	unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2,
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK, unix.SYS_RESTART_SYSCALL,
	unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
}

// fatal are system calls that no Go program makes at work: the process is killed.
var fatal = []uint32{
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_EXECVE, unix.SYS_EXECVEAT, unix.SYS_MOUNT, unix.SYS_UMOUNT2,
	unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_BPF, unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_USERFAULTFD, unix.SYS_PERF_EVENT_OPEN, unix.SYS_IO_URING_SETUP, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE,
	unix.SYS_KEXEC_LOAD, unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_MEMFD_CREATE, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_GETFD,
}

// Offsets into struct seccomp_data, of the lower half of an argument.
const (
	atNumber = 0
	atArch   = 4
	atArgs   = 16
)

// filter forbids all other system calls, to all threads. Machine code cannot be mapped any more.
func filter() error {
	program := assemble()
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
func assemble() []unix.SockFilter {
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
	for _, number := range append(allowed, nativeCalls...) {
		p = append(p, unless(unix.BPF_JEQ, number, 1), end(allow))
	}
	for _, number := range fatal {
		p = append(p, unless(unix.BPF_JEQ, number, 1), end(kill))
	}
	p = append(p, unless(unix.BPF_JEQ, unix.SYS_TGKILL, 4), // signals to itself
		load(atArgs), unless(unix.BPF_JEQ, uint32(os.Getpid()), 1), end(allow), end(refuse|uint32(unix.EPERM)))
	for _, number := range []uint32{unix.SYS_MMAP, unix.SYS_MPROTECT} { // no machine code
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
