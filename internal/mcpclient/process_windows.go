package mcpclient

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"

	"mcp-code-exec-harness/internal/process"
)

// sysChild is the Windows part of a child: the job that holds the server and all it starts.
type sysChild struct {
	job      *process.Job
	stopping sync.Once
}

// start runs a server inside a job of its own. ctx bounds only the start.
func start(ctx context.Context, s spawn) (*child, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	path, err := s.program()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, s.args...)
	if s.sandbox != nil {
		return nil, s.sandbox.Isolate(nil)
	}
	cmd.Env, cmd.Dir = s.env, s.dir
	p, err := newChild(cmd)
	if err != nil {
		return nil, err
	}
	job, err := process.NewJob()
	if err == nil {
		p.sys.job = job
		err = job.Start(cmd)
	}
	if err != nil {
		closeAll(p.stdin, p.stdout, p.stderr)
		if job != nil {
			job.Kill()
		}
		return nil, fmt.Errorf("command %q could not be executed: %w", s.command, err)
	}
	p.pid = cmd.Process.Pid
	go func() {
		state, err := cmd.Process.Wait() // Wait of cmd would close the pipes before they are read
		if err != nil {
			p.setExit(err.Error())
		} else {
			p.setExit(state.String())
		}
		p.kill() // the group's remaining processes end as well
		close(p.done)
	}()
	return p, nil
}

// stop gives the server, whose stdin the caller has closed, its grace and then kills the job.
func (p *child) stop() {
	p.sys.stopping.Do(func() {
		go func() {
			if !await(p.done, eofGrace+termGrace) {
				p.kill()
			}
		}()
	})
}

// kill ends everything in the job now.
func (p *child) kill() { p.sys.job.Kill() }

// Supervise is not needed on Windows, where a job object does its work; the harness never starts one.
func Supervise([]string) int {
	fmt.Fprintln(os.Stderr, "harness: "+SuperviseArg+" does not exist on Windows")
	return 2
}
