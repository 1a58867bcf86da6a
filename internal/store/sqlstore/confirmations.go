package sqlstore

import (
	"context"
	"encoding/binary"

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
		c.exec("INSERT INTO confirmations (subject, value) VALUES (?1, ?2) ON CONFLICT (subject) DO UPDATE SET value = ?2", subject, value)
	})
}

// Replace sets the value of a subject if its value is old, or if old is nil and it has none. It returns the value that the subject has afterwards.
func (s *Store) Replace(ctx context.Context, subject string, old, value []byte) (now []byte, err error) {
	defer wrap(&err, "replace %q", subject)
	err = s.write(ctx, len(value), func(c *conn) {
		c.exec("INSERT INTO confirmations (subject, value) VALUES (?1, ?2) ON CONFLICT (subject) DO UPDATE SET value = ?2 WHERE confirmations.value = ?3", subject, value, old)
		c.row("SELECT value FROM confirmations WHERE subject = ?", []any{subject}, &now)
	})
	return now, err
}

// Advance implements approval.Records.
func (s *Store) Advance(ctx context.Context, subject string, to uint32) (advanced bool, err error) {
	defer wrap(&err, "advance %q", subject)
	value := binary.BigEndian.AppendUint32(nil, to) // big-endian blobs of one size compare like numbers
	err = s.write(ctx, len(value), func(c *conn) {
		advanced = c.changed("INSERT INTO confirmations (subject, value) VALUES (?1, ?2) ON CONFLICT (subject) DO UPDATE SET value = ?2 WHERE confirmations.value < ?2", subject, value) > 0
	})
	return advanced, err
}
