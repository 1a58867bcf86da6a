package gate

import (
	"context"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/origin"
	"mcp-code-exec-harness/internal/policy"
)

// Recall finds the origins of the values in recorded calls without executing anything. It processes the records of a session's runs in their
// order, as the gate did. It does not read files and inputs again. After a program has read a file or an input, the origin of a value that comes
// from no recorded answer is unknown. A Recall is not safe for concurrent use.
type Recall struct {
	catalog *catalog.Catalog
	session *origin.Session
	records *recalling // records of the latest run
}

// NewRecall returns a Recall for a session. The caller must call Close.
func NewRecall(c *catalog.Catalog, s *origin.Session) *Recall { return &Recall{catalog: c, session: s} }

// Said adds a text of the user.
func (c *Recall) Said(text string) { c.session.SaidText(origin.User, text) }

// Lose notes that values are missing in the records.
func (c *Recall) Lose() { c.session.Lose() }

// Begin begins a run with the given records. code is the program and the values of its environment variables.
func (c *Recall) Begin(run string, code []string, records []journal.Record) {
	r := &Run{gate: &Gate{Options{Catalog: c.catalog}}, scope: Scope{Run: run, Code: code}}
	c.records = r.recalling(c.session, records)
}

// Origin returns the origin of a value in a call of the run, as far as the records noted so far tell it.
func (c *Recall) Origin(value string) policy.ValueOrigin { return c.records.run.find(c.session, value) }

// Note adds a record of the run.
func (c *Recall) Note(ctx context.Context, record journal.Record) {
	if !c.records.note(ctx, record) {
		c.session.Lose()
	}
}

// Close ends the session.
func (c *Recall) Close() { c.session.Close() }
