package jail

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ExecMain turns this process into Node.js behind walls. Its argument is a Program as JSON. It returns the exit code if it fails, and
// writes the reason to stderr.
func ExecMain(args []string, stderr io.Writer) int {
	var p Program
	if len(args) != 1 || json.Unmarshal([]byte(args[0]), &p) != nil {
		fmt.Fprintln(stderr, "this command is internal: the sandbox starts it")
		return 2
	}
	fmt.Fprintln(stderr, p.exec())
	return 1
}

// maxAddresses is the limit of a Program's address space, in bytes. V8 reserves a fraction of it. The limit also bounds the page
// tables of memory that is only read: they take at most 64 MiB, which the limit on data does not count.
const maxAddresses = 32 << 30

// exec returns only if it fails.
func (p Program) exec() error {
	// The program must not inherit the open files of this process.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close files: %w", err)
	}
	runtime.LockOSThread()
	missing := raise([]wall{
		{Namespaces, namespaces},
		{Root, func() error { return newRoot(p.Files) }},
	})
	readable := slices.Collect(maps.Keys(p.Files))
	if missing[Root] != "" { // the process keeps the machine's root
		readable = slices.Collect(maps.Values(p.Files))
		p.Path = cmp.Or(p.Files[p.Path], p.Path)
		for i, arg := range p.Args {
			p.Args[i] = cmp.Or(p.Files[arg], arg)
		}
	}
	path, err := unix.BytePtrFromString(p.Path)
	if err != nil {
		return err
	}
	argv, err := syscall.SlicePtrFromStrings(p.Args)
	if err != nil {
		return err
	}
	rules := nodeRules
	rules.program = uintptr(unsafe.Pointer(path))
	maps.Copy(missing, raise([]wall{
		{Limits, func() error { return limits(map[int]uint64{unix.RLIMIT_DATA: p.Memory, unix.RLIMIT_AS: maxAddresses}) }},
		{User, unprivileged},
		{Landlock, func() error { return landlock(readable) }},
		{Seccomp, func() error { return rules.assemble().Install() }},
	}))
	var refused []string
	for _, wall := range slices.Sorted(maps.Keys(missing)) {
		if !slices.Contains(p.Without, wall) {
			refused = append(refused, fmt.Sprintf("%s: %s", wall, missing[wall]))
		}
	}
	if len(refused) > 0 {
		return fmt.Errorf("%w: %s", ErrWalls, strings.Join(refused, "; "))
	}
	told, err := json.Marshal(missing)
	if err != nil {
		return err
	}
	env, err := syscall.SlicePtrFromStrings(append(p.Env, MissingVariable+"="+string(told)))
	if err != nil {
		return err
	}
	_, _, errno := syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&env[0])))
	runtime.KeepAlive(path)
	return fmt.Errorf("execute %s: %w", filepath.Base(p.Path), errno)
}
