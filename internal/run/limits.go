package run

import (
	"fmt"
	"time"

	"mcp-code-exec-harness/internal/frame"
)

// Limits bound a run. A zero value allows none of it.
type Limits struct {
	Timeout      time.Duration `json:"timeout"`      // time the guest computes
	MaxWall      time.Duration `json:"maxWall"`      // everything, waiting included
	Memory       int64         `json:"memory"`       // bytes of guest memory
	MaxOutput    int           `json:"maxOutput"`    // bytes of output and logs together
	MaxLogLines  int           `json:"maxLogLines"`  // console lines
	MaxCalls     int           `json:"maxCalls"`     // tool calls
	MaxHostCalls int           `json:"maxHostCalls"` // host calls of every kind
	MaxInFlight  int           `json:"maxInFlight"`  // calls at the same time
	MaxValue     int           `json:"maxValue"`     // bytes of one value that crosses
}

// Bounds that no program needs to change.
const (
	maxName    = 1 << 10   // bytes of the name of a tool or another call
	maxCrossed = 256 << 20 // bytes of arguments and answers of one run: what its journal and its calls in flight may take
	maxMessage = 16 << 10  // bytes of an error's message
	maxClass   = 256       // bytes of an error's name
	maxStack   = 64 << 10  // bytes of an error's stack, and of the data it carries
)

// oversized judges a call by the limits that the guest runtime keeps by itself: a runner that breaks one is broken or
// hostile. Arguments of synchronous calls are the exception; they are a program's own doing.
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

// counted says whether a call is one of those in flight: timers and synchronous calls are not.
func counted(kind frame.Kind, sync bool) bool { return kind != frame.Timer && !sync }

// cross counts what crosses the sandbox's wall. Both a run and its replay count the same at the same calls.
func (l *loop) cross(n int) {
	l.crossed += n
	if l.crossed > maxCrossed {
		l.end(frame.KindCallLimit, fmt.Sprintf(
			"the arguments and answers of the program's calls have more than %d MiB: ask servers for less, or divide the work between runs", maxCrossed>>20))
	}
}
