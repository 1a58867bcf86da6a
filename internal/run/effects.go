package run

import (
	"cmp"
	"slices"
	"sync"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
)

// Effect is a call that changed, or may have changed, the world outside the sandbox.
type Effect struct {
	Call  int    `json:"call"` // call number
	Kind  string `json:"kind"` // tool or fs
	Name  string `json:"name"`
	State string `json:"state"` // done, failed or in_doubt
}

// States of an effect.
const (
	effectDone    = "done"
	effectFailed  = "failed" // the server answered with an error
	effectInDoubt = "in_doubt"
)

// effects records the writes of a run. It is safe for concurrent use.
type effects struct {
	mu    sync.Mutex
	calls map[int]Effect // calls that are or may become writes, by number; the state is empty until a call is a write
}

// made records a call. sent reports that a dead process had already sent the call as a write.
func (e *effects) made(c *journal.Call, sent bool) {
	if c.Kind != string(frame.Tool) && c.Kind != string(frame.FS) {
		return
	}
	e.mu.Lock()
	if e.calls == nil {
		e.calls = map[int]Effect{}
	}
	e.calls[c.N] = Effect{Call: c.N, Kind: c.Kind, Name: c.Name}
	e.mu.Unlock()
	if sent {
		e.begin(c.N)
	}
}

// begin records that a call is a write. Its outcome is unknown until settle is called.
func (e *effects) begin(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if effect, ok := e.calls[n]; ok {
		effect.State = effectInDoubt
		e.calls[n] = effect
	}
}

// settle records the outcome of a call that has been answered with err.
func (e *effects) settle(n int, err *frame.Error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	effect := e.calls[n]
	switch {
	case effect.State == "":
		delete(e.calls, n)
		return
	case err == nil:
		effect.State = effectDone
	case err.Kind != frame.KindInDoubt:
		effect.State = effectFailed
	}
	e.calls[n] = effect
}

// wrote reports whether a call was sent as a write.
func (e *effects) wrote(n int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.calls[n].State != ""
}

// replayed records the outcome of a recorded answer; a may be nil.
func (e *effects) replayed(a *journal.Answer) {
	if a == nil {
		return
	}
	if failed, err := answerError(a); err == nil { // otherwise the run fails when the answer is delivered
		e.settle(a.N, failed)
	}
}

// list returns the writes in call order.
func (e *effects) list() []Effect {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []Effect
	for _, effect := range e.calls {
		if effect.State != "" {
			all = append(all, effect)
		}
	}
	slices.SortFunc(all, func(a, b Effect) int { return cmp.Compare(a.Call, b.Call) })
	return all
}
