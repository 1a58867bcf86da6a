package sqlstore

import (
	"context"

	"mcp-code-exec-harness/internal/credentials"
)

var _ credentials.Store = (*Store)(nil)

// Credential implements credentials.Store.
func (s *Store) Credential(ctx context.Context, server, user string) (_ []byte, err error) {
	defer wrap(&err, "find the login of server %q", server)
	return one(ctx, s, nil, value[[]byte], "SELECT sealed FROM credentials WHERE server = ? AND user = ?", server, user)
}

// PutCredential implements credentials.Store.
func (s *Store) PutCredential(ctx context.Context, server, user string, sealed []byte) (err error) {
	defer wrap(&err, "keep the login of server %q", server)
	now := s.now()
	return s.write(ctx, len(sealed), func(c *conn) {
		c.exec("INSERT INTO credentials (server, user, sealed, updated) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (server, user) DO UPDATE SET sealed = ?3, updated = ?4", server, user, sealed, now)
	})
}

// DeleteCredential implements credentials.Store. Deleting a missing login is no error.
func (s *Store) DeleteCredential(ctx context.Context, server, user string) (err error) {
	defer wrap(&err, "forget the login of server %q", server)
	return s.write(ctx, 0, func(c *conn) { c.exec("DELETE FROM credentials WHERE server = ? AND user = ?", server, user) })
}
