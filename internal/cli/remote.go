package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/remote"
)

// localFlag is the type of the flag --local.
type localFlag bool

const localHelp = "Execute it in this process, also where a harness serve of the same configuration runs, whose servers are ready."

// serving is a command that a running server may execute.
type serving interface {
	// served reports whether a server may execute the command with its flags.
	served() bool
}

// remote lets a running server of the same configuration execute the command. An error that wraps remote.ErrNone means that no server executed the
// command.
func (a *app) remote(ctx context.Context) (code int, err error) {
	if !remote.Supported {
		return 0, remote.ErrNone
	}
	_, state, err := config.Place(a.configSource())
	if err != nil { // the command reports the error itself
		return 0, remote.ErrNone
	}
	streams, done := a.streams()
	defer done()
	code, err = remote.Do(ctx, state, func() (string, error) {
		key, _, err := auth.LocalToken(state)
		return key, err
	}, remote.Command{
		Args: a.Args, Environ: a.Environ, Dir: a.Dir, Version: Version, Executable: remote.Identity(a.Executable),
		Stdin: remote.Stream{Terminal: a.keyboard() != nil, Piped: a.piped()}, Stdout: a.stdout.stream(), Stderr: a.stderr.stream(),
	}, streams)
	switch why, refused := errors.AsType[remote.RefusedError](err); {
	case refused && a.stderr.terminal != nil: // a program that reads the output does not get the note
		fmt.Fprintf(a.Stderr, "harness: note: harness serve does not execute this command (%s), so this process does, as with --local\n", why)
	case errors.Is(err, remote.ErrLost):
		err = &exitError{exitUnavailable, errLost}
	}
	return code, err
}

var errLost = errors.New("harness serve ended while it executed this command, and what the command did until then is done: " +
	"harness runs list shows its run; it is not executed again")

// streams returns the standard streams of this process for a command that a server executes. The caller calls done.
func (a *app) streams() (s remote.Streams, done func()) {
	s = remote.Streams{Stdin: a.Stdin, Stdout: a.World.Stdout, Stderr: a.World.Stderr, Signal: signalName}
	s.Stdout, s.Stderr = a.stdout.raw, a.stderr.raw
	if k := a.keyboard(); k != nil {
		s.Keyboard = k
		s.Password = func(ctx context.Context) (string, error) {
			text, _, err := k.secret(ctx, func() {})
			return text, err
		}
	}
	if a.stdout.terminal == nil && a.stderr.terminal == nil {
		return s, func() {}
	}
	resized, stop := resizes()
	sizes, ended := make(chan [2]remote.Stream), make(chan struct{})
	go func() { // ends when done is called
		for {
			select {
			case <-resized:
			case <-ended:
				return
			}
			select {
			case sizes <- [2]remote.Stream{a.stdout.stream(), a.stderr.stream()}:
			case <-ended:
				return
			}
		}
	}()
	s.Sizes = sizes
	return s, func() {
		stop()
		close(ended)
	}
}

// stream describes the console to a server.
func (c *console) stream() remote.Stream {
	if c.terminal == nil {
		return remote.Stream{}
	}
	columns, lines := c.terminal.size()
	return remote.Stream{Terminal: true, Columns: columns, Lines: lines}
}

// The names of the causes that end a command.
const (
	nameInterrupt  = "interrupt"
	nameTerminated = "terminated"
	nameCancelled  = "cancelled"
)

func signalName(cause error) string {
	switch s, ok := errors.AsType[Signal](cause); {
	case !ok:
		return nameCancelled
	case s.Signal == syscall.SIGTERM:
		return nameTerminated
	}
	return nameInterrupt
}

func signalNamed(name string) error {
	switch name {
	case nameInterrupt:
		return Signal{os.Interrupt}
	case nameTerminated:
		return Signal{syscall.SIGTERM}
	case nameCancelled:
		return context.Canceled
	}
	return nil
}

// remoteInput is the standard input of a client, as the server reads it.
type remoteInput struct{ *remote.Session }

var _ keyboard = remoteInput{}

// Write implements keyboard.
func (in remoteInput) Write(p []byte) (int, error) { return in.Keyboard(p) }

func (in remoteInput) secret(ctx context.Context, ask func()) (text string, read bool, err error) {
	ask()
	type line struct {
		text string
		err  error
	}
	lines := make(chan line, 1)
	go func() { // ends when a line is read, or with the command
		text, err := in.Password()
		lines <- line{text, err}
	}()
	select {
	case l := <-lines:
		return l.text, true, l.err
	case <-ctx.Done():
		return "", false, context.Cause(ctx)
	}
}

// remoteOutput is standard output or standard error of a client, as the server writes it. It also implements terminal.
type remoteOutput struct {
	s     *remote.Session
	error bool
}

var (
	_ io.Writer = remoteOutput{}
	_ terminal  = remoteOutput{}
)

// Write implements io.Writer.
func (o remoteOutput) Write(p []byte) (int, error) {
	if o.error {
		return o.s.Stderr(p)
	}
	return o.s.Stdout(p)
}

func (o remoteOutput) stream() remote.Stream {
	stdout, stderr := o.s.Sizes()
	if o.error {
		return stderr
	}
	return stdout
}

func (o remoteOutput) size() (columns, lines int) {
	s := o.stream()
	return s.Columns, s.Lines
}

func (remoteOutput) obeysSequences() bool { return runtime.GOOS != "windows" }
