package run

import (
	"encoding/json"
	"unicode/utf8"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
)

// onlyMemory is how many times the size of an answer a guest needs, at least, to take it.
const onlyMemory = 64

// Only is the tool call of a program that makes this call and returns its value, and does nothing else. Such a run begins without a
// runner: the host makes the call, and the value is the output. Where the answer is an error, or anything that a guest might
// write otherwise, the program is replayed on a runner. The journal is the same in both cases.
type Only struct {
	Name string
	Args json.RawMessage // of the call's frame
}

// only is the frame of the call with which a run begins that has no runner, and gives back what the run holds without one; nil if
// the run needs a runner.
func (s *Spec) only() (call *frame.Frame, release func()) {
	if s.Only == nil || s.Leave == nil || len(s.Records) > 0 || s.Offline || len(s.Only.Name) > maxName || !utf8.ValidString(s.Only.Name) {
		return nil, nil
	}
	args, ok := stringify(s.Only.Args)
	if !ok || len(args) > min(s.Limits.MaxValue, maxKept) || s.Limits.MaxHostCalls < 1 {
		return nil, nil
	}
	if release = s.Leave.Places.TryAcquire(s.Owner, 1); release == nil {
		return nil, nil
	}
	return &frame.Frame{T: frame.Call, Run: s.Start.Run, ID: 1, Kind: frame.Tool, Name: s.Only.Name, Args: args}, release
}

// returns ends a run without a runner that has never had one, if the answer to its call is the program's output. The end is stored with
// the answer.
func (l *loop) returns(a *journal.Answer) bool {
	if l.runner != nil || l.again || a.Error != nil || int64(len(a.Value)) > l.spec.Limits.Memory/onlyMemory {
		return false
	}
	value, ok := stringify(a.Value)
	if ok = ok && len(value) <= l.spec.Limits.MaxValue; ok {
		l.done = &frame.Frame{T: frame.Done, Value: value}
	}
	return ok
}
