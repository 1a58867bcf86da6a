package api

import (
	"encoding/json"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/task"
)

// Text that was sent never changes, even if the model starts its text again or the watcher misses deltas.
func TestChunks(t *testing.T) {
	t.Parallel()
	type step struct {
		kind, text string
		reset      bool
	}
	delta := func(text string) step { return step{task.EventDelta, text, false} }
	turn := func(text string) step { return step{task.EventTurn, text, false} }
	back := step{task.EventDelta, "", true}
	for name, c := range map[string]struct {
		steps []step
		want  string // sent pieces, separated by |
	}{
		"as it comes":               {[]step{delta("a"), delta("b"), turn("ab")}, "a|b"},
		"not streamed":              {[]step{turn("ab")}, "ab"},
		"missed pieces":             {[]step{delta("a"), turn("abc")}, "a|bc"},
		"taken back, the same":      {[]step{delta("a"), delta("b"), back, delta("a"), delta("bc"), turn("abc")}, "a|b|c"},
		"taken back, another":       {[]step{delta("ab"), back, delta("xy"), turn("xyz")}, "ab|\n\nxyz"},
		"taken back, nothing comes": {[]step{delta("ab"), back, turn("")}, "ab"},
		"two turns":                 {[]step{delta("a"), turn("a"), {task.EventLog, "no", false}, delta("a"), turn("ab")}, "a|a|b"},
		"a turn without words":      {[]step{turn(""), turn("x")}, "x"},
	} {
		var got []string
		out := chunks{send: func(text string) error { got = append(got, text); return nil }}
		for _, s := range c.steps {
			data, _ := json.Marshal(map[string]any{"text": s.text, "reset": s.reset})
			if err := out.event(task.Event{Type: s.kind, Data: data}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if text := strings.Join(got, "|"); text != c.want {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
	}
}
