package run

import "mcp-code-exec-harness/internal/slots"

// Limits of the arguments of calls in flight, in bytes.
const (
	argsUnit = 64 << 10 // unit of the count; smaller arguments do not count, because the number of calls is limited
	argsEach = 64 << 20 // limit of all runs of one owner
	argsAll  = 16 * argsEach
)

// Args limits the memory that the arguments of calls in flight take, for each owner and in total. Its methods are safe for concurrent use; a nil
// Args has no limits.
type Args struct{ slots *slots.Slots }

// NewArgs returns the limits for all runs of a process.
func NewArgs() *Args {
	return &Args{slots.New(slots.Limits{All: argsAll / argsUnit, Each: argsEach / argsUnit}, "arguments of calls", "sent")}
}

// hold reserves memory for arguments of size bytes. release gives the memory back. release is nil if not enough memory is left.
func (a *Args) hold(owner string, size int) (release func()) {
	if a == nil || size < argsUnit {
		return func() {}
	}
	return a.slots.TryAcquire(owner, size/argsUnit)
}
