package sandbox

import (
	"context"

	"mcp-code-exec-harness/internal/frame"
)

// Sandbox is one tier: it starts runners behind its walls.
type Sandbox interface {
	// Start starts a runner and returns when it is ready for a program. Cancelling ctx gives up and leaves no process.
	// It is safe for concurrent use.
	Start(ctx context.Context) (Runner, error)
	// Info describes the tier; it never changes.
	Info() Info
	// Close releases what the tier holds. Runners already started are not affected.
	Close() error
}

// Info identifies a tier in the start record of a run.
type Info struct {
	Tier    string // wasm, process, docker
	Engine  string // hash of the engine
	Prelude string // hash of the guest runtime
}

// Runner is one started guest process. It executes one program at a time.
type Runner interface {
	// Send sends a frame without waiting for the runner to read it. One goroutine at a time may call it. An error means that the runner is gone. Without
	// an error, the frame may still be lost.
	Send(f *frame.Frame) error
	// Frames returns a channel with what the runner sends, in order. The channel is closed when the process has ended or broken the protocol; Err then
	// says why. A slow reader delays the guest, but loses nothing.
	Frames() <-chan *frame.Frame
	// Err returns the reason why Frames was closed.
	Err() error
	// Kill ends the process at once. It is idempotent and safe from any goroutine; Frames is closed soon after.
	Kill()
	// Pid returns the process id, for diagnosis.
	Pid() int
}
