package agent

import (
	"testing"

	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/task"
)

// TestSplitReplayed: a continued task joins its recorded turns in the same way as when a value that spans two turns was hidden.
func TestSplitReplayed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, &model.Turn{Text: "Write to ann@exa", Stop: model.StopLength}, &model.Turn{Text: "[EMAIL_1].", Whole: "Write to [EMAIL_1].", Stop: model.StopEnd})
	ended, err := w.agent().Do(t.Context(), newTask(), nil, nil, w)
	if err != nil || ended.Status != task.Succeeded || ended.Text != "Write to [EMAIL_1]." {
		t.Fatalf("the task ended as %+v, %v", ended, err)
	}
}
