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
	// onlyMemory is how many times the size of an answer a guest needs, at least, to take it.
	onlyMemory = 64
	// maxPlainDepth is how deep a value may be nested that passes without a guest. The guest runtime refuses those of more than 500.
	maxPlainDepth = 490
)

// Only is the tool call of a program that makes this call and returns its value, and does nothing else. Such a run begins without a
// runner: the host makes the call, and the value is the output, byte by byte. Where the answer is an error, or has something beside its
// value, the program is replayed on a runner. The journal is the same in both cases.
type Only struct {
	Name string
	Args json.RawMessage // arguments of the call's frame
}

// only is the frame of the call with which a run begins that has no runner, and gives back what the run holds without one; nil if
// the run needs a runner.
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

// passes reports whether the answer to the call of a run without a runner, which has never had one, is the output.
func (l *loop) passes(a *journal.Answer) bool {
	return l.guest.runner == nil && !l.again && l.spec.Only != nil && a.N == 1 && a.Error == nil && a.Beside == nil &&
		int64(len(a.Value)) <= min(l.spec.Limits.Memory/onlyMemory, int64(l.spec.Limits.MaxValue)) && plain(a.Value)
}

// returns ends a run without a runner that has never had one, if the answer to its call is the program's output. The end is stored with
// the answer.
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

// plain reports whether a text is JSON that a guest can have.
func plain(text json.RawMessage) bool {
	return json.Valid(text) && utf8.Valid(text) && jsontext.Depth(text) <= maxPlainDepth
}
