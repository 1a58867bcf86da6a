package gate

import (
	"context"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/origin"
	"mcp-code-exec-harness/internal/policy"
)

// Recall says where the values in recorded calls come from, without executing anything: it notes the records of a session's runs in their order, as the gate noted
// what they record. Files and inputs are not read again: once a program has read one, the origin of values that come from no recorded answer is unknown. It is not safe for
// concurrent use.
type Recall struct {
	catalog *catalog.Catalog
	session *origin.Session
	records *recalling // records of the run that was begun last
}

// NewRecall begins a session. The caller closes it.
func NewRecall(c *catalog.Catalog, s *origin.Session) *Recall { return &Recall{catalog: c, session: s} }

// Said notes a text of the user.
func (c *Recall) Said(text string) { c.session.SaidText(origin.User, text) }

// Lose notes that something was said which the records do not have.
func (c *Recall) Lose() { c.session.Lose() }

// Begin begins a run with these records. code is the program and what a client gave it.
func (c *Recall) Begin(run string, code []string, records []journal.Record) {
	r := &Run{gate: &Gate{Options{Catalog: c.catalog}}, scope: Scope{Run: run, Code: code}}
	c.records = r.recalling(c.session, records)
}

// Origin is where a value in a call of the run comes from, by the records that were noted.
func (c *Recall) Origin(value string) policy.ValueOrigin { return c.records.run.find(c.session, value) }

// Note notes a record of the run.
func (c *Recall) Note(ctx context.Context, record journal.Record) {
	if !c.records.note(ctx, record) {
		c.session.Lose()
	}
}

// Close ends the session.
func (c *Recall) Close() { c.session.Close() }
