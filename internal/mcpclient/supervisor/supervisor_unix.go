//go:build unix

package supervisor

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"mcp-code-exec-harness/internal/confine"
)

const (
	controlFD = 3
	reportFD  = 4
)

// Main is the main function of a supervisor, and returns its exit code. args are the arguments after [Command]: the plan of a sandbox after
// [ConfineFlag], if there is one, "--", the path of the server's command and that command's arguments. Main starts the command with its own stdin,
// stdout, stderr, environment and directory. It ends the command and all its descendants when the harness dies (descriptor 3 is closed) or on
// SIGTERM. See the documentation of package mcpclient.
func Main(args []string) int {
	plan, confined := "", false
	if len(args) > 0 {
		if plan, confined = strings.CutPrefix(args[0], ConfineFlag); confined {
			args = args[1:]
		}
	}
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	control, report := os.NewFile(controlFD, "control"), os.NewFile(reportFD, "report")
	if len(args) == 0 || !isPipe(controlFD) || !isPipe(reportFD) {
		fmt.Fprintln(os.Stderr, "harness: "+Command+" is started by the harness itself and is of no use otherwise")
		return 2
	}
	unix.CloseOnExec(controlFD)
	unix.CloseOnExec(reportFD)
	// The kernel sends PDEATHSIG when the thread that forked ends, so this goroutine must stay on its thread.
	runtime.LockOSThread()
	becomeSupervisor()

	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)

	var pid int
	var err error
	if confined && os.Getpid() != 1 { // only the end of a namespace's process 1 ends every other process in the namespace
		err = errors.New("a sandbox has namespaces of its own")
	} else if confined {
		pid, err = confine.Start(plan, args, serverAttr())
	} else if pid, err = syscall.ForkExec(args[0], args, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: serverAttr()}); err != nil {
		err = fmt.Errorf("command %q could not be executed: %w", args[0], err)
	}
	if err != nil {
		fmt.Fprintln(report, "fail", strings.ReplaceAll(err.Error(), "\n", " "))
		return 1
	}
	// If the supervisor kept its copies of the server's pipe ends open, the harness would not notice that the server has closed them.
	releaseStdio()
	fmt.Fprintf(report, "pid %d\n", pid)

	stop, kill := make(chan struct{}), make(chan struct{})
	go watchControl(control, stop, kill)
	exited, reaped := make(chan syscall.WaitStatus, 1), make(chan struct{})
	go reap(pid, exited, reaped)

	var graceOver <-chan time.Time // timer of EOFGrace, which begins when the harness closes the control pipe or dies; nil before
	for ending := false; !ending; {
		ending = true
		select {
		case ws := <-exited:
			exited <- ws
		case <-kill:
		case <-signals:
			terminate(pid, exited, kill)
		case <-graceOver:
			terminate(pid, exited, kill)
		case <-stop:
			stop, graceOver, ending = nil, time.After(EOFGrace), false
		}
	}
	reportExit := func() {
		select {
		case ws := <-exited:
			fmt.Fprintf(report, "exit %s\n", howEnded(ws))
		default:
		}
	}
	reportExit()
	group := pid
	if confined {
		group = 1 // kill(-1) signals every process of the namespace except this one
	}
	killAll(group, reaped)
	reportExit()
	return 0
}

func isPipe(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO
}

func releaseStdio() {
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	for fd := range 3 {
		if err == nil {
			err = unix.Dup2(null, fd)
		}
		if err != nil {
			_ = unix.Close(fd)
		}
	}
}

// watchControl waits for the harness. It closes kill when the harness sends a byte, and stop when the harness closes the pipe or dies.
func watchControl(control *os.File, stop, kill chan<- struct{}) {
	var b [1]byte
	if n, err := control.Read(b[:]); n == 1 && err == nil {
		close(kill)
		return
	}
	close(stop)
}

// reap waits for all children, which are the server and re-parented descendants. It closes reaped when no child is left.
func reap(server int, exited chan<- syscall.WaitStatus, reaped chan<- struct{}) {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			// ECHILD: no child is left, so the server and its descendants are gone.
			close(reaped)
			return
		case pid == server:
			exited <- ws
		}
	}
}

// terminate sends SIGTERM to all processes and waits for the end of the server, for at most TermGrace.
func terminate(server int, exited chan syscall.WaitStatus, kill <-chan struct{}) {
	_ = syscall.Kill(-server, syscall.SIGTERM)
	for _, pid := range children() {
		if pid != server {
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
	}
	select {
	case ws := <-exited:
		exited <- ws
	case <-kill:
	case <-time.After(TermGrace):
	}
}

// killAll kills the group and every descendant until none is left. It loops because on systems with subreapers a descendant that left
// the group becomes a child of this process once its parent is dead.
func killAll(group int, reaped <-chan struct{}) {
	deadline := time.After(KillGrace)
	for {
		_ = syscall.Kill(-group, syscall.SIGKILL)
		select {
		case <-reaped:
			return
		case <-deadline:
			return
		case <-time.After(2 * time.Millisecond):
		}
		for _, pid := range children() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func howEnded(ws syscall.WaitStatus) string {
	if ws.Signaled() {
		return "was ended by signal " + ws.Signal().String()
	}
	return fmt.Sprintf("exited with code %d", ws.ExitStatus())
}
