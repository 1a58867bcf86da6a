package mcpclient

import (
	"context"
	"fmt"
	"os/exec"
	"sync"

	"mcp-code-exec-harness/internal/mcpclient/supervisor"
	"mcp-code-exec-harness/internal/process"
)

// sysChild is the Windows part of a child: the job object of the server and its descendants.
type sysChild struct {
	job      *process.Job
	stopping sync.Once
}

// start starts a server in a new job object. ctx bounds only the start.
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
		state, err := cmd.Process.Wait() // cmd.Wait would close the pipes before they are read
		if err != nil {
			p.setExit(err.Error())
		} else {
			p.setExit(state.String())
		}
		p.kill() // ends the remaining processes of the job
		close(p.done)
	}()
	return p, nil
}

// stop kills the job if the server, whose stdin the caller has closed, does not exit in time.
func (p *child) stop() {
	p.sys.stopping.Do(func() {
		go func() {
			if !await(p.done, supervisor.EOFGrace+supervisor.TermGrace) {
				p.kill()
			}
		}()
	})
}

// kill ends all processes of the job at once.
func (p *child) kill() { p.sys.job.Kill() }
