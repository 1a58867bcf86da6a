package sqlite

import (
	"context"

	"mcp-code-exec-harness/internal/approval"
)

var _ approval.Records = (*Store)(nil)

// Confirmation implements approval.Records.
func (s *Store) Confirmation(ctx context.Context, subject string) (_ []byte, err error) {
	defer wrap(&err, "find the confirmation of %q", subject)
	return one(ctx, s, nil, value[[]byte], "SELECT value FROM confirmations WHERE subject = ?", subject)
}

// Confirm implements approval.Records.
func (s *Store) Confirm(ctx context.Context, subject string, value []byte) (err error) {
	defer wrap(&err, "keep the confirmation of %q", subject)
	return s.write(ctx, len(value), func(c *conn) {
		c.exec("INSERT OR REPLACE INTO confirmations (subject, value) VALUES (?, ?)", subject, value)
	})
}
