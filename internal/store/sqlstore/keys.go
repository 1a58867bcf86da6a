package sqlstore

import (
	"context"
	"fmt"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/task"
)

var _ auth.KeyStore = (*Store)(nil)

// CreateKey adds a key. The error wraps task.ErrExists if its id or hash is taken.
func (s *Store) CreateKey(ctx context.Context, k auth.Key) (err error) {
	defer wrap(&err, "create key %q", k.ID)
	if k.Roles == nil {
		k.Roles = []string{}
	}
	roles, err := journal.Encode(k.Roles)
	if err != nil {
		return err
	}
	return s.write(ctx, 0, func(c *conn) {
		c.exec("INSERT INTO keys ("+keyColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
			k.ID, k.Hash, k.Name, k.User, string(roles), k.Created, k.LastUsed, k.Expires, k.Revoked)
	})
}

const keyColumns = "id, hash, name, user, roles, created, last_used, expires, revoked"

func scanKey(row scanner) (k auth.Key, err error) {
	if err := row.Scan(&k.ID, &k.Hash, &k.Name, &k.User, object{&k.Roles}, instant{&k.Created},
		optional{&k.LastUsed}, optional{&k.Expires}, optional{&k.Revoked}); err != nil {
		return k, fmt.Errorf("key %q as it is stored: %w", k.ID, err)
	}
	return k, nil
}

// Keys lists all keys, revoked and expired ones too, the oldest first.
func (s *Store) Keys(ctx context.Context) (_ []auth.Key, err error) {
	defer wrap(&err, "list keys")
	return list(ctx, s, scanKey, "SELECT "+keyColumns+" FROM keys ORDER BY num")
}

// KeyByHash implements auth.KeyStore. It returns revoked and expired keys too.
func (s *Store) KeyByHash(ctx context.Context, hash []byte) (_ auth.Key, ok bool, err error) {
	defer wrap(&err, "find the key of a hash")
	k, err := one(ctx, s, nil, scanKey, "SELECT "+keyColumns+" FROM keys WHERE hash = ?", hash)
	return k, k.ID != "", err
}

// KeyByID implements auth.KeyStore. It returns revoked and expired keys too.
func (s *Store) KeyByID(ctx context.Context, id string) (_ auth.Key, ok bool, err error) {
	defer wrap(&err, "find key %q", id)
	k, err := one(ctx, s, nil, scanKey, "SELECT "+keyColumns+" FROM keys WHERE id = ?", id)
	return k, k.ID != "", err
}

// RevokeKey marks a key as revoked at the given time. A key that is already revoked stays as it is. For an unknown key the error wraps
// task.ErrNotFound.
func (s *Store) RevokeKey(ctx context.Context, id string, at time.Time) (err error) {
	defer wrap(&err, "revoke key %q", id)
	if err := s.write(ctx, 0, func(c *conn) { c.execOne("UPDATE keys SET revoked = coalesce(revoked, ?) WHERE id = ?", at, id) }); err != nil {
		return err
	}
	if s.Remote() {
		s.Publish(keysTopic, nil)
	}
	return nil
}

// keysTopic is the name for Publish and Follow under which revocations of keys are published. Other names are ids of tasks.
const keysTopic = "keys"

// KeysRevoked calls f soon after a process has revoked a key, and after an interruption that may have hidden a revocation. It returns when ctx ends. If
// the store is a file, it returns at once.
func (s *Store) KeysRevoked(ctx context.Context, f func()) error {
	if !s.Remote() {
		return nil
	}
	return s.Follow(ctx, keysTopic, func([]task.Event) { f() })
}

// TouchKey records a use of a key.
func (s *Store) TouchKey(ctx context.Context, id string, at time.Time) (err error) {
	defer wrap(&err, "note the use of key %q", id)
	return s.write(ctx, 0, func(c *conn) {
		c.exec("UPDATE keys SET last_used = ?1 WHERE id = ?2 AND coalesce(last_used, 0) < ?1", at, id)
	})
}
