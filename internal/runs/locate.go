package runs

import (
	"cmp"
	"encoding/json"
	"strings"
	"sync"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/program"
	"mcp-code-exec-harness/internal/run"
)

// locator explains errors in terms of the source code. Modules that are loaded while the program runs add their source maps.
type locator struct {
	mu       sync.Mutex
	compiled *program.Compiled // nil while the run has no runner, and afterwards if its journal cannot be read
	// advise returns a hint that replaces the hint of program.Compiled.Explain, or "" if it has none. It may be nil.
	advise func(*program.Compiled, *frame.Error, program.Position) string
}

func (l *locator) add(m program.SourceMap) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.compiled != nil {
		l.compiled.AddMap(m)
	}
}

// use replaces the program whose errors are explained.
func (l *locator) use(compiled *program.Compiled) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.compiled = compiled
}

// recall adds the maps of modules that a recorded run loaded while it ran.
func (l *locator) recall(records []journal.Record) {
	loads := map[int]bool{}
	for _, r := range records {
		switch {
		case r.Call != nil && frame.Kind(r.Call.Kind) == frame.Load:
			loads[r.Call.N] = true
		case r.Answer != nil && r.Answer.Skill && r.Answer.Value != nil:
			var skill struct{ Code program.Loaded }
			if json.Unmarshal(r.Answer.Value, &skill) == nil && skill.Code.Map != nil {
				l.add(skill.Code.Map)
			}
		case r.Answer != nil && loads[r.Answer.N] && r.Answer.Value != nil:
			var loaded program.Loaded
			if json.Unmarshal(r.Answer.Value, &loaded) == nil && loaded.Map != nil { // Without a map, errors in the module have no position.
				l.add(loaded.Map)
			}
		}
	}
}

func (l *locator) locate(e *frame.Error) *run.Error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.compiled == nil {
		return &run.Error{Kind: e.Kind, Name: e.Name, Message: e.Message, Stack: e.Stack, Tool: e.Tool, Data: e.Data}
	}
	at := l.compiled.Locate(*e)
	if at.Line == 0 && strings.HasPrefix(e.Message, "output") {
		at = l.compiled.Result() // the mistake is in the returned value, not in the code that made the value
	}
	message, hint := l.compiled.Explain(*e, at)
	if l.advise != nil {
		hint = cmp.Or(l.advise(l.compiled, e, at), hint)
	}
	at = l.compiled.Anchor(*e, at)
	return &run.Error{
		Kind: e.Kind, Name: e.Name, Message: message, File: at.File, Line: at.Line, Column: at.Column,
		Source: at.SourceLine, Stack: at.Stack, Tool: e.Tool, Data: e.Data,
		Hint: hint,
	}
}
