package jail

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"mcp-code-exec-harness/internal/process"
	"mcp-code-exec-harness/internal/testing/child"
	"mcp-code-exec-harness/internal/testing/hostile"
)

// First arguments with which the test binary is started again. Each comment says what the binary then is.
const (
	escapedRole = "__escaped" // a process behind walls that acts like a guest that has escaped from the engine
	parentRole  = "__parent"  // the parent of such a process, which is killed
	nothingRole = "__nothing" // a process that ends
	bareRole    = "__bare"    // a process that cannot create user namespaces, and starts such a process
	crowdedRole = "__crowded" // a process that can create only one user namespace at a time, and starts several such processes
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case LauncherCommand:
			os.Exit(LauncherMain())
		case ExecCommand:
			os.Exit(ExecMain(os.Args[2:], os.Stderr))
		case escapedRole:
			os.Exit(escaped())
		case nothingRole:
			os.Exit(0)
		case parentRole:
			os.Exit(parent())
		case bareRole:
			os.Exit(bare())
		case crowdedRole:
			os.Exit(crowded())
		}
	}
	os.Exit(m.Run())
}

// execName is the address of this program's path, which the kernel puts into the process's memory. It is read before the walls are raised.
var execName = sync.OnceValue(func() *byte {
	vector, _ := os.ReadFile("/proc/self/auxv")
	for ; len(vector) >= 16; vector = vector[16:] {
		if binary.NativeEndian.Uint64(vector) == 31 { // AT_EXECFN
			return (*byte)(unsafe.Add(nil, uintptr(binary.NativeEndian.Uint64(vector[8:]))))
		}
	}
	return new(byte)
})

// report is what a process behind walls reports.
type report struct {
	Missing Missing
	Done    map[string]string // results of the attacks that succeeded, by name
}

// escaped enters the jail and attacks. Then it tries the attack of package hostile whose name it reads from its input.
func escaped() int {
	held, err := os.Open("/etc/passwd") // Files that were opened before can be read.
	if err != nil {
		return 3
	}
	execName()
	r := report{Missing: Enter(), Done: map[string]string{}}
	if r.Missing[Seccomp] != "" { // Without the filter, the process must not attack this machine.
		if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
			return 6
		}
		return 0
	}
	target := hostile.Target{File: "/etc/passwd", Dir: "/tmp", Port: 1, Pid: os.Getppid(), Run: "run"}
	for name, attack := range hostile.Attacks {
		if attack.Killed || attack.Alone {
			continue
		}
		if got, err := attack.Do(target); err == nil {
			r.Done[name] = got
		}
	}
	for name, attack := range attacks {
		if got, err := attack(); err == nil {
			r.Done[name] = got
		}
	}
	if _, err := held.Read(make([]byte, 1)); err != nil {
		return 4
	}
	var wait sync.WaitGroup // Threads that start now are behind the walls too.
	for range 4 {
		wait.Go(func() {
			runtime.LockOSThread()
			if _, err := os.ReadFile("/etc/passwd"); err == nil {
				os.Exit(5)
			}
		})
	}
	wait.Wait()
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		return 6
	}
	order, _ := io.ReadAll(os.Stdin)
	if attack := hostile.Attacks[string(order)]; attack.Do != nil {
		if got, err := attack.Do(target); err == nil {
			fmt.Println(succeeded, got)
		}
	}
	return 0
}

// attacks are the attacks that only workers try. An attack that fails returns an error.
var attacks = map[string]func() (string, error){
	"list the root": func() (string, error) {
		entries, err := os.ReadDir("/")
		if err == nil && len(entries) == 0 {
			err = errors.New("there is nothing")
		}
		return fmt.Sprint(entries), err
	},
	"read the path of the program": func() (string, error) {
		if strings.Contains(os.Args[0], "/") {
			return os.Args[0], nil
		}
		if path := unix.BytePtrToString(execName()); path != "" {
			return path, nil
		}
		return "", errors.New("it is overwritten")
	},
	"fill the user's queue of signals": func() (string, error) {
		const realTime = 40
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		blocked := unix.Sigset_t{}
		blocked.Val[0] = 1 << (realTime - 1)
		if err := unix.PthreadSigmask(unix.SIG_BLOCK, &blocked, nil); err != nil {
			return "", err
		}
		for n := range 10 * maxSignals {
			if err := unix.Tgkill(unix.Getpid(), unix.Gettid(), realTime); err != nil {
				return "", fmt.Errorf("after %d: %w", n, err)
			}
		}
		return "all wait", nil
	},
	"map machine code": func() (string, error) {
		_, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		return "", err
	},
	"make data machine code": func() (string, error) {
		m, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			return "", nil
		}
		return "", unix.Mprotect(m, unix.PROT_READ|unix.PROT_EXEC)
	},
	"share a mapping": func() (string, error) {
		_, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ, unix.MAP_SHARED_VALIDATE|unix.MAP_ANONYMOUS)
		return "", err
	},
	"grow a pipe": func() (string, error) {
		n, err := unix.FcntlInt(1, unix.F_SETPIPE_SZ, 1<<20)
		return fmt.Sprint(n), err
	},
	"send signals": func() (string, error) { _, err := unix.FcntlInt(1, unix.F_SETOWN, os.Getpid()); return "", err },
	"outlive":      func() (string, error) { return "", unix.Prctl(unix.PR_SET_PDEATHSIG, 0, 0, 0, 0) },
}

// start starts a role with a launcher. The process has the files of a child.
func start(t *testing.T, l *Launcher, exe, role string) *process.Child {
	t.Helper()
	cmd := exec.Command(exe, role)
	cmd.Env = []string{}
	c, err := process.Open(cmd, l.Start)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Kill()
		c.Wait()
	})
	return c
}

func reported(t *testing.T, c *process.Child) report {
	t.Helper()
	var r report
	if err := json.NewDecoder(c.Stdout).Decode(&r); err != nil {
		c.Process.Kill()
		t.Fatalf("%v: %v: %s", err, c.Wait(), &c.Stderr)
	}
	return r
}

// launcher returns a launcher whose small process executes exe.
func launcher(t *testing.T, exe string) *Launcher {
	l := NewLauncher(process.SelfAt(exe))
	t.Cleanup(l.Close)
	return l
}

// executable returns the path of this binary. The test is skipped if the binary was built with cgo, or if the machine has no user namespaces or no Landlock.
func executable(t *testing.T) string {
	t.Helper()
	exe := child.Executable(t)
	own := exec.Command(exe, nothingRole)
	own.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET}
	if err := own.Run(); err != nil {
		t.Skip("this machine forbids user namespaces; allow them: sysctl user.max_user_namespaces=10000: ", err)
	}
	c := start(t, launcher(t, exe), exe, escapedRole)
	missing := reported(t, c).Missing
	if strings.Contains(missing[Landlock], "the kernel has no") || os.Getenv(childrenVar) == "" && strings.Contains(missing[Seccomp], "cgo") {
		t.Skip("walls are for programs without cgo (use make test, or CGO_ENABLED=0) and kernels with Landlock: ", missing)
	}
	if len(missing) > 0 {
		t.Fatalf("missing: %v", missing)
	}
	return exe
}

// succeeded is what a process behind walls reports for an attack that succeeded.
const succeeded = "succeeded"

// childrenVar is the environment variable that is set if test binaries without cgo are available.
const childrenVar = "HARNESS_TEST_CHILDREN"

// TestWalls examines a process behind walls from inside and from outside.
func TestWalls(t *testing.T) {
	exe := executable(t)
	secret := filepath.Join(t.TempDir(), "secret")
	inherited, err := unix.Open(secret, unix.O_CREAT|unix.O_RDWR, 0o600) // The started process inherits this open file.
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(inherited)
	c := start(t, launcher(t, exe), exe, escapedRole)
	if r := reported(t, c); len(r.Done) > 0 {
		t.Errorf("attacks that succeeded: %v", r.Done)
	}
	open, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", c.Process.Pid))
	if err != nil || len(open) == 0 {
		t.Errorf("open files: %v, %v", open, err)
	}
	for _, path := range open {
		if file, _ := os.Readlink(path); file == secret {
			t.Error("a file that this process has open is open in it")
		}
	}
	outside(t, c.Process.Pid)
	for _, space := range []string{"user", "pid", "mnt", "net", "ipc", "uts"} {
		ours, err1 := os.Readlink("/proc/self/ns/" + space)
		its, err2 := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", c.Process.Pid, space))
		if err1 != nil || err2 == nil && ours == its {
			t.Errorf("the namespace %s is ours: %v, %v", space, err1, err2)
		}
	}
}

// outside checks what the system reports about a process behind walls.
func outside(t *testing.T, pid int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	status := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		status[name] = strings.TrimSpace(value)
	}
	for name, want := range map[string]string{
		"CapEff": "0000000000000000", "CapPrm": "0000000000000000", "CapInh": "0000000000000000", "CapAmb": "0000000000000000",
		"NoNewPrivs": "1", "Seccomp": "2",
	} {
		if status[name] != want {
			t.Errorf("%s is %q", name, status[name])
		}
	}
	if strings.HasPrefix(status["Uid"], "0\t") || len(strings.Fields(status["NSpid"])) != 2 {
		t.Errorf("Uid: %s, NSpid: %s", status["Uid"], status["NSpid"])
	}
}

// TestDeadly tries attacks for which the process is killed, and attacks that need a process of their own because they use up its resources.
func TestDeadly(t *testing.T) {
	exe := executable(t)
	l := launcher(t, exe)
	for name, attack := range hostile.Attacks {
		if !attack.Killed && !attack.Alone || name == "exhaust_memory" { // Workers limit their memory themselves.
			continue
		}
		c := start(t, l, exe, escapedRole)
		reported(t, c)
		if _, err := c.Stdin.WriteString(name); err != nil {
			t.Fatal(err)
		}
		c.Stdin.Close()
		said, _ := io.ReadAll(c.Stdout)
		status, ok := c.Wait().Sys().(syscall.WaitStatus)
		if strings.Contains(string(said), succeeded) || attack.Killed && (!ok || status.Signal() != unix.SIGSYS) {
			t.Errorf("%s: the process ended with %v, %s", name, c.Wait(), said)
		}
	}
}

// TestOtherUser starts processes behind walls as a user without privileges.
func TestOtherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this is another user already, and root can become one")
	}
	exe := executable(t)
	r := under(t, forAll(t, exe), parentRole, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}})
	if len(r.Missing) > 0 || len(r.Done) > 0 {
		t.Errorf("missing: %v; attacks that succeeded: %v", r.Missing, r.Done)
	}
}

// forAll copies a program to a directory from which every user can execute it.
func forAll(t *testing.T, program string) (path string) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, "test")
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(path, text, 0o755), os.Chmod(path, 0o755), os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestNoNamespaces starts a process while user namespaces are forbidden. The process has the walls that need no namespaces.
func TestNoNamespaces(t *testing.T) {
	exe := executable(t)
	r := under(t, exe, bareRole, &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	})
	if got := slices.Sorted(maps.Keys(r.Missing)); !slices.Equal(got, []string{Root, Namespaces}) {
		t.Errorf("missing: %v", r.Missing)
	}
	if len(r.Done) > 0 {
		t.Errorf("attacks that succeeded: %v", r.Done)
	}
}

// under starts a process with these attributes, which starts a process behind walls. Then it kills the first process, and checks that the other one ends too.
func under(t *testing.T, exe, role string, attr *syscall.SysProcAttr) report {
	t.Helper()
	cmd := exec.Command(exe, role)
	cmd.SysProcAttr = attr
	cmd.Dir = "/"
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdin, err := cmd.StdinPipe() // The process lives while its input is open.
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var r report
	decodeErr := json.NewDecoder(out).Decode(&r)
	cmd.Process.Kill()
	rest, err := io.ReadAll(out) // ends when all processes that could write to the pipe have ended
	if err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if decodeErr != nil {
		t.Fatalf("%v: %s", decodeErr, rest)
	}
	return r
}

// TestKilledParent kills the parent of a process behind walls. The output of that process ends, because the process ends too.
func TestKilledParent(t *testing.T) {
	exe := executable(t)
	under(t, exe, parentRole, nil)
}

// parent starts a process behind walls with the same input and output, and waits.
func parent() int {
	self, err := os.Executable()
	if err != nil {
		return 7
	}
	cmd := exec.Command(self, escapedRole)
	cmd.Env = []string{}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := NewLauncher(process.SelfAt(self)).Start(cmd); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 8
	}
	state, err := cmd.Process.Wait()
	fmt.Fprintln(os.Stderr, "the process ended:", state, err)
	return 9
}

func bare() int {
	if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 10
	}
	return parent()
}

// TestPassingLack starts a process while all namespaces of the machine are in use. The start fails. A later start succeeds, and the process has all its
// walls. No process starts without them.
func TestPassingLack(t *testing.T) {
	cmd := exec.Command(executable(t), crowdedRole)
	const someone = 1000 // As root, the process would need the range of user ids for its children.
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: someone, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: someone, HostID: os.Getegid(), Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_SYS_RESOURCE},
	}
	cmd.Dir = "/"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// crowded starts a process behind walls, another one while the first has the only namespace, and a third one after the first has ended.
func crowded() int {
	if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("1"), 0); err != nil {
		fmt.Println(err)
		return 10
	}
	self, err := os.Executable()
	if err != nil {
		return 7
	}
	l := NewLauncher(process.SelfAt(self))
	defer l.Close()
	begin := func() (*process.Child, error) { return process.Open(exec.Command(self, escapedRole), l.Start) }
	walls := func(c *process.Child) (r report) {
		if err := json.NewDecoder(c.Stdout).Decode(&r); err != nil {
			r.Missing = Missing{"report": err.Error()}
		}
		return r
	}
	first, err := begin()
	if err != nil {
		fmt.Println("the first:", err)
		return 8
	}
	if r := walls(first); r.Missing[Namespaces] != "" {
		fmt.Println("the first has no namespaces:", r.Missing)
		return 8
	}
	if second, err := begin(); err == nil {
		fmt.Println("the second was started, without", walls(second).Missing)
		return 9
	}
	first.Stdin.Close()
	first.Wait()
	third, err := begin()
	for deadline := time.Now().Add(time.Minute); err != nil && time.Now().Before(deadline); third, err = begin() {
		// The kernel frees the namespace some time after the process has ended.
	}
	if err != nil {
		fmt.Println("the third:", err)
		return 11
	}
	if r := walls(third); r.Missing[Namespaces] != "" {
		fmt.Println("the third has no namespaces:", r.Missing)
		return 12
	}
	third.Stdin.Close()
	third.Wait()
	return 0
}

// TestUsers: processes that root starts have different users on the machine, so none can affect another.
func TestUsers(t *testing.T) {
	if os.Geteuid() != 0 || !mapped("/proc/self/uid_map") {
		t.Skip("only root can start processes of other users: run this test as root")
	}
	exe := executable(t)
	l := launcher(t, exe)
	seen := map[uint32]bool{}
	for range 3 {
		c := start(t, l, exe, escapedRole)
		reported(t, c)
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		_, ids, _ := strings.Cut(string(status), "Uid:\t")
		var id uint32
		if _, err := fmt.Sscan(ids, &id); err != nil || id < firstUser || seen[id] {
			t.Errorf("the user is %d, %v, after %v", id, err, seen)
		}
		seen[id] = true
	}
}

// TestWithoutRoot starts a program in namespaces in which no root directory can be made. The start fails, or the program is executed at its place on the
// machine.
func TestWithoutRoot(t *testing.T) {
	exe := executable(t)
	l := launcher(t, exe)
	open := forAll(t, exe) // Without its own root directory, the program is opened by its user at its path on the machine.
	p := Program{Path: "/program", Args: []string{"program", nothingRole}, Memory: 1 << 30, Files: map[string]string{
		"/program": open,
		strings.Repeat("/deep", 3*maxDepth) + "/x": open,
	}}
	for _, without := range [][]string{nil, {Root}} {
		p.Without = without
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		c, err := process.Open(exec.Command(exe, ExecCommand, string(text)), l.Start)
		if err != nil {
			t.Fatal(err)
		}
		state := c.Wait()
		if refused := strings.Contains(c.Stderr.String(), Root+": "); refused != (without == nil) || state.Success() != (without != nil) {
			t.Errorf("without %v: %v, %s", without, state, &c.Stderr)
		}
	}
}

// TestLauncher starts many processes at once, continues after the small process was killed, and returns an error that names a program that does not exist.
func TestLauncher(t *testing.T) {
	exe := executable(t)
	l := launcher(t, exe)
	if err := l.Start(exec.Command("/nonexistent")); err == nil {
		t.Error("a command without files was started")
	}
	if _, err := process.Open(exec.Command("/nonexistent"), l.Start); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a program that does not exist: %v", err)
	}
	var wait sync.WaitGroup
	for range 10 {
		wait.Go(func() {
			c, err := process.Open(exec.Command(exe, escapedRole), l.Start)
			if err != nil {
				t.Error(err)
				return
			}
			var r report
			if err := json.NewDecoder(c.Stdout).Decode(&r); err != nil || len(r.Missing) > 0 {
				t.Errorf("%v, %v", err, r.Missing)
			}
			c.Stdin.Close()
			if state := c.Wait(); state.ExitCode() != 0 {
				t.Errorf("%v", state)
			}
		})
	}
	wait.Wait()
	l.mu.Lock()
	l.cmd.Process.Kill()
	l.mu.Unlock()
	l.cmd.Process.Wait()
	reported(t, start(t, l, exe, escapedRole))
	l.Close()
	reported(t, start(t, l, exe, escapedRole)) // A closed launcher starts processes too.
	if l.socket != nil {
		t.Error("the small process is left")
	}
}
