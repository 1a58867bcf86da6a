package mcpserver

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
	"sync"

	"mcp-code-exec-harness/internal/runs"
)

const (
	maxWaiting      = 100    // maximum number of remembered programs of a caller; beyond it the oldest is forgotten
	maxWaitingOfAll = 10_000 // maximum number of remembered programs of all callers
)

// waiting holds clients' programs whose runs wait for approvals. Models send a call again and again until it succeeds. Because the program is
// remembered, a person is asked about the same program only once. The methods of waiting are safe for concurrent use.
type waiting struct {
	mu   sync.Mutex
	runs map[programHash]string   // ids of runs
	of   map[string][]programHash // programs by caller, oldest first
}

// programHash identifies a program of a caller.
type programHash [sha256.Size]byte

func sameProgram(who caller, req runs.Request) programHash {
	all, _ := json.Marshal([]any{who.Caller(), req.Session, req.Code, req.Env}) // strings always encode
	return sha256.Sum256(all)
}

// find returns the id of the run of a waiting program, "" if there is none.
func (w *waiting) find(program programHash) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.runs[program]
}

// add remembers the run of a waiting program.
func (w *waiting) add(caller string, program programHash, runID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.runs == nil {
		w.runs, w.of = map[programHash]string{}, map[string][]programHash{}
	}
	if len(w.of[caller]) >= maxWaiting {
		w.remove(caller, w.of[caller][0])
	}
	if len(w.runs) >= maxWaitingOfAll {
		return
	}
	w.runs[program], w.of[caller] = runID, append(w.of[caller], program)
}

// forget removes a program, so that it is executed again when the client sends it again.
func (w *waiting) forget(caller string, program programHash) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remove(caller, program)
}

func (w *waiting) remove(caller string, program programHash) {
	delete(w.runs, program)
	w.of[caller] = slices.DeleteFunc(w.of[caller], func(other programHash) bool { return other == program })
	if len(w.of[caller]) == 0 {
		delete(w.of, caller)
	}
}
