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

// Info is what identifies a tier in a run's start record.
type Info struct {
	Tier    string // wasm, process, docker
	Engine  string // hash of the engine
	Prelude string // hash of the guest runtime
}

// Runner is one started guest process. It executes one program at a time.
type Runner interface {
	// Send sends a frame without waiting for the runner to read it. One goroutine at a time may call it. An error means
	// that the runner is gone; that there is none does not mean that the frame arrives.
	Send(f *frame.Frame) error
	// Frames yields what the runner sends, in order, and is closed when the process has ended or broke the protocol;
	// Err then says why. A slow reader holds the guest up, it loses nothing.
	Frames() <-chan *frame.Frame
	// Err is why Frames was closed.
	Err() error
	// Kill ends the process at once. It is idempotent and safe from any goroutine; Frames is closed soon after.
	Kill()
	// Pid is the process id, for diagnosis.
	Pid() int
}
