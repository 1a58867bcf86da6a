package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/process"
)

const (
	// SuperviseArg as the first argument of this binary means that main has to call [Supervise].
	SuperviseArg = "__supervise"

	eofGrace  = 500 * time.Millisecond // for a server to exit when its stdin ends
	termGrace = 2 * time.Second        // from SIGTERM to SIGKILL
	killGrace = 5 * time.Second        // for the kernel to end what was killed; more is a process in a broken driver
)

// spawn says what to start.
type spawn struct {
	supervisor string // path of a binary whose main calls Supervise
	command    string // as configured
	args       []string
	env        []string
	dir        string
}

// child is a running server with everything it started. Its pipes belong to whoever holds it.
type child struct {
	stdin  *os.File
	stdout *os.File
	stderr *os.File
	pid    int

	ended    chan struct{} // closed when the server has exited
	done     chan struct{} // closed when also its descendants are gone; stays open until stop or the end by itself
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

// waitDone waits until nothing of the process is left; when ctx ends before that, everything is killed at once.
func (p *child) waitDone(ctx context.Context) error {
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
	}
	p.kill()
	timer := time.NewTimer(killGrace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		return fmt.Errorf("process %d survived SIGKILL for %s", p.pid, killGrace)
	}
}

// pipes makes the three pipes of a child. Of each, the child's end is in ends; close those once it runs.
func pipes() (p *child, ends [3]*os.File, err error) {
	p = &child{ended: make(chan struct{}), done: make(chan struct{})}
	var all []*os.File
	pair := func() (r, w *os.File) {
		if err != nil {
			return nil, nil
		}
		if r, w, err = os.Pipe(); err == nil {
			all = append(all, r, w)
		}
		return r, w
	}
	ends[0], p.stdin = pair()
	p.stdout, ends[1] = pair()
	p.stderr, ends[2] = pair()
	if err != nil {
		closeFiles(all...)
		return nil, ends, fmt.Errorf("make pipes: %w", err)
	}
	return p, ends, nil
}

func closeFiles(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close() // a pipe end has nothing to flush
		}
	}
}

// program is the path of what is to be executed. A working directory that cannot be used is named here; the system
// would blame the program.
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
