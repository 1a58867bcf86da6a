package process

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
)

// Child is a child process with pipes for its standard files.
type Child struct {
	Process *os.Process
	Stdin   *os.File
	Stdout  *os.File
	Stderr  Tail

	errors *os.File
	read   chan struct{} // closed when errors was read to the end
	wait   func() *os.ProcessState
}

// Open sets the standard files of cmd to pipes and starts cmd by calling start, which must set cmd.Process. The caller must not have set the standard
// files, and must call Wait.
func Open(cmd *exec.Cmd, start func(*exec.Cmd) error) (*Child, error) {
	var all []*os.File
	pipe := func() (r, w *os.File, err error) {
		if r, w, err = os.Pipe(); err == nil {
			all = append(all, r, w)
		}
		return r, w, err
	}
	fail := func(err error) (*Child, error) {
		for _, f := range all {
			f.Close()
		}
		return nil, err
	}
	stdin, in, err := pipe()
	if err != nil {
		return fail(fmt.Errorf("make a pipe: %w", err))
	}
	out, stdout, err := pipe()
	if err != nil {
		return fail(fmt.Errorf("make a pipe: %w", err))
	}
	errs, stderr, err := pipe()
	if err != nil {
		return fail(fmt.Errorf("make a pipe: %w", err))
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	if err := start(cmd); err != nil {
		return fail(err)
	}
	for _, f := range []*os.File{stdin, stdout, stderr} {
		f.Close()
	}
	c := &Child{Process: cmd.Process, Stdin: in, Stdout: out, errors: errs, read: make(chan struct{})}
	c.wait = sync.OnceValue(c.end)
	go func() {
		defer close(c.read)
		io.Copy(&c.Stderr, errs)
	}()
	return c, nil
}

// Wait waits for the end of the process and of its standard error, and then closes the pipes. It is safe for
// concurrent use.
func (c *Child) Wait() *os.ProcessState { return c.wait() }

func (c *Child) end() *os.ProcessState {
	state, _ := c.Process.Wait() // fails only if the child was waited for before
	<-c.read
	for _, f := range []*os.File{c.Stdin, c.Stdout, c.errors} {
		f.Close()
	}
	return state
}
