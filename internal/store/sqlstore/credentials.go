package sqlstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

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

// Exclusively implements credentials.Store. The lock has a connection of its own, which the server closes if this machine is gone.
func (s *Store) Exclusively(ctx context.Context, name string, f func() error) error {
	d, is := s.database.(*server)
	if !is {
		return f()
	}
	c, err := pgx.ConnectConfig(ctx, d.cfg)
	if err == nil {
		defer c.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the lock goes with the connection
		_, err = c.Exec(ctx, "SELECT pg_advisory_lock(hashtextextended('harness ' || current_schema() || ' ' || $1, 0))", name)
	}
	if err != nil {
		return fmt.Errorf("wait for other machines in the store %s: %w", s.path, err)
	}
	return f()
}
