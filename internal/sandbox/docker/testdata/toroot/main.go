// Command toroot replaces Node.js in a container. It acts as a program that has escaped and runs its own machine code. Its file belongs to
// root and has the set-user-ID bit. It tries to become root, and prints which attempts succeeded and its identity.
package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// again is the variable that is set once the program has executed itself.
const again = "TOROOT_AGAIN"

func main() {
	runtime.LockOSThread()
	var done []string
	if before := os.Getenv(again); before == "" {
		missing := map[string]string{}
		if version, err := os.ReadFile("/proc/version"); err != nil || !strings.Contains(string(version), "gvisor") {
			missing["kernel of its own"] = "it has the machine's"
		}
		send(map[string]any{"t": "ready", "engine": "v20.0.0", "missing": missing})
		done = attempts()
		_ = syscall.Exec("/tmp/copy", []string{"node"}, []string{again + "=copy," + strings.Join(done, ",")})
		// The kernel sets the user to the owner of the file.
		if err := syscall.Exec("/usr/bin/node", []string{"node"}, []string{again + "=" + strings.Join(done, ",") + ","}); err != nil {
			done = append(done, "nothing was executed: "+err.Error())
		}
	} else {
		done = append(strings.FieldsFunc(before, func(r rune) bool { return r == ',' }), attempts()...)
	}
	send(map[string]any{"t": "done", "value": map[string]any{"succeeded": append([]string{}, done...), "tasks": tasks()}})
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func send(frame map[string]any) {
	_ = json.NewEncoder(os.Stdout).Encode(frame)
}

// attempts tries all ways by which a user becomes root, and returns the names of those that succeeded.
func attempts() (succeeded []string) {
	note := func(name string, err error) {
		if err == nil {
			succeeded = append(succeeded, name)
		}
	}
	call := func(name string, number uintptr, args ...uintptr) {
		var a [6]uintptr
		copy(a[:], args)
		n, _, errno := syscall.RawSyscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
		if number == unix.SYS_CLONE && errno == 0 && n == 0 { // in the new process
			syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		if errno == 0 {
			succeeded = append(succeeded, name)
		}
	}
	call("setuid", unix.SYS_SETUID, 0)
	call("setreuid", unix.SYS_SETREUID, 0, 0)
	call("setresuid", unix.SYS_SETRESUID, 0, 0, 0)
	call("setgid", unix.SYS_SETGID, 0)
	call("setregid", unix.SYS_SETREGID, 0, 0)
	call("setresgid", unix.SYS_SETRESGID, 0, 0, 0)
	group := new(uint32)
	call("setgroups", unix.SYS_SETGROUPS, 1, uintptr(unsafe.Pointer(group)))
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	all := [2]unix.CapUserData{}
	for i := range all {
		all[i] = unix.CapUserData{Effective: ^uint32(0), Permitted: ^uint32(0), Inheritable: ^uint32(0)}
	}
	note("capset", unix.Capset(&header, &all[0]))
	note("ambient capability", unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, unix.CAP_SETUID, 0, 0))
	note("secure bits", unix.Prctl(unix.PR_SET_SECUREBITS, 0, 0, 0, 0))
	note("new privileges", unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0))
	note("mount", unix.Mount("", "/tmp", "", unix.MS_REMOUNT, ""))
	for _, file := range []string{"/usr/bin/node", "/etc/passwd"} {
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0)
		note("write "+file, err)
		_ = f.Close()
	}
	note("chown", os.Chown("/tmp", 0, 0))
	text, err := os.ReadFile("/proc/self/exe")
	if err == nil && os.WriteFile("/tmp/copy", text, 0o755) == nil {
		if os.Chown("/tmp/copy", 0, 0) == nil {
			note("copy of root", os.Chmod("/tmp/copy", 0o4755|os.ModeSetuid))
		}
	}
	// Root in a user namespace has root's power over what belongs to it. unshare requires a process with one thread; clone does not.
	call("clone", unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD))
	call("unshare", unix.SYS_UNSHARE, unix.CLONE_NEWUSER)
	return succeeded
}

// tasks returns the kernel's information about the identity and capabilities of each thread.
func tasks() (all []string) {
	files, _ := filepath.Glob("/proc/self/task/*/status")
	lines := regexp.MustCompile(`(?m)^(Uid|Gid|Groups|Cap\w+|NoNewPrivs):.*$`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		var b strings.Builder
		for _, line := range lines.FindAllString(string(text), -1) {
			b.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
		}
		all = append(all, b.String())
	}
	return all
}
