package wiring

import "mcp-code-exec-harness/internal/journal"

// WrapJournal puts something between runs and their journals.
func (h *Harness) WrapJournal(wrap func(journal.Writer) journal.Writer) { h.runs.WrapJournal(wrap) }

// Kept is kept, for tests.
func Kept(open func() (int, error)) func() (int, error) { return kept(open) }
