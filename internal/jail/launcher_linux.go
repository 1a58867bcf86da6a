package jail

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"mcp-code-exec-harness/internal/process"
)

// Launcher starts processes in their own namespaces. Only a fork can start a process in a new user namespace, and a fork copies the parent's page
// tables. That takes a millisecond for a small parent and ten for a server. So a small process forks: the launcher. The processes that the launcher
// starts are children of this process, not of the launcher: this process waits for them, and they end when it ends.
//
// A Launcher is safe for concurrent use. The first Start starts the small process.
type Launcher struct {
	program process.Self

	mu      sync.Mutex
	socket  *net.UnixConn
	cmd     *exec.Cmd
	missing error // reason why this machine offers no namespaces; nil if none is known
	closed  bool
}

// NewLauncher returns a launcher that executes program with LauncherCommand. The caller must close it.
func NewLauncher(program process.Self) *Launcher { return &Launcher{program: program} }

// request asks the launcher to start a process. The process's files are sent along with the request.
type request struct {
	Path string
	Dir  string // working directory
	Argv []string
	Env  []string
}

// reply is the launcher's answer. Refused reports that the machine offers no namespaces.
type reply struct {
	Pid     int
	Error   string
	Refused bool
}

const (
	maxRequest = 64 << 10 // bytes
	maxFiles   = 16
)

// Start starts cmd in its own namespaces, or like process.Start if the machine does not allow namespaces. The standard files of cmd
// must be *os.File. Start sets only cmd.Process: the caller must wait for that, not for cmd.
func (l *Launcher) Start(cmd *exec.Cmd) error {
	files := []*os.File{}
	for _, standard := range []any{cmd.Stdin, cmd.Stdout, cmd.Stderr} {
		file, ok := standard.(*os.File)
		if !ok {
			return fmt.Errorf("start %s: a standard file is no file", cmd.Path)
		}
		files = append(files, file)
	}
	// A process behind walls must not learn a path of this machine.
	cmd.Args = append([]string{filepath.Base(cmd.Path)}, cmd.Args[min(1, len(cmd.Args)):]...)
	pid, err := l.launch(request{cmd.Path, cmd.Dir, cmd.Args, cmd.Env}, append(files, cmd.ExtraFiles...))
	if errors.Is(err, errRefused) {
		return process.Start(cmd)
	}
	if err == nil {
		cmd.Process, err = os.FindProcess(pid)
	}
	if err != nil {
		return fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return nil
}

var errRefused = errors.New("there are no namespaces")

func (l *Launcher) launch(r request, files []*os.File) (pid int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.missing != nil {
		return 0, errRefused
	}
	fresh := l.socket == nil
	defer func() {
		if l.closed {
			l.end()
		}
	}()
	for {
		if l.socket == nil {
			if err := l.begin(); err != nil {
				return 0, err
			}
		}
		answer, err := l.ask(r, files)
		switch {
		case err != nil && fresh:
			l.end()
			return 0, fmt.Errorf("ask the launcher: %w", err)
		case err != nil: // the launcher was killed
			l.end()
			fresh = true
			continue
		case answer.Refused:
			l.missing = errors.New(answer.Error)
			l.end()
			return 0, errRefused
		case answer.Error != "":
			return 0, errors.New(answer.Error)
		}
		return answer.Pid, nil
	}
}

// begin starts the small process. The caller holds l.mu.
func (l *Launcher) begin() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("make a socket: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "launcher"), os.NewFile(uintptr(pair[1]), "launcher")
	defer ours.Close()
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return fmt.Errorf("open a socket: %w", err)
	}
	path, args := l.program()
	cmd := exec.Command(path, append(args, LauncherCommand)...)
	cmd.Env = []string{"GOMAXPROCS=1", "GOTRACEBACK=none"}
	cmd.ExtraFiles = []*os.File{theirs}
	if err := process.Start(cmd); err != nil {
		conn.Close()
		return err
	}
	l.socket, l.cmd = conn.(*net.UnixConn), cmd
	return nil
}

// end ends the small process. The processes that it started keep running. The caller holds l.mu.
func (l *Launcher) end() {
	if l.socket == nil {
		return
	}
	l.socket.Close()
	l.cmd.Process.Kill()
	l.cmd.Wait() // the error only tells that the process was killed
	l.socket, l.cmd = nil, nil
}

// Close ends the small process. The processes that it started keep running. Each later Start starts a small process for itself and ends that
// process.
func (l *Launcher) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.end()
}

// launchTime is the time limit for starting one process. Starting a process never takes that long.
const launchTime = 30 * time.Second

func (l *Launcher) ask(r request, files []*os.File) (answer reply, err error) {
	text, err := json.Marshal(r)
	if err != nil {
		return answer, err
	}
	if len(text) > maxRequest || len(files) > maxFiles {
		return answer, errors.New("the command is too long")
	}
	descriptors := make([]int, len(files))
	for i, file := range files {
		descriptors[i] = int(file.Fd()) // Fd makes the file blocking, as programs expect
	}
	l.socket.SetDeadline(time.Now().Add(launchTime))
	if _, _, err := l.socket.WriteMsgUnix(text, unix.UnixRights(descriptors...), nil); err != nil {
		return answer, err
	}
	buffer := make([]byte, maxRequest)
	n, err := l.socket.Read(buffer)
	if err != nil {
		return answer, err
	}
	return answer, json.Unmarshal(buffer[:n], &answer)
}

// launcherSocket is the descriptor of a launcher's socket.
const launcherSocket = 3

// LauncherMain starts processes on request until the socket is closed, and returns the exit code.
func LauncherMain() int {
	// The started processes must not inherit the open files of this process.
	if unix.CloseRange(launcherSocket, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) != nil { // kernels before 5.11 fail
		for fd := launcherSocket; fd < 1024; fd++ {
			unix.CloseOnExec(fd)
		}
	}
	file := os.NewFile(launcherSocket, "launcher")
	conn, err := net.FileConn(file)
	if err != nil {
		fmt.Fprintln(os.Stderr, "this command is internal: the sandbox starts it")
		return 2
	}
	file.Close()
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return 2
	}
	text, rights := make([]byte, maxRequest), make([]byte, unix.CmsgSpace(maxFiles*4))
	for {
		n, m, _, _, err := socket.ReadMsgUnix(text, rights)
		if err != nil || n == 0 {
			return 0
		}
		var r request
		files, err := received(rights[:m])
		if err == nil {
			err = json.Unmarshal(text[:n], &r)
		}
		var answer reply
		if err == nil {
			answer = r.start(files)
		} else {
			answer.Error = err.Error()
		}
		for _, file := range files {
			file.Close()
		}
		encoded, _ := json.Marshal(answer) // a reply always encodes
		if _, err := socket.Write(encoded); err != nil {
			return 0
		}
	}
}

func received(rights []byte) ([]*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, err
	}
	var files []*os.File
	for _, m := range messages {
		descriptors, err := unix.ParseUnixRights(&m)
		if err != nil {
			return files, err
		}
		for _, fd := range descriptors {
			unix.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files, nil
}

// nobody is the user id that a process has in its user namespace: from its start, or from Enter if root started it.
const nobody = 65534

// Users of processes that root starts. Each process gets its own user, so that no process can send signals to another process or use up its limits.
// Systems give no user, group or container an id of this range.
const (
	firstUser = 0x7e000000
	users     = 0x00ffffff
)

// user returns the user id that a process started by root gets on this machine: a random id of the range, or nobody if the range is not mapped in
// this user namespace.
func user() int {
	if !mapped("/proc/self/uid_map") || !mapped("/proc/self/gid_map") {
		return nobody
	}
	return firstUser + rand.IntN(users)
}

// mapped reports whether an id map in /proc contains the range of users.
func mapped(path string) bool {
	text, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		var inside, outside, size int64
		if n, _ := fmt.Sscan(line, &inside, &outside, &size); n == 3 && inside <= firstUser && firstUser+users <= inside+size {
			return true
		}
	}
	return false
}

// Number of further attempts, and the pause before each, if the machine's namespaces or processes are used up for the moment.
const (
	moreTries = 10
	tryAgain  = 20 * time.Millisecond
)

// start starts the process as the first of its namespaces, and as a child of the launcher's parent.
func (r request) start(files []*os.File) reply {
	attr := &syscall.SysProcAttr{
		Setpgid: true,
		Cloneflags: unix.CLONE_PARENT | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET |
			unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
	}
	if uid, gid := os.Geteuid(), os.Getegid(); uid == 0 {
		// The process opens its files as root, and becomes another user in Enter.
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}, {ContainerID: nobody, HostID: user(), Size: 1}}
		attr.GidMappings = attr.UidMappings
		attr.GidMappingsEnableSetgroups = true
	} else {
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: nobody, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: nobody, HostID: gid, Size: 1}}
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN} // allows it to mount until Enter
	}
	p, err := os.StartProcess(r.Path, r.Argv, &os.ProcAttr{Dir: r.Dir, Env: r.Env, Files: files, Sys: attr})
	for tries := 0; usedUp(err) && tries < moreTries; tries++ {
		time.Sleep(tryAgain)
		p, err = os.StartProcess(r.Path, r.Argv, &os.ProcAttr{Dir: r.Dir, Env: r.Env, Files: files, Sys: attr})
	}
	if usedUp(err) {
		return reply{Error: fmt.Sprintf("the machine's namespaces or processes are used up (%v); end some, or raise its limits (sysctl user.max_user_namespaces, ulimit -u)", err)}
	}
	if err != nil {
		refused := false
		for _, e := range []error{unix.EPERM, unix.EINVAL, unix.ENOSPC, unix.EUSERS, unix.ENOSYS, unix.EACCES} {
			refused = refused || errors.Is(err, e)
		}
		return reply{Error: err.Error(), Refused: refused && !r.absent()}
	}
	pid := p.Pid
	p.Release()
	return reply{Pid: pid}
}

// usedUp reports whether an error from starting a process may be temporary: the machine offers namespaces, but none are free at the moment.
func usedUp(err error) bool {
	if !errors.Is(err, unix.ENOSPC) {
		return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOMEM)
	}
	for _, kind := range []string{"user", "pid", "mnt", "net", "ipc", "uts"} {
		if most, err := os.ReadFile("/proc/sys/user/max_" + kind + "_namespaces"); err != nil || strings.TrimSpace(string(most)) == "0" {
			return false
		}
	}
	return true
}

// absent reports whether the program is missing or cannot be executed by this user.
func (r request) absent() bool { return unix.Access(r.Path, unix.X_OK) != nil }
