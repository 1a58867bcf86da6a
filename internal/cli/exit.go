package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"mcp-code-exec-harness/internal/part"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/task"
)

// The exit codes must not change, because scripts depend on them.
const (
	exitDone        = 0
	exitFailed      = 1 // the task or run failed, or a threshold is not met
	exitUsage       = 2 // usage or configuration
	exitUnavailable = 3 // a dependency is missing or unreachable
	exitWaiting     = 4 // waiting for an approval
	exitInterrupted = 130
	exitTerminated  = 143
)

// exitError is an error with its exit code.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// errReported is the error of a command whose output already reports the failure.
var errReported = errors.New("reported")

// failed returns the error of a command that has printed a failure.
func failed(code int) error { return &exitError{code: code, err: errReported} }

// ended returns the error of a command that has printed how a run or task ended. err is the error of printing.
func ended(err error, succeeded bool) error {
	if err == nil && !succeeded {
		return failed(exitFailed)
	}
	return err
}

// exited returns the error of a command that a server has executed.
func exited(code int) error {
	if code == exitDone {
		return nil
	}
	return failed(code)
}

// errStopped ends a command without a message: a server that a signal has stopped, or a client's command that this server does not execute.
var errStopped = errors.New("stopped")

// Signal is the cause of a context that a signal has ended.
type Signal struct{ os.Signal }

func (s Signal) Error() string { return s.String() }

// exitCode returns the exit code of an error. It is the only mapping from errors to exit codes.
func exitCode(ctx context.Context, err error) int {
	if errors.Is(err, errStopped) {
		return exitDone
	}
	if signal, ok := errors.AsType[Signal](context.Cause(ctx)); ok {
		if signal.Signal == syscall.SIGTERM {
			return exitTerminated
		}
		return exitInterrupted
	}
	if exit, ok := errors.AsType[*exitError](err); ok {
		return exit.code
	}
	if _, invalid := errors.AsType[runs.InvalidError](err); invalid {
		return exitUsage
	}
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, task.ErrInvalidInput), errors.Is(err, task.ErrNotFound):
		return exitUsage
	case errors.Is(err, part.ErrUnavailable):
		return exitUnavailable
	}
	return exitFailed
}

// WithSignals returns a context that ends at SIGINT or SIGTERM, with the Signal as its cause. A second signal ends the process at once. The child processes
// then end because their input ends, or because the kernel ends them.
func WithSignals() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() { // ends when stop is called
		for s := range signals {
			if ctx.Err() != nil {
				os.Exit(exitCode(ctx, nil))
			}
			cancel(Signal{s})
		}
	}()
	return ctx, func() {
		signal.Stop(signals) // no signal is sent to the channel afterwards
		close(signals)
		cancel(nil)
	}
}
