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

// The exit codes are a promise to scripts.
const (
	exitDone        = 0
	exitFailed      = 1 // the task or run failed
	exitUsage       = 2 // usage or configuration
	exitUnavailable = 3 // a dependency is missing or unreachable
	exitWaiting     = 4 // for an approval
	exitInterrupted = 130
	exitTerminated  = 143
)

// exitError gives an error its exit code.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// errReported ends a command whose result already says what failed.
var errReported = errors.New("reported")

// failed is the end of a command that printed a failure.
func failed(code int) error { return &exitError{code: code, err: errReported} }

// ended ends a command that printed how a run or task ended; err is of the printing.
func ended(err error, succeeded bool) error {
	if err == nil && !succeeded {
		return failed(exitFailed)
	}
	return err
}

// exited is the end of a command that a server has executed.
func exited(code int) error {
	if code == exitDone {
		return nil
	}
	return failed(code)
}

// errStopped ends a server that a signal stopped.
var errStopped = errors.New("stopped")

// Signal is the cause of a context that a signal ended.
type Signal struct{ os.Signal }

func (s Signal) Error() string { return s.String() }

// exitCode is the one table from errors to exit codes.
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

// WithSignals returns a context that SIGINT or SIGTERM ends, with the Signal as its cause. A second signal ends the
// process at once; its children end because their input ends, or because the kernel ends them.
func WithSignals() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() { // ends with stop
		for s := range signals {
			if ctx.Err() != nil {
				os.Exit(exitCode(ctx, nil))
			}
			cancel(Signal{s})
		}
	}()
	return ctx, func() {
		signal.Stop(signals) // nothing is sent after it
		close(signals)
		cancel(nil)
	}
}
