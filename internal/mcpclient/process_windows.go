package mcpclient

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"

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
	p, ends, err := pipes()
	if err != nil {
		return nil, err
	}
	job, err := process.NewJob()
	if err != nil {
		closeFiles(append(ends[:], p.stdin, p.stdout, p.stderr)...)
		return nil, err
	}
	p.sys.job = job
	cmd := exec.Command(path, s.args...)
	cmd.Env, cmd.Dir = s.env, s.dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = ends[0], ends[1], ends[2]
	err = job.Start(cmd)
	closeFiles(ends[:]...)
	if err != nil {
		closeFiles(p.stdin, p.stdout, p.stderr)
		job.Kill()
		return nil, fmt.Errorf("command %q could not be executed: %w", s.command, err)
	}
	p.pid = cmd.Process.Pid
	go func() {
		_ = cmd.Wait() // ProcessState says it
		p.setExit(cmd.ProcessState.String())
		p.kill() // what is left of its group ends with it
		close(p.done)
	}()
	return p, nil
}

// stop gives the server, whose stdin the caller has closed, its grace and then kills the job.
func (p *child) stop() {
	p.sys.stopping.Do(func() {
		go func() {
			timer := time.NewTimer(eofGrace + termGrace)
			defer timer.Stop()
			select {
			case <-p.done:
			case <-timer.C:
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
