package runs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/jsontext"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/startup"
	"mcp-code-exec-harness/internal/task"
)

// leastTools is the number of different calls from which on two programs with the same calls count as nearly the same. Programs with fewer have to be the
// same text, apart from values.
const leastTools = 2

// maxShape is the maximum number of different calls that the shape of a program has.
const maxShape = 100

// values matches what programs for similar tasks differ in: texts, numbers, comments and white space.
var values = startup.Regexp("//[^\n]*|/\\*(?s:.*?)\\*/|\"(?:[^\"\\\\\n]|\\\\.)*\"|'(?:[^'\\\\\n]|\\\\.)*'|`(?:[^`\\\\]|\\\\.)*`|\\d[\\d_.]*|\\s+")

// shape collects the different tool calls of a program: the names of tools and of their arguments, in the order of the first call of each.
type shape struct {
	mu    sync.Mutex
	calls []string
}

func (s *shape) add(e run.Event) {
	if e.Call == nil || frame.Kind(e.Call.Kind) != frame.Tool {
		return
	}
	call := callShape(e.Call)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.calls) < maxShape && !slices.Contains(s.calls, call) {
		s.calls = append(s.calls, call)
	}
}

func callShape(c *journal.Call) string {
	var in struct {
		Server string          `json:"server"`
		Input  json.RawMessage `json:"input"`
	}
	_ = json.Unmarshal(c.Args, &in) // positional arguments have no names
	var names []string
	if len(in.Input) > 0 && in.Input[0] == '{' {
		for name := range jsontext.Members(in.Input) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return ident.Fold(in.Server+c.Name) + " " + strings.Join(names, " ")
}

// of returns the key of a program by which nearly the same ones are found, "" for a program that calls no tool.
func (s *shape) of(code string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.calls) == 0 {
		return ""
	}
	text := strings.Join(s.calls, "\n")
	if len(s.calls) < leastTools {
		text = values().ReplaceAllString(code, "")
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// Repeats returns the earlier task of the user whose program a task has repeated, if the task is the first that has. A program that came from a skill is never
// repeated.
func (s *Service) Repeats(ctx context.Context, t task.Task) (*task.Repeat, error) {
	if t.Status != task.Succeeded {
		return nil, nil
	}
	return stored(s, func(store Store) (*task.Repeat, error) { return store.RepeatedProgram(ctx, t.UserID, t.ID) })
}
