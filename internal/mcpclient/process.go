package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/confine"
	"mcp-code-exec-harness/internal/mcpclient/supervisor"
	"mcp-code-exec-harness/internal/process"
)

// spawn describes the process to start.
type spawn struct {
	supervisor process.Self // program of a supervisor
	command    string       // configured command
	args       []string
	env        []string
	dir        string
	sandbox    *confine.Plan // confinement of the process; nil if there is none
}

// child is a running server with all its descendants. The caller of start closes the pipes.
type child struct {
	stdin  io.WriteCloser
	stdout io.ReadCloser
	stderr io.ReadCloser
	pid    int

	ended    chan struct{} // closed when the server has exited
	done     chan struct{} // closed when the server and its descendants are gone
	exitOnce sync.Once
	exit     string // how the server ended; valid once ended is closed

	sys sysChild
}

// setExit records how the server ended; the first report wins.
func (p *child) setExit(how string) {
	p.exitOnce.Do(func() {
		p.exit = how
		close(p.ended)
	})
}

// waitDone waits until the process and its descendants are gone. When ctx ends first, it kills them at once.
func (p *child) waitDone(ctx context.Context) error {
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
	}
	if p.kill(); !await(p.done, supervisor.KillGrace) {
		return fmt.Errorf("process %d survived SIGKILL for %s", p.pid, supervisor.KillGrace)
	}
	return nil
}

// await waits for at most d until a channel is closed, and reports whether it was.
func await(closed <-chan struct{}, d time.Duration) bool {
	select {
	case <-closed:
		return true
	case <-time.After(d):
		return false
	}
}

// newChild returns a child with pipes to the process that cmd will start.
func newChild(cmd *exec.Cmd) (*child, error) {
	p := &child{ended: make(chan struct{}), done: make(chan struct{})}
	var errs [3]error
	p.stdin, errs[0] = cmd.StdinPipe()
	p.stdout, errs[1] = cmd.StdoutPipe()
	p.stderr, errs[2] = cmd.StderrPipe()
	if err := errors.Join(errs[:]...); err != nil {
		closeAll(p.stdin, p.stdout, p.stderr)
		return nil, fmt.Errorf("make pipes: %w", err)
	}
	return p, nil
}

func closeAll(files ...io.Closer) {
	for _, f := range files {
		if f != nil {
			_ = f.Close() // a pipe end has nothing to flush
		}
	}
}

// program returns the path of the program to execute. It checks the working directory first, because the system's error would
// name the program instead.
func (s spawn) program() (string, error) {
	if s.dir != "" {
		info, err := os.Stat(s.dir)
		if err == nil && !info.IsDir() {
			err = errors.New("it is not a directory")
		}
		if err != nil {
			return "", fmt.Errorf("its working directory %q cannot be used (%w); create it or correct cwd", s.dir, err)
		}
	}
	path, err := process.Find(s.command, s.dir, s.env)
	if err != nil {
		return "", fmt.Errorf("command %q was not found (%w); install it, or correct command or PATH in the server's "+
			"configuration", s.command, err)
	}
	return path, nil
}
