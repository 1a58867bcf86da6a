package cli

import (
	"context"
	"errors"
	"os"
	"syscall"

	"mcp-code-exec-harness/internal/harness"
)

// The exit codes that scripts rely on.
const (
	exitDone        = 0
	exitFailed      = 1 // the task or run failed
	exitUsage       = 2 // usage or configuration
	exitUnavailable = 3 // a dependency is missing or unreachable
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

// errStopped is the end of a server that was told to stop, which is how servers end.
var errStopped = errors.New("stopped")

// Signal is the cause of a context that a signal ended.
type Signal struct{ os.Signal }

func (s Signal) Error() string { return s.String() }

// exitCode is the one table from errors to exit codes.
func exitCode(ctx context.Context, err error) int {
	var signal Signal
	if errors.Is(err, errStopped) {
		return exitDone
	}
	if errors.As(context.Cause(ctx), &signal) {
		if signal.Signal == syscall.SIGTERM {
			return exitTerminated
		}
		return exitInterrupted
	}
	var exit *exitError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &exit):
		return exit.code
	case errors.Is(err, harness.ErrUnavailable):
		return exitUnavailable
	default:
		return exitFailed
	}
}
