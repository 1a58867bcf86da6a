package run

import (
	"fmt"
	"time"

	"mcp-code-exec-harness/internal/frame"
)

// Limits are the limits of a run. A limit of zero allows nothing.
type Limits struct {
	Timeout      time.Duration `json:"timeout"`      // time that the guest computes
	MaxWall      time.Duration `json:"maxWall"`      // total time of the run, including waiting
	Memory       int64         `json:"memory"`       // bytes of guest memory
	MaxOutput    int           `json:"maxOutput"`    // bytes of output and logs together
	MaxLogLines  int           `json:"maxLogLines"`  // number of console lines
	MaxCalls     int           `json:"maxCalls"`     // number of tool calls
	MaxHostCalls int           `json:"maxHostCalls"` // number of host calls of every kind
	MaxInFlight  int           `json:"maxInFlight"`  // number of calls in flight at the same time
	MaxValue     int           `json:"maxValue"`     // bytes of one value between guest and host
}

// Limits that cannot be configured, because no program needs more.
const (
	maxName    = 1 << 10   // bytes of the name of a tool or another call
	maxCrossed = 256 << 20 // bytes of all arguments and answers of one run, to bound its journal and its calls in flight
	maxMessage = 16 << 10  // bytes of an error's message
	maxClass   = 256       // bytes of an error's name
	maxStack   = 64 << 10  // bytes of an error's stack, and of an error's data
)

// oversized returns an error if a call exceeds a limit. The guest runtime enforces most of these limits itself, so a runner that exceeds
// them is broken or hostile. Only the arguments of synchronous calls can be made too large by a program.
func (l *loop) oversized(f *frame.Frame) *Error {
	limits := l.spec.Limits
	switch {
	case len(f.Name) > maxName:
		return l.explain(frame.KindCrash, fmt.Sprintf("the runner sent the name of a call with %d bytes", len(f.Name)))
	case len(f.Args) > limits.MaxValue && f.Sync:
		return l.explain(frame.KindCallLimit, fmt.Sprintf("a call's arguments have %d bytes, more than %d (sandbox.maxValue)", len(f.Args), limits.MaxValue))
	case len(f.Args) > limits.MaxValue:
		return l.explain(frame.KindCrash, fmt.Sprintf("the runner sent arguments of %d bytes", len(f.Args)))
	case counted(f.Kind, f.Sync) && l.busy >= limits.MaxInFlight:
		return l.explain(frame.KindCrash, fmt.Sprintf("the runner has more than %d calls in flight", limits.MaxInFlight))
	}
	return nil
}

// counted reports whether a call counts towards MaxInFlight. Timers and synchronous calls do not.
func counted(kind frame.Kind, sync bool) bool { return kind != frame.Timer && !sync }

// cross counts bytes that pass between guest and host. A replay counts the same number of bytes at each call as the recorded run.
func (l *loop) cross(n int) {
	l.crossed += n
	if l.crossed > maxCrossed {
		l.end(frame.KindCallLimit, fmt.Sprintf(
			"the arguments and answers of the program's calls have more than %d MiB: ask servers for less, or divide the work between runs", maxCrossed>>20))
	}
}
