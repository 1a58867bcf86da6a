package run

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/jsontext"
)

const (
	// onlyMemory is the minimum memory that a guest needs to take an answer, as a multiple of the answer's size.
	onlyMemory = 64
	// maxPlainDepth is the maximum nesting depth of a value that may pass without a guest. The guest runtime refuses depths above 500.
	maxPlainDepth = 490
)

// Only is the tool call of a program that makes only this call and returns its value. Such a run begins without a runner: the host
// makes the call, and the value becomes the output unchanged. If the answer is an error, or has more than a value, the program is
// replayed on a runner. The journal is the same in both cases.
type Only struct {
	Name string
	Args json.RawMessage // arguments of the call's frame
}

// only returns the frame of the call with which the run begins without a runner. release gives back the place that a run without a runner
// takes. Both are nil if the run needs a runner.
func (s *Spec) only() (call *frame.Frame, release func()) {
	if s.Only == nil || s.Detach == nil || len(s.Records) > 0 || s.Offline || len(s.Only.Name) > maxName || !utf8.ValidString(s.Only.Name) {
		return nil, nil
	}
	if !plain(s.Only.Args) || s.Limits.MaxHostCalls < 1 {
		return nil, nil
	}
	args := jsontext.Compact(s.Only.Args)
	if len(args) > min(s.Limits.MaxValue, maxKept) {
		return nil, nil
	}
	if release = s.Detach.Places.TryAcquire(s.Owner, 1); release == nil {
		return nil, nil
	}
	return &frame.Frame{T: frame.Call, Run: s.Start.Run, ID: 1, Kind: frame.Tool, Name: s.Only.Name, Args: args}, release
}

// passes reports whether an answer becomes the output: the run has never had a runner, and the answer is a plain value within the limits.
func (l *loop) passes(a *journal.Answer) bool {
	return l.guest.runner == nil && !l.again && l.spec.Only != nil && a.N == 1 && a.Error == nil && a.Beside == nil && !a.Skill &&
		int64(len(a.Value)) <= min(l.spec.Limits.Memory/onlyMemory, int64(l.spec.Limits.MaxValue)) && plain(a.Value)
}

// returns ends the run if it has never had a runner and the answer to its call becomes the output. It reports whether it ended the run.
// The end is stored with the answer.
func (l *loop) returns(a *journal.Answer) bool {
	if !l.passes(a) {
		return false
	}
	var value bytes.Buffer
	if json.Compact(&value, a.Value) != nil {
		return false
	}
	l.finished(&frame.Frame{T: frame.Done, Value: value.Bytes()})
	return true
}

// plain reports whether a text is JSON that a guest could receive.
func plain(text json.RawMessage) bool {
	return json.Valid(text) && utf8.Valid(text) && jsontext.Depth(text) <= maxPlainDepth
}
