package jail

import (
	"encoding/binary"
	"os"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"mcp-code-exec-harness/internal/walls"
)

// TestFilter checks the verdicts of the filters on system calls.
func TestFilter(t *testing.T) {
	const (
		program = 0x7f00_1234_5678
		thread  = unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SIGHAND
		refused = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
		lacking = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
		killed  = unix.SECCOMP_RET_KILL_PROCESS
		allowed = unix.SECCOMP_RET_ALLOW
	)
	node := nodeRules
	node.program = program
	for _, c := range []struct {
		name          string
		number        uint32
		args          []uint64
		forGo, inNode uint32
	}{
		{"read", unix.SYS_READ, nil, allowed, allowed},
		{"unknown", 400, nil, refused, refused},
		{"x32", 1<<30 | unix.SYS_READ, nil, killed, killed},
		{"socket", unix.SYS_SOCKET, nil, killed, refused},
		{"execute the program", unix.SYS_EXECVE, []uint64{program}, killed, allowed},
		{"execute elsewhere", unix.SYS_EXECVE, []uint64{program + 1<<32}, killed, killed},
		{"read limits", unix.SYS_PRLIMIT64, []uint64{0, 7, 0, 1}, refused, allowed},
		{"set limits", unix.SYS_PRLIMIT64, []uint64{0, 7, 0x1000}, refused, refused},
		{"set limits at an address whose lower half is 0", unix.SYS_PRLIMIT64, []uint64{0, 7, 1 << 32}, refused, refused},
		{"name a thread", unix.SYS_PRCTL, []uint64{unix.PR_SET_NAME}, refused, allowed},
		{"name a thread, with a sign in the upper half", unix.SYS_PRCTL, []uint64{0xffffffff_00000000 | unix.PR_SET_NAME}, refused, allowed},
		{"outlive", unix.SYS_PRCTL, []uint64{unix.PR_SET_PDEATHSIG}, refused, refused},
		{"copy a descriptor", unix.SYS_FCNTL, []uint64{0, unix.F_DUPFD_CLOEXEC}, allowed, allowed},
		{"grow a pipe", unix.SYS_FCNTL, []uint64{0, unix.F_SETPIPE_SZ}, refused, refused},
		{"data", unix.SYS_MMAP, []uint64{0, 1, unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_FIXED}, allowed, allowed},
		{"machine code", unix.SYS_MMAP, []uint64{0, 1, unix.PROT_EXEC, unix.MAP_PRIVATE}, refused, allowed},
		{"shared memory", unix.SYS_MMAP, []uint64{0, 1, unix.PROT_WRITE, unix.MAP_SHARED | unix.MAP_ANONYMOUS}, refused, refused},
		{"shared memory, validated", unix.SYS_MMAP, []uint64{0, 1, unix.PROT_WRITE, unix.MAP_SHARED_VALIDATE}, refused, refused},
		{"a stack", unix.SYS_MMAP, []uint64{0, 1, unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_GROWSDOWN}, refused, refused},
		{"protect", unix.SYS_MPROTECT, []uint64{0, 1, unix.PROT_READ}, allowed, allowed},
		{"protect machine code", unix.SYS_MPROTECT, []uint64{0, 1, unix.PROT_EXEC}, refused, allowed},
		{"thread", unix.SYS_CLONE, []uint64{thread | unix.CLONE_FS}, allowed, allowed},
		{"process", unix.SYS_CLONE, []uint64{uint64(unix.SIGCHLD)}, refused, refused},
		{"namespace", unix.SYS_CLONE, []uint64{thread | unix.CLONE_NEWUSER}, killed, killed},
		{"clone3", unix.SYS_CLONE3, nil, lacking, lacking},
		{"signal oneself", unix.SYS_TGKILL, []uint64{uint64(os.Getpid())}, allowed, allowed},
		{"signal another", unix.SYS_TGKILL, []uint64{uint64(os.Getpid()) + 1}, refused, refused},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := judge(t, goRules, walls.Architecture, c.number, c.args); got != c.forGo {
				t.Errorf("the filter for Go says %#x, want %#x", got, c.forGo)
			}
			if got := judge(t, node, walls.Architecture, c.number, c.args); got != c.inNode {
				t.Errorf("the filter for Node.js says %#x, want %#x", got, c.inNode)
			}
			if got := judge(t, node, walls.Architecture+1, c.number, c.args); got != killed {
				t.Errorf("for a foreign architecture it says %#x", got)
			}
		})
	}
}

// judge returns the verdict of a filter on a system call. The virtual machine of package bpf reads words in network byte order.
func judge(t *testing.T, rules filterRules, arch, number uint32, args []uint64) uint32 {
	t.Helper()
	var raw []bpf.RawInstruction
	for _, i := range rules.assemble() {
		raw = append(raw, bpf.RawInstruction{Op: i.Code, Jt: i.Jt, Jf: i.Jf, K: i.K})
	}
	program, _ := bpf.Disassemble(raw)
	vm, err := bpf.NewVM(program)
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 64) // has the layout of struct seccomp_data
	binary.BigEndian.PutUint32(data, number)
	binary.BigEndian.PutUint32(data[4:], arch)
	for i, arg := range args {
		binary.BigEndian.PutUint32(data[16+8*i:], uint32(arg))
		binary.BigEndian.PutUint32(data[20+8*i:], uint32(arg>>32))
	}
	verdict, err := vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(verdict)
}
