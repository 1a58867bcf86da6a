package wiring

import (
	"time"

	"mcp-code-exec-harness/internal/journal"
)

// The servers of these tests may start slowly on a busy machine.
func init() { discoveryTimeout = 2 * time.Minute }

// WrapJournal puts a wrapper between runs and their journals.
func (h *Harness) WrapJournal(wrap func(journal.Writer) journal.Writer) { h.runs.WrapJournal(wrap) }
