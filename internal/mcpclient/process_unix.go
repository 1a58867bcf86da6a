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
)

// sysChild is the unix part of a child: the supervisor and the pipe that keeps it alive.
type sysChild struct {
	confined bool // the supervisor is the first process of its namespace: the kernel ends all others with it

	mu      sync.Mutex
	control *os.File // write end; its end tells the supervisor to stop, a byte to kill
}

// start runs a server under a supervisor and returns when the server has been executed. ctx bounds only the start.
//
// The supervisor has two extra descriptors: 3, which ends when the harness dies or wants an end, and 4, on which it
// reports ("pid N", "fail MESSAGE", "exit HOW").
func start(ctx context.Context, s spawn) (*child, error) {
	if len(os.Args) > 1 && os.Args[1] == SuperviseArg {
		return nil, errNested
	}
	path, err := s.program()
	if err != nil {
		return nil, err
	}
	// The name is not the harness's, so that killing all processes of that name leaves the supervisor to clean up.
	args := []string{supervisorName, SuperviseArg}
	attr := &syscall.SysProcAttr{Setpgid: true} // Ctrl-C on the terminal is for the harness alone
	if s.sandbox != nil {
		plan, err := s.confined(path, attr)
		if err != nil {
			return nil, err
		}
		args = append(args, confineFlag+plan)
	}
	cmd := &exec.Cmd{
		Path: s.supervisor, Args: append(append(args, "--", path), s.args...), Env: s.env, Dir: s.dir, SysProcAttr: attr,
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
		if p.kill(); !await(p.done, killGrace) {
			cmd.Process.Kill() // a supervisor whose start of the server hangs hears nothing; in a sandbox all end with it
		}
	}
	if err != nil {
		closeAll(p.stdin, p.stdout, p.stderr)
		<-p.done
		return nil, err
	}
	return p, nil
}

// confined has the supervisor begin in namespaces of its own, and returns what it needs to start the program there.
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

// watch follows the supervisor's reports until it is gone. It is the owner of p.pid until started is answered.
func (p *child) watch(cmd *exec.Cmd, reports *os.File, started chan<- error) {
	lines := bufio.NewScanner(reports)
	running := false
	for lines.Scan() {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch {
		case word == "pid" && !running:
			if pid, err := strconv.Atoi(rest); err == nil {
				if p.pid, running = pid, true; p.sys.confined {
					p.pid = cmd.Process.Pid // the other number means nothing here
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
	state, _ := cmd.Process.Wait() // Wait of cmd would close the pipes before they are read
	switch {
	case !running:
		started <- fmt.Errorf("the supervisor ended early (%s); does main of %s call mcpclient.Supervise?", state, cmd.Path)
	case p.pid != 0:
		// A supervisor that was killed could not end the group; one that exited has ended it.
		if !state.Exited() && !p.sys.confined {
			_ = syscall.Kill(-p.pid, syscall.SIGKILL)
		}
	}
	p.setExit("ended with its supervisor (" + state.String() + ")")
	p.stop()
	close(p.done)
}

// stop begins the end: stdin is closed by the caller, then the supervisor sends SIGTERM and SIGKILL after their graces.
func (p *child) stop() {
	p.sys.mu.Lock()
	defer p.sys.mu.Unlock()
	closeAll(p.sys.control)
	p.sys.control = nil
}

// kill ends everything now, also while a stop is under way.
func (p *child) kill() {
	p.sys.mu.Lock()
	defer p.sys.mu.Unlock()
	if p.sys.control != nil {
		_, _ = p.sys.control.Write([]byte{'k'}) // a supervisor that is gone needs no telling
		closeAll(p.sys.control)
		p.sys.control = nil
		return
	}
	select {
	case <-p.done:
	default:
		if p.pid > 0 {
			// The supervisor sees the server end and kills what is left.
			_ = syscall.Kill(-p.pid, syscall.SIGKILL)
		}
	}
}

// errNested protects programs (test binaries above all) that start servers but do not handle SuperviseArg: without
// it they would start themselves as their own supervisor without end.
var errNested = errors.New("this program was started as a supervisor but did not call mcpclient.Supervise; " +
	"its main must do so when os.Args[1] is " + SuperviseArg)
