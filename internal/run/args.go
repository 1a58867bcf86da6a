package run

import "mcp-code-exec-harness/internal/slots"

// Bounds of the arguments of calls in flight, in bytes.
const (
	argsUnit = 64 << 10 // unit of the count: smaller arguments count as nothing, as their number is bounded
	argsEach = 64 << 20 // limit of all runs of one owner
	argsAll  = 16 * argsEach
)

// Args bound the memory that the arguments of calls in flight take, for each owner and for all. Its methods are safe for concurrent use; nil Args
// bound nothing.
type Args struct{ slots *slots.Slots }

// NewArgs returns the bounds of all runs of a process.
func NewArgs() *Args {
	return &Args{slots.New(slots.Limits{All: argsAll / argsUnit, Each: argsEach / argsUnit}, "arguments of calls", "sent")}
}

// hold takes memory for arguments of so many bytes. release gives it back; it is nil where there is none.
func (a *Args) hold(owner string, size int) (release func()) {
	if a == nil || size < argsUnit {
		return func() {}
	}
	return a.slots.TryAcquire(owner, size/argsUnit)
}
