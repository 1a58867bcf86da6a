package walls

import (
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Program is a filter of system calls in BPF, or a part of one.
type Program []unix.SockFilter

// Verdicts on a system call.
var (
	Allow = end(unix.SECCOMP_RET_ALLOW)
	Kill  = end(unix.SECCOMP_RET_KILL_PROCESS)
)

// Fail returns the verdict that makes a system call fail with errno.
func Fail(errno unix.Errno) Program { return end(unix.SECCOMP_RET_ERRNO | uint32(errno)) }

func end(action uint32) Program { return Program{{Code: unix.BPF_RET | unix.BPF_K, K: action}} }

// Offsets into struct seccomp_data. atArgs is the offset of the lower half of the first argument. toUpper is the distance from the lower half of an
// argument to its upper half.
const (
	atNumber = 0
	atArch   = 4
	atArgs   = 16
	toUpper  = 4
)

func load(at uint32) Program {
	return Program{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}}
}

// Number loads the number of the system call. If an argument was loaded, the number must be loaded again before the next Call.
func Number() Program { return load(atNumber) }

// Arg loads the lower half of argument i, counted from 0.
func Arg(i uint32) Program { return load(atArgs + 8*i) }

// Upper loads the upper half of argument i.
func Upper(i uint32) Program { return load(atArgs + 8*i + toUpper) }

// Mask clears all bits of the loaded value except the given ones.
func Mask(bits uint32) Program {
	return Program{{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: bits}}
}

// Skip jumps over n instructions.
func Skip(n uint32) Program { return Program{{Code: unix.BPF_JMP | unix.BPF_JA, K: n}} }

// If runs the instructions in then, at most 255, if the loaded value passes a test: BPF_JEQ (equal), BPF_JGE, BPF_JGT, BPF_JSET (a common bit).
func If(test uint16, value uint32, then ...Program) Program {
	body := slices.Concat(then...)
	return append(Program{{Code: unix.BPF_JMP | test | unix.BPF_K, Jf: uint8(len(body)), K: value}}, body...)
}

// Call runs the instructions of then for one system call.
func Call(number uint32, then ...Program) Program { return If(unix.BPF_JEQ, number, then...) }

// Calls applies a verdict to several system calls.
func Calls(numbers []uint32, verdict Program) (p Program) {
	for _, number := range numbers {
		p = append(p, Call(number, verdict)...)
	}
	return p
}

// Filter returns a complete program. parts judge the system calls of this architecture, with the number loaded. Calls of other architectures kill the
// process.
func Filter(parts ...Program) Program {
	return slices.Concat(
		load(atArch), If(unix.BPF_JEQ, Architecture, Skip(1)), Kill,
		Number(), If(unix.BPF_JGE, 1<<30, Kill), // calls of the x32 ABI
		slices.Concat(parts...),
	)
}

// Install applies the filter to all threads of this process, and to everything they start or execute. They can no longer gain privileges.
func (p Program) Install() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	list := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	stuck, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&list)))
	runtime.KeepAlive(p)
	switch {
	case errno != 0:
		return fmt.Errorf("filter system calls: %w", errno)
	case stuck != 0:
		return fmt.Errorf("filter system calls: thread %d has a filter of its own", stuck)
	}
	return nil
}
