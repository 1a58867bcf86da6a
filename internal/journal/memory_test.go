package journal_test

import (
	"testing"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/testing/journaltest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	journaltest.Exercise(t, func(*testing.T) journal.Store { return new(journal.Memory) })
}
