//go:build unix

package mcpclient

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"mcp-code-exec-harness/internal/confine"
	"mcp-code-exec-harness/internal/mcpclient/supervisor"
)

// sysChild is the unix part of a child: its supervisor and the pipe that controls it.
type sysChild struct {
	confined bool // reports that the supervisor is process 1 of a PID namespace: when it ends, the kernel ends the others in the namespace

	mu      sync.Mutex
	control *os.File // write end; closing it tells the supervisor to stop, a byte tells it to kill
}

// start starts a server under a supervisor and returns when the server runs. ctx bounds only the start.
//
// The supervisor has two extra descriptors. Descriptor 3 is closed when the harness dies or wants the server to end. The supervisor
// writes its reports ("pid N", "fail MESSAGE", "exit HOW") to descriptor 4.
func start(ctx context.Context, s spawn) (*child, error) {
	if len(os.Args) > 1 && os.Args[1] == supervisor.Command {
		return nil, errNested
	}
	path, err := s.program()
	if err != nil {
		return nil, err
	}
	// The supervisor has another name than the harness. So it survives a command that kills all processes named harness, and ends the server.
	program, args := s.supervisor()
	args = append(append([]string{supervisor.Name}, args...), supervisor.Command)
	attr := &syscall.SysProcAttr{Setpgid: true} // Ctrl-C on the terminal reaches only the harness
	if s.sandbox != nil {
		plan, err := s.confined(path, attr)
		if err != nil {
			return nil, err
		}
		args = append(args, supervisor.ConfineFlag+plan)
	}
	cmd := &exec.Cmd{
		Path: program, Args: append(append(args, "--", path), s.args...), Env: s.env, Dir: s.dir, SysProcAttr: attr,
	}
	p, err := newChild(cmd)
	if err != nil {
		return nil, err
	}
	p.sys.confined = s.sandbox != nil
	controlR, controlW, err := os.Pipe()
	reportR, reportW, errReport := os.Pipe()
	if err = errors.Join(err, errReport); err == nil {
		cmd.ExtraFiles = []*os.File{controlR, reportW}
		err = cmd.Start()
	}
	closeAll(controlR, reportW)
	if err != nil {
		closeAll(p.stdin, p.stdout, p.stderr, controlW, reportR)
		if s.sandbox != nil {
			err = confine.Explain(err)
		}
		return nil, fmt.Errorf("start supervisor: %w", err)
	}
	p.sys.control = controlW
	started := make(chan error, 1)
	go p.watch(cmd, reportR, started)
	select {
	case err = <-started:
	case <-ctx.Done():
		err = ctx.Err()
		if p.kill(); !await(p.done, supervisor.KillGrace) {
			cmd.Process.Kill() // a supervisor that hangs in the start of the server reads no commands; in a sandbox all processes end with it
		}
	}
	if err != nil {
		closeAll(p.stdin, p.stdout, p.stderr)
		<-p.done
		return nil, err
	}
	return p, nil
}

// confined makes the supervisor start in new namespaces, and returns the plan that it needs to start the program there.
func (s spawn) confined(path string, attr *syscall.SysProcAttr) (string, error) {
	if err := s.sandbox.Isolate(attr); err != nil {
		return "", err
	}
	dir := s.dir
	if dir == "" {
		var err error
		if dir, err = os.Getwd(); err != nil {
			return "", fmt.Errorf("find the working directory: %w", err)
		}
	}
	return s.sandbox.For(path, dir)
}

// watch reads the supervisor's reports until the supervisor is gone. It sends one value on started: nil once the server runs, or the error of the
// start. Before that, only watch accesses p.pid.
func (p *child) watch(cmd *exec.Cmd, reports *os.File, started chan<- error) {
	lines := bufio.NewScanner(reports)
	running := false
	for lines.Scan() {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch {
		case word == "pid" && !running:
			if pid, err := strconv.Atoi(rest); err == nil {
				if p.pid, running = pid, true; p.sys.confined {
					p.pid = cmd.Process.Pid // the reported number is valid only in the namespace
				}
				started <- nil
			}
		case word == "fail" && !running:
			running = true
			started <- errors.New(rest)
		case word == "exit":
			p.setExit(rest)
		}
	}
	closeAll(reports)
	state, _ := cmd.Process.Wait() // cmd.Wait would close the pipes before they are read
	switch {
	case !running:
		started <- fmt.Errorf("the supervisor ended early (%s); does main of %s call supervisor.Main?", state, cmd.Path)
	case p.pid != 0:
		// A supervisor that was killed could not end the server's group. A supervisor that exited has ended the group.
		if !state.Exited() && !p.sys.confined {
			_ = syscall.Kill(-p.pid, syscall.SIGKILL)
		}
	}
	p.setExit("ended with its supervisor (" + state.String() + ")")
	p.stop()
	close(p.done)
}

// stop asks the supervisor to end the server. The caller has closed stdin; the supervisor sends SIGTERM after EOFGrace and SIGKILL after TermGrace.
func (p *child) stop() {
	p.sys.mu.Lock()
	defer p.sys.mu.Unlock()
	closeAll(p.sys.control)
	p.sys.control = nil
}

// kill ends all processes at once, even after stop.
func (p *child) kill() {
	p.sys.mu.Lock()
	defer p.sys.mu.Unlock()
	if p.sys.control != nil {
		_, _ = p.sys.control.Write([]byte{'k'}) // an error means that the supervisor is gone
		closeAll(p.sys.control)
		p.sys.control = nil
		return
	}
	select {
	case <-p.done:
	default:
		if p.pid > 0 {
			// The supervisor notices that the server has ended, and kills its remaining descendants.
			_ = syscall.Kill(-p.pid, syscall.SIGKILL)
		}
	}
}

// errNested protects programs (mainly test binaries) that start servers but do not handle supervisor.Command: without this error such a program would start
// itself as a supervisor endlessly.
var errNested = errors.New("this program was started as a supervisor but did not call supervisor.Main; " +
	"its main must do so when os.Args[1] is " + supervisor.Command)
